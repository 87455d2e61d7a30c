//! File tools under the fence's rules.

use std::os::unix::fs::symlink;

use ringfence::model::{Decision, ErrorKind};
use ringfence::permission::Answer;
use serde_json::json;

use crate::world::{World, yes};

#[test]
fn files_are_read_written_edited_patched_listed_and_searched() {
    let Some(world) = World::asking([]) else { return };
    let call = |name: &str, arguments: serde_json::Value| {
        let result = world.tools.call(name, &arguments);
        assert!(result.ok, "{name}: {result:?}");
        result
    };
    assert_eq!(
        call("write", json!({ "path": "@src/a.rs", "content": "fn a() {}\nfn b() {}\n" })).data["created"],
        true
    );
    let absolute = world.project.join("src/a.rs");
    assert_eq!(call("read", json!({ "path": absolute, "offset": 2 })).stdout, "     2\tfn b() {}\n");
    let first = call("read", json!({ "path": "src/a.rs", "limit": 1 }));
    assert_eq!((first.stdout.as_str(), first.truncated), ("     1\tfn a() {}\n", true));
    assert_eq!(
        call("edit", json!({ "path": "src/a.rs", "old": "fn", "new": "pub fn", "all": true })).data["replacements"],
        2
    );
    let patch = "*** Begin Patch\n*** Add File: b.txt\n+new\n*** Delete File: src/a.rs\n*** End Patch";
    assert_eq!(call("apply_patch", json!({ "patch": patch })).stdout, "A b.txt\nD src/a.rs\n");
    assert_eq!(call("list", json!({ "recursive": true })).stdout, "b.txt\nsrc/\n");
    assert_eq!(call("search", json!({ "text": "NEW", "ignoreCase": true })).stdout, "b.txt:1:new\n");
    let again = world.tools.call("edit", &json!({ "path": "b.txt", "old": "absent", "new": "x" }));
    assert_eq!(again.error_kind, Some(ErrorKind::Validation));
}

#[test]
fn nothing_outside_of_the_workspace_is_touched() {
    let Some(world) = World::asking([yes(Decision::AllowSession)]) else { return };
    symlink(world.home.join(".ssh/config"), world.project.join("link")).unwrap();
    for path in ["../.ssh/config", "/etc/passwd", "~/.ssh/config", "link", "a/../../x"] {
        for (tool, arguments) in [
            ("read", json!({ "path": path })),
            ("write", json!({ "path": path, "content": "x" })),
            ("edit", json!({ "path": path, "old": "Host", "new": "x" })),
        ] {
            let result = world.tools.call(tool, &arguments);
            assert_eq!(result.error_kind, Some(ErrorKind::Permission), "{tool} {path}: {result:?}");
            assert_eq!(result.data["reason"], "path_outside_workspace", "{tool} {path}");
        }
    }
    assert!(world.questions().is_empty());
    assert_eq!(std::fs::read_to_string(world.home.join(".ssh/config")).unwrap(), "Host treasure\n");
    assert!(world.tools.call("write", &json!({ "path": "a..b", "content": "x" })).ok);
}

#[test]
fn what_the_fence_denies_inside_the_project_is_asked_about() {
    let answers = [
        Answer::deny("not the keys"),
        yes(Decision::AllowOnce),
        yes(Decision::Deny),
        yes(Decision::AllowSession),
        yes(Decision::Deny),
    ];
    let Some(world) = World::asking(answers) else { return };
    world.write(".env", "KEY=1\n");
    world.write("sub/.env", "KEY=2\n");
    world.write(".git/hooks/pre-push", "#!/bin/sh\n");
    symlink(".env", world.project.join("innocent")).unwrap();
    let read = |path: &str| world.tools.call("read", &json!({ "path": path }));
    let refused = read("innocent");
    assert_eq!(refused.error_kind, Some(ErrorKind::ApprovalDenied), "{refused:?}");
    assert!(refused.stderr.contains("not the keys") && !refused.stderr.contains("KEY"), "{refused:?}");
    world.tools.begin_run();
    assert_eq!(read(".env").stdout, "     1\tKEY=1\n", "once");
    assert!(!read(".env").ok, "and once only");
    world.tools.begin_run();
    assert!(read(".env").ok && read("innocent").ok, "for the session, by any name");
    assert_eq!(world.bash("cat .env").stdout, "KEY=1\n", "and for commands");
    let hook = json!({ "path": ".git/hooks/pre-push", "content": "evil" });
    assert!(!world.tools.call("write", &hook).ok);
    assert_eq!(world.read(".git/hooks/pre-push"), "#!/bin/sh\n");
    assert_eq!(world.questions().len(), 5);
    let found = world.tools.call("search", &json!({ "text": "KEY=2" }));
    assert_eq!(found.stdout, "", "a search passes over what is denied");
}
