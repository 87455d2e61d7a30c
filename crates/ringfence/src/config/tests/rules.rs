//! Rules for commands: their examples are tried when they are read, and one that is kept changes nothing else.

use ringfence_gate::rules::List;

use super::*;

#[test]
fn a_rule_that_does_not_do_what_its_examples_say_is_an_error_with_its_place() {
    let text = r#"{
  "safety": {
    "allowlist": ["git push # match: git push origin | notMatch: git pull"],
    "denylist": [
      "npm publish # match: npm pack",
      "a; b"
    ]
  },
  "agents": { "x": { "safety": { "denylist": ["rm # notMatch: rm -f y"] } } }
}
"#;
    let world = World::new().user(text);
    let found = world.check();
    let got: Vec<_> = found.iter().map(|d| (d.line.unwrap(), d.key.as_deref().unwrap_or_default())).collect();
    let want = [(5, "safety.denylist[0]"), (6, "safety.denylist[1]"), (9, "agents.x.safety.denylist[0]")];
    assert_eq!(got, want);
    assert!(found[0].message.contains("`npm pack` should match and does not"), "{}", found[0].message);
    let error = source::parse(&world.user_file(), text).unwrap_err();
    assert_eq!(error.line, Some(5), "what is wrong is not loaded");
}

#[test]
fn a_kept_rule_leaves_comments_and_order_alone() {
    let text = "{\n  // mine\n  \"ask\": \"never\",\n  \"safety\": { \"mode\": \"ask\" }\n}\n";
    let world = World::new().user(text);
    let file = world.user_file();
    assert_eq!(add_rule(&file, List::Allow, "git push").unwrap(), Change::Written);
    assert_eq!(add_rule(&file, List::Allow, "git push # match: git push -f").unwrap(), Change::Unchanged);
    assert_eq!(add_rule(&file, List::Deny, "npm publish").unwrap(), Change::Written);
    let now = std::fs::read_to_string(&file).unwrap();
    assert!(now.starts_with("{\n  // mine\n  \"ask\": \"never\",\n"), "{now}");
    let safety = world.load().config.safety;
    let texts = |list: &[Entry]| list.iter().map(|entry| entry.text.clone()).collect::<Vec<_>>();
    assert_eq!(
        (texts(&safety.allowlist), texts(&safety.denylist)),
        (vec!["git push".to_owned()], vec!["npm publish".to_owned()])
    );
    assert_eq!(
        add_rule(&file, List::Allow, "a | b").unwrap_err().kind,
        ringfence_model::ErrorKind::Validation
    );
}
