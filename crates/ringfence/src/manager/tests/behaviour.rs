//! Sandboxes: made when, with which policy, and what stays.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ringfence_model::{Access, Error, ErrorKind, ExecRequest, Grant, GrantScope, PathPattern, PathRule};
use serde_json::json;

use super::{Room, setup};
use crate::manager::{Manager, ManagerOptions, built_in};
use crate::unsandboxed;

const SESSION: &str = "agent:main:chat";

fn grant(path: &str) -> Grant {
    Grant { path: path.into(), access: Access::Read, scope: GrantScope::Session, recursive: false }
}

fn counted() -> Room {
    Room::new(json!({ "provider": "counting", "scope": "session" , "workspaceAccess": "rw"}))
}

#[tokio::test]
async fn nothing_is_made_before_it_is_needed_and_then_once() {
    let room = counted();
    assert_eq!(room.provider.created(), 0);
    let first = room.manager.sandbox(SESSION).await.unwrap();
    let second = room.manager.sandbox(SESSION).await.unwrap();
    assert!(Arc::ptr_eq(&first, &second));
    assert_eq!(room.provider.created(), 1);
    assert!(room.warnings.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_failed_creation_reaches_the_caller_and_the_next_one_tries_again() {
    let room = counted();
    room.provider.0.failing.store(1, Ordering::SeqCst);
    let error = room.manager.sandbox(SESSION).await.unwrap_err();
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::SandboxDenied, "made to fail"));
    assert_eq!(room.provider.live(), 0);
    room.manager.sandbox(SESSION).await.unwrap();
    assert_eq!(room.provider.created(), 1);
}

#[tokio::test]
async fn an_unknown_provider_is_named_with_the_known_ones_at_first_use() {
    let room = Room::new(json!({ "provider": "dokcer" }));
    let error = room.manager.sandbox(SESSION).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    let known =
        if cfg!(feature = "docker") { "counting, docker, local, none" } else { "counting, local, none" };
    assert_eq!(error.message, format!("unknown sandbox provider \"dokcer\"; known providers: {known}"));
}

#[tokio::test]
async fn grants_are_kept_across_rebuilds_and_forgotten_at_the_end() {
    let room = counted();
    room.manager.grant(SESSION, grant("/early")).await.unwrap();
    assert_eq!(room.provider.created(), 0, "there is nothing to rebuild yet");
    let first = room.manager.sandbox(SESSION).await.unwrap();
    room.manager.grant(SESSION, grant("/late")).await.unwrap();
    room.manager.grant(SESSION, grant("/late")).await.unwrap();
    assert_eq!((room.provider.created(), room.provider.destroyed()), (2, 1), "the same grant rebuilds once");
    assert!(!first.is_alive());
    room.manager.rebuild(SESSION).await.unwrap();
    let granted: Vec<Vec<PathBuf>> = room
        .provider
        .0
        .options
        .lock()
        .unwrap()
        .iter()
        .map(|options| options.policy.filesystem.grants.iter().map(|grant| grant.path.clone()).collect())
        .collect();
    let (early, both) = (vec![PathBuf::from("/early")], vec![PathBuf::from("/early"), "/late".into()]);
    assert_eq!(granted, [early, both.clone(), both]);
    assert!(room.manager.grants("agent:main:other").is_empty(), "of this session only");
    room.manager.shutdown().await.unwrap();
    room.manager.shutdown().await.unwrap();
    assert_eq!(room.provider.destroyed(), 3);
    assert!(room.manager.grants(SESSION).is_empty());
    let again = room.manager.sandbox(SESSION).await.unwrap();
    assert_eq!(again.id(), "counting-3");
}

#[tokio::test]
async fn a_sandbox_that_is_gone_is_made_again_and_nothing_runs_twice() {
    let room = counted();
    let run = |text: &'static str| room.manager.execute(SESSION, ExecRequest::shell(text), &|_| ());
    let first = run("anything").await.unwrap();
    assert_eq!((first.stdout.as_slice(), first.restarted), (&b"counting-0"[..], false));
    let second = run("gone").await.unwrap();
    assert_eq!((second.stdout.as_slice(), second.restarted), (&b"counting-1"[..], true));
    assert_eq!(room.provider.0.ran.load(Ordering::SeqCst), 2);
    assert_eq!(run("broken").await.unwrap_err().kind, ErrorKind::Internal);
    assert_eq!(room.provider.0.ran.load(Ordering::SeqCst), 3, "what may have run is not run again");
    assert_eq!(room.provider.created(), 2);
}

#[tokio::test]
async fn switched_off_means_no_fence_and_a_warning() {
    let room = Room::new(json!({ "provider": "counting", "enabled": false }));
    let sandbox = room.manager.sandbox(SESSION).await.unwrap();
    assert!(sandbox.id().starts_with("unsandboxed-"), "{}", sandbox.id());
    assert_eq!(*room.warnings.lock().unwrap(), [unsandboxed::WARNING]);
    assert!(room.manager.context(SESSION).await.unwrap().is_none());
    room.manager.grant(SESSION, grant("/x")).await.unwrap();
    assert_eq!(room.manager.grants(SESSION), [grant("/x")]);
    let request = ExecRequest::shell("pwd");
    let result = room.manager.execute(SESSION, request, &|_| ()).await.unwrap();
    assert_eq!(result.stdout, format!("{}\n", room.project.display()).into_bytes());
    assert!(!result.sandbox.active);
    let request = ExecRequest::argv(["no-such-program"]);
    let error = room.manager.execute(SESSION, request, &|_| ()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound, "passed on, and nothing is rebuilt");
    assert_eq!(room.provider.created(), 0);
}

#[tokio::test]
async fn one_command_without_a_fence_leaves_the_sandbox_alone() {
    let room = counted();
    let sandbox = room.manager.sandbox(SESSION).await.unwrap();
    let request = ExecRequest::shell("echo out");
    let result = room.manager.execute_unsandboxed(SESSION, request, &|_| ()).await.unwrap();
    assert_eq!((result.stdout.as_slice(), result.sandbox.active), (&b"out\n"[..], false));
    assert_eq!(room.warnings.lock().unwrap().len(), 1);
    assert!(Arc::ptr_eq(&sandbox, &room.manager.sandbox(SESSION).await.unwrap()));
}

#[tokio::test]
async fn the_main_session_may_stay_outside() {
    let room = Room::new(json!({ "provider": "counting", "sessions": "non-main", "workspaceAccess": "rw" }));
    assert!(room.manager.context("main").await.unwrap().is_none());
    assert!(room.manager.context(SESSION).await.unwrap().is_some());
    assert!(room.manager.sandbox("main").await.unwrap().id().starts_with("unsandboxed-"));
    assert_eq!(
        room.manager.scope_key(SESSION).as_deref(),
        Some("agent:main"),
        "shared by the agent's sessions"
    );
    assert_eq!(room.manager.scope_key("main"), None);
}

#[tokio::test]
async fn a_copy_has_sandboxes_and_grants_of_its_own() {
    let room = counted();
    let sandbox = room.manager.sandbox(SESSION).await.unwrap();
    room.manager.grant("agent:main:other", grant("/x")).await.unwrap();
    let copy = room.manager.isolated_copy();
    assert!(copy.grants("agent:main:other").is_empty());
    assert!(!Arc::ptr_eq(&sandbox, &copy.sandbox(SESSION).await.unwrap()));
    copy.shutdown().await.unwrap();
    assert!(sandbox.is_alive());
    assert_eq!(room.provider.live(), 1);
}

#[tokio::test]
async fn what_a_sandbox_sees_of_the_workspace() {
    for access in ["rw", "ro", "none"] {
        let room = Room::new(json!({
            "provider": "counting", "scope": "session", "workspaceAccess": access,
        }));
        std::fs::write(room.project.join("AGENTS.md"), "hello").unwrap();
        let (_, place) = room.manager.context(SESSION).await.unwrap().unwrap();
        let options = room.provider.0.options.lock().unwrap().pop().unwrap();
        let may = |path: &std::path::Path, access| options.policy.filesystem.decide(path, access).allowed();
        let file = |of: &std::path::Path| of.join("file");
        let files = &options.policy.filesystem;
        let named =
            |rules: &[PathRule]| rules.iter().any(|rule| rule.path == PathPattern::literal(&room.project));
        let seen = (named(&files.allow_read), named(&files.allow_write));
        match access {
            "rw" => assert_eq!((seen, &place.cwd), ((false, true), &room.project)),
            "ro" => assert_eq!((seen, &place.cwd), ((true, false), &room.project)),
            _ => {
                assert_eq!(seen, (false, false));
                let root = room.home.join(".ringfence/sandboxes");
                assert_eq!(place.cwd.parent(), Some(root.as_path()), "a directory of its own");
                assert!(may(&file(&place.cwd), Access::Write), "which it may write");
                assert!(!may(&file(&root.join("another")), Access::Write), "and no other's");
                assert_eq!(std::fs::read_to_string(place.cwd.join("AGENTS.md")).unwrap(), "hello");
            }
        }
        assert_eq!(options.cwd, place.cwd);
    }
}

#[tokio::test]
async fn skills_come_along_and_what_does_not_is_told() {
    let room = Room::new(json!({ "provider": "counting", "scope": "session", "workspaceAccess": "none" }));
    let skills = room.project.join("skills/draw");
    std::fs::create_dir_all(&skills).unwrap();
    std::fs::write(skills.join("SKILL.md"), "first").unwrap();
    let (_, place) = room.manager.context(SESSION).await.unwrap().unwrap();
    let copy = place.cwd.join("skills/draw/SKILL.md");
    assert_eq!(std::fs::read_to_string(&copy).unwrap(), "first");

    std::fs::write(skills.join("SKILL.md"), "second").unwrap();
    room.manager.rebuild(SESSION).await.unwrap();
    assert_eq!(std::fs::read_to_string(&copy).unwrap(), "second", "as they are when a sandbox is made");
    assert!(room.warnings.lock().unwrap().is_empty());

    // A file that may have another name outside is not brought along; the sandbox is made all the same.
    std::fs::hard_link(skills.join("SKILL.md"), room.project.join("other name")).unwrap();
    room.manager.rebuild(SESSION).await.unwrap();
    let warnings = room.warnings.lock().unwrap();
    assert!(warnings.len() == 1 && warnings[0].contains("skills are not in the sandbox"), "{warnings:?}");
}

#[tokio::test]
async fn what_all_share_is_the_root_itself() {
    let room = Room::new(json!({ "provider": "counting", "scope": "shared", "workspaceAccess": "none",
        "workspaceRoot": "~/rooms" }));
    let (_, place) = room.manager.context(SESSION).await.unwrap().unwrap();
    assert_eq!(place.cwd, room.home.join("rooms"));
}

#[tokio::test]
async fn an_agent_may_have_a_project_of_its_own() {
    let room = counted();
    let other = tempfile::tempdir().unwrap();
    let project = other.path().canonicalize().unwrap();
    let common = setup(&room.project, &room.home, json!({ "provider": "counting", "workspaceAccess": "rw" }));
    let own = setup(&project, &room.home, json!({ "provider": "counting", "workspaceAccess": "rw" }));
    let options = ManagerOptions::new(&common, |_| ());
    let mut registry = built_in().unwrap();
    let provider = room.provider.clone();
    registry.register("counting", move || Ok(Arc::new(provider.clone()))).unwrap();
    let manager = Manager::new(common, registry, options).with_agent("Work", own);
    manager.sandbox("agent:work:chat").await.unwrap();
    manager.sandbox("agent:play:chat").await.unwrap();
    let cwds: Vec<PathBuf> =
        room.provider.0.options.lock().unwrap().iter().map(|options| options.cwd.clone()).collect();
    assert_eq!(cwds, [project, room.project]);
}

#[test]
fn the_built_in_providers_can_be_listed_again_and_again_and_nothing_added_stays() {
    let kinds = || built_in().unwrap().kinds().map(str::to_owned).collect::<Vec<_>>();
    let first = kinds();
    let mut registry = built_in().unwrap();
    registry.register("mine", || Err(Error::new(ErrorKind::SandboxNotAvailable, "first"))).unwrap();
    registry.register("mine", || Err(Error::new(ErrorKind::SandboxNotAvailable, "second"))).unwrap();
    assert_eq!(registry.get("mine").unwrap_err().message, "second", "the later one counts");
    assert_eq!(registry.kinds().count(), first.len() + 1);
    assert_eq!(kinds(), first, "there is nothing to reset");
}
