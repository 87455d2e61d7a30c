//! Each parameter: its default, and that what is written arrives.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ringfence_model::config::{Scope, WorkspaceAccess};
use serde_json::json;

use super::super::hash::{HashInput, config_hash};
use super::super::{
    ContainerRequest, EnvRules, Mount, NoteKind, Ulimit, build, container_key, container_name, identity,
};
use super::{Host, section};

#[test]
fn without_a_word_a_container_is_hardened_and_limited() {
    let host = Host::new();
    let spec = host.build(json!({}));
    assert_eq!(spec.image, "ringfence-sandbox:bookworm-slim");
    assert!(spec.name.starts_with("ringfence-sbx-agent-main-chat-7-"), "{}", spec.name);
    assert_eq!(spec.workdir, Path::new("/workspace"));
    assert!(spec.read_only_root);
    assert_eq!(spec.tmpfs, ["/tmp:exec", "/var/tmp:exec", "/run"]);
    assert_eq!(spec.network, "none");
    assert_eq!(spec.cap_drop, ["ALL"]);
    assert_eq!(spec.security_opt, ["no-new-privileges"]);
    assert_eq!(spec.env, [("LANG".to_owned(), "C.UTF-8".to_owned())]);
    assert_eq!((spec.pids_limit, spec.memory, spec.nano_cpus), (512, 2 << 30, 2_000_000_000));
    assert_eq!(spec.memory_swap, spec.memory, "no swap beyond the limit");
    assert!(spec.ulimits.is_empty() && spec.dns.is_empty() && spec.extra_hosts.is_empty());
    assert_eq!(spec.setup_command, None);
    assert_eq!(spec.notes, []);
    let owner = std::fs::metadata(&host.workspace).unwrap();
    assert_eq!(spec.user, Some(format!("{}:{}", owner.uid(), owner.gid())), "the workspace's owner");
}

#[test]
fn every_parameter_arrives() {
    let host = Host::new();
    std::fs::create_dir(host.workspace.join("data")).unwrap();
    let profile = host.root().join("seccomp.json");
    std::fs::write(&profile, r#"{ "defaultAction": "SCMP_ACT_ERRNO", "syscalls": [] }"#).unwrap();
    let data = host.workspace.join("data");
    let spec = host.build(json!({
        "image": "debian:bookworm", "containerPrefix": "box-", "workdir": "/work/", "readOnlyRoot": false,
        "tmpfs": ["/tmp:size=64m,exec", "/scratch"], "network": "sandboxes", "user": "1000:1000",
        "capDrop": ["ALL", "net_raw"], "env": { "A": "1" }, "setupCommand": "apt-get update",
        "pidsLimit": 64, "memory": "512M", "memorySwap": 1_073_741_824_u64, "cpus": 0.5,
        "ulimits": { "nofile": "1024:2048", "nproc": 64, "core": { "soft": 0, "hard": 0 }, "fsize": "unlimited", "cpu": "" },
        "seccompProfile": profile, "apparmorProfile": "docker-default",
        "dns": ["9.9.9.9", " ", "2620:fe::fe"], "extraHosts": ["db:10.0.0.5", "six:[::1]", "  "],
        "binds": [format!("{}:/data:ro", data.display())],
    }));
    assert_eq!((spec.image.as_str(), spec.workdir.as_path()), ("debian:bookworm", Path::new("/work")));
    assert!(spec.name.starts_with("box-agent-main-chat-7-"));
    assert!(!spec.read_only_root);
    assert_eq!(spec.tmpfs, ["/tmp:size=64m,exec", "/scratch"]);
    assert_eq!((spec.network.as_str(), spec.user.as_deref()), ("sandboxes", Some("1000:1000")));
    assert_eq!(spec.cap_drop, ["ALL", "NET_RAW"]);
    assert_eq!(spec.env, [("A".to_owned(), "1".to_owned())]);
    assert_eq!(spec.setup_command.as_deref(), Some("apt-get update"));
    assert_eq!((spec.pids_limit, spec.memory, spec.memory_swap), (64, 512 << 20, 1 << 30));
    assert_eq!(spec.nano_cpus, 500_000_000);
    let limit = |name: &str, soft, hard| Ulimit { name: name.to_owned(), soft, hard };
    assert_eq!(
        spec.ulimits,
        [
            limit("core", Some(0), Some(0)),
            limit("fsize", None, None),
            limit("nofile", Some(1024), Some(2048)),
            limit("nproc", Some(64), Some(64))
        ]
    );
    assert_eq!(
        spec.security_opt,
        [
            "no-new-privileges",
            r#"seccomp={"defaultAction":"SCMP_ACT_ERRNO","syscalls":[]}"#,
            "apparmor=docker-default"
        ]
    );
    assert_eq!(spec.dns, ["9.9.9.9", "2620:fe::fe"], "blank entries do not count");
    assert_eq!(spec.extra_hosts, ["db:10.0.0.5", "six:::1"]);
    let bind = Mount { source: data, target: PathBuf::from("/data"), read_only: true };
    assert_eq!(spec.mounts.last(), Some(&bind));
}

#[test]
fn the_workspaces_are_seen_where_they_should_be() {
    let host = Host::new();
    let mount = |source: &Path, target: &str, read_only| Mount {
        source: source.to_owned(),
        target: PathBuf::from(target),
        read_only,
    };
    for (access, want) in [
        (WorkspaceAccess::None, vec![mount(&host.workspace, "/workspace", false)]),
        (
            WorkspaceAccess::Ro,
            vec![mount(&host.workspace, "/workspace", false), mount(&host.agents, "/agent", true)],
        ),
        (WorkspaceAccess::Rw, vec![mount(&host.workspace, "/workspace", false)]),
    ] {
        assert_eq!(host.build_with(json!({}), access).unwrap().mounts, want, "{access:?}");
    }
    let docker = section(json!({}));
    let request = ContainerRequest {
        access: WorkspaceAccess::Ro,
        ..ContainerRequest::new(&docker, "k", &host.workspace)
    };
    let spec = build(&request).unwrap();
    assert_eq!(spec.mounts, [mount(&host.workspace, "/workspace", true)], "one directory, to read only");
}

#[test]
fn binds_come_after_the_workspaces_in_their_order() {
    let host = Host::new();
    for name in ["b", "a"] {
        std::fs::create_dir(host.workspace.join(name)).unwrap();
    }
    let bind = |name: &str| format!("{}:/{name}", host.workspace.join(name).display());
    let spec = host.build_with(json!({ "binds": [bind("b"), bind("a")] }), WorkspaceAccess::Ro).unwrap();
    let targets: Vec<_> = spec.mounts.iter().map(|mount| mount.target.to_str().unwrap()).collect();
    assert_eq!(targets, ["/workspace", "/agent", "/b", "/a"]);
    let found = spec.path_map().resolve(Path::new("/a/x")).unwrap();
    assert_eq!(found.host, host.workspace.join("a/x"));
}

#[test]
fn labels_say_what_it_is() {
    let host = Host::new();
    let docker = section(json!({}));
    let request = ContainerRequest {
        created_at_ms: 5,
        labels: [("team".to_owned(), "blue".to_owned())].into(),
        ..ContainerRequest::new(&docker, "agent:main", &host.workspace)
    };
    let spec = build(&request).unwrap();
    let want = [
        ("ringfence.configHash", spec.config_hash.as_str()),
        ("ringfence.createdAtMs", "5"),
        ("ringfence.sandbox", "1"),
        ("ringfence.sessionKey", "agent:main"),
        ("team", "blue"),
    ];
    let labels: Vec<_> = spec.labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(labels, want);
}

#[test]
fn names_are_prefix_and_slug_and_tell_who_shares() {
    let docker = section(json!({}));
    assert_eq!(container_name(&docker, "shared").unwrap(), "ringfence-sbx-shared");
    assert_eq!(container_name(&docker, "agent:main:main").unwrap(), "ringfence-sbx-agent-main-main-20ceb99b");
    let longest = section(json!({ "containerPrefix": "p".repeat(22) }));
    let name = container_name(&longest, &"x".repeat(80)).unwrap();
    assert_eq!(name.len(), 63);
    assert_ne!(name, container_name(&longest, &"x".repeat(81)).unwrap(), "the hash is not cut");
    let (project, other) = (Path::new("/p/one"), Path::new("/p/two"));
    assert_eq!(
        container_key(" chat ", project, WorkspaceAccess::None),
        "chat",
        "its own workspace, wherever it is used"
    );
    let key = |project| container_key("chat", project, WorkspaceAccess::Rw);
    assert_ne!(key(project), key(other), "no project works in the container of another");
    for (key, scope) in [
        ("shared", Scope::Shared),
        ("agent:main", Scope::Agent),
        ("agent:main:chat", Scope::Session),
        ("chat", Scope::Session),
    ] {
        assert_eq!(identity::scope_of(key), scope, "{key}");
    }
}

#[test]
fn a_workspace_that_cannot_be_seen_leaves_the_user_open() {
    let mut findings = super::super::Findings::default();
    let user = identity::user(&section(json!({})), Path::new("/no/such/place"), &mut findings);
    assert_eq!((user, findings.refusals.len()), (None, 0));
}

#[test]
fn the_hash_changes_with_what_matters_and_nothing_else() {
    let hash = |docker: serde_json::Value, workspace: &str, agents: &str, access, seccomp| {
        config_hash(&HashInput {
            docker: &section(docker),
            workspace: Path::new(workspace),
            agent_workspace: Path::new(agents),
            access,
            seccomp,
        })
    };
    let rw = WorkspaceAccess::Rw;
    let base = json!({ "image": "a", "dns": ["1.1.1.1", "9.9.9.9"], "env": { "A": "1", "B": "2" } });
    let one = hash(base.clone(), "/w", "/a", rw, None);
    assert_eq!(one.len(), 40, "SHA-1");
    let reordered =
        json!({ "env": { "B": "2", "A": "1" }, "dns": ["1.1.1.1", "9.9.9.9"], "image": "a", "user": null });
    assert_eq!(one, hash(reordered, "/w", "/a", rw, None), "neither order of keys nor what is not written");
    let mut swapped = base.clone();
    swapped["dns"] = json!(["9.9.9.9", "1.1.1.1"]);
    for (what, other) in [
        ("order of a list", hash(swapped, "/w", "/a", rw, None)),
        ("a value", hash(json!({ "image": "b" }), "/w", "/a", rw, None)),
        ("the workspace", hash(base.clone(), "/x", "/a", rw, None)),
        ("the agent's", hash(base.clone(), "/w", "/x", rw, None)),
        ("the access", hash(base.clone(), "/w", "/a", WorkspaceAccess::Ro, None)),
        ("the profile's content", hash(base, "/w", "/a", rw, Some("{}"))),
    ] {
        assert_ne!(one, other, "{what}");
    }
}

#[test]
fn what_is_written_twice_makes_the_same_container() {
    let host = Host::new();
    let bare = host.build(json!({}));
    let merged = host.build_from(&super::super::effective(&section(json!({}))), WorkspaceAccess::Rw).unwrap();
    assert_eq!(bare, merged);
}

#[test]
fn variables_that_look_like_secrets_are_left_out_and_odd_ones_noted() {
    let host = Host::new();
    let spec = host.build(json!({ "env": {
        "LANG": "C", "GITHUB_TOKEN": "t", "my_password": "p", "SSH_AUTH_SOCK": "/s", "LD_PRELOAD": "/x.so",
        "LONG": "x y".repeat(20_000), "BLOB": "QUJD".repeat(30), "PLAIN": "value"
    } }));
    let names: Vec<_> = spec.env.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["BLOB", "LANG", "LONG", "PLAIN"]);
    let notes: Vec<String> = spec.notes.iter().map(ToString::to_string).collect();
    for name in ["GITHUB_TOKEN", "my_password", "SSH_AUTH_SOCK", "LD_PRELOAD", "LONG", "BLOB"] {
        assert!(notes.iter().any(|note| note.contains(name)), "{name} is not noted in {notes:?}");
    }
    assert!(spec.notes.iter().all(|note| note.kind == NoteKind::Warning && note.key == "docker.env"));

    let docker = section(json!({ "env": { "LANG": "C", "LC_ALL": "C", "PLAIN": "value" } }));
    let request = ContainerRequest {
        env_rules: EnvRules::Strict,
        ..ContainerRequest::new(&docker, "k", &host.workspace)
    };
    let spec = build(&request).unwrap();
    let names: Vec<_> = spec.env.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["LANG", "LC_ALL"]);
    assert_eq!(spec.notes.len(), 1);
}

#[test]
fn capabilities_are_dropped_whatever_the_list_says() {
    let host = Host::new();
    for list in [json!([]), json!(["NET_RAW"])] {
        let spec = host.build(json!({ "capDrop": list }));
        assert_eq!(spec.cap_drop[0], "ALL");
        assert_eq!(spec.notes.len(), 1, "{:?}", spec.notes);
    }
}
