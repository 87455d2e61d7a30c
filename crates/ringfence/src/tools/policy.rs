//! Which tools an agent is offered: layers of allow and deny lists, in an order that is data.
//!
//! In each layer a deny entry wins; an empty allow list allows everything, any other must mention the tool. A tool
//! must pass every layer. Entries are names, `group:` names, and names with `*`; case and blanks do not matter.

use ringfence_model::config::{Entry, ToolLists};
use ringfence_model::{RuleLayer, RuleSource};
use serde::Serialize;

/// The places of layers, outermost first. A layer of another name comes last.
pub(crate) const ORDER: [&str; 10] = [
    "owner",
    "profile",
    "provider_profile",
    "global",
    "global_by_provider",
    "agent",
    "agent_by_provider",
    "group",
    "sandbox",
    "subagent",
];

/// Tools that a sandboxed session may use unless configured otherwise.
pub(crate) const DEFAULT_ALLOW: [&str; 16] = [
    "exec",
    "process",
    "run_code",
    "read",
    "write",
    "edit",
    "apply_patch",
    "list",
    "search",
    "image",
    "sessions_list",
    "sessions_history",
    "sessions_send",
    "sessions_spawn",
    "session_status",
    "exit",
];

/// Tools that reach beyond the sandbox: the host's browser, devices, schedules, and every channel to people.
pub(crate) const DEFAULT_DENY: [&str; 13] = [
    "browser",
    "canvas",
    "nodes",
    "cron",
    "gateway",
    "telegram",
    "whatsapp",
    "discord",
    "irc",
    "googlechat",
    "slack",
    "signal",
    "imessage",
];

/// Several tools under one name, as `group:fs`.
const GROUPS: [(&str, &[&str]); 10] = [
    ("memory", &["memory_search", "memory_get"]),
    ("web", &["web_search", "web_fetch", "read_url"]),
    ("fs", &["read", "write", "edit", "apply_patch", "list", "search"]),
    ("runtime", &["exec", "process", "run_code"]),
    ("sessions", &["sessions_list", "sessions_history", "sessions_send", "sessions_spawn", "session_status"]),
    ("ui", &["browser", "canvas"]),
    ("automation", &["cron", "gateway"]),
    ("messaging", &["message"]),
    ("nodes", &["nodes"]),
    (
        "ringfence",
        &["exec", "process", "run_code", "read", "write", "edit", "apply_patch", "list", "search", "exit"],
    ),
];

/// Other names of tools.
const ALIASES: [(&str, &str); 6] = [
    ("bash", "exec"),
    ("shell", "exec"),
    ("apply-patch", "apply_patch"),
    ("jobs", "process"),
    ("read_file", "read"),
    ("write_file", "write"),
];

/// The one name by which lists are compared.
#[must_use]
pub(crate) fn canonical(name: &str) -> String {
    let name = name.trim().to_lowercase();
    ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, tool)| (*tool).to_owned())
}

/// One layer, each list with where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyLayer {
    /// Its place in the order of layers, by name.
    pub name: String,
    /// Only these are offered; empty: all.
    pub allow: Vec<Entry>,
    /// These are not offered.
    pub deny: Vec<Entry>,
}

impl PolicyLayer {
    /// A layer of that name.
    pub fn new(name: impl Into<String>, allow: Vec<Entry>, deny: Vec<Entry>) -> Self {
        Self { name: name.into(), allow, deny }
    }

    /// The layer of the sandbox: each configured list takes the place of the built-in one. `image` is allowed
    /// besides what a list names, unless it is denied; an empty list already allows it.
    #[must_use]
    pub fn sandbox(configured: &ToolLists) -> Self {
        let built_in = |names: &[&str]| -> Vec<Entry> {
            names.iter().map(|name| Entry::new(*name, RuleSource::layer(RuleLayer::BuiltIn))).collect()
        };
        let mut allow = configured.allow.clone().unwrap_or_else(|| built_in(&DEFAULT_ALLOW));
        let deny = configured.deny.clone().unwrap_or_else(|| built_in(&DEFAULT_DENY));
        let named = allow.iter().any(|entry| !entry.text.trim().is_empty());
        if named && !mentions(&allow, "image") && !mentions(&deny, "image") {
            allow.extend(built_in(&["image"]));
        }
        Self::new("sandbox", allow, deny)
    }
}

/// All layers. The default has one that refuses nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolPolicy {
    layers: Vec<PolicyLayer>,
}

/// Whether a tool is offered, and who says so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolVerdict {
    pub allowed: bool,
    /// The layer that refuses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layer: Option<String>,
    /// The entry that refuses, and where it was written; none when no allow entry matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl ToolPolicy {
    /// Layers in any order; they are put into theirs.
    #[must_use]
    pub fn new(mut layers: Vec<PolicyLayer>) -> Self {
        let place =
            |layer: &PolicyLayer| ORDER.iter().position(|name| *name == layer.name).unwrap_or(ORDER.len());
        layers.sort_by_key(place);
        Self { layers }
    }

    /// The same with one more layer.
    #[must_use]
    pub fn with(self, layer: PolicyLayer) -> Self {
        let mut layers = self.layers;
        layers.push(layer);
        Self::new(layers)
    }

    /// The layers, in the order in which they are asked.
    #[must_use]
    pub fn layers(&self) -> &[PolicyLayer] {
        &self.layers
    }

    /// Whether a tool is offered, and which layer says so.
    #[must_use]
    pub fn decide(&self, tool: &str) -> ToolVerdict {
        let name = canonical(tool);
        for layer in &self.layers {
            let refused = |entry: Option<&Entry>| ToolVerdict {
                allowed: false,
                layer: Some(layer.name.clone()),
                entry: entry.map(|entry| entry.text.clone()),
                source: entry.or(layer.allow.first()).map(|entry| entry.source.to_string()),
            };
            if let Some(entry) = layer.deny.iter().find(|entry| matches(&entry.text, &name)) {
                return refused(Some(entry));
            }
            let open = layer.allow.iter().all(|entry| entry.text.trim().is_empty());
            if !open && !mentions(&layer.allow, &name) {
                return refused(None);
            }
        }
        ToolVerdict { allowed: true, layer: None, entry: None, source: None }
    }

    /// Why a tool is not there, and what to change.
    #[must_use]
    pub fn explain(&self, tool: &str) -> Option<String> {
        let verdict = self.decide(tool);
        if verdict.allowed {
            return None;
        }
        let layer = verdict.layer.unwrap_or_default();
        let source = verdict.source.map(|source| format!(" ({source})")).unwrap_or_default();
        let (why, key) = match verdict.entry {
            Some(entry) => (format!("`{entry}` is on the deny list{source}"), "tools.deny"),
            None => (format!("the allow list{source} does not mention it"), "tools.allow"),
        };
        let hint = if layer == "sandbox" { ", or use a session that is not sandboxed" } else { "" };
        Some(format!(
            "the tool `{tool}` is not offered by the layer `{layer}`: {why}; change {key}{hint}; `ringfence config show` \
             tells what holds"
        ))
    }
}

fn mentions(entries: &[Entry], name: &str) -> bool {
    entries.iter().any(|entry| matches(&entry.text, name))
}

fn matches(entry: &str, name: &str) -> bool {
    let entry = canonical(entry);
    match entry.strip_prefix("group:") {
        Some(group) => GROUPS.iter().any(|(known, tools)| *known == group && tools.contains(&name)),
        None => !entry.is_empty() && wild(entry.as_bytes(), name.as_bytes()),
    }
}

/// `*` stands for any text.
fn wild(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some((b'*', rest)) => (0..=name.len()).any(|from| wild(rest, &name[from..])),
        Some((first, rest)) => name.first() == Some(first) && wild(rest, &name[1..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entries(names: &[&str]) -> Vec<Entry> {
        names.iter().map(|name| Entry::by_call(*name)).collect()
    }

    fn allowed(allow: &[&str], deny: &[&str], tool: &str) -> bool {
        ToolPolicy::new(vec![PolicyLayer::new("sandbox", entries(allow), entries(deny))]).decide(tool).allowed
    }

    #[test]
    fn deny_wins_and_an_empty_allow_list_is_open() {
        for (allow, deny, tool, want) in [
            (&[][..], &[][..], "anything", true),
            (&["read"], &[], "read", true),
            (&["read"], &[], "write", false),
            (&["read"], &["read"], "read", false),
            (&["*"], &["browser"], "browser", false),
            (&["sessions_*"], &[], "sessions_list", true),
            (&["sessions_*"], &[], "session_status", false),
            (&["group:fs"], &[], "apply_patch", true),
            (&["group:fs"], &["group:fs"], "read", false),
            (&["group:nothing"], &[], "read", false),
            (&["bash"], &[], "exec", true),
            (&["exec"], &[], "bash", true),
            (&[" Apply-Patch "], &[], "apply_patch", true),
            (&["", "  "], &[], "read", true),
            (&[], &["  "], "read", true),
            (&["READ"], &[], "read", true),
        ] {
            assert_eq!(allowed(allow, deny, tool), want, "{allow:?} {deny:?} {tool}");
        }
    }

    #[test]
    fn the_default_lists_are_the_documented_ones() {
        let policy = ToolPolicy::new(vec![PolicyLayer::sandbox(&ToolLists::default())]);
        let allowed = [
            "exec",
            "process",
            "run_code",
            "read",
            "write",
            "edit",
            "apply_patch",
            "list",
            "search",
            "image",
            "sessions_list",
            "sessions_history",
            "sessions_send",
            "sessions_spawn",
            "session_status",
            "exit",
        ];
        let channels =
            ["telegram", "whatsapp", "discord", "irc", "googlechat", "slack", "signal", "imessage"];
        let denied = ["browser", "canvas", "nodes", "cron", "gateway"].into_iter().chain(channels);
        assert_eq!((DEFAULT_ALLOW.len(), DEFAULT_DENY.len()), (allowed.len(), denied.clone().count()));
        for tool in allowed {
            assert!(policy.decide(tool).allowed, "{tool}");
        }
        for tool in denied {
            let verdict = policy.decide(tool);
            assert_eq!((verdict.allowed, verdict.entry.as_deref()), (false, Some(tool)));
        }
        assert!(!policy.decide("payments").allowed);
    }

    #[test]
    fn each_configured_list_takes_the_place_of_its_default() {
        let lists = |allow: Option<&[&str]>, deny: Option<&[&str]>| {
            let layer = PolicyLayer::sandbox(&ToolLists {
                allow: allow.map(entries),
                deny: deny.map(entries),
                ..ToolLists::default()
            });
            ToolPolicy::new(vec![layer])
        };
        let only_read = lists(Some(&["read"]), None);
        assert!(only_read.decide("image").allowed, "image comes with a list");
        assert!(!only_read.decide("browser").allowed && !only_read.decide("write").allowed);
        assert!(!lists(Some(&["read"]), Some(&["image"])).decide("image").allowed);
        let open = lists(Some(&[]), None);
        assert!(open.decide("payments").allowed, "an empty list stays open to all");
        assert!(!open.decide("cron").allowed);
        assert!(
            lists(None, Some(&[])).decide("browser").entry.is_none(),
            "no longer denied, only not allowed"
        );
    }

    #[test]
    fn every_layer_must_agree_and_their_order_is_data() {
        let policy = ToolPolicy::new(vec![
            PolicyLayer::new("subagent", vec![], entries(&["write"])),
            PolicyLayer::new("agent", entries(&["read", "write"]), vec![]),
            PolicyLayer::new("global", vec![], entries(&["cron"])),
        ]);
        let names: Vec<_> = policy.layers().iter().map(|layer| layer.name.as_str()).collect();
        assert_eq!(names, ["global", "agent", "subagent"]);
        assert!(policy.decide("read").allowed);
        assert_eq!(policy.decide("write").layer.as_deref(), Some("subagent"));
        assert_eq!(policy.decide("cron").layer.as_deref(), Some("global"));
        assert_eq!(policy.decide("list").layer.as_deref(), Some("agent"));
    }

    #[test]
    fn a_refusal_names_layer_entry_source_and_remedy() {
        let policy = ToolPolicy::new(vec![PolicyLayer::sandbox(&ToolLists::default())]);
        let text = policy.explain("browser").unwrap();
        for word in
            ["`browser`", "`sandbox`", "deny list", "built-in", "tools.deny", "not sandboxed", "config show"]
        {
            assert!(text.contains(word), "{word}: {text}");
        }
        assert_eq!(policy.explain("read"), None);
    }

    proptest! {
        #[test]
        fn no_layer_ever_adds_a_tool(
            first in proptest::collection::vec("[ab*]{0,3}", 0..3),
            second in proptest::collection::vec("[ab*]{0,3}", 0..3),
            tool in "[ab]{1,3}",
        ) {
            let entries = |names: &[String]| names.iter().map(Entry::by_call).collect::<Vec<_>>();
            let one = PolicyLayer::new("global", entries(&first), entries(&second));
            let two = PolicyLayer::new("agent", entries(&second), vec![]);
            let alone = ToolPolicy::new(vec![one.clone()]).decide(&tool).allowed;
            let both = ToolPolicy::new(vec![two, one]).decide(&tool).allowed;
            prop_assert!(alone || !both);
        }
    }
}
