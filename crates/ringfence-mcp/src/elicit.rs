//! Questions to the person at the client.

use ringfence::model::{Decision, visible};
use ringfence::permission::{Answer, Permission};
use rmcp::RoleServer;
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema};
use rmcp::service::{ElicitationMode, Peer};
use serde_json::{Value, json};

/// The words of the form, and what they mean. None of them is offered unless the question offers it.
const WORDS: [(&str, &str, Decision); 3] = [
    ("once", "this time", Decision::AllowOnce),
    ("session", "until this session ends", Decision::AllowSession),
    ("always", "from now on", Decision::AllowPermanent),
];

/// Whether the client can bring questions to a person.
pub(crate) fn supported(peer: &Peer<RoleServer>) -> bool {
    peer.supported_elicitation_modes().contains(&ElicitationMode::Form)
}

/// Asks, and waits for the answer.
pub(crate) async fn elicit(peer: &Peer<RoleServer>, permission: &Permission) -> Answer {
    let offered = || WORDS.iter().filter(|(_, _, decision)| permission.options.contains(decision));
    let words: Vec<&str> = offered().map(|(word, _, _)| *word).collect();
    let titles: Vec<&str> = offered().map(|(_, title, _)| *title).collect();
    let schema = json!({
        "type": "object",
        "properties": {
            "decision": { "type": "string", "title": "Allow it", "enum": words, "enumNames": titles },
        },
        "required": ["decision"],
    });
    let Ok(requested_schema) = serde_json::from_value::<ElicitationSchema>(schema) else {
        return Answer::deny("the question could not be put to the client");
    };
    let form = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message(permission),
        requested_schema,
    };
    match peer.create_elicitation(form).await {
        Ok(result) => answer_of(&result),
        Err(error) => Answer::deny(format!("the client could not ask: {error}")),
    }
}

fn message(permission: &Permission) -> String {
    let mut text = permission.sentence();
    if let Some(rule) = &permission.proposal {
        text.push_str(&format!("\nalways: everything like `{}`", visible(rule)));
    }
    text
}

/// Only an accepted form that names one of the words allows anything.
fn answer_of(result: &ElicitResult) -> Answer {
    match result.action {
        ElicitationAction::Accept => {
            let word = result.content.as_ref().and_then(|form| form.get("decision")).and_then(Value::as_str);
            match WORDS.iter().find(|(known, _, _)| Some(*known) == word) {
                Some((_, _, decision)) => Answer::new(*decision),
                None => Answer::deny("the answer named no decision"),
            }
        }
        ElicitationAction::Decline => Answer::deny("the person declined"),
        ElicitationAction::Cancel => Answer {
            message: Some("the person dismissed the question".to_owned()),
            ..Answer::new(Decision::Abort)
        },
        _ => Answer::deny("the answer is of an unknown kind"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_is_a_yes() {
        let accept =
            |form: Value| answer_of(&ElicitResult::new(ElicitationAction::Accept).with_content(form));
        assert_eq!(accept(json!({ "decision": "once" })).decision, Decision::AllowOnce);
        assert_eq!(accept(json!({ "decision": "session" })).decision, Decision::AllowSession);
        assert_eq!(accept(json!({ "decision": "always" })).decision, Decision::AllowPermanent);
        for form in [json!({}), json!({ "decision": "yes" }), json!({ "decision": true }), json!("once")] {
            assert_eq!(accept(form.clone()).decision, Decision::Deny, "{form}");
        }
        let bare = |action| answer_of(&ElicitResult::new(action)).decision;
        assert_eq!(bare(ElicitationAction::Accept), Decision::Deny);
        assert_eq!(bare(ElicitationAction::Decline), Decision::Deny);
        assert_eq!(bare(ElicitationAction::Cancel), Decision::Abort);
    }
}
