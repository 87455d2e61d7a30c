//! What is refused: by which key, with which words; and what the break-glass keys open.

use std::os::unix::net::UnixListener;

use ringfence_model::ErrorKind;
use ringfence_model::config::WorkspaceAccess;
use serde_json::json;

use super::super::{ContainerRequest, build};
use super::super::{Forbidden, NoteKind, Surroundings};
use super::{Host, section};

fn refusal(host: &Host, docker: serde_json::Value) -> String {
    let error = host.build_with(docker.clone(), WorkspaceAccess::Rw).expect_err(&docker.to_string());
    assert_eq!(error.kind, ErrorKind::InvalidConfig);
    assert!(!error.hints.is_empty(), "{error} says nothing about what to do");
    error.message
}

#[test]
fn values_that_weaken_or_mean_nothing_are_refused_with_key_value_and_rule() {
    let host = Host::new();
    let profile = host.root().join("open.json");
    std::fs::write(&profile, r#"{ "defaultAction": "SCMP_ACT_ALLOW" }"#).unwrap();
    let garbled = host.root().join("garbled.json");
    std::fs::write(&garbled, "{").unwrap();
    for (docker, key, rule) in [
        (json!({ "network": "host" }), "network", "host's network"),
        (json!({ "network": " HOST " }), "network", "host's network"),
        (json!({ "network": "host:x" }), "network", "host's network"),
        (json!({ "network": "container:db" }), "network", "another container's network"),
        (json!({ "network": "Container:db" }), "network", "another container's network"),
        (json!({ "network": "container:" }), "network", "no container's name"),
        (json!({ "network": "ns:/proc/1/ns/net" }), "network", "neither none nor"),
        (json!({ "network": "/proc/1/ns/net" }), "network", "neither none nor"),
        (json!({ "network": "none:" }), "network", "neither none nor"),
        (json!({ "network": "a b" }), "network", "neither none nor"),
        (json!({ "seccompProfile": "unconfined" }), "seccompProfile", "without a seccomp profile"),
        (json!({ "seccompProfile": " UnConfined " }), "seccompProfile", "without a seccomp profile"),
        (json!({ "seccompProfile": "profile.json" }), "seccompProfile", "no absolute path"),
        (json!({ "seccompProfile": "/no/such.json" }), "seccompProfile", "cannot be used"),
        (json!({ "seccompProfile": "/dev/zero" }), "seccompProfile", "cannot be used"),
        (json!({ "seccompProfile": profile }), "seccompProfile", "SCMP_ACT_ALLOW"),
        (json!({ "seccompProfile": garbled }), "seccompProfile", "cannot be used"),
        (json!({ "apparmorProfile": "UNCONFINED" }), "apparmorProfile", "without an AppArmor profile"),
        (json!({ "apparmorProfile": "a b" }), "apparmorProfile", "no name of a profile"),
        (json!({ "env": { "A=B": "x" } }), "env", "no name of a variable"),
        (json!({ "env": { "1A": "x" } }), "env", "no name of a variable"),
        (json!({ "env": { "A": "x\u{0}y" } }), "env", "NUL"),
        (json!({ "image": "-rm" }), "image", "no name of an image"),
        (json!({ "image": "a b" }), "image", "no name of an image"),
        (json!({ "containerPrefix": "a/b" }), "containerPrefix", "begins with a letter"),
        (json!({ "containerPrefix": "-a" }), "containerPrefix", "begins with a letter"),
        (json!({ "containerPrefix": "p".repeat(23) }), "containerPrefix", "one container"),
        (json!({ "workdir": "work" }), "workdir", "not absolute"),
        (json!({ "workdir": "/" }), "workdir", "root"),
        (json!({ "workdir": "/proc/x" }), "workdir", "/proc"),
        (json!({ "workdir": "/work/../etc" }), "workdir", "goes up"),
        (json!({ "workdir": "/agent/x" }), "workdir", "/agent"),
        (json!({ "user": "a b" }), "user", "neither user nor"),
        (json!({ "user": "1:2:3" }), "user", "neither user nor"),
        (json!({ "user": "-1" }), "user", "neither user nor"),
        (json!({ "capDrop": ["ALL --privileged"] }), "capDrop", "no name of a capability"),
        (json!({ "tmpfs": ["tmp"] }), "tmpfs", "not absolute"),
        (json!({ "tmpfs": ["/tmp:suid"] }), "tmpfs", "no option"),
        (json!({ "tmpfs": ["/tmp:size=1m,dev"] }), "tmpfs", "no option"),
        (json!({ "tmpfs": ["/workspace/x"] }), "tmpfs", "where a workspace is seen"),
        (json!({ "tmpfs": ["/"] }), "tmpfs", "root"),
        (json!({ "memory": "1M" }), "memory", "6 MiB"),
        (json!({ "memory": "64M", "memorySwap": "32M" }), "memorySwap", "together"),
        (json!({ "cpus": 0.001 }), "cpus", "hundredth"),
        (json!({ "ulimits": { "fds": 1 } }), "ulimits.fds", "no limit of that name"),
        (json!({ "ulimits": { "nofile": "2:1" } }), "ulimits.nofile", "above the hard one"),
        (json!({ "ulimits": { "nofile": "many" } }), "ulimits.nofile", "neither a number"),
        (json!({ "ulimits": { "nofile": -5 } }), "ulimits.nofile", "neither a number"),
        (json!({ "ulimits": { "nofile": { "max": 5 } } }), "ulimits.nofile", "neither a number"),
        (json!({ "dns": ["dns.example"] }), "dns", "no IP address"),
        (json!({ "extraHosts": ["db"] }), "extraHosts", "no colon"),
        (json!({ "extraHosts": ["db:ten"] }), "extraHosts", "no IP address"),
        (json!({ "extraHosts": ["-db:10.0.0.1"] }), "extraHosts", "no host name"),
    ] {
        let message = refusal(&host, docker.clone());
        assert!(message.starts_with(&format!("docker.{key} ")), "{docker}: {message}");
        assert!(message.contains(rule), "{docker}: {message}");
    }
}

#[test]
fn binds_are_refused_for_their_source_their_target_or_their_form() {
    let host = Host::new();
    let root = host.root();
    let at = |path: &str| root.join(path).display().to_string();
    std::fs::create_dir_all(host.workspace.join("data")).unwrap();
    std::fs::create_dir(root.join("other")).unwrap();
    std::os::unix::fs::symlink(host.home.join(".ssh"), host.workspace.join("link")).unwrap();
    std::os::unix::fs::symlink("/", host.workspace.join("slash")).unwrap();
    std::fs::write(host.workspace.join("file"), "x").unwrap();
    std::fs::hard_link(host.workspace.join("file"), host.workspace.join("second")).unwrap();
    let _socket = UnixListener::bind(host.workspace.join("docker.sock")).unwrap();
    let data = at("sandbox/data");
    for (bind, rule) in [
        (data.clone(), "a bind has the form"),
        (format!("{data}:/data:ro:z"), "a bind has the form"),
        (format!("{data}:/data:shared"), "no option of a bind"),
        (format!("{data}:/data:ro,z"), "no option of a bind"),
        (format!("{data}:/data:"), "no option of a bind"),
        ("data:/data".to_owned(), "not absolute"),
        ("~/data:/data".to_owned(), "not absolute"),
        (format!("{data}/../data:/data"), "goes up"),
        (format!("{data}x:/data"), "cannot be resolved"),
        ("/var/run/docker.sock:/docker.sock".to_owned(), "sock"),
        (format!("{}:/docker.sock", at("sandbox/docker.sock")), "the source is a socket"),
        (format!("{}:/f", at("sandbox/second")), "several names"),
        ("/:/host".to_owned(), "contains /bin"),
        ("//:/host".to_owned(), "contains /bin"),
        ("/etc:/host".to_owned(), "is /etc"),
        ("/etc/ssl:/host".to_owned(), "is inside /etc"),
        ("/var:/host".to_owned(), "contains /var/"),
        ("/proc/self:/host".to_owned(), "/proc"),
        ("/dev/null:/host".to_owned(), "/dev"),
        (format!("{}:/keys", at("home/.ssh")), "private keys"),
        (format!("{}:/home", at("home")), "contains"),
        (format!("{}:/all", root.display()), "contains"),
        (format!("{}:/keys", at("sandbox/link")), "leads to"),
        (format!("{}:/keys", at("sandbox/slash")), "leads to"),
        (format!("{}/home:/keys", at("sandbox/slash")), "outside"),
        (format!("{}:/other", at("other")), "outside of the directories"),
        (format!("{data}:data"), "not absolute"),
        (format!("{data}:/"), "root"),
        (format!("{data}:/proc/x"), "/proc"),
        (format!("{data}:/dev"), "/dev"),
        (format!("{data}:/workspace"), "is /workspace"),
        (format!("{data}:/workspace/"), "is /workspace"),
        (format!("{data}://workspace/./x"), "is inside /workspace"),
        (format!("{data}:/agent"), "is /agent"),
        (format!("{data}:/a\nb"), "control character"),
    ] {
        // Where the tests' own machine lacks a path, that is said instead.
        let message = refusal(&host, json!({ "binds": [bind] }));
        let missing = message.contains("cannot be resolved") && bind.starts_with("/var/run");
        assert!(
            message.starts_with("docker.binds ") && (message.contains(rule) || missing),
            "{bind}: {message}"
        );
        assert_eq!(message.lines().count(), 1, "{message}");
    }
    let twice = json!({ "binds": [format!("{data}:/d"), format!("{data}:/d:ro")] });
    assert!(refusal(&host, twice).contains("another bind has the target"));
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let host = Host::new();
    let docker = json!({ "network": "host", "seccompProfile": "unconfined", "binds": ["/etc:/etc", "/:/x"] });
    let error = host.build_with(docker, WorkspaceAccess::Rw).unwrap_err();
    assert!(error.message.starts_with("4 settings of the container are refused:"), "{error}");
    assert_eq!(error.message.lines().count(), 5);
    assert_eq!(error.hints.len(), 3, "one for each kind of mistake: {:?}", error.hints);
}

#[test]
fn break_glass_keys_open_their_own_rule_only_and_are_noted() {
    let host = Host::new();
    let other = host.root().join("other");
    std::fs::create_dir(&other).unwrap();
    let bind = |target: &str| format!("{}:{target}", other.display());
    let external = "dangerouslyAllowExternalBindSources";
    let reserved = "dangerouslyAllowReservedContainerTargets";
    let join = "dangerouslyAllowContainerNamespaceJoin";
    for (docker, key) in [
        (json!({ "binds": [bind("/other")], external: true }), external),
        (json!({ "network": "container:db", join: true }), join),
    ] {
        let spec = host.build(docker);
        let [note] = spec.notes.as_slice() else { panic!("{:?}", spec.notes) };
        assert_eq!((note.kind, note.key.clone()), (NoteKind::BreakGlass, format!("docker.{key}")));
    }
    let spec = host.build(json!({ "binds": [bind("/workspace")], external: true, reserved: true }));
    assert_eq!(spec.mounts.len(), 1, "the bind has the workspace's place: {:?}", spec.mounts);
    assert_eq!(spec.mounts[0].source, other);
    assert_eq!(spec.notes.len(), 2);

    let secrets = format!("{}:/keys", host.home.join(".ssh").display());
    for docker in [
        json!({ "binds": ["/etc:/host-etc"], external: true, reserved: true, join: true }),
        json!({ "binds": [secrets], external: true, reserved: true, join: true }),
        json!({ "binds": [bind("/proc")], external: true, reserved: true, join: true }),
        json!({ "binds": [bind("/other")], reserved: true, join: true }),
        json!({ "binds": [bind("/workspace")], external: true, join: true }),
        json!({ "network": "host", external: true, reserved: true, join: true }),
        json!({ "network": "container:db", external: true, reserved: true }),
        json!({ "seccompProfile": "unconfined", external: true, reserved: true, join: true }),
    ] {
        refusal(&host, docker);
    }
    let unused = host.build(json!({ external: true, reserved: true, join: true }));
    assert_eq!(unused.notes, [], "a key that opened nothing");
}

#[test]
fn a_workspace_does_not_show_what_is_forbidden() {
    let host = Host::new();
    let ours = host.root().join("ringfence");
    let own = ours.join("sandboxes/one");
    std::fs::create_dir_all(&own).unwrap();
    let docker = section(json!({}));
    let surroundings = Surroundings {
        home: Some(host.home.clone()),
        bind_roots: vec![],
        forbidden: vec![Forbidden::new(&ours, "ringfence's own files")],
    };
    let with = |workspace: &std::path::Path| {
        let request = ContainerRequest {
            surroundings: surroundings.clone(),
            ..ContainerRequest::new(&docker, "k", workspace)
        };
        build(&request).map_err(|error| error.message)
    };
    assert!(with(&own).is_ok(), "made for the sandbox, inside ringfence's home");
    assert!(with(&ours).unwrap_err().contains("ringfence's own files"));
    assert!(with(&host.home).unwrap_err().contains("private keys"));
    assert!(with(&host.root()).unwrap_err().contains("contains"));
    assert!(with(std::path::Path::new("/")).unwrap_err().contains("contains"));
    assert!(with(std::path::Path::new("/etc/ssl")).is_err());
    assert!(with(&host.workspace.join("missing")).unwrap_err().contains("cannot be resolved"));
    std::fs::write(host.workspace.join("file"), "").unwrap();
    assert!(with(&host.workspace.join("file")).unwrap_err().contains("no directory"));
}

#[test]
fn further_roots_may_be_bound_from() {
    let host = Host::new();
    let other = host.root().join("other/set");
    std::fs::create_dir_all(&other).unwrap();
    let docker = section(json!({ "binds": [format!("{}:/set:ro", other.display())] }));
    let mut request = ContainerRequest::new(&docker, "k", &host.workspace);
    assert!(build(&request).is_err());
    request.surroundings.bind_roots = vec![host.root().join("other")];
    assert!(build(&request).unwrap().notes.is_empty());
}
