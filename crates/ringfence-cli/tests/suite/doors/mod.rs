//! The same rule through every door.
//!
//! A rule ([`rule::Rule`]) is a configuration, what is asked, and the one verdict that must follow; a door
//! ([`door::Door`]) is a way to ask. Each door is a test that tries every rule and ends with a table of all that was not
//! as it must be. A cell that cannot be tried is in the table with its reason.

mod command_line;
#[cfg(feature = "docker")]
mod docker;
mod door;
mod library;
mod mcp;
mod remembered;
mod rule;
mod rules_files;
mod rules_gate;
mod rules_rest;
mod schema;
mod session;
mod table;
mod tools;

use command_line::{Run, RunAtTerminal, Shell};
use door::Door;
use mcp::{Mcp, Way};
use rule::Rule;
use session::Session;
use tools::Library;

/// Every door, each a test of its own. A new one is one line more.
macro_rules! doors {
    ($($name:ident: $door:expr,)*) => {
        fn doors() -> Vec<Box<dyn Door>> {
            vec![$(Box::new($door)),*]
        }

        $(#[test]
        fn $name() {
            table::try_all(&$door, &rules());
        })*
    };
}

doors! {
    run_words: Run { as_text: false },
    run_text: Run { as_text: true },
    run_at_a_terminal: RunAtTerminal,
    session: Session,
    shell: Shell,
    library_bash: Library("bash"),
    library_run_code: Library("run_code"),
    library_jobs: Library("jobs"),
    library_read: Library("read"),
    library_write: Library("write"),
    library_edit: Library("edit"),
    library_apply_patch: Library("apply_patch"),
    library_list: Library("list"),
    library_search: Library("search"),
    mcp_stdio_bash: Mcp(Way::Stdio, "bash"),
    mcp_stdio_run_code: Mcp(Way::Stdio, "run_code"),
    mcp_stdio_jobs: Mcp(Way::Stdio, "jobs"),
    mcp_stdio_read: Mcp(Way::Stdio, "read"),
    mcp_stdio_write: Mcp(Way::Stdio, "write"),
    mcp_stdio_edit: Mcp(Way::Stdio, "edit"),
    mcp_stdio_apply_patch: Mcp(Way::Stdio, "apply_patch"),
    mcp_stdio_list: Mcp(Way::Stdio, "list"),
    mcp_stdio_search: Mcp(Way::Stdio, "search"),
    mcp_approve_bash: Mcp(Way::StdioWithoutAsking, "bash"),
    mcp_approve_read: Mcp(Way::StdioWithoutAsking, "read"),
    mcp_http_bash: Mcp(Way::Http, "bash"),
    mcp_http_read: Mcp(Way::Http, "read"),
    mcp_http_write: Mcp(Way::Http, "write"),
}

fn rules() -> Vec<Rule> {
    [rules_gate::rules(), rules_files::rules(), rules_rest::rules()].concat()
}

/// A rule that no door is asked about, or a name that stands for two, would go unnoticed.
#[test]
fn every_rule_has_a_door_and_a_name_of_its_own() {
    let mut names = std::collections::BTreeSet::new();
    for rule in rules() {
        assert!(names.insert(rule.name), "{} is there twice", rule.name);
        let tried = doors().iter().any(|door| table::does_not_apply(&**door, &rule).is_none());
        assert!(tried, "no door is asked about {}", rule.name);
        for (start, reason) in rule.except {
            let known = doors().iter().any(|door| door.name().starts_with(start));
            assert!(known && !reason.is_empty(), "{}: no door is called {start}", rule.name);
        }
    }
}
