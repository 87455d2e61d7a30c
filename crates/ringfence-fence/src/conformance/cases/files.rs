//! Reading and writing; what is denied.

use ringfence_model::{Access, Grant, GrantScope, Operation, PathRule};

use crate::conformance::case::Expect::{
    Blocked, HostHas, HostLacks, NoNewNames, NoViolation, NotBlocked, StderrHas, StdoutLacks, Violation,
};
use crate::conformance::case::{Case, shell};

pub(super) fn cases() -> Vec<Case> {
    [reads(), writes(), deny(), deny_glob()].concat()
}

const DENIED: &str = "Permission denied";

fn reads() -> Vec<Case> {
    vec![
        shell("read/project-file", "cat a/note")
            .file("project/a/note", "hello")
            .prints("hello")
            .expect(NoViolation)
            .expect(NoNewNames),
        shell("read/listing", "ls").file("project/b", "").file("project/a", "").prints("a\nb\n"),
        shell("read/system-program", "test -x /usr/bin/env && env true").expect(NoViolation),
        shell("read/system-file", "test -r /etc/hostname || test -r /etc/os-release").expect(NoViolation),
        shell("read/outside-is-refused", "cat {outside}/diary")
            .file("outside/diary", "secret")
            .fails()
            .expect(StdoutLacks("secret"))
            .expect(Blocked("{outside}/diary"))
            .expect(Violation(Operation::Open, "{outside}/diary")),
        shell("read/missing-outside-is-missing", "cat {outside}/none")
            .fails()
            .expect(StderrHas("No such file"))
            .expect(NotBlocked)
            .expect(NoViolation),
        shell("read/allowed-directory", "cat {outside}/diary")
            .file("outside/diary", "shared")
            .policy(|policy, place| {
                policy.filesystem.allow_read.push(PathRule::built_in(place.outside.as_path()));
            })
            .prints("shared")
            .expect(NoViolation),
        shell("read/allowed-file-only", "cat {outside}/a && ! cat {outside}/b")
            .file("outside/a", "shared")
            .file("outside/b", "secret")
            .policy(|policy, place| {
                policy.filesystem.allow_read.push(PathRule::built_in(place.outside.join("a")));
            })
            .prints("shared"),
        shell("read/missing-allowed-path-is-ignored", "echo ok")
            .policy(|policy, place| {
                policy.filesystem.allow_read.push(PathRule::built_in(place.outside.join("none")));
                policy.filesystem.allow_write.push(PathRule::built_in(place.outside.join("none/too")));
            })
            .prints("ok\n")
            .expect(NoNewNames),
        shell("read/home-is-empty", "cat ~/letter")
            .file("home/letter", "private")
            .fails()
            .expect(StdoutLacks("private"))
            .expect(Blocked("{home}/letter")),
        shell("read/a-probe-that-succeeds-is-no-block", "cat {outside}/diary 2>/dev/null; true")
            .file("outside/diary", "secret")
            .expect(NotBlocked)
            .expect(Violation(Operation::Open, "{outside}/diary")),
        shell("read/link-out-of-the-project", "cat link")
            .file("outside/diary", "secret")
            .link("project/link", "{outside}/diary")
            .fails()
            .expect(StdoutLacks("secret")),
    ]
}

fn writes() -> Vec<Case> {
    vec![
        shell("write/project-file", "mkdir -p d && echo hi > d/f && mv d/f d/g && rm -r d && echo x > new")
            .expect(HostHas("project/new", "x\n"))
            .expect(HostLacks("project/d"))
            .expect(NoViolation),
        shell("write/outside-is-refused", "echo x > {outside}/new")
            .fails()
            .expect(HostLacks("outside/new"))
            .expect(NoNewNames),
        shell("write/existing-outside-is-refused", "echo x > {outside}/diary")
            .file("outside/diary", "old")
            .fails()
            .expect(HostHas("outside/diary", "old")),
        shell("write/readable-is-not-writable", "echo x > {outside}/diary")
            .file("outside/diary", "old")
            .policy(|policy, place| {
                policy.filesystem.allow_read.push(PathRule::built_in(place.outside.as_path()));
            })
            .fails()
            .expect(StderrHas(DENIED))
            .expect(Blocked("{outside}/diary"))
            .expect(HostHas("outside/diary", "old")),
        shell("write/allowed-directory", "echo x > {outside}/new")
            .policy(|policy, place| {
                policy.filesystem.allow_write.push(PathRule::built_in(place.outside.as_path()));
            })
            .expect(HostHas("outside/new", "x\n")),
        shell("write/system-is-read-only", "touch /usr/bin/x || echo x > /etc/x").fails(),
        shell("write/remove-outside-removes-nothing", "rm -rf {outside}/diary {outside}; false")
            .file("outside/diary", "old")
            .fails()
            .expect(HostHas("outside/diary", "old")),
        shell("write/home-is-private", "echo x > ~/new && cat ~/new")
            .prints("x\n")
            .expect(HostLacks("home/new"))
            .expect(NoViolation),
        shell("write/tmp-is-private", "echo x > /tmp/{marker} && cat /tmp/{marker}")
            .prints("x\n")
            .expect(HostLacks("/tmp/{marker}"))
            .expect(NoViolation),
        shell("write/link-out-of-the-project", "echo x > link")
            .file("outside/diary", "old")
            .link("project/link", "{outside}/diary")
            .fails()
            .expect(HostHas("outside/diary", "old")),
        shell("write/rename-out-is-refused", "mv a {outside}/a")
            .file("project/a", "")
            .fails()
            .expect(NoNewNames),
    ]
}

fn deny() -> Vec<Case> {
    vec![
        shell("deny/file-in-an-allowed-directory", "cat secret")
            .file("project/secret", "canary")
            .policy(|policy, place| {
                policy.filesystem.deny.push(PathRule::built_in(place.project.join("secret")));
            })
            .fails()
            .expect(StdoutLacks("canary"))
            .expect(StderrHas(DENIED))
            .expect(Blocked("{project}/secret"))
            .expect(Violation(Operation::Open, "{project}/secret")),
        shell("deny/blocks-even-when-the-command-succeeds", "cat ~/.ssh/id 2>/dev/null; true")
            .file("home/.ssh/id", "canary")
            .expect(Blocked("{home}/.ssh/id")),
        shell("deny/directory", "ls vault; cat vault/deep/key; echo x > vault/new; false")
            .file("project/vault/deep/key", "canary")
            .policy(|policy, place| {
                policy.filesystem.deny.push(PathRule::built_in(place.project.join("vault")));
            })
            .fails()
            .expect(StdoutLacks("canary"))
            .expect(StdoutLacks("deep"))
            .expect(HostLacks("project/vault/new")),
        shell("deny/beats-allow", "cat {outside}/a")
            .file("outside/a", "canary")
            .policy(|policy, place| {
                policy.filesystem.allow_write.push(PathRule::built_in(place.outside.join("a")));
                policy.filesystem.deny.push(PathRule::built_in(place.outside.as_path()));
            })
            .fails()
            .expect(StdoutLacks("canary")),
        shell("deny/trailing-slash-changes-nothing", "cat vault/key")
            .file("project/vault/key", "canary")
            .policy(|policy, place| {
                let path = format!("{}/vault/", place.project.display());
                policy.filesystem.deny.push(PathRule::built_in(path.as_str()));
            })
            .fails()
            .expect(StdoutLacks("canary")),
        shell(
            "deny/write-remove-rename",
            "echo x > .env; rm -f .env; mv .env e; ln .env e; cp .env e; false",
        )
        .file("project/.env", "canary")
        .fails()
        .expect(HostHas("project/.env", "canary"))
        .expect(NoNewNames),
        shell("deny/through-a-link", "cat link")
            .file("project/.env", "canary")
            .link("project/link", ".env")
            .fails()
            .expect(StdoutLacks("canary"))
            .expect(Blocked("{project}/.env")),
        shell("deny/link-made-inside", "ln -s .env l; cat l")
            .file("project/.env", "canary")
            .fails()
            .expect(StdoutLacks("canary")),
        shell(
            "deny/through-dots-and-proc",
            "cat a/../.env; cat /proc/self/cwd/.env; cat /proc/self/root{project}/.env; false",
        )
        .file("project/.env", "canary")
        .directory("project/a")
        .fails()
        .expect(StdoutLacks("canary")),
        shell("deny/ancestor-cannot-be-moved-away", "mv a b; cat b/.env a/.env; false")
            .file("project/a/.env", "canary")
            .fails()
            .expect(StdoutLacks("canary"))
            .expect(HostHas("project/a/.env", "canary")),
        shell("deny/rule-about-a-link-holds-for-its-target", "cat real/key")
            .file("project/real/key", "canary")
            .link("project/alias", "real")
            .policy(|policy, place| {
                policy.filesystem.deny.push(PathRule::built_in(place.project.join("alias")));
            })
            .fails()
            .expect(StdoutLacks("canary")),
        shell("deny/a-grant-opens-exactly-its-resource", "cat ~/.ssh/config; cat ~/.ssh/id")
            .file("home/.ssh/config", "granted")
            .file("home/.ssh/id", "canary")
            .policy(|policy, place| {
                policy.filesystem.grants.push(Grant {
                    path: place.home.join(".ssh/config"),
                    access: Access::Read,
                    scope: GrantScope::Session,
                    recursive: false,
                });
            })
            .fails()
            .prints("granted"),
        shell("deny/execute", "./tool")
            .file("project/tool", "#!/bin/sh\necho canary\n")
            .policy(|policy, place| {
                policy.filesystem.deny.push(PathRule::built_in(place.project.join("tool")));
            })
            .fails()
            .expect(StdoutLacks("canary")),
    ]
}

fn deny_glob() -> Vec<Case> {
    vec![
        shell("deny-glob/every-depth", "cat .env; cat a/b/.env; false")
            .file("project/.env", "canary")
            .file("project/a/b/.env", "canary")
            .fails()
            .expect(StdoutLacks("canary"))
            .expect(Violation(Operation::Open, "{project}/.env"))
            .expect(Violation(Operation::Open, "{project}/a/b/.env")),
        shell("deny-glob/whole-names-only", "cat .envx x.env")
            .file("project/.envx", "a")
            .file("project/x.env", "b")
            .prints("ab"),
        shell("deny-glob/wildcard-name", "cat certs/server.pem")
            .file("project/certs/server.pem", "canary")
            .fails()
            .expect(StdoutLacks("canary"))
            .expect(Blocked("{project}/certs/server.pem")),
        shell("deny-glob/unscanned-directories-too", "cat node_modules/x/.env; cat target/.env; false")
            .file("project/node_modules/x/.env", "canary")
            .file("project/target/.env", "canary")
            .fails()
            .expect(StdoutLacks("canary")),
        shell("deny-glob/strange-names", "cat -- */.env; false")
            .file("project/with space\n/.env", "canary")
            .file("project/-dash/.env", "canary")
            .file("project/[b]/.env", "canary")
            .file("project/gone (deleted)/.env", "canary")
            .fails()
            .expect(StdoutLacks("canary")),
        shell("deny-glob/names-are-bytes", "cat *.bin; cat .env; false")
            .file("project/plain.bin", "fine")
            .file("project/.env", "canary")
            .fails()
            .prints("fine"),
    ]
}
