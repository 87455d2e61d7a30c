//! Files in containers of a real engine, whose image has `sh` and the coreutils and nothing else.

use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringfence_docker::bridge::{Bridge, BridgeOptions, ContainerExec, Missing, Parents};
use ringfence_docker::engine::containers::Extras;
use ringfence_docker::engine::{Endpoint, Engine};
use ringfence_docker::options::{ContainerRequest, build};
use ringfence_docker::testing::LEAST;
use ringfence_model::ErrorKind;
use ringfence_model::config::{DockerSection, WorkspaceAccess};
use ringfence_workspace::{FileKind, RemoveDepth};
use serde_json::json;

use super::support::{World, wait};

/// A running container with the project at `/workspace` and another directory, read-only, at `/agent`.
struct Inside {
    world: World,
    agent: PathBuf,
    engine: Engine,
    name: String,
    bridge: Bridge,
}

impl Inside {
    fn new(test: &str) -> Option<Self> {
        let world = World::new()?;
        let agent = world.project.with_file_name("agent");
        std::fs::create_dir(&agent).unwrap();
        let docker: DockerSection = serde_json::from_value(json!({ "image": LEAST })).unwrap();
        let request = ContainerRequest {
            agent_workspace: &agent,
            access: WorkspaceAccess::Ro,
            ..ContainerRequest::new(&docker, test, &world.project)
        };
        let spec = build(&request).unwrap();
        let endpoint = Endpoint::parse(&world.engine.host()).unwrap();
        let engine = wait(Box::pin(world.provider.engine(&endpoint))).unwrap();
        wait(Box::pin(async {
            engine.remove(&spec.name).await?;
            engine.create(&spec, &Extras::default()).await?;
            engine.start(&spec.name).await
        }))
        .unwrap();
        let exec = Arc::new(ContainerExec::new(engine.clone(), spec.name.as_str()));
        let bridge = Bridge::new(exec, spec.path_map(), BridgeOptions::default());
        Some(Self { agent, engine, name: spec.name, bridge, world })
    }

    fn host(&self, path: &str) -> PathBuf {
        self.world.project.join(path)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = wait(Box::pin(self.engine.remove(&self.name)));
    }
}

#[test]
fn files_of_a_container_are_read_and_written_byte_for_byte() {
    let Some(inside) = Inside::new("files_of_a_container_are_read_and_written_byte_for_byte") else { return };
    let bridge = &inside.bridge;
    wait(Box::pin(async {
        let bytes: Vec<u8> = (0..=255_u8).cycle().take(1 << 20).collect();
        bridge.write(Path::new("deep/-rf \n"), &bytes, Parents::Make).await.unwrap();
        assert_eq!(std::fs::read(inside.host("deep/-rf \n")).unwrap(), bytes);
        assert_eq!(bridge.read(Path::new("/workspace/deep/-rf \n")).await.unwrap(), bytes);
        bridge.write(Path::new("empty"), b"", Parents::Require).await.unwrap();
        assert_eq!(bridge.read(&inside.host("empty")).await.unwrap(), b"", "by the host's path");
        let owner = std::fs::metadata(&inside.world.project).unwrap();
        let made = std::fs::metadata(inside.host("empty")).unwrap();
        assert_eq!((made.uid(), made.gid()), (owner.uid(), owner.gid()), "as the workspace's owner");

        bridge.rename(Path::new("empty"), Path::new("a/b/c")).await.unwrap();
        bridge.mkdirp(Path::new("a/d")).await.unwrap();
        let listed = bridge.list(Path::new("a")).await.unwrap();
        let names: Vec<_> =
            listed.iter().map(|entry| (entry.name.to_str().unwrap(), entry.stat.kind)).collect();
        assert_eq!(names, [("b", FileKind::Directory), ("d", FileKind::Directory)]);
        assert_eq!(bridge.stat(Path::new("a/b/c")).await.unwrap().unwrap().size, 0);
        assert_eq!(bridge.stat(Path::new("none")).await.unwrap(), None);
        bridge.remove(Path::new("a"), RemoveDepth::Recursive, Missing::Fail).await.unwrap();
        assert!(!inside.host("a").exists());
    }));
}

#[test]
fn a_large_file_streams_through_the_engine_both_ways() {
    let Some(inside) = Inside::new("a_large_file_streams_through_the_engine_both_ways") else { return };
    const LARGE: u64 = 100 << 20;
    wait(Box::pin(async {
        use tokio::io::AsyncReadExt as _;
        let mut input = tokio::io::repeat(b'x').take(LARGE);
        inside.bridge.write_from(Path::new("large"), &mut input, LARGE, Parents::Make).await.unwrap();
        assert_eq!(std::fs::metadata(inside.host("large")).unwrap().len(), LARGE);
        let read = inside.bridge.read_to(Path::new("large"), &mut tokio::io::sink()).await.unwrap();
        assert_eq!(read, LARGE);
        // Half a file changes nothing, and leaves nothing.
        let mut half = tokio::io::repeat(b'y').take(LARGE / 2);
        let error =
            inside.bridge.write_from(Path::new("large"), &mut half, LARGE, Parents::Make).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Cancelled, "{error}");
        assert_eq!(inside.bridge.list(Path::new(".")).await.unwrap().len(), 1);
    }));
}

#[test]
fn no_link_leads_out_of_a_containers_mount() {
    let Some(inside) = Inside::new("no_link_leads_out_of_a_containers_mount") else { return };
    let bridge = &inside.bridge;
    std::fs::write(inside.agent.join("plan"), "read only").unwrap();
    std::fs::write(inside.host("real"), "inside").unwrap();
    for (name, to) in [
        ("etc", "/etc"),
        ("root", "/"),
        ("agents", "/agent"),
        ("up", ".."),
        ("inner", "real"),
        ("seen", "/workspace/real"),
    ] {
        symlink(to, inside.host(name)).unwrap();
    }
    wait(Box::pin(async {
        for path in ["etc/passwd", "root/etc/passwd", "agents/plan", "up/etc/passwd"] {
            assert_eq!(
                bridge.read(Path::new(path)).await.unwrap_err().kind,
                ErrorKind::PathTraversal,
                "{path}"
            );
        }
        let planted = bridge.write(Path::new("etc/planted"), b"x", Parents::Make).await.unwrap_err();
        assert_eq!(planted.kind, ErrorKind::PathTraversal);
        for path in ["inner", "seen"] {
            assert_eq!(bridge.read(Path::new(path)).await.unwrap(), b"inside", "{path}");
        }
        assert_eq!(bridge.read(Path::new("/agent/plan")).await.unwrap(), b"read only");
        let error = bridge.write(Path::new("/agent/plan"), b"x", Parents::Make).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Permission, "{error}");
    }));
    assert_eq!(std::fs::read_to_string(inside.agent.join("plan")).unwrap(), "read only");
}

#[test]
fn a_container_that_is_gone_is_an_error_and_no_wait() {
    let Some(inside) = Inside::new("a_container_that_is_gone_is_an_error_and_no_wait") else { return };
    wait(Box::pin(async {
        inside.engine.remove(&inside.name).await.unwrap();
        let error = inside.bridge.read(Path::new("x")).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
        assert!(error.message.contains(&inside.name), "{error}");
    }));
}
