//! Environment, exit codes, bytes, and where the command starts.

use crate::conformance::case::Expect::{
    NoViolation, NotBlocked, Stderr, StderrHas, Stdout, StdoutHas, StdoutLacks, Truncated,
};
use crate::conformance::case::{Case, shell};

pub(super) fn cases() -> Vec<Case> {
    [environment(), exit_codes(), bytes(), directories()].concat()
}

fn environment() -> Vec<Case> {
    vec![
        shell("environment/secrets-are-dropped", "env")
            .variable("MY_API_KEY", "canary-1")
            .variable("AWS_SECRET_ACCESS_KEY", "canary-2")
            .variable("GITHUB_TOKEN", "canary-3")
            .variable("DATABASE_URL", "canary-4")
            .variable("SSH_AUTH_SOCK", "/canary-5")
            .expect(StdoutLacks("canary")),
        shell("environment/unlisted-is-dropped", "env")
            .variable("MY_SETTING", "canary")
            .expect(StdoutLacks("canary")),
        shell("environment/loader-and-shell-hooks-are-dropped", "env")
            .variable("LD_PRELOAD", "/canary.so")
            .variable("BASH_ENV", "/canary.sh")
            .variable("PROMPT_COMMAND", "canary")
            .expect(StdoutLacks("canary")),
        shell("environment/pass-through", "echo $MY_SETTING $LANG")
            .variable("MY_SETTING", "mine")
            .variable("LANG", "C.UTF-8")
            .policy(|policy, _| policy.environment.pass.push("MY_*".to_owned()))
            .prints("mine C.UTF-8\n"),
        shell("environment/set", "echo \"$COLOUR\"")
            .policy(|policy, _| {
                policy.environment.set.insert("COLOUR".to_owned(), "a b\n$x".to_owned());
            })
            .prints("a b\n$x\n"),
        shell(
            "environment/basics",
            "echo \"$HOME|$PWD\"; test -d \"$TMPDIR\" && touch \"$TMPDIR/x\" && command -v ls",
        )
        .expect(StdoutHas("{home}|{project}")),
    ]
}

fn exit_codes() -> Vec<Case> {
    vec![
        shell("exit/zero", "true").exits(0).expect(NotBlocked),
        shell("exit/one", "false").exits(1).expect(NotBlocked).expect(NoViolation),
        shell("exit/any", "exit 42").exits(42),
        shell("exit/255", "exit 255").exits(255),
        shell("exit/signal", "kill -SEGV $$").exits(139),
        shell("exit/not-found-in-the-shell", "no-such-program-at-all").exits(127).expect(NotBlocked),
        shell("exit/not-executable-in-the-shell", "./plain")
            .file("project/plain", "x")
            .exits(126)
            .expect(NotBlocked),
        shell("exit/program-not-found", "")
            .argv(&["no-such-program-at-all"])
            .refused("no-such-program-at-all"),
        shell("exit/program-without-a-shell", "")
            .argv(&["printf", "%s|", "a b", "", "$x", "*"])
            .prints("a b||$x|*|"),
        shell("exit/words-about-permission-are-only-words", "echo 'Permission denied' >&2; false")
            .exits(1)
            .expect(NotBlocked)
            .expect(NoViolation),
    ]
}

fn bytes() -> Vec<Case> {
    vec![
        shell("bytes/stdout", "printf '\\377\\000\\001\\r\\n\\n'")
            .expect(Stdout(b"\xff\0\x01\r\n\n".to_vec())),
        shell("bytes/stderr", "printf '\\376\\000no newline' >&2")
            .expect(Stdout(vec![]))
            .expect(Stderr(b"\xfe\0no newline".to_vec())),
        shell("bytes/no-final-newline", "printf abc").expect(Stdout(b"abc".to_vec())),
        shell("bytes/streams-are-separate", "echo out; echo err >&2")
            .prints("out\n")
            .expect(Stderr(b"err\n".to_vec())),
        shell("bytes/stdin", "cat")
            .stdin(b"\0\xff\xfe in \n\n x")
            .expect(Stdout(b"\0\xff\xfe in \n\n x".to_vec())),
        shell("bytes/stdin-larger-than-a-pipe", "wc -c").stdin(&[7; 3_000_000]).prints("3000000\n"),
        shell("bytes/stdin-that-nobody-reads", "true").stdin(&[7; 3_000_000]),
        shell("bytes/empty-stdin-ends", "cat; echo end").prints("end\n"),
        shell(
            "bytes/much-output",
            "head -c 5000000 /dev/zero | tr '\\0' x | wc -c; head -c 5000000 /dev/zero",
        )
        .expect(StdoutHas("5000000")),
        shell(
            "bytes/interleaved-streams-do-not-block",
            "for i in $(seq 2000); do echo out$i; echo err$i >&2; done",
        )
        .expect(StdoutHas("out2000"))
        .expect(StderrHas("err2000")),
        shell(
            "bytes/a-cap-keeps-head-and-tail-of-stderr",
            "head -c 100000 /dev/zero | tr '\\0' x >&2; echo end >&2",
        )
        .policy(|policy, _| policy.limits.max_output_bytes = Some(1000))
        .expect(Truncated)
        .expect(StderrHas("end")),
    ]
}

fn directories() -> Vec<Case> {
    vec![
        shell("cwd/project", "pwd").prints("{project}\n"),
        shell("cwd/below-the-project", "pwd")
            .directory("project/a b")
            .cwd("project/a b")
            .prints("{project}/a b\n"),
        shell("cwd/outside-is-refused-or-unseen", "pwd; ls")
            .cwd("outside")
            .file("outside/diary", "x")
            .refused(""),
        shell("cwd/missing-is-refused", "pwd").cwd("project/none").refused(""),
        shell("cwd/widens-nothing", "cat {outside}/diary; echo x > {outside}/new; false")
            .file("outside/diary", "canary")
            .directory("project/a")
            .cwd("project/a")
            .fails()
            .expect(StdoutLacks("canary"))
            .expect(crate::conformance::case::Expect::HostLacks("outside/new")),
    ]
}
