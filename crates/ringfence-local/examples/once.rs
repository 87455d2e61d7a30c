//! Runs one command in the native fence with a minimal policy.
use ringfence_fence::CreateOptions;
use ringfence_local::native::{Native, Streams};
use ringfence_model::{ExecRequest, PathRule, Policy};
use std::os::fd::AsFd;
fn main() {
    let cwd = std::env::current_dir().unwrap();
    let mut policy = Policy::default();
    policy.filesystem.allow_write.push(PathRule::built_in(cwd.as_path()));
    policy.filesystem.deny.push(PathRule::built_in("**/.env"));
    policy.filesystem.deny.push(PathRule::built_in("/etc/passwd"));
    policy.filesystem.deny.push(PathRule::built_in("/root/.ssh"));
    policy.filesystem.protect.push(PathRule::built_in("/root/.bashrc"));
    policy.filesystem.protect.push(PathRule::built_in("**/.git/hooks"));
    policy.filesystem.protect.push(PathRule::built_in("**/.git/config"));
    let native = Native::prepare(CreateOptions {
        cwd,
        policy,
        environment: std::env::vars_os().collect(),
        provider_options: serde_json::Value::Null,
    })
    .unwrap();
    let request = ExecRequest::argv(std::env::args_os().skip(1));
    let (i, o, e) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    let result = native.run(&request, Streams::Inherit([i.as_fd(), o.as_fd(), e.as_fd()]), &|event| {
        eprintln!("  \\x1b[2m{event:?}\\x1b[0m")
    });
    match result {
        Ok(result) => std::process::exit(result.exit_code),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(125)
        }
    }
}
