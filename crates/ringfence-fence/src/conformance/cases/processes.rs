//! Network and processes: what the command can reach, and what is left of it.

use ringfence_model::{Operation, PathRule};

use crate::conformance::case::Expect::{
    ListenerUntouched, MarkerGone, NoNewNames, NoViolation, StdoutHas, StdoutLacks, VictimLives, Violation,
};
use crate::conformance::case::{Case, shell};

pub(super) fn cases() -> Vec<Case> {
    [network(), processes(), rights(), clean_up()].concat()
}

fn network() -> Vec<Case> {
    vec![
        shell("network/host-loopback", "exec 3<>/dev/tcp/127.0.0.1/{port}")
            .fails()
            .expect(ListenerUntouched)
            .expect(Violation(Operation::Connect, "127.0.0.1:{port}")),
        shell("network/internet", "exec 3<>/dev/tcp/192.0.2.1/80")
            .fails()
            .expect(Violation(Operation::Connect, "192.0.2.1:80")),
        shell("network/internet-v6", "exec 3<>/dev/tcp/2001:db8::1/80").fails(),
        shell("network/udp", "echo x > /dev/udp/192.0.2.1/123").fails(),
        shell("network/metadata-service", "exec 3<>/dev/tcp/169.254.169.254/80").fails(),
        shell("network/only-loopback", "cat /proc/net/dev | grep : | cut -d: -f1 | tr -d ' '").prints("lo\n"),
        shell(
            "network/own-loopback-works",
            "python3 -c 'import socket; s=socket.create_server((\"127.0.0.1\",0)); \
             c=socket.create_connection(s.getsockname()); c.send(b\"x\"); print(s.accept()[0].recv(1))'",
        )
        .prints("b'x'\n")
        .expect(NoViolation),
    ]
}

fn processes() -> Vec<Case> {
    vec![
        shell("process/host-process-cannot-be-signalled", "kill -9 {victim}; kill -0 {victim}")
            .fails()
            .expect(VictimLives),
        shell("process/kill-everything-stays-inside", "kill -9 -1").exits_somehow().expect(VictimLives),
        shell("process/host-processes-are-invisible", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
            .expect(StdoutLacks("sleep 600")),
        shell("process/own-children-are-visible", "sleep 7.5 & ls /proc/$!/cmdline >/dev/null && kill $! && echo ok")
            .prints("ok\n"),
        shell("process/own-session", "ps -o sid= -p $$ 2>/dev/null | tr -d ' ' || cut -d' ' -f6 /proc/$$/stat")
            .expect(StdoutHas("")),
        shell("process/orphans-are-reaped", "for i in $(seq 20); do (sleep 0.01 &) ; done; sleep 0.3; grep -l 'State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l")
            .prints("0\n"),
        shell("process/init-cannot-be-killed", "kill -9 1; kill -TERM 1; echo alive").prints("alive\n"),
    ]
}

fn rights() -> Vec<Case> {
    vec![
        shell("rights/no-capabilities", "grep -E '^Cap(Inh|Prm|Eff|Amb|Bnd)' /proc/self/status | cut -f2 | sort -u")
            .prints("0000000000000000\n"),
        shell("rights/no-new-privileges", "grep NoNewPrivs /proc/self/status").prints("NoNewPrivs:\t1\n"),
        shell("rights/no-inherited-descriptors", "ls /proc/$$/fd | tr '\\n' ' '").prints("0 1 2 "),
        shell("rights/no-new-namespaces", "unshare -Ur true || unshare -m true || unshare -n true").fails(),
        shell("rights/no-mounts", "mount -t tmpfs tmpfs /tmp || umount /proc || mount --bind / /tmp").fails(),
        shell("rights/set-id-programs-gain-nothing", "for p in su sudo passwd mount; do p=$(command -v $p) || continue; \"$p\" --help >/dev/null 2>&1; done; grep CapEff /proc/self/status | cut -f2")
            .prints("0000000000000000\n"),
        shell("rights/kernel-settings-are-read-only", "echo 0 > /proc/sys/kernel/core_pattern || echo h > /proc/sysrq-trigger").fails(),
    ]
}

fn clean_up() -> Vec<Case> {
    vec![
        shell(
            "clean-up/nothing-outlives",
            "(setsid nohup bash -c 'exec -a {marker} sleep 300' >/dev/null 2>&1 &); \
             bash -c 'trap \"\" TERM HUP INT; exec -a {marker}-2 sleep 300' >/dev/null 2>&1 & disown; sleep 0.1; echo done",
        )
        .prints("done\n")
        .expect(MarkerGone),
        shell(
            "clean-up/a-leftover-that-holds-the-output-does-not-hang",
            "bash -c 'exec -a {marker} sleep 300' & disown; echo done",
        )
        .prints("done\n")
        .expect(MarkerGone),
        shell("clean-up/no-ghost-files", "true")
            .file("project/.env", "canary")
            .file("project/.git/config", "")
            .policy(|policy, place| {
                policy.filesystem.deny.push(PathRule::built_in(place.project.join("absent/deep")));
                policy.filesystem.protect.push(PathRule::built_in(place.project.join("absent-too")));
                policy.filesystem.allow_read.push(PathRule::built_in(place.outside.join("none")));
            })
            .expect(NoNewNames)
            .expect(NoViolation),
        shell("clean-up/no-ghost-files-after-a-kill", "kill -9 $$")
            .file("project/.env", "canary")
            .exits(137)
            .expect(NoNewNames),
    ]
}
