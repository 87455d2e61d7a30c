//! What appears, or is replaced, while the command runs.

use ringfence_model::{Operation, PathRule};

use crate::conformance::case::Expect::{Blocked, HostHas, HostLacks, NoViolation, StdoutLacks, Violation};
use crate::conformance::case::{Case, shell, shell_after};

pub(super) fn cases() -> Vec<Case> {
    vec![
        shell_after(
            "late/denied-name-made-by-the-host",
            |place| std::fs::write(place.project.join(".env"), "canary"),
            "cat .env",
        )
        .fails()
        .expect(StdoutLacks("canary"))
        .expect(Blocked("{project}/.env"))
        .expect(Violation(Operation::Open, "{project}/.env")),
        shell_after(
            "late/denied-name-in-a-new-directory",
            |place| {
                std::fs::create_dir(place.project.join("n"))?;
                std::fs::write(place.project.join("n/.env"), "canary")
            },
            "cat n/.env",
        )
        .fails()
        .expect(StdoutLacks("canary")),
        shell_after(
            "late/mask-replaced-by-a-rename-outside",
            |place| {
                std::fs::write(place.project.join("new"), "canary")?;
                std::fs::rename(place.project.join("new"), place.project.join(".env"))
            },
            "cat .env",
        )
        .file("project/.env", "old canary")
        .fails()
        .expect(StdoutLacks("canary")),
        shell_after(
            "late/ancestor-of-a-denied-file-renamed-outside",
            |place| std::fs::rename(place.project.join("a"), place.project.join("b")),
            "cat b/.env",
        )
        .file("project/a/.env", "canary")
        .fails()
        .expect(StdoutLacks("canary")),
        shell_after(
            "late/through-descriptor-and-link",
            |place| std::fs::write(place.project.join(".env"), "canary"),
            "exec 3<.; cat /proc/self/fd/3/.env; cat /dev/fd/3/.env; cat /proc/$$/cwd/.env; \
             ln -s /proc/self/cwd l; cat l/.env; false",
        )
        .fails()
        .expect(StdoutLacks("canary")),
        shell_after(
            "late/cannot-be-copied-moved-or-linked",
            |place| std::fs::write(place.project.join(".env"), "canary"),
            "mv .env x; ln .env y; cp .env z; cat x y z; false",
        )
        .fails()
        .expect(StdoutLacks("canary"))
        .expect(HostHas("project/.env", "canary"))
        .expect(HostLacks("project/x"))
        .expect(HostLacks("project/y")),
        shell_after(
            "late/protected-file-replaced-by-a-rename-outside",
            |place| {
                std::fs::write(place.project.join("new"), "[user]\n")?;
                std::fs::rename(place.project.join("new"), place.project.join(".git/config"))
            },
            "echo evil >> .git/config; false",
        )
        .file("project/.git/config", "[core]\n")
        .fails()
        .expect(HostHas("project/.git/config", "[user]\n")),
        shell_after(
            "late/repository-made-by-the-host",
            |place| {
                std::fs::create_dir_all(place.project.join("n/.git/hooks"))?;
                std::fs::write(place.project.join("n/.git/config"), "[core]\n")
            },
            "echo evil >> n/.git/config; echo evil > n/.git/hooks/pre-commit; false",
        )
        .fails()
        .expect(HostHas("project/n/.git/config", "[core]\n"))
        .expect(HostLacks("project/n/.git/hooks/pre-commit")),
        // Whether it is made or not, what has such a name is not read.
        shell("late/denied-name-made-by-the-command", "echo x > .env; cat .env")
            .fails()
            .expect(Blocked("{project}/.env")),
        shell("late/denied-name-by-rename", "echo x > x; mv x .env")
            .fails()
            .expect(HostLacks("project/.env")),
        shell("late/literal-that-did-not-exist", "mkdir vault")
            .policy(|policy, place| {
                policy.filesystem.deny.push(PathRule::built_in(place.project.join("vault")));
            })
            .fails()
            .expect(HostLacks("project/vault")),
        shell_after(
            "late/harmless-files-are-seen",
            |place| std::fs::write(place.project.join("news"), "fresh"),
            "cat news",
        )
        .prints("fresh")
        .expect(NoViolation),
    ]
}
