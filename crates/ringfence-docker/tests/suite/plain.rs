//! Containers without a guest: shells of images that have little more than `sh`.

use std::sync::Arc;

use ringfence_docker::testing::{BARE, BUSYBOX, FULL, LEAST};
use ringfence_fence::Sandbox;
use ringfence_model::{ErrorKind, ExecEvent, ExecRequest, Layer, PathRule, Stdin};
use serde_json::json;

use super::support::{World, run, text, wait};

/// Both families of small shells, with and without programs beside them.
const IMAGES: [&str; 3] = [BARE, LEAST, BUSYBOX];

/// A sandbox of that image, as it comes by itself.
pub(super) fn sandbox(world: &World, image: &str) -> Arc<dyn Sandbox> {
    let sandbox = world.create(world.options(json!({ "image": image }))).unwrap();
    assert_eq!(sandbox.assurance().adapter, "docker/sh", "{image}");
    sandbox
}

fn said(sandbox: &dyn Sandbox, command: &str) -> String {
    let result = run(sandbox, command);
    assert_eq!(result.exit_code, 0, "{command}: {result:?}");
    text(&result.stdout)
}

#[test]
fn an_image_without_bash_is_used_by_its_own_sh_and_says_what_that_costs() {
    let Some(world) = World::new() else { return };
    for image in IMAGES {
        let sandbox = sandbox(&world, image);
        let result = run(&*sandbox, "echo made > /workspace/file; echo hi");
        assert_eq!(text(&result.stdout), "hi\n", "{image}: {result:?}");
        assert_eq!(std::fs::read_to_string(world.project.join("file")).unwrap(), "made\n");
        assert_eq!(result.sandbox, sandbox.assurance());
        assert!(result.sandbox.active && result.sandbox.layers.contains(&Layer::Container));
        let texts: Vec<&str> = result.sandbox.degraded.iter().map(|lost| lost.text.as_str()).collect();
        let degraded = texts.join("\n");
        for words in [format!("the image {image} has no /bin/bash").as_str(), "not certain", "exit codes"] {
            assert!(degraded.contains(words), "{degraded}");
        }
        wait(sandbox.dispose()).unwrap();
    }
    let mark = format!("label=ringfence.workspace={}", world.project.display());
    assert_eq!(world.docker(&["ps", "-aq", "--filter", &mark]), "", "nothing is left");
}

#[test]
fn a_guest_may_be_off_or_required() {
    let Some(world) = World::new() else { return };
    let mut options = world.options(json!({ "image": FULL }));
    options.provider_options.set("guest", json!("off"));
    let sandbox = world.create(options).unwrap();
    assert_eq!(sandbox.assurance().adapter, "docker/sh");
    assert!(sandbox.assurance().degraded[0].text.contains("guest is off"), "{:?}", sandbox.assurance());
    assert_eq!(said(&*sandbox, "ls -a / | grep -c ringfence || true"), "0\n", "no guest inside");
    let mut options = world.options(json!({ "image": LEAST }));
    options.provider_options.set("guest", json!("required"));
    let error = world.create(options).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    assert!(error.message.contains("has no /bin/bash"), "{error}");
    // A program that cannot be one.
    let mut options = world.options(json!({ "image": FULL }));
    options.provider_options.set("guestProgram", json!("/bin/true"));
    let sandbox = world.create(options).unwrap();
    assert!(sandbox.assurance().degraded[0].text.contains("/true is not"), "{:?}", sandbox.assurance());
}

#[test]
fn a_guest_that_does_not_start_leaves_the_work_to_the_images_shell() {
    let Some(world) = World::new() else { return };
    // A static program that is no guest: it says nothing and ends.
    let busybox = world.project.with_file_name("static");
    let source = busybox.with_extension("rs");
    std::fs::write(&source, "fn main() {}").unwrap();
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let built = std::process::Command::new(rustc)
        .args(["-Ctarget-feature=+crt-static", "-Crelocation-model=static", "-o"])
        .args([&busybox, &source])
        .status()
        .unwrap();
    assert!(built.success());
    for scope in [None, Some(format!("agent:unfit-{}", std::process::id()))] {
        let mut options = world.options(json!({ "image": FULL }));
        options.provider_options.set("guestProgram", json!(busybox));
        options.hooks.scope_key = scope.clone();
        for _ in 0..2 {
            let sandbox = world.create(options.clone()).unwrap();
            assert_eq!(sandbox.assurance().adapter, "docker/sh");
            assert_eq!(said(&*sandbox, "echo here"), "here\n");
            wait(sandbox.dispose()).unwrap();
        }
        if let Some(scope) = scope {
            let mark = format!("label=ringfence.sessionKey={scope}");
            let left = world.docker(&["ps", "-aq", "--filter", &mark]);
            assert_eq!(left.split_whitespace().count(), 1, "the second used the first's");
            world.docker(&["rm", "-f", &left]);
        }
    }
}

#[test]
fn directory_variables_functions_and_options_stay() {
    let Some(world) = World::new() else { return };
    for image in IMAGES {
        let sandbox = sandbox(&world, image);
        run(
            &*sandbox,
            "cd /tmp && export NAME=fence && f() { echo \"$NAME in $PWD\"; }; alias g=f; set -f; IFS=:",
        );
        assert_eq!(said(&*sandbox, "f; g; echo *"), "fence in /tmp\nfence in /tmp\n*\n", "{image}");
        // What a command does to its streams and to names that the shell itself uses stays its own business.
        run(
            &*sandbox,
            "exec >/tmp/elsewhere 2>&1; command() { echo no; }; printf() { echo no; }; read() { echo no; }; set -e; set -a",
        );
        assert_eq!(said(&*sandbox, "set +f; unset IFS; echo still; cd /workspace"), "still\n", "{image}");
        let other = wait(sandbox.shell("other")).unwrap();
        assert_eq!(said(&*other, "echo ${NAME-none} $PWD"), "none /workspace\n", "{image}");
        wait(other.dispose()).unwrap();
        assert_eq!(said(&*sandbox, "echo $NAME"), "fence\n", "{image}");
    }
}

#[test]
fn statuses_and_bytes_arrive_as_they_are() {
    let Some(world) = World::new() else { return };
    for image in IMAGES {
        let sandbox = sandbox(&world, image);
        for (command, status) in
            [("true", 0), ("false", 1), ("(exit 42)", 42), ("no-such-program-at-all", 127)]
        {
            assert_eq!(run(&*sandbox, command).exit_code, status, "{image}: {command}");
        }
        let result = run(&*sandbox, "printf 'a\\000b\\377\\n'; printf 'err' >&2");
        assert_eq!((result.stdout.as_slice(), result.stderr.as_slice()), (&b"a\0b\xff\n"[..], &b"err"[..]));
        let strange = "ぁ 'x' \"y\" \\n $HOME `no` \r\t\u{1f600} \u{81}\u{88}";
        let quoted = strange.replace('\'', "'\\''");
        assert_eq!(said(&*sandbox, &format!("printf %s '{quoted}'")), strange, "{image}");
        assert_eq!(said(&*sandbox, "for i in 1 2\ndo\n  echo \"$i\n\"\ndone # end"), "1\n\n2\n\n", "{image}");
        let argv = ExecRequest::argv(["printf", "%s|", "a b", "it's", "", "$x", "\n"]);
        let result = wait(sandbox.execute(argv, &|_| ())).unwrap();
        assert_eq!(text(&result.stdout), "a b|it's||$x|\n|", "{image}");
        let long = format!("x='{}'; echo ${{#x}}", "y".repeat(200_000));
        assert_eq!(said(&*sandbox, &long), "200000\n", "{image}");
    }
}

#[test]
fn input_is_empty_or_what_was_given() {
    let Some(world) = World::new() else { return };
    for image in IMAGES {
        let sandbox = sandbox(&world, image);
        assert_eq!(said(&*sandbox, "if read -r x; then echo got; else echo end; fi"), "end\n", "{image}");
        let given = |bytes: &[u8], command: &str| {
            let request = ExecRequest { stdin: Stdin::Bytes(bytes.to_vec()), ..ExecRequest::shell(command) };
            wait(sandbox.execute(request, &|_| ())).unwrap()
        };
        let result = given(b"one\ntwo", "read -r a; echo \"[$a]\"; cd /tmp; kept=yes");
        assert_eq!(text(&result.stdout), "[one]\n", "{image}: {result:?}");
        assert_eq!(
            said(&*sandbox, "echo $kept $PWD"),
            "yes /tmp\n",
            "{image}: a command with input is not a subshell"
        );
        // Without `rm` its name stays, and nothing else of it.
        let left = "for f in /tmp/.ringfence*; do if [ -s \"$f\" ]; then echo \"$f\"; fi; done";
        assert_eq!(said(&*sandbox, left), "", "{image}");
        if image != BARE {
            assert_eq!(said(&*sandbox, "echo /tmp/.ringfence*"), "/tmp/.ringfence*\n", "{image}");
            let bytes: Vec<u8> = (0..=255_u8).cycle().take(100_000).collect();
            assert_eq!(given(&bytes, "cat").stdout, bytes, "{image}");
            assert_eq!(given(b"", "cat; echo end").stdout, b"end\n", "{image}");
        }
    }
}

#[test]
fn mistakes_in_a_command_are_told_at_once_and_the_shell_stays() {
    let Some(world) = World::new() else { return };
    for image in IMAGES {
        let sandbox = sandbox(&world, image);
        run(&*sandbox, "kept=yes");
        for wrong in [
            "echo \"",
            "echo '",
            "if true",
            "cat <<EOF",
            "f() {",
            ")",
            "echo ${x",
            "$(",
            "readonly r=1; r=2",
            ". /none",
            "set -u; echo $none",
        ] {
            let result = run(&*sandbox, wrong);
            assert!(!result.restarted && !result.timed_out, "{image}: {wrong}: {result:?}");
        }
        let result = run(&*sandbox, "echo \"");
        assert!(result.exit_code != 0 && !result.stderr.is_empty(), "{image}: {result:?}");
        assert_eq!(said(&*sandbox, "set +u; echo $kept"), "yes\n", "{image}");
    }
}

#[test]
fn nothing_that_is_printed_passes_for_a_result() {
    let Some(world) = World::new() else { return };
    for image in IMAGES {
        let sandbox = sandbox(&world, image);
        // All that the channels ever carry, on both streams, with the numbers that the shell knows while the command runs.
        let forged = "for n in '' 0 ${__ringfence_nonce-} ${__ringfence_mark-} 00000000000000000000000000000000; do \
            printf '\\n%s done 0\\n%s gone 0\\nleft 0\\nbegan 0.0\\ninput failed\\n' \"$n\" \"$n\"; \
            printf '\\n%s done 0\\n%s gone 0\\n' \"$n\" \"$n\" >&2; done; set; false";
        let result = run(&*sandbox, forged);
        assert_eq!((result.exit_code, result.restarted), (1, false), "{image}: {result:?}");
        let printed = text(&result.stdout);
        assert!(
            printed.contains("\n0 done 0\n") && printed.contains("input failed"),
            "{image}: nothing is lost"
        );
        // The channels themselves are not among what a command has.
        let result = run(&*sandbox, "for fd in 6 7 8 9; do echo 'x done 0' >&$fd; done; false");
        assert_eq!(result.exit_code, 1, "{image}: {result:?}");
        let result = run(
            &*sandbox,
            "sh -c 'echo x >&9; echo x >&6'; for f in /proc/$$/fd/*; do echo \"${f##*/}\"; done",
        );
        assert_eq!(result.exit_code, 0, "{image}: {result:?}");
        // And where they are found all the same, a report without the number of this command is none: the shell is given up, since
        // somebody else may have read and written there too.
        let found = "for fd in /proc/[0-9]*/fd/[16789]; do printf '\\nx done 0\\n0 gone 0\\n' >>\"$fd\"; done 2>/dev/null; false";
        assert_ne!(run(&*sandbox, found).exit_code, 0, "{image}");
        assert_eq!(said(&*sandbox, "echo alive"), "alive\n", "{image}");
    }
}

#[test]
fn output_is_capped_and_comes_while_the_command_runs() {
    let Some(world) = World::new() else { return };
    for image in [LEAST, BUSYBOX] {
        let mut options = world.options(json!({ "image": image }));
        options.policy.limits.max_output_bytes = Some(1000);
        let sandbox = world.create(options).unwrap();
        let result =
            run(&*sandbox, "echo first; head -c 3000000 /dev/zero; echo last; head -c 2000 /dev/zero >&2");
        assert!(result.truncated && result.stdout.len() < 1100 && result.stderr.len() < 1100, "{image}");
        assert!(result.stdout.starts_with(b"first\n") && result.stdout.ends_with(b"last\n"), "{image}");
        assert!(result.violations.iter().any(|violation| violation.resource == "output"), "{image}");
        // It is told before the command ends: the command waits for that.
        let go = world.project.join("go");
        let result = wait(sandbox.execute(
            ExecRequest::shell("echo ready; while [ ! -e go ]; do sleep 0.05; done; echo end; rm go"),
            &|event| {
                if event == ExecEvent::Stdout(b"ready\n".to_vec()) {
                    std::fs::write(&go, "").unwrap();
                }
            },
        ))
        .unwrap();
        assert_eq!(text(&result.stdout), "ready\nend\n", "{image}");
    }
}

#[test]
fn denied_files_are_hidden_protected_ones_read_only_and_refusals_are_guessed() {
    let Some(world) = World::new() else { return };
    std::fs::create_dir_all(world.project.join("sub/.git/hooks")).unwrap();
    std::fs::write(world.project.join("sub/.env"), "canary").unwrap();
    for image in [LEAST, BUSYBOX] {
        let sandbox = sandbox(&world, image);
        let result = run(
            &*sandbox,
            "cat sub/.env; echo x > sub/.env; mv sub/.env sub/free; cat sub/free; ls sub/.git/hooks",
        );
        assert!(!text(&result.stdout).contains("canary"), "{image}: {result:?}");
        assert_eq!(std::fs::read_to_string(world.project.join("sub/.env")).unwrap(), "canary");
        let result = run(&*sandbox, "echo evil > sub/.git/hooks/pre-commit");
        let violation = &result.violations[0];
        assert_eq!(violation.resource, "/workspace/sub/.git/hooks/pre-commit", "{image}: {result:?}");
        assert!(!violation.certain && result.blocked, "{image}");
        assert!(!world.project.join("sub/.git/hooks/pre-commit").exists(), "{image}");
    }
}

#[test]
fn a_directory_and_variables_are_for_one_command_and_values_of_the_host_stay_out() {
    let Some(world) = World::new() else { return };
    std::fs::create_dir(world.project.join("a b")).unwrap();
    for image in IMAGES {
        let mut options = world.options(json!({ "image": image, "env": { "COLOUR": "green; echo no", "PATH": "/opt/own:/usr/bin:/bin" } }));
        let host = [
            ("HOME", "/home/ada"),
            ("PATH", "/host/bin"),
            ("SECRET_TOKEN", "canary"),
            ("LANG", "C.UTF-8"),
            ("LD_PRELOAD", "/evil.so"),
            ("MINE", "canary"),
        ];
        options.environment = host.map(|(name, value)| (name.into(), value.into())).into();
        options.provider_options.set("workdirFallback", json!(true));
        let sandbox = world.create(options).unwrap();
        let seen = said(&*sandbox, "set; export");
        for absent in ["canary", "/host/bin", "/home/ada", "evil.so"] {
            assert!(!seen.contains(absent), "{image}: {absent}: {seen}");
        }
        let path = said(&*sandbox, "echo \"$PATH|$COLOUR|$HOME\"");
        assert!(
            path.starts_with("/opt/own:/usr/bin:/bin") && path.ends_with("|green; echo no|/tmp\n"),
            "{image}: {path}"
        );
        let mut there = ExecRequest::shell("echo \"$PWD $ONE\"; exit 3");
        there.cwd = Some(world.project.join("a b"));
        there.env.insert("ONE".to_owned(), "$(no) 'x'".to_owned());
        let result = wait(sandbox.execute(there, &|_| ())).unwrap();
        assert_eq!(
            (text(&result.stdout).as_str(), result.exit_code),
            ("/workspace/a b $(no) 'x'\n", 3),
            "{image}"
        );
        assert_eq!(said(&*sandbox, "echo $PWD ${ONE-none}"), "/workspace none\n", "{image}");
        // One that is not there: the command runs where the shell is, and that is said.
        let nowhere = ExecRequest { cwd: Some("/no such place".into()), ..ExecRequest::shell("pwd") };
        let result = wait(sandbox.execute(nowhere, &|_| ())).unwrap();
        assert_eq!(text(&result.stdout), "/workspace\n", "{image}");
        let warning = result.sandbox.degraded.last().unwrap();
        assert!(warning.text.contains("/no such place cannot be used"), "{image}: {warning}");
    }
    // Unless that was asked for, it does not run at all.
    let sandbox = sandbox(&world, BARE);
    let nowhere =
        ExecRequest { cwd: Some("/no such place".into()), ..ExecRequest::shell("echo x > /workspace/ran") };
    let error = wait(sandbox.execute(nowhere, &|_| ())).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Validation, "{error}");
    assert!(!world.project.join("ran").exists());
    assert_eq!(said(&*sandbox, "echo next"), "next\n");
}

#[test]
fn shells_begin_as_in_a_login_with_the_containers_path_first() {
    let Some(world) = World::new() else { return };
    for (image, adapter) in [(LEAST, "docker/sh"), (FULL, "docker/guest")] {
        let profile = "PATH=/profile; export GREETING=hello; echo noise; echo noise >&2; read x";
        let name = format!("ringfence-profile-{}", std::process::id());
        let tag = format!("{name}:1");
        let write = format!("echo '{profile}' > /etc/profile");
        world.docker(&["run", "--name", &name, "--network", "none", image, "sh", "-c", &write]);
        world.docker(&["commit", &name, &tag]);
        world.docker(&["rm", &name]);
        let path = "/opt/$(no) own:/usr/bin:/bin";
        let sandbox = world.create(world.options(json!({ "image": tag, "env": { "PATH": path } }))).unwrap();
        let first = run(&*sandbox, "echo \"$GREETING $PATH\"");
        let again = run(&*sandbox, "exit 1").restarted.then(|| run(&*sandbox, "echo \"$GREETING $PATH\""));
        wait(sandbox.dispose()).unwrap();
        world.docker(&["rmi", &tag]);
        assert_eq!(first.sandbox.adapter, adapter);
        assert_eq!(text(&first.stdout), format!("hello {path}:/profile\n"), "{adapter}: {first:?}");
        assert_eq!(again.map(|again| again.stdout), Some(first.stdout), "{adapter}: a new shell too");
    }
}

#[test]
fn a_kept_container_whose_rules_are_others_is_made_anew_unless_it_is_in_use() {
    let Some(world) = World::new() else { return };
    let ledger = world.project.with_file_name("ledger.db");
    std::fs::write(world.project.join("plain.txt"), "canary").unwrap();
    let options = |denied: &[&str]| {
        let mut options = world.options(json!({ "image": LEAST }));
        options.hooks.scope_key = Some(format!("agent:rules-{}", std::process::id()));
        options.provider_options.set("ledger", json!(ledger));
        for name in denied {
            options.policy.filesystem.deny.push(PathRule::built_in(world.project.join(name)));
        }
        options
    };
    let container = || {
        let mark = format!("label=ringfence.workspace={}", world.project.display());
        world.docker(&["ps", "-aq", "--no-trunc", "--filter", &mark])
    };
    let first = world.create(options(&[])).unwrap();
    assert_eq!(said(&*first, "cat plain.txt"), "canary");
    let made = container();
    // In use: it stays, and that is said.
    let second = world.create(options(&["plain.txt"])).unwrap();
    assert_eq!(container(), made);
    assert!(second.assurance().degraded.iter().any(|lost| lost.text.contains("ringfence recreate")));
    wait(first.dispose()).unwrap();
    wait(second.dispose()).unwrap();
    // The same rules: the same container.
    wait(world.create(options(&[])).unwrap().dispose()).unwrap();
    assert_eq!(container(), made);
    // Nobody uses it.
    world.docker(&["stop", "-t", "0", &made]);
    let third = world.create(options(&["plain.txt"])).unwrap();
    assert_eq!(said(&*third, "cat plain.txt"), "");
    assert_ne!(container(), made);
    wait(third.dispose()).unwrap();
    world.docker(&["rm", "-f", &container()]);
}
