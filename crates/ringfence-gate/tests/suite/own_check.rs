//! A check that is not built in, to show what adding one takes.

use ringfence_gate::checks::{Check, Report, built_in};
use ringfence_gate::shell::Cmd;
use ringfence_gate::{Decision, Gate, Options, Request, Rule};
use ringfence_model::ViolationKind;

struct Publish;

impl Check for Publish {
    fn name(&self) -> &'static str {
        "publish"
    }

    fn kind(&self) -> ViolationKind {
        ViolationKind::CommandBlocked
    }

    fn command(&self, cmd: &Cmd<'_>, report: &mut Report<'_>) {
        if cmd.is(&["npm", "cargo"]) && cmd.sub() == Some("publish") {
            report.add(Rule::deny("publish", "let a person publish"), cmd.span, "a package is published");
        }
    }
}

#[test]
fn a_check_takes_one_type_and_one_line() {
    let mut checks = built_in();
    checks.push(Box::new(Publish));
    let gate = Gate::with_checks(Options::default(), checks);
    let verdict = gate.judge(&Request::shell(
        "bash -c 'cd web; env CI=1 npm publish'",
        "/home/dev",
        "/home/dev/project",
    ));
    assert_eq!(verdict.decision, Decision::Deny);
    assert_eq!(verdict.findings[0].check, "publish");
    assert_eq!(verdict.violation(), Some(ViolationKind::CommandBlocked));
}
