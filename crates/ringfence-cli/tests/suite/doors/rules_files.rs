//! Rules about files: what may be read and written, by commands and by tools.

use serde_json::{Value, json};

use super::rule::{Also, Answer, Deed, Needs, Rule, Step, Thing, Verdict};

const KEY: &str = "vault/key.txt";
const VAULT: &[(&str, &str)] = &[(KEY, "treasure\n"), ("vault/second.txt", "treasure\n")];
const LOCKED: &[(&str, &str)] = &[("locked/file.txt", "old\n")];

/// Nobody is asked about what a job may not do (docs/tools.md).
const JOBS: &str = "nobody is asked about what a job may not do";
const NOT_JOBS: &[(&str, &str)] = &[("library jobs", JOBS), ("mcp stdio jobs", JOBS)];

/// A file is asked for, and somebody says no.
fn refused(step: Step, thing: Thing) -> Step {
    step.answered(thing, Answer::Deny).refusing(&[thing])
}

fn deny_vault() -> Value {
    json!({ "deny": ["vault"] })
}

pub(crate) fn rules() -> Vec<Rule> {
    let read = |path| Step::read(path, Verdict::Blocked);
    let write = |path| Step::write(path, Verdict::Blocked);
    let mut rules = vec![
        Rule::new("deny, the user's", &["deny"], vec![refused(read(KEY), Thing::Project(KEY))])
            .user(deny_vault())
            .files(VAULT),
        Rule::new("deny, the project's", &["deny"], vec![refused(read(KEY), Thing::Project(KEY))])
            .project(deny_vault())
            .files(VAULT),
        Rule::new(
            "deny, a directory's names",
            &["deny"],
            vec![refused(Step::new(Deed::List("vault"), Verdict::Blocked), Thing::Project("vault"))],
        )
        .user(deny_vault())
        .files(VAULT),
        Rule::new(
            "policy.filesystem.deny",
            &["policy", "policy.filesystem", "policy.filesystem.deny"],
            vec![refused(read(KEY), Thing::Project(KEY))],
        )
        .user(json!({ "policy": { "filesystem": { "deny": ["vault"] } } }))
        .files(VAULT),
        Rule::new("built-in deny", &["deny"], vec![refused(read(".env"), Thing::Project(".env"))])
            .files(&[(".env", "treasure\n")]),
        Rule::new(
            "built-in deny, outside",
            &["deny"],
            vec![refused(read("../.ssh/config"), Thing::Home(".ssh/config"))],
        )
        .files(&[("../.ssh/config", "treasure\n")]),
        Rule::new(
            "sensitive files",
            &["additionalSensitiveFiles", "strictSensitiveFiles"],
            vec![refused(read("crown.txt"), Thing::Project("crown.txt"))],
        )
        .user(json!({ "additionalSensitiveFiles": ["crown.txt"], "strictSensitiveFiles": true }))
        .files(&[("crown.txt", "treasure\n")]),
        Rule::new(
            "protect, the user's",
            &["protect"],
            vec![refused(write("locked/file.txt"), Thing::Project("locked/file.txt"))],
        )
        .user(json!({ "protect": ["locked"] }))
        .files(LOCKED),
        Rule::new(
            "protect, the project's",
            &["protect"],
            vec![refused(write("locked/file.txt"), Thing::Project("locked/file.txt"))],
        )
        .project(json!({ "protect": ["locked"] }))
        .files(LOCKED),
        Rule::new(
            "policy.filesystem.protect",
            &["policy.filesystem.protect"],
            vec![refused(write("locked/file.txt"), Thing::Project("locked/file.txt"))],
        )
        .user(json!({ "policy": { "filesystem": { "protect": ["locked"] } } }))
        .files(LOCKED),
        Rule::new(
            "built-in protect",
            &["protect"],
            vec![refused(write(".git/hooks/pre-commit"), Thing::Project(".git/hooks/pre-commit"))],
        )
        .files(&[(".git/hooks/pre-commit", "old\n")]),
        Rule::new(
            "built-in protect, outside",
            &["protect"],
            vec![refused(write("../.bashrc"), Thing::Home(".bashrc"))],
        )
        .files(&[("../.bashrc", "old\n")]),
        Rule::new(
            "grants",
            &["grants", "grants.[].path", "grants.[].access"],
            vec![Step::read(KEY, Verdict::Ran(0)).showing("treasure")],
        )
        .user(
            json!({ "deny": ["vault"], "grants": [{ "path": "~/project/vault/key.txt", "access": "read" }] }),
        )
        .files(VAULT),
        Rule::new(
            "allowRead",
            &["allowRead"],
            vec![Step::run("cat ../reference/book.txt", Verdict::Ran(0)).showing("treasure")],
        )
        .user(json!({ "allowRead": ["~/reference"] }))
        .files(&[("../reference/book.txt", "treasure\n")]),
        Rule::new("allowWrite", &["allowWrite"], vec![Step::run("mkdir ../cache/made", Verdict::Ran(0))])
            .user(json!({ "allowWrite": ["~/cache"] }))
            .files(&[("../cache/note.txt", "old\n")]),
        Rule::new(
            "workspaceAccess ro",
            &["workspaceAccess"],
            vec![refused(Step::run("echo 1 > made", Verdict::Blocked), Thing::Project("made"))],
        )
        .user(json!({ "workspaceAccess": "ro" })),
        Rule::new(
            "ask never, the fence's question",
            &["ask"],
            vec![Step::read(KEY, Verdict::Blocked).refusing(&[Thing::Project(KEY)])],
        )
        .user(json!({ "ask": "never", "deny": ["vault"] }))
        .files(VAULT),
        Rule::new(
            "ask deny-only",
            &["ask"],
            vec![
                Step::write("locked/file.txt", Verdict::Blocked)
                    .refusing(&[Thing::Project("locked/file.txt")]),
            ],
        )
        .user(json!({ "ask": "deny-only", "protect": ["locked"] }))
        .files(LOCKED),
    ];
    rules.extend(questions());
    rules
}

/// Every answer to the fence's question.
fn questions() -> Vec<Rule> {
    let asked = |answer, verdict| Step::read(KEY, verdict).answered(Thing::Project(KEY), answer);
    let yes = |answer| asked(answer, Verdict::Ran(0)).showing("treasure");
    let again = || Step::read(KEY, Verdict::Ran(0)).showing("treasure");
    let rule = |name, needs, also, steps| {
        Rule::new(name, &["ask", "deny"], steps)
            .user(deny_vault())
            .files(VAULT)
            .needs(needs)
            .also(also)
            .except(NOT_JOBS)
    };
    let no = |answer, verdict| asked(answer, verdict).refusing(&[Thing::Project(KEY)]);
    vec![
        rule(
            "the fence's question: abort",
            Needs::Person,
            Also::KeepsNothing,
            vec![no(Answer::Abort, Verdict::Stopped)],
        ),
        rule(
            "the fence's question: once",
            Needs::Person,
            Also::KeepsNothing,
            vec![yes(Answer::Once), no(Answer::Deny, Verdict::Blocked)],
        ),
        rule(
            "the fence's question: session",
            Needs::Session,
            Also::KeepsNothing,
            vec![yes(Answer::Session), again()],
        ),
        rule(
            "the fence's question: always",
            Needs::Person,
            Also::KeepsGrant(KEY),
            vec![yes(Answer::Always), again()],
        ),
        Rule::new(
            "neverAsk",
            &["neverAsk"],
            vec![Step::read(KEY, Verdict::Blocked).refusing(&[Thing::Project(KEY)])],
        )
        .user(json!({ "deny": ["vault"], "neverAsk": ["~/project/vault"] }))
        .files(VAULT),
        Rule::new(
            "the fence's question about a write: once",
            &["ask", "protect"],
            vec![
                Step::write("locked/file.txt", Verdict::Ran(0))
                    .answered(Thing::Project("locked/file.txt"), Answer::Once),
            ],
        )
        .user(json!({ "protect": ["locked"] }))
        .files(LOCKED)
        .needs(Needs::Person)
        .also(Also::KeepsNothing)
        .except(NOT_JOBS),
    ]
}
