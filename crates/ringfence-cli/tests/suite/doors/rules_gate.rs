//! Rules of the gate: what is refused, asked about and let through before anything runs.

use serde_json::json;

use super::rule::{Also, Answer, Needs, Rule, Step, Thing, Verdict};

/// The gate asks about it, and can keep a rule for it. There is no repository, so git itself ends with this.
const ASKED: &str = "git push --force nowhere";
const RAN: Verdict = Verdict::Ran(128);

/// Who types at a shell is advised by the gate, which asks nobody and stops nothing there (docs/gate.md).
const TYPED: (&str, &str) = ("shell", "a person who types is advised by the gate and not asked");

pub(crate) fn rules() -> Vec<Rule> {
    let refused = |line| Step::run(line, Verdict::Refused).refusing(&[Thing::Command]).judged("denied");
    let mut rules = vec![
        Rule::new("blockedCommands, the user's", &["blockedCommands"], vec![refused("uname -s")])
            .user(json!({ "blockedCommands": ["uname"] })),
        Rule::new("blockedCommands, the project's", &["blockedCommands"], vec![refused("uname -s")])
            .project(json!({ "blockedCommands": ["uname"] })),
        Rule::new(
            "allowedCommands, the user's",
            &["allowedCommands"],
            vec![Step::run("ls", Verdict::Ran(0)), refused("id -u")],
        )
        .user(json!({ "allowedCommands": ["ls"] })),
        Rule::new(
            "allowedCommands, the project's",
            &["allowedCommands"],
            vec![Step::run("ls", Verdict::Ran(0)), refused("id -u")],
        )
        .project(json!({ "allowedCommands": ["ls"] })),
        Rule::new("what the gate denies", &["safety"], vec![refused("rm -rf /usr/no-such-thing")]),
        Rule::new("safety.denylist", &["safety.denylist"], vec![refused("uname -r")])
            .user(json!({ "safety": { "denylist": ["uname -r"] } })),
        Rule::new(
            "safety.mode deny",
            &["safety.mode", "safety.allowlist"],
            vec![Step::run("ls", Verdict::Ran(0)), refused("id -u")],
        )
        .user(json!({ "safety": { "mode": "deny", "allowlist": ["ls"] } })),
        Rule::new("safety.mode allow", &["safety.mode"], vec![Step::run(ASKED, RAN)])
            .user(json!({ "safety": { "mode": "allow" } })),
        Rule::new("safety.allowlist", &["safety.allowlist"], vec![Step::run(ASKED, RAN)])
            .user(json!({ "safety": { "allowlist": ["git push"] } })),
        Rule::new("safety.gate off", &["safety.gate"], vec![Step::run(ASKED, RAN)])
            .user(json!({ "safety": { "gate": "off" } })),
        Rule::new(
            "safety.confirmFrom high",
            &["safety.confirmFrom"],
            vec![
                Step::run("mv note.txt other.txt", Verdict::Refused)
                    .answered(Thing::Command, Answer::Deny)
                    .refusing(&[Thing::Command])
                    .judged("not_approved"),
            ],
        )
        .user(json!({ "safety": { "confirmFrom": "high" } }))
        .files(&[("note.txt", "old\n")])
        .except(&[TYPED]),
        Rule::new("validationStrictness strict", &["validationStrictness"], vec![refused("shred note.txt")])
            .user(json!({ "validationStrictness": "strict" }))
            .files(&[("note.txt", "old\n")]),
        Rule::new(
            "ask never, the gate's question",
            &["ask"],
            vec![Step::run(ASKED, Verdict::Refused).refusing(&[Thing::Command]).judged("nobody_to_ask")],
        )
        .user(json!({ "ask": "never" })),
        Rule::new(
            "tools.deny",
            &["tools", "tools.deny"],
            vec![Step::new(super::rule::Deed::Anything, Verdict::Refused).refusing(&[Thing::Tool])],
        )
        .user(json!({ "tools": { "deny": ["*"] } }))
        .files(&[("note.txt", "old\n")])
        .needs(Needs::Tools),
    ];
    rules.extend(questions());
    rules
}

/// Every answer to the gate's question.
fn questions() -> Vec<Rule> {
    let asked = |answer, verdict| Step::run(ASKED, verdict).answered(Thing::Command, answer);
    let refused = |answer, verdict| asked(answer, verdict).refusing(&[Thing::Command]);
    let again = || Step::run(ASKED, RAN);
    let except: &'static [_] = &[TYPED];
    vec![
        Rule::new(
            "the gate's question: deny",
            &["safety"],
            vec![refused(Answer::Deny, Verdict::Refused).judged("not_approved")],
        )
        .also(Also::KeepsNothing)
        .except(except),
        Rule::new(
            "the gate's question: abort",
            &["safety"],
            vec![refused(Answer::Abort, Verdict::Stopped).judged("not_approved")],
        )
        .also(Also::KeepsNothing)
        .needs(Needs::Person)
        .except(except),
        Rule::new(
            "the gate's question: once",
            &["safety"],
            vec![
                asked(Answer::Once, RAN).judged("approved"),
                refused(Answer::Deny, Verdict::Refused).judged("not_approved"),
            ],
        )
        .also(Also::KeepsNothing)
        .needs(Needs::Person)
        .except(except),
        Rule::new(
            "the gate's question: session",
            &["safety"],
            vec![asked(Answer::Session, RAN).judged("approved"), again()],
        )
        .also(Also::KeepsNothing)
        .needs(Needs::Session)
        .except(except),
        Rule::new(
            "the gate's question: always",
            &["safety"],
            vec![asked(Answer::Always, RAN).judged("approved"), again()],
        )
        .also(Also::KeepsRule("git push"))
        .needs(Needs::Person)
        .except(except),
    ]
}
