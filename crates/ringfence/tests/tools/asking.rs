//! Questions, answers, and what holds afterwards.

use std::sync::Arc;
use std::time::Duration;

use ringfence::model::{Access, Decision, ErrorKind};
use ringfence::permission::{
    Answer, ApprovalRules, AutoApprove, AutoDeny, Condition, PendingQuestions, Permission, PermissionKind,
    RuleEntry,
};
use ringfence::tools::OpenTools;
use serde_json::json;

use crate::world::{World, person, yes};

#[test]
fn a_question_says_what_who_why_and_which_answers() {
    let options = OpenTools {
        service: Some(person([yes(Decision::AllowOnce)])),
        session_key: Some("agent:main".to_owned()),
        ..OpenTools::default()
    };
    let Some(world) = World::new(options) else { return };
    let result = world.bash("cat ~/.ssh/config");
    assert_eq!((result.ok, result.stdout.as_str()), (true, "Host treasure\n"), "{result:?}");
    let questions = world.questions();
    let [question] = questions.as_slice() else { panic!("{questions:?}") };
    let wire = json!(question);
    assert_eq!(wire["type"], "sandbox_access");
    assert_eq!((&wire["session"], &wire["timeoutMs"]), (&json!("agent:main"), &json!(60_000)));
    assert_eq!(wire["resource"], world.home.join(".ssh/config").to_str().unwrap());
    assert_eq!(wire["command"], "cat ~/.ssh/config");
    assert_eq!(wire["options"], json!(["allow_once", "allow_session", "allow_permanent", "deny", "abort"]));
    assert!(wire["reason"].as_str().unwrap().contains("denied by"), "{wire}");
    assert_eq!((question.kind, question.access), (PermissionKind::SandboxAccess, Some(Access::Read)));
    assert_eq!(question.key.len(), 64);
}

#[test]
fn once_is_for_one_command_and_a_grant_for_exactly_its_resource() {
    let answers = [Decision::AllowOnce, Decision::Deny, Decision::AllowSession, Decision::Deny];
    let Some(world) = World::asking(answers.map(yes)) else { return };
    std::fs::write(world.home.join(".ssh/config2"), "other\n").unwrap();
    assert!(world.bash("cat ~/.ssh/config && cat ~/.ssh/config").ok, "one command, one question");
    assert_eq!(world.questions().len(), 1);
    assert_eq!(world.bash("cat ~/.ssh/config").error_kind, Some(ErrorKind::ApprovalDenied));
    assert!(world.bash("cat ~/.ssh/config").ok, "asked again, and allowed for the session");
    assert!(
        world.bash("cat ~/.ssh/config").ok && world.bash("exit 0").ok && world.bash("cat ~/.ssh/config").ok
    );
    assert_eq!(world.questions().len(), 2, "not asked any more, also by a new shell");
    assert!(!world.bash("cat ~/.ssh/config2").ok);
    assert_eq!(world.questions().len(), 1);
    assert!(!world.bash("echo x >> ~/.ssh/config").ok, "reading was granted, not writing");
}

#[test]
fn a_directory_that_was_shown_once_is_gone_with_the_next_question() {
    let Some(world) = World::asking([yes(Decision::AllowOnce), Answer::deny("no more")]) else { return };
    let first = world.bash("ls ~/.ssh");
    assert_eq!(first.stdout, "config\n", "{first:?}");
    let second = world.bash("ls ~/.ssh; cat ~/.ssh/config");
    assert!(!second.stdout.contains("treasure") && !second.stdout.contains("config"), "{second:?}");
    assert!(second.stderr.contains("refused: no more"), "{second:?}");
}

#[test]
fn what_is_allowed_from_now_on_is_in_the_users_file_and_the_ledger() {
    let Some(world) = World::asking([yes(Decision::AllowPermanent)]) else { return };
    assert!(world.bash("cat ~/.ssh/config").ok);
    let file = std::fs::read_to_string(world.home.join(".ringfence/sandbox.json")).unwrap();
    let file: serde_json::Value = serde_json::from_str(&file).unwrap();
    assert_eq!(file["grants"][0]["path"], world.home.join(".ssh/config").to_str().unwrap());
    assert_eq!(file["grants"][0]["recursive"], false);
    let decisions = world.ledger().decisions(None, None).unwrap();
    assert_eq!((decisions[0].decision, decisions[0].by.as_str()), (Decision::AllowPermanent, "callback"));
    assert_eq!(decisions[0].key.as_ref().map(String::len), Some(64));
}

#[test]
fn the_words_of_a_refusal_reach_the_agent_and_a_second_one_ends_the_run() {
    let Some(world) = World::asking([Answer::deny("use the token"), Answer::deny("still no")]) else {
        return;
    };
    let result = world.bash("cat ~/.ssh/config");
    assert_eq!(result.error_kind, Some(ErrorKind::ApprovalDenied));
    assert!(result.stderr.contains("refused: use the token"), "{result:?}");
    assert!(world.bash("echo on").ok, "the agent goes on");
    let again = world.bash("cat ~/.ssh/config");
    assert_eq!(again.error_kind, Some(ErrorKind::ApprovalDenied));
    assert!(again.data.contains_key("runEnded"), "{again:?}");
    assert_eq!(world.bash("echo on").error_kind, Some(ErrorKind::ApprovalDenied), "the run is over");
    assert!(world.names().contains(&"run_failed"));
    world.tools.begin_run();
    assert!(world.bash("echo on").ok);
}

#[test]
fn abort_ends_the_run_as_cancelled() {
    let Some(world) = World::asking([yes(Decision::Abort)]) else { return };
    let result = world.bash("cat ~/.ssh/config; echo not reached");
    assert_eq!(result.error_kind, Some(ErrorKind::Cancelled), "{result:?}");
    assert!(world.names().contains(&"run_cancelled"));
    assert_eq!(world.bash("echo on").error_kind, Some(ErrorKind::Cancelled));
}

#[test]
fn without_anybody_to_ask_it_is_refused_and_the_run_fails() {
    let Some(world) = World::new(OpenTools::default()) else { return };
    let result = world.bash("cat ~/.ssh/config");
    assert!(!result.ok && !result.stdout.contains("treasure"), "{result:?}");
    assert_eq!(world.bash("echo on").error_kind, Some(ErrorKind::ConfigError));
}

#[test]
fn silence_is_a_refusal() {
    let service = Arc::new(PendingQuestions::new(|_| ()));
    let options = OpenTools { service: Some(service), ..OpenTools::default() };
    let config = json!({ "safety": { "approval_timeout_ms": 300 } });
    let Some(world) = World::configured(options, config, &[]) else { return };
    let result = world.bash("cat ~/.ssh/config");
    assert_eq!(result.error_kind, Some(ErrorKind::ApprovalDenied), "{result:?}");
    assert!(result.stderr.contains("nobody answered in time"), "{result:?}");
}

#[test]
fn automatic_services_do_what_they_say() {
    let options = OpenTools { service: Some(Arc::new(AutoApprove)), ..OpenTools::default() };
    let Some(world) = World::new(options) else { return };
    assert!(world.bash("cat ~/.ssh/config").ok);
    let options = OpenTools { service: Some(Arc::new(AutoDeny)), ..OpenTools::default() };
    let Some(world) = World::new(options) else { return };
    assert_eq!(world.bash("cat ~/.ssh/config").error_kind, Some(ErrorKind::ApprovalDenied));
}

#[test]
fn the_gate_asks_before_anything_runs_and_edited_code_is_judged_again() {
    let answers =
        [Answer::deny("not with force"), Answer::edited("echo edited > done"), Answer::edited("rm -rf /etc")];
    let Some(world) = World::asking(answers) else { return };
    let push = "git push --force origin main; echo ran > ran";
    let refused = world.bash(push);
    assert_eq!(refused.error_kind, Some(ErrorKind::ApprovalDenied), "{refused:?}");
    assert_eq!(
        world.names(),
        ["tool_call_requested", "approval_requested", "approval_decided", "tool_call_finished"]
    );
    let edited = world.bash("git push -f origin other");
    assert!(edited.ok && world.read("done") == "edited\n", "{edited:?}");
    assert_eq!(
        world.names(),
        [
            "tool_call_requested",
            "approval_requested",
            "approval_decided",
            "tool_call_started",
            "tool_call_finished"
        ]
    );
    let worse = world.bash("git push -f origin third");
    assert_eq!(worse.error_kind, Some(ErrorKind::Permission), "{worse:?}");
    assert_eq!(worse.data["reason"], "gate");
    assert!(!world.project.join("ran").exists());
}

#[test]
fn what_the_gate_refuses_is_not_asked_about_and_does_not_run() {
    let Some(world) = World::asking([yes(Decision::AllowSession)]) else { return };
    let result = world.bash("touch ran; rm -rf /etc");
    assert_eq!(result.error_kind, Some(ErrorKind::Permission), "{result:?}");
    assert_eq!(world.names(), ["tool_call_requested", "tool_call_finished"]);
    assert!(!world.project.join("ran").exists());
    let code = json!({ "language": "shell", "code": "touch ran; rm -rf /etc" });
    let code = world.tools.call("run_code", &code);
    for refused in [result, code] {
        assert_eq!((refused.ok, refused.exit_code), (false, None), "nothing ran: {refused:?}");
        assert!(refused.stderr.contains("/etc"), "{refused:?}");
    }
    assert!(!world.project.join("ran").exists());
}

#[test]
fn an_approved_command_is_not_asked_about_again_in_the_session() {
    let Some(world) = World::asking([yes(Decision::AllowSession)]) else { return };
    let command = "git push --force 2>/dev/null; echo over";
    assert!(world.bash(command).ok);
    assert!(world.bash(command).ok);
    assert_eq!(world.questions().len(), 1);
}

#[test]
fn no_secret_is_in_a_question_a_result_an_event_or_the_ledger() {
    let options = OpenTools {
        service: Some(person([yes(Decision::AllowOnce)])),
        secrets: vec!["Tr0ub4dor".to_owned()],
        ..OpenTools::default()
    };
    let Some(world) = World::configured(options, json!({}), &[("DEPLOY_TOKEN", "correct-horse")]) else {
        return;
    };
    let result = world.bash("echo correct-horse Tr0ub4dor; cat ~/.ssh/config # Tr0ub4dor");
    assert_eq!(result.stdout, "<redacted> <redacted>\nHost treasure\n");
    let written = world.tools.call("write", &json!({ "path": "a", "content": "Tr0ub4dor" }));
    assert!(written.ok && world.read("a") == "Tr0ub4dor", "files are what they are");
    for event in world.take() {
        let text = json!(event).to_string();
        assert!(!text.contains("Tr0ub4dor") && !text.contains("correct-horse"), "{text}");
    }
    let ledger = world.ledger();
    let events = json!(ledger.events(None, None).unwrap()).to_string();
    assert!(events.contains("approval_requested") && events.contains("tool_call_finished"), "{events}");
    assert!(!events.contains("Tr0ub4dor") && !events.contains("correct-horse"));
    let commands = json!(ledger.executions(&Default::default()).unwrap()).to_string();
    assert!(commands.contains("<redacted>") && !commands.contains("Tr0ub4dor"), "{commands}");
}

#[test]
fn a_mailbox_forgets_what_nobody_waits_for() {
    let asked = Arc::new(std::sync::Mutex::new(vec![]));
    let kept = Arc::clone(&asked);
    let pending_questions =
        Arc::new(PendingQuestions::new(move |permission| kept.lock().unwrap().push(permission.id.clone())));
    let options = OpenTools { service: Some(Arc::clone(&pending_questions) as _), ..OpenTools::default() };
    let Some(world) = World::new(options) else { return };
    assert!(!pending_questions.answer("unknown", yes(Decision::AllowOnce)));
    let tools = world.tools.clone();
    let call = std::thread::spawn(move || tools.call("bash", &json!({ "command": "cat ~/.ssh/config" })));
    let id = loop {
        match asked.lock().unwrap().first() {
            Some(id) => break id.clone(),
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    assert_eq!(pending_questions.pending(), std::slice::from_ref(&id));
    assert!(pending_questions.cancel(&id) && !pending_questions.cancel(&id));
    let result = call.join().unwrap();
    assert!(result.stderr.contains("taken back"), "{result:?}");
    assert!(pending_questions.pending().is_empty());
    pending_questions.close();
    world.tools.begin_run();
    assert!(world.bash("cat ~/.ssh/config").stderr.contains("nobody is left"));
}

#[test]
fn the_first_rule_that_matches_answers_and_what_no_rule_matches_is_refused() {
    let rule = |kind, holds: fn(&Permission) -> Result<bool, String>, answer| RuleEntry {
        kind,
        tool: None,
        condition: Some(Arc::new(holds) as Condition),
        answer,
    };
    let rules = ApprovalRules(vec![
        rule(None, |_| Err("cannot tell".to_owned()), yes(Decision::AllowSession)),
        rule(Some(PermissionKind::Execution), |_| Ok(true), yes(Decision::AllowSession)),
        rule(None, |asked| Ok(asked.resource.ends_with("/config")), yes(Decision::AllowOnce)),
        rule(None, |asked| Ok(asked.resource.contains("/config")), Answer::deny("the second rule")),
    ]);
    let options = OpenTools { service: Some(Arc::new(rules)), ..OpenTools::default() };
    let Some(world) = World::new(options) else { return };
    for name in ["config2", "other"] {
        std::fs::write(world.home.join(".ssh").join(name), "treasure\n").unwrap();
    }
    for _ in 0..2 {
        assert_eq!(world.bash("cat ~/.ssh/config").stdout, "Host treasure\n");
        assert_eq!(
            world.questions().len(),
            1,
            "the rule that fails and the one of another kind do not match"
        );
    }
    for (name, words) in [("config2", "refused: the second rule"), ("other", "refused: no rule allows it")] {
        let result = world.bash(&format!("cat ~/.ssh/{name}"));
        assert_eq!(result.error_kind, Some(ErrorKind::ApprovalDenied), "{result:?}");
        assert!(result.stderr.contains(words) && !result.stdout.contains("treasure"), "{result:?}");
    }
}
