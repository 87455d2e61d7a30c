//! Programs that run another program, whose words follow their own. One table.

use super::args::Options;
use super::unwrap::{Inner, joined};
use crate::value::Arg;

/// A program that runs the command that follows its options.
struct Wrapper {
    names: &'static [&'static str],
    /// Options with a value in the next word.
    options: Options,
    /// Operands before the command.
    operands: usize,
}

const fn plain(names: &'static [&'static str]) -> Wrapper {
    Wrapper { names, options: Options { short: "", long: &[] }, operands: 0 }
}

const fn with(names: &'static [&'static str], short: &'static str, long: &'static [&'static str]) -> Wrapper {
    Wrapper { names, options: Options { short, long }, operands: 0 }
}

const fn after(
    names: &'static [&'static str],
    short: &'static str,
    long: &'static [&'static str],
    operands: usize,
) -> Wrapper {
    Wrapper { names, options: Options { short, long }, operands }
}

const WRAPPERS: &[Wrapper] = &[
    plain(&[
        "nohup",
        "setsid",
        "builtin",
        "eatmydata",
        "unbuffer",
        "catchsegv",
        "dbus-run-session",
        "torsocks",
        "torify",
        "proxychains",
        "proxychains4",
        "rlwrap",
        "caffeinate",
        "ddtrace-run",
        "linux32",
        "linux64",
        "i386",
        "x86_64",
        "chronic",
        "ifne",
        "errno",
        "sem",
        "cpulimit",
        "softlimit",
        "setuidgid",
        "envuidgid",
        "xvfb-run",
        "choom",
        "pipesz",
        "daemonize",
        "daemon",
        "setlock",
        "dbus-launch",
        "aa-exec",
        "winpty",
        "tini",
        "dumb-init",
        "s6-setuidgid",
        "s6-env",
        "s6-setsid",
        "with-contenv",
        "envdir",
        "lockrun",
        "cronic",
        "detach",
        "nocache",
        "trickle",
        "tsocks",
        "prime-run",
        "optirun",
        "gamemoderun",
        "mangohud",
        "vglrun",
    ]),
    with(&["sshpass"], "pfdP", &[]),
    with(&["proot"], "rbwkqv0iSR", &["--rootfs", "--bind", "--cwd", "--kernel-release", "--qemu"]),
    with(&["chpst"], "uUbmdofpcrte/n", &[]),
    with(&["cgexec"], "g", &[]),
    with(&["tsp", "ts"], "LNDSE", &[]),
    with(&["tini-static"], "pse", &[]),
    with(&["dtach"], "neEr", &[]),
    with(&["abduco"], "nAcae", &[]),
    with(&["ssh-agent"], "aEPt", &[]),
    with(&["nice", "gnice"], "n", &["--adjustment"]),
    with(&["command"], "", &[]),
    with(&["exec"], "a", &[]),
    with(&["time", "gtime"], "fo", &["--format", "--output"]),
    with(&["stdbuf", "gstdbuf"], "ioe", &["--input", "--output", "--error"]),
    with(&["ionice"], "cnpPu", &["--class", "--classdata"]),
    with(&["sudo"], "ugpCDhRrtTU", &["--user", "--group", "--prompt", "--chdir", "--host"]),
    with(&["doas"], "uC", &[]),
    with(&["pkexec", "run0"], "uD", &["--user", "--chdir", "--unit"]),
    with(&["setpriv"], "", &["--reuid", "--regid", "--groups", "--inh-caps", "--bounding-set"]),
    with(
        &["numactl"],
        "NmCipl",
        &["--interleave", "--cpunodebind", "--physcpubind", "--membind", "--preferred"],
    ),
    with(&["prlimit"], "po", &["--pid", "--output"]),
    with(&["strace", "ltrace"], "abeEIoOpPsSuUnA", &["--trace", "--output", "--attach", "--user"]),
    with(&["valgrind", "heaptrack", "uftrace"], "", &[]),
    with(&["unshare"], "SGRw", &["--root", "--wd", "--setuid", "--setgid"]),
    with(&["nsenter"], "tSGNW", &["--target", "--setuid", "--setgid"]),
    with(&["systemd-run"], "upEMHPt", &["--unit", "--property", "--setenv", "--machine", "--uid", "--gid"]),
    with(&["systemd-inhibit"], "", &["--what", "--who", "--why", "--mode"]),
    with(&["screen"], "cSTtpsehL", &[]),
    with(&["fakeroot", "fakechroot"], "lsibfu", &["--lib", "--faked"]),
    with(&["firejail", "bwrap"], "", &["--bind", "--ro-bind", "--dev", "--proc", "--tmpfs", "--chdir"]),
    with(&["entr"], "s", &[]),
    after(&["timeout", "gtimeout"], "ks", &["--kill-after", "--signal"], 1),
    after(&["chrt"], "TPDp", &["--sched-runtime", "--sched-period", "--sched-deadline"], 1),
    after(&["taskset"], "p", &[], 1),
    after(&["chroot"], "", &["--userspec", "--groups"], 1),
    after(&["faketime"], "fp", &[], 1),
    after(&["setarch"], "", &[], 1),
    after(&["runcon"], "utrlc", &["--user", "--role", "--type", "--range"], 1),
    after(&["gosu", "su-exec"], "", &[], 1),
];

/// Programs whose sub-command runs what follows it: the sub-command and options with a value.
const SUBCOMMANDS: &[(&str, &[&str], Options)] = &[
    ("conda", &["run"], Options { short: "np", long: &["--name", "--prefix", "--cwd"] }),
    ("mamba", &["run"], Options { short: "np", long: &["--name", "--prefix", "--cwd"] }),
    ("micromamba", &["run"], Options { short: "np", long: &["--name", "--prefix", "--cwd"] }),
    ("pipenv", &["run"], Options { short: "", long: &[] }),
    ("poetry", &["run"], Options { short: "CP", long: &["--directory", "--project"] }),
    (
        "uv",
        &["run"],
        Options {
            short: "pm",
            long: &[
                "--with",
                "--python",
                "--project",
                "--directory",
                "--extra",
                "--group",
                "--env-file",
                "--module",
            ],
        },
    ),
    ("rye", &["run"], Options { short: "", long: &[] }),
    ("pdm", &["run"], Options { short: "p", long: &["--project"] }),
    ("hatch", &["run"], Options { short: "", long: &[] }),
    ("bundle", &["exec"], Options { short: "", long: &[] }),
    ("npm", &["exec", "x"], Options { short: "pc", long: &["--package", "--call"] }),
    ("pnpm", &["exec", "dlx"], Options { short: "", long: &[] }),
    ("yarn", &["exec", "dlx"], Options { short: "p", long: &[] }),
    ("mise", &["exec", "x"], Options { short: "", long: &[] }),
    ("asdf", &["exec"], Options { short: "", long: &[] }),
    (
        "perf",
        &["stat", "record", "trace", "mem", "sched", "lock"],
        Options { short: "ecFoprx", long: &["--event", "--output"] },
    ),
    ("coverage", &["run"], Options { short: "m", long: &["--source", "--omit", "--include", "--rcfile"] }),
    ("kubectl", &["exec"], Options { short: "cnf", long: &["--container", "--namespace"] }),
    ("rustup", &["run"], Options { short: "", long: &[] }),
    ("opam", &["exec"], Options { short: "", long: &["--switch"] }),
    ("flatpak-spawn", &["--host"], Options { short: "", long: &[] }),
    ("dotenv", &["run"], Options { short: "f", long: &["--file"] }),
    ("op", &["run"], Options { short: "", long: &["--env-file"] }),
    ("aws-vault", &["exec"], Options { short: "", long: &[] }),
    ("direnv", &["exec"], Options { short: "", long: &[] }),
];

/// Where the command begins behind a wrapper's options.
pub(crate) fn skip_options(args: &[Arg], options: Options) -> usize {
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        let prefix = arg.val.prefix();
        if arg.is("--") {
            return at + 1;
        }
        if !prefix.starts_with('-') || prefix.len() < 2 {
            return at;
        }
        at += 1;
        if prefix.starts_with("--") {
            let takes = options.long.iter().any(|long| super::args::abbreviates(prefix, long));
            if takes && !prefix.contains('=') {
                at += 1;
            }
        } else if let Some(position) = prefix[1..].find(|letter| options.short.contains(letter)) {
            let glued = prefix.len() > position + 2 || arg.val.segs().len() > 1;
            if !glued {
                at += 1;
            }
        }
    }
    at.min(args.len())
}

/// What `name` runs, if it is a wrapper.
pub(crate) fn inner(name: &str, args: &[Arg]) -> Option<Vec<Inner>> {
    if name == "command"
        && args.first().is_some_and(|arg| arg.known().is_some_and(|w| matches!(w, "-v" | "-V" | "-pv")))
    {
        return Some(vec![]);
    }
    if let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.names.contains(&name)) {
        let at = skip_options(args, wrapper.options) + wrapper.operands;
        let mut rest = args.get(at..).unwrap_or_default();
        if rest.first().is_some_and(|arg| arg.is("--")) {
            rest = &rest[1..];
        }
        return Some(if rest.is_empty() { vec![] } else { vec![Inner::command(rest.to_vec())] });
    }
    if let Some((_, subs, options)) = SUBCOMMANDS.iter().find(|(program, _, _)| *program == name) {
        let at = args.iter().position(|arg| arg.known().is_some_and(|word| subs.contains(&word)))?;
        let mut rest = &args[at + 1..];
        rest = rest.get(skip_options(rest, *options)..).unwrap_or_default();
        let operand = matches!(name, "kubectl" | "rustup" | "aws-vault" | "direnv");
        if operand && !rest.is_empty() {
            rest = &rest[1..];
        }
        if rest.first().is_some_and(|arg| arg.is("--")) {
            rest = &rest[1..];
        }
        return Some(if rest.is_empty() { vec![] } else { vec![Inner::command(rest.to_vec())] });
    }
    special(name, args)
}

fn special(name: &str, args: &[Arg]) -> Option<Vec<Inner>> {
    match name {
        "npx" | "bunx" | "uvx" => {
            let options = Options { short: "pc", long: &["--package", "--call", "--from", "--with"] };
            let at = skip_options(args, options);
            let mut inner = vec![];
            if let Some(rest) = args.get(at..).filter(|rest| !rest.is_empty()) {
                inner.push(Inner::command(rest.to_vec()));
            }
            inner.extend(option_value(args, "-c", "--call").map(Inner::shell));
            Some(inner)
        }
        "script" => {
            let text = option_value(args, "-c", "--command");
            Some(text.map(Inner::shell).into_iter().collect())
        }
        "flock" => {
            let at = skip_options(args, Options { short: "wE", long: &["--timeout", "--wait"] }) + 1;
            let rest = args.get(at..).unwrap_or_default();
            Some(match option_value(args, "-c", "--command") {
                Some(text) => vec![Inner::shell(text)],
                None if rest.is_empty() => vec![],
                None => vec![Inner::command(rest.to_vec())],
            })
        }
        "sg" | "su" | "runuser" | "newgrp" => {
            Some(option_value(args, "-c", "--command").map(Inner::shell).into_iter().collect())
        }
        "capsh" => {
            let at = args.iter().position(|arg| arg.is("--"))?;
            option_value(&args[at..], "-c", "--command").map(|text| vec![Inner::shell(text)])
        }
        "nix-shell" | "nix" => {
            let mut inner: Vec<Inner> =
                option_value(args, "--run", "--run").map(Inner::shell).into_iter().collect();
            if let Some(at) = args.iter().position(|arg| arg.is("-c") || arg.is("--command")) {
                let rest = &args[at + 1..];
                if name == "nix" && !rest.is_empty() {
                    inner.push(Inner::command(rest.to_vec()));
                } else {
                    inner.extend(rest.first().cloned().map(Inner::shell));
                }
            }
            Some(inner)
        }
        "hyperfine" => {
            let options = Options {
                short: "wmMrspPLDSCNu",
                long: &[
                    "--warmup",
                    "--runs",
                    "--min-runs",
                    "--max-runs",
                    "--export-json",
                    "--export-markdown",
                    "--style",
                ],
            };
            let mut inner: Vec<Inner> =
                super::args::operands(args, options).into_iter().cloned().map(Inner::shell).collect();
            inner.extend(option_value(args, "-p", "--prepare").map(Inner::shell));
            inner.extend(option_value(args, "-s", "--setup").map(Inner::shell));
            Some(inner)
        }
        "tmux" => {
            let at = args.iter().position(|arg| {
                arg.known().is_some_and(|word| {
                    matches!(
                        word,
                        "new"
                            | "new-session"
                            | "neww"
                            | "new-window"
                            | "split-window"
                            | "splitw"
                            | "run"
                            | "run-shell"
                            | "respawn-pane"
                            | "send-keys"
                            | "send"
                            | "if-shell"
                            | "pipe-pane"
                    )
                })
            })?;
            let rest = &args[at + 1..];
            let skip = skip_options(rest, Options { short: "cnstxyFeI", long: &[] });
            Some(rest.get(skip..).and_then(joined).map(Inner::shell).into_iter().collect())
        }
        "start-stop-daemon" => {
            let program =
                option_value(args, "-x", "--exec").or_else(|| option_value(args, "-a", "--startas"))?;
            let mut words = vec![program];
            if let Some(at) = args.iter().position(|arg| arg.is("--")) {
                words.extend(args[at + 1..].iter().cloned());
            }
            Some(vec![Inner::command(words)])
        }
        "ssh" | "slogin" | "autossh" => {
            Some(remote(args).and_then(joined).map(Inner::shell).into_iter().collect())
        }
        "docker" | "podman" | "nerdctl" => Some(container(args)),
        _ if name.starts_with("ld-linux") || name.starts_with("ld-musl") => {
            let at =
                skip_options(args, Options { short: "", long: &["--library-path", "--preload", "--argv0"] });
            let rest = args.get(at..).unwrap_or_default();
            let mut inner = vec![];
            if let Some(first) = rest.first() {
                inner.push(Inner::opaque(
                    "loader",
                    first.span,
                    "the dynamic loader starts a program under another name",
                ));
                inner.push(Inner::command(rest.to_vec()));
            }
            Some(inner)
        }
        _ => None,
    }
}

/// The words for the other machine, behind the options and the host of `ssh`.
fn remote(args: &[Arg]) -> Option<&[Arg]> {
    let at = skip_options(args, Options { short: "BbcDEeFIiJLlmOopQRSWw", long: &[] }) + 1;
    args.get(at..)
}

/// What the other machine does with standard input: a shell there runs it, another program keeps it.
pub(crate) fn remote_input(first: &Arg, args: &[Arg], input: &super::command::Input, inner: &mut Vec<Inner>) {
    let words = remote(args).unwrap_or_default();
    let is_null = input.file.as_ref().is_some_and(|file| file.is("/dev/null"));
    if !input.is_given() || is_null {
        return;
    }
    let command = words.first().and_then(Arg::known).unwrap_or_default();
    let name = crate::path::base_name(command.split_whitespace().next().unwrap_or_default());
    if words.is_empty() || crate::is_shell(name) && !command.contains(" -c") {
        if let Some(text) = &input.text {
            inner.push(Inner::shell(Arg::new(text.clone(), first.span)));
        }
        let message = "a shell on another machine runs what it reads";
        inner.push(Inner::opaque("pipe-to-shell", first.span, message));
    } else if input.text.as_ref().is_none_or(|text| text.known().is_none()) {
        inner.push(Inner::opaque("data-sent", first.span, "data is sent to another machine"));
    }
}

/// What `docker run IMAGE …` and `docker exec CONTAINER …` run inside.
fn container(args: &[Arg]) -> Vec<Inner> {
    let Some(at) =
        args.iter().position(|arg| arg.known().is_some_and(|word| matches!(word, "run" | "exec" | "create")))
    else {
        return vec![];
    };
    let rest = &args[at + 1..];
    let options = Options {
        short: "aceghlmpuvw",
        long: &[
            "--name",
            "--volume",
            "--mount",
            "--env",
            "--env-file",
            "--user",
            "--workdir",
            "--network",
            "--publish",
            "--entrypoint",
            "--platform",
            "--memory",
            "--cpus",
            "--label",
            "--hostname",
            "--add-host",
            "--gpus",
            "--shm-size",
            "--ulimit",
            "--cap-add",
            "--cap-drop",
            "--device",
            "--security-opt",
            "--tmpfs",
            "--restart",
            "--pid",
            "--ipc",
            "--userns",
        ],
    };
    let skip = skip_options(rest, options) + 1;
    match rest.get(skip..) {
        Some(command) if !command.is_empty() => vec![Inner::command(command.to_vec())],
        _ => vec![],
    }
}

/// The value of an option, glued or in the next word.
pub(crate) fn option_value(args: &[Arg], short: &str, long: &str) -> Option<Arg> {
    let mut iter = args.iter();
    while let Some(arg) = iter.next() {
        let prefix = arg.val.prefix();
        if arg.is(short) || arg.is(long) {
            return iter.next().cloned();
        }
        if let Some((name, value)) = arg.val.split_once('=')
            && super::args::abbreviates(name, long)
        {
            return Some(Arg::new(value, arg.span));
        }
        if prefix.starts_with("--") {
            if super::args::abbreviates(prefix, long) {
                return iter.next().cloned();
            }
            continue;
        }
        // `-qc text`, `-ctext`.
        let letter = short.trim_start_matches('-');
        if letter.len() == 1
            && prefix.starts_with('-')
            && prefix.len() > 2
            && let Some(position) = prefix[1..].find(letter)
        {
            let glued = arg.val.skip(position + 2);
            return if glued.segs().is_empty() {
                iter.next().cloned()
            } else {
                Some(Arg::new(glued, arg.span))
            };
        }
    }
    None
}

/// Whether `name` is in one of the tables.
pub(crate) fn is_known(name: &str) -> bool {
    WRAPPERS.iter().any(|wrapper| wrapper.names.contains(&name))
        || SUBCOMMANDS.iter().any(|(program, _, _)| *program == name)
        || special(name, &[]).is_some()
}
