//! Ways out of a container that must lead nowhere.

use serde_json::json;

use super::support::{GUEST, World, run, text};

#[test]
fn neither_the_engine_nor_the_guest_can_be_reached_from_inside() {
    let Some(world) = World::new() else { return };
    let sandbox = world.sandbox();
    let socket = world.engine.socket();
    let result = run(
        &*sandbox,
        &format!(
            "find / -name '*.sock' -o -name docker.sock 2>/dev/null; ls {} 2>&1; \
             echo x >> /.ringfence-guest; cp /bin/true /.ringfence-guest; rm -f /.ringfence-guest; mv /.ringfence-guest /tmp/g; \
             for p in /proc/[0-9]*; do kill -9 ${{p#/proc/}} 2>/dev/null; echo x > $p/mem; cat $p/environ; done 2>/dev/null; echo end",
            socket.display()
        ),
    );
    let said = text(&result.stdout);
    assert!(!said.lines().any(|line| line.ends_with(".sock")), "{said}");
    let guest = std::fs::metadata(GUEST).unwrap();
    assert!(guest.is_file() && guest.len() > 1_000_000, "the host's program is as it was");
    // Whatever became of that shell, the guest lives and serves the next.
    assert_eq!(text(&run(&*sandbox, "echo alive").stdout), "alive\n");
}

#[test]
fn links_and_mounts_of_the_workspace_lead_to_the_containers_own_files() {
    let Some(world) = World::new() else { return };
    let secret = world.project.with_file_name("secret");
    std::fs::write(&secret, "canary").unwrap();
    std::os::unix::fs::symlink(&secret, world.project.join("link")).unwrap();
    std::os::unix::fs::symlink("/etc", world.project.join("etc")).unwrap();
    std::os::unix::fs::symlink("../..", world.project.join("up")).unwrap();
    let sandbox = world.sandbox();
    let result = run(
        &*sandbox,
        &format!(
            "cat link up/secret ../secret {0} /proc/1/root{0} /proc/self/cwd/../secret; echo evil > link; echo evil > etc/planted; \
             mount --bind / /tmp; unshare -Ur id; mknod /tmp/disk b 254 0; chroot / id; \
             echo evil > /proc/sys/kernel/core_pattern; echo b > /proc/sysrq-trigger; cat /proc/kcore | head -c 1; true",
            secret.display()
        ),
    );
    assert!(!text(&result.stdout).contains("canary"), "{result:?}");
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "canary");
    assert!(!std::path::Path::new("/etc/planted").exists());
}

#[test]
fn what_would_weaken_a_container_is_refused_before_anything_is_made() {
    let Some(world) = World::new() else { return };
    let socket = world.engine.socket();
    let project = world.project.display();
    for (docker, words) in [
        (json!({ "binds": [format!("{}:/run/docker.sock", socket.display())] }), "binds"),
        (json!({ "binds": ["/etc:/host-etc"], "dangerouslyAllowExternalBindSources": true }), "/etc"),
        (json!({ "binds": ["/:/host"], "dangerouslyAllowExternalBindSources": true }), "binds"),
        (json!({ "binds": [format!("{project}:/workspace/again")] }), "workspace"),
        (json!({ "network": "host" }), "network"),
        (json!({ "network": "container:other" }), "network"),
        (json!({ "seccompProfile": "unconfined" }), "seccomp"),
        (json!({ "apparmorProfile": "Unconfined" }), "apparmor"),
    ] {
        let error = world.create(world.options(docker.clone())).unwrap_err();
        assert!(error.chain().to_lowercase().contains(words), "{docker}: {error:?}");
    }
    for unknown in
        [json!({ "privileged": true }), json!({ "capAdd": ["ALL"] }), json!({ "devices": ["/dev/sda"] })]
    {
        assert!(world.create(world.options(unknown.clone())).is_err(), "{unknown}");
    }
    let mark = format!("label=ringfence.workspace={project}");
    assert_eq!(world.docker(&["ps", "-aq", "--filter", &mark]), "", "nothing was made");
}
