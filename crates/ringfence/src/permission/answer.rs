//! Answers.

use ringfence_model::Decision;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The reply to a [`Permission`](super::Permission).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// The decision.
    pub decision: Decision,
    /// For the agent: why not, or what to do instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Runs instead of what was asked about, after it was judged again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

impl Answer {
    /// Nothing but a decision.
    #[must_use]
    pub fn new(decision: Decision) -> Self {
        Self { decision, message: None, code: None }
    }

    /// A refusal with words for the agent.
    #[must_use]
    pub fn deny(message: impl Into<String>) -> Self {
        Self { message: Some(message.into()), ..Self::new(Decision::Deny) }
    }

    /// Allowed once, as edited.
    #[must_use]
    pub fn edited(code: impl Into<String>) -> Self {
        Self { code: Some(code.into()), ..Self::new(Decision::AllowOnce) }
    }

    /// Reads a reply of a client: `{"decision": …}` with `message` and `code`, or the older form
    /// `{"approved": true, "reason": …, "modified_code": …}`. Anything else, and silence about it, is no.
    #[must_use]
    pub fn from_reply(reply: &Value) -> Self {
        let text = |names: [&str; 2]| {
            names.iter().find_map(|name| reply.get(name).and_then(Value::as_str)).map(str::to_owned)
        };
        let decision = match reply.get("decision") {
            Some(word) => Decision::deserialize(word).unwrap_or(Decision::Deny),
            None if reply.get("approved").and_then(Value::as_bool) == Some(true) => Decision::AllowOnce,
            None => Decision::Deny,
        };
        Self { decision, message: text(["message", "reason"]), code: text(["code", "modified_code"]) }
    }
}

impl From<Decision> for Answer {
    fn from(decision: Decision) -> Self {
        Self::new(decision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_reply_that_does_not_say_yes_says_no() {
        for (reply, want) in [
            (json!({ "approved": true }), Answer::new(Decision::AllowOnce)),
            (json!({ "approved": false, "reason": "why" }), Answer::deny("why")),
            (json!({}), Answer::new(Decision::Deny)),
            (json!("yes"), Answer::new(Decision::Deny)),
            (json!({ "approved": "true" }), Answer::new(Decision::Deny)),
            (json!({ "decision": "allow_session" }), Answer::new(Decision::AllowSession)),
            (json!({ "decision": "approved_for_session" }), Answer::new(Decision::AllowSession)),
            (json!({ "decision": "maybe", "approved": true }), Answer::new(Decision::Deny)),
            (json!({ "approved": true, "modified_code": "ls" }), Answer::edited("ls")),
            (json!({ "decision": "abort" }), Answer::new(Decision::Abort)),
        ] {
            assert_eq!(Answer::from_reply(&reply), want, "{reply}");
        }
    }
}
