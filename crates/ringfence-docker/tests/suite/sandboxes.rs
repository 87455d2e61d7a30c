//! Sandboxes that are containers.

use super::support::{World, run, text};

#[test]
fn a_shell_remembers_and_a_refusal_is_exact() {
    let Some(world) = World::new() else { return };
    std::fs::write(world.project.join(".env"), "canary").unwrap();
    let sandbox = world.sandbox();
    let result = run(&*sandbox, "cd /tmp && export NAME=fence && f() { echo \"$NAME in $PWD\"; }");
    assert_eq!(result.exit_code, 0, "{result:?}");
    assert_eq!(text(&run(&*sandbox, "f").stdout), "fence in /tmp\n");
    let result = run(&*sandbox, "cat /workspace/.env");
    assert_eq!(result.blocked_resource.as_deref(), Some("/workspace/.env"), "{result:?}");
    assert!(result.blocked && !text(&result.stdout).contains("canary"), "{result:?}");
    let result = run(&*sandbox, "echo made > /workspace/file; id -u");
    assert_eq!(std::fs::read_to_string(world.project.join("file")).unwrap(), "made\n", "{result:?}");
}
