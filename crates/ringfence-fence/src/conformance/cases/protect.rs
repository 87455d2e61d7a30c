//! Names that stay as they are: readable, never written, removed, replaced or created.

use ringfence_model::Operation;

use crate::conformance::case::Expect::{
    HostHas, HostLacks, NoNewNames, NoViolation, StderrHas, StdoutHas, Violation,
};
use crate::conformance::case::{Case, shell};

pub(super) fn cases() -> Vec<Case> {
    [existing(), not_yet_existing(), nested(), git_still_works()].concat()
}

fn repository(name: &'static str, text: &'static str) -> Case {
    shell(name, text)
        .file("project/.git/config", "[core]\n")
        .file("project/.git/hooks/pre-commit", "#!/bin/sh\n")
        .file("project/.git/HEAD", "ref: refs/heads/main\n")
}

fn existing() -> Vec<Case> {
    vec![
        repository("protect/can-be-read", "cat .git/config .git/hooks/pre-commit")
            .prints("[core]\n#!/bin/sh\n"),
        repository("protect/write-is-refused", "echo x >> .git/config")
            .fails()
            .expect(StderrHas("Permission denied"))
            .expect(HostHas("project/.git/config", "[core]\n"))
            .expect(Violation(Operation::Open, "{project}/.git/config")),
        repository("protect/new-file-in-a-protected-directory", "echo x > .git/hooks/post-merge")
            .fails()
            .expect(HostLacks("project/.git/hooks/post-merge"))
            .expect(Violation(Operation::Create, "{project}/.git/hooks/post-merge")),
        repository(
            "protect/remove-and-chmod",
            "rm -f .git/config; rm -rf .git/hooks; chmod 777 .git/hooks/pre-commit; false",
        )
        .fails()
        .expect(HostHas("project/.git/config", "[core]\n"))
        .expect(NoNewNames),
        repository(
            "protect/rename-over",
            "echo evil > e; mv e .git/config; cp e .git/config; ln -f e .git/config; rm e; false",
        )
        .fails()
        .expect(HostHas("project/.git/config", "[core]\n")),
        repository(
            "protect/ancestor-cannot-be-moved",
            "mv .git g; mkdir .git; echo evil > .git/config; false",
        )
        .fails()
        .expect(HostHas("project/.git/config", "[core]\n"))
        .expect(NoNewNames),
        shell("protect/deeper-ancestor-cannot-be-moved", "mv sub other; false")
            .file("project/sub/repo/.git/config", "[core]\n")
            .fails()
            .expect(HostHas("project/sub/repo/.git/config", "[core]\n"))
            .expect(NoNewNames),
        repository(
            "protect/the-rest-of-the-directory-is-writable",
            "echo x > .git/index && mkdir .git/objects",
        )
        .expect(HostHas("project/.git/index", "x\n"))
        .expect(NoViolation),
        shell("protect/home-file", "echo evil >> ~/.bashrc; rm -f ~/.bashrc; mv ~/.bashrc ~/x; false")
            .file("home/.bashrc", "mine\n")
            .fails()
            .expect(HostHas("home/.bashrc", "mine\n")),
        shell("protect/home-file-that-does-not-exist", "echo evil > ~/.bashrc")
            .fails()
            .expect(HostLacks("home/.bashrc"))
            .expect(NoNewNames),
    ]
}

fn not_yet_existing() -> Vec<Case> {
    vec![
        shell("protect-absent/file", "mkdir .git && echo evil > .git/config")
            .fails()
            .expect(StderrHas("Permission denied"))
            .expect(HostLacks("project/.git/config")),
        shell("protect-absent/directory", "mkdir .vscode").fails().expect(NoNewNames),
        shell("protect-absent/hooks", "mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit")
            .fails()
            .expect(HostLacks("project/.git/hooks/pre-commit")),
        shell(
            "protect-absent/our-own-configuration",
            "mkdir .ringfence; echo '{}' > .ringfence/sandbox.json",
        )
        .fails()
        .expect(NoNewNames),
        shell("protect-absent/by-rename-of-a-file", "mkdir .git; echo evil > e; mv e .git/config")
            .fails()
            .expect(HostLacks("project/.git/config")),
        shell(
            "protect-absent/by-rename-of-a-directory",
            "mkdir -p d/hooks; echo evil > d/hooks/pre-commit; mv d .git",
        )
        .fails()
        .expect(HostLacks("project/.git")),
        shell("protect-absent/by-link", "mkdir .git; echo evil > e; ln e .git/config")
            .fails()
            .expect(HostLacks("project/.git/config")),
        shell("protect-absent/by-symlink", "mkdir .git; echo evil > e; ln -s ../e .git/config")
            .fails()
            .expect(HostLacks("project/.git/config")),
        shell(
            "protect-absent/symlink-in-place-of-the-directory",
            "ln -s evil .git; mkdir -p evil; echo x > evil/config; false",
        )
        .fails()
        .expect(HostLacks("project/.git")),
        shell(
            "protect-absent/renamed-symlink-in-place-of-the-directory",
            "ln -s evil l; mv -T l .git; false",
        )
        .fails()
        .expect(HostLacks("project/.git")),
        shell(
            "protect-absent/nothing-is-left",
            "mkdir .vscode .ringfence; mkdir -p x/.vscode; rmdir x; true",
        )
        .expect(HostLacks("project/.vscode"))
        .expect(HostLacks("project/.ringfence"))
        .expect(NoNewNames),
    ]
}

fn nested() -> Vec<Case> {
    vec![
        shell("protect-nested/existing", "echo evil >> a/b/.git/config; echo evil > a/b/.git/hooks/x; false")
            .file("project/a/b/.git/config", "[core]\n")
            .directory("project/a/b/.git/hooks")
            .fails()
            .expect(HostHas("project/a/b/.git/config", "[core]\n"))
            .expect(NoNewNames),
        shell("protect-nested/made-during-the-run", "mkdir -p n/.git; cd n; echo evil > .git/config; mkdir .git/hooks; echo evil > .git/hooks/x; false")
            .fails()
            .expect(HostLacks("project/n/.git/config"))
            .expect(HostLacks("project/n/.git/hooks/x")),
        shell(
            "protect-nested/through-a-descriptor",
            "mkdir -p n/.git; cd n; exec 3<.; echo evil > /proc/self/fd/3/.git/config; echo evil > /dev/fd/3/.git/config; false",
        )
        .fails()
        .expect(HostLacks("project/n/.git/config")),
        shell(
            "protect-nested/through-a-link-into-proc",
            "mkdir -p n/.git; cd n; ln -s /proc/self/cwd l; echo evil > l/.git/config; false",
        )
        .fails()
        .expect(HostLacks("project/n/.git/config")),
        shell(
            "protect-nested/in-a-directory-called-deleted",
            "mkdir -p 'n (deleted)/.git'; cd 'n (deleted)'; echo evil > .git/config; false",
        )
        .fails()
        .expect(HostLacks("project/n (deleted)/.git/config")),
    ]
}

fn git_still_works() -> Vec<Case> {
    vec![
        shell(
            "protect-git/init-commit-branch",
            "git init -q n && cd n && git config user.name me && git config user.email me@example.com && \
             echo a > a && git add a && git commit -qm one && git checkout -qb topic && \
             git remote add origin https://example.com/x.git && git status --porcelain && git log --format=%s",
        )
        .prints("one\n")
        .expect(NoViolation),
        shell(
            "protect-git/no-program-can-be-configured",
            "git init -q n && cd n && git config core.fsmonitor ./evil; git config core.hooksPath .; \
             git config alias.st '!evil'; git config include.path ../x; cat .git/config; false",
        )
        .fails()
        .expect(StdoutHas("[core]"))
        .expect(HostLacks("project/n/evil"))
        .expect(crate::conformance::case::Expect::StdoutLacks("evil"))
        .expect(crate::conformance::case::Expect::StdoutLacks("hooksPath")),
    ]
}
