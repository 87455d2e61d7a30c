//! Rules about secrets, limits, where commands start, what is told of refusals, and where all of it runs.

use serde_json::json;

use super::rule::{Also, Answer, Deed, Needs, Rule, Step, Thing, Verdict};

const SECRET: &str = "Zq9tokenvalue8f3kQ";
const TOKEN: &[(&str, &str)] = &[("MY_API_TOKEN", SECRET)];
const KEY: &str = "vault/key.txt";
const VAULT: &[(&str, &str)] = &[(KEY, "treasure\n"), ("vault/second.txt", "treasure\n")];

const NO_SHELL: &str = "no shell is kept for it";
const TERMINAL: &str = "what is printed goes to the person's terminal, all of it";
const COMMANDS: &str = "the rule for commands is the one before";
const NOT_COMMANDS: &[(&str, &str)] = &[
    ("run", COMMANDS),
    ("session", COMMANDS),
    ("shell", COMMANDS),
    ("library bash", COMMANDS),
    ("library run_code", COMMANDS),
    ("library jobs", COMMANDS),
    ("mcp stdio bash", COMMANDS),
    ("mcp stdio run_code", COMMANDS),
    ("mcp stdio jobs", COMMANDS),
    ("mcp approve bash", COMMANDS),
    ("mcp http bash", COMMANDS),
];

pub(crate) fn rules() -> Vec<Rule> {
    [secrets(), limits(), quotas(), hosts(), told(), elsewhere()].concat()
}

fn secrets() -> Vec<Rule> {
    let in_command = Step::run("echo Zq9tokenvalue8f3kQ", Verdict::Ran(0));
    let in_question = Step::run("git push --force Zq9tokenvalue8f3kQ", Verdict::Refused)
        .answered(Thing::Command, Answer::Deny)
        .refusing(&[Thing::Command]);
    let hidden = "vault/Zq9tokenvalue8f3kQ";
    let in_path = Step::read(hidden, Verdict::Blocked)
        .answered(Thing::Project(hidden), Answer::Deny)
        .refusing(&[Thing::Project(hidden)]);
    let typed = &[("shell", "what a person types is not recorded, and the gate asks nobody there")];
    vec![
        Rule {
            secret: Some(SECRET),
            ..Rule::new("a secret in a command", &[], vec![in_command, in_question])
        }
        .env(TOKEN)
        .except(typed),
        Rule { secret: Some(SECRET), ..Rule::new("a secret in a path", &[], vec![in_path]) }
            .user(json!({ "deny": ["vault"] }))
            .env(TOKEN)
            .files(&[("vault/Zq9tokenvalue8f3kQ", "treasure\n")]),
        Rule::new(
            "envOverride, envPassthrough",
            &["envOverride", "envPassthrough"],
            vec![
                Step::run("printenv DOORS_SET", Verdict::Ran(0)).showing("by-the-file"),
                Step::run("printenv DOORS_PASSED", Verdict::Ran(0)).showing("by-the-caller"),
                Step::run("printenv OTHER_DOORS", Verdict::Ran(1)),
            ],
        )
        .user(json!({ "envOverride": { "DOORS_SET": "by-the-file" }, "envPassthrough": ["DOORS_PASSED"] }))
        .env(&[("DOORS_PASSED", "by-the-caller"), ("OTHER_DOORS", "hidden")]),
    ]
}

fn limits() -> Vec<Rule> {
    let slow = || vec![Step::run("sleep 2", Verdict::TimedOut).refusing(&[Thing::Named("time")])];
    let lasting: &'static [_] = &[("shell", "a person's shell lasts as long as they like")];
    vec![
        Rule::new("timeout", &["timeout"], slow())
            .user(json!({ "timeout": "300ms" }))
            .also(Also::ReachesLimit)
            .except(lasting),
        Rule::new("limits.timeoutMs, the project's", &["limits", "limits.timeoutMs"], slow())
            .project(json!({ "limits": { "timeoutMs": 300 } }))
            .also(Also::ReachesLimit)
            .except(lasting),
        Rule::new(
            "limits strict, the user's",
            &["limits", "limits.preset"],
            vec![Step::new(Deed::Anything, Verdict::Ran(0))],
        )
        .user(json!({ "limits": { "preset": "strict" } }))
        .files(&[("note.txt", "old\n")]),
        Rule::new(
            "limits strict, the project's",
            &["limits"],
            vec![Step::new(Deed::Anything, Verdict::Ran(0))],
        )
        .project(json!({ "limits": "strict" }))
        .files(&[("note.txt", "old\n")]),
        Rule::new(
            "limits.maxOutputBytes",
            &["limits.maxOutputBytes"],
            vec![Step::run("seq 5000", Verdict::Ran(0)).refusing(&[Thing::Named("output")])],
        )
        .user(json!({ "limits": { "maxOutputBytes": 1000 } }))
        .also(Also::Truncates)
        .except(&[("run at a terminal", TERMINAL), ("shell", TERMINAL)]),
        Rule::new(
            "limits.maxFileSizeBytes",
            &["limits.maxFileSizeBytes"],
            vec![
                Step::run("head -c 5000 /dev/zero > big", Verdict::Ran(153))
                    .refusing(&[Thing::Named("fileSize")]),
            ],
        )
        .user(json!({ "limits": { "maxFileSizeBytes": 1000 } }))
        .also(Also::ReachesLimit)
        .except(&[("shell", "bash tells the person that it was reached, and goes on")]),
        Rule::new(
            "limits.maxFileSizeBytes, of tools",
            &["limits.maxFileSizeBytes"],
            vec![Step::write("note.txt", Verdict::Blocked).refusing(&[Thing::Named("fileSize")])],
        )
        .user(json!({ "limits": { "maxFileSizeBytes": 10 } }))
        .files(&[("note.txt", "old\n")])
        .also(Also::ReachesLimit)
        .except(NOT_COMMANDS),
    ]
}

/// They act, or are refused with a reason: what can be configured and does nothing promises what nobody keeps.
fn quotas() -> Vec<Rule> {
    const WRITES: &str = "maxFileWrites";
    const BYTES: &str = "maxTotalWriteBytes";
    let files: &'static [_] = &[("one.txt", "old\n"), ("two.txt", "old\n")];
    vec![
        Rule::new(
            "limits.maxFileWrites",
            &["limits.maxFileWrites"],
            vec![Step::run("echo 1 > a; echo 2 > b", Verdict::HeldOrNamed(WRITES))],
        )
        .user(json!({ "limits": { "maxFileWrites": 1 } }))
        .also(Also::ReachesLimit),
        Rule::new(
            "limits.maxFileWrites, of tools",
            &["limits.maxFileWrites"],
            vec![
                Step::write("one.txt", Verdict::Ran(0)),
                Step::write("two.txt", Verdict::HeldOrNamed(WRITES)),
            ],
        )
        .user(json!({ "limits": { "maxFileWrites": 1 } }))
        .files(files)
        .also(Also::ReachesLimit)
        .except(NOT_COMMANDS),
        Rule::new(
            "limits.maxTotalWriteBytes",
            &["limits.maxTotalWriteBytes"],
            vec![Step::run("seq 100 > big", Verdict::HeldOrNamed(BYTES))],
        )
        .user(json!({ "limits": { "maxTotalWriteBytes": 10 } }))
        .also(Also::ReachesLimit),
        Rule::new(
            "limits.maxTotalWriteBytes, of tools",
            &["limits.maxTotalWriteBytes"],
            vec![Step::write("one.txt", Verdict::HeldOrNamed(BYTES))],
        )
        .user(json!({ "limits": { "maxTotalWriteBytes": 10 } }))
        .files(files)
        .also(Also::ReachesLimit)
        .except(NOT_COMMANDS),
    ]
}

/// Which hosts a rule is about is known before anything runs, whichever door is used.
fn hosts() -> Vec<Rule> {
    let unknown = || vec![Step::new(Deed::Anything, Verdict::HeldOrNamed("`maven` finds no host"))];
    let note: &'static [_] = &[("note.txt", "old\n")];
    vec![
        Rule::new("allowedHosts, a set that finds nothing", &["allowedHosts"], unknown())
            .user(json!({ "allowedHosts": ["maven"] }))
            .files(note),
        Rule::new("blockedHosts, a set that finds nothing", &["blockedHosts"], unknown())
            .user(json!({ "blockedHosts": ["maven"] }))
            .files(note),
        Rule::new("hosts that nobody needs", &[], vec![Step::new(Deed::Anything, Verdict::Ran(0))])
            .user(json!({ "allowedHosts": ["a.example:443"], "blockedHosts": ["b.example"] }))
            .project(json!({ "allowedHosts": ["a.example"], "network": { "ask": false } }))
            .files(note),
    ]
}

fn told() -> Vec<Rule> {
    let refused = || {
        let step = Step::run("cat vault/key.txt", Verdict::Blocked).refusing(&[Thing::Project(KEY)]);
        vec![step.answered(Thing::Project(KEY), Answer::Deny)]
    };
    let mut both = Step::run("cat vault/key.txt vault/second.txt", Verdict::Blocked)
        .answered(Thing::Project(KEY), Answer::Deny);
    both.asked = 2;
    vec![
        Rule::new("annotateStderr", &["annotateStderr"], refused())
            .user(json!({ "deny": ["vault"], "annotateStderr": true }))
            .files(VAULT)
            .also(Also::Annotates(KEY)),
        Rule::new("trackViolations false", &["trackViolations"], refused())
            .user(json!({ "deny": ["vault"], "trackViolations": false }))
            .files(VAULT)
            .also(Also::Violations(0)),
        Rule::new("maxViolations", &["maxViolations"], vec![both])
            .user(json!({ "deny": ["vault"], "maxViolations": 1 }))
            .files(VAULT)
            .also(Also::Violations(1)),
    ]
}

fn elsewhere() -> Vec<Rule> {
    let anything = || Step::new(Deed::Anything, Verdict::Ran(0));
    vec![
        Rule::new(
            "workingDir",
            &["workingDir"],
            vec![Step::run("pwd", Verdict::Ran(0)).showing("/project/below")],
        )
        .user(json!({ "workingDir": "below" }))
        .files(&[("below/note.txt", "old\n")]),
        Rule::new(
            "providerOptions.shellCommand",
            &["providerOptions"],
            vec![Step::run("printenv DOORS_SHELL", Verdict::Ran(0)).showing("of-the-file")],
        )
        .user(json!({ "providerOptions": { "shellCommand": "env 'DOORS_SHELL=of-the-file' bash" } }))
        .except(&[
            ("run", NO_SHELL),
            ("shell", "a person's shell is bash on their terminal"),
            ("library run_code", NO_SHELL),
            ("mcp stdio run_code", NO_SHELL),
        ]),
        // Whoever copies or touches files closes all three before it ends.
        Rule::new(
            "a command that lets go of its terminal",
            &[],
            vec![Step::run("exec 0<&- 1>&- 2>&-; sleep 0.3", Verdict::Ran(0))],
        )
        .except(&[("shell", "it is the shell itself that would")]),
        Rule::new("nothing configured", &[], vec![anything()]).files(&[("note.txt", "old\n")]),
        Rule::new("provider none", &["provider"], vec![anything()])
            .user(json!({ "provider": "none", "workspaceAccess": "rw" }))
            .files(&[("note.txt", "old\n")])
            .except(&[
                ("library jobs", "without a fence there are no jobs"),
                ("mcp stdio jobs", "without a fence there are no jobs"),
            ]),
        Rule::new(
            "provider none, blockedCommands",
            &["provider", "blockedCommands"],
            vec![Step::run("uname -s", Verdict::Refused).refusing(&[Thing::Command]).judged("denied")],
        )
        .user(json!({ "provider": "none", "workspaceAccess": "rw", "blockedCommands": ["uname"] }))
        .except(&[("shell", "it has the person's own terminal, where nobody hears what is typed")]),
        Rule::new(
            "provider none, the gate's question: session",
            &["provider"],
            vec![
                Step::run("git push --force nowhere", Verdict::Ran(128))
                    .answered(Thing::Command, Answer::Session),
                Step::run("git push --force nowhere", Verdict::Ran(128)),
            ],
        )
        .user(json!({ "provider": "none", "workspaceAccess": "rw" }))
        .needs(Needs::Session)
        .except(&[
            ("shell", "a person who types is advised by the gate and not asked"),
            ("library jobs", "without a fence there are no jobs"),
            ("mcp stdio jobs", "without a fence there are no jobs"),
        ]),
    ]
}
