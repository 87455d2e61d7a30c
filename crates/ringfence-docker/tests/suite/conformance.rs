//! What every fence must do, asked of containers.

use ringfence_docker::DockerProvider;
use ringfence_docker::testing::{Kind, TestEngine};
use ringfence_fence::CreateOptions;
use ringfence_fence::conformance::{self, Case, Contender, cases};
use ringfence_model::{ExecRequest, ExecResult, Result};
use serde_json::json;

use super::support::{provider_options, room};

/// What no container promises, and why.
const EXCUSED_EVERYWHERE: &[(&str, &str)] = &[
    ("read/outside-is-refused", UNSEEN),
    ("read/a-probe-that-succeeds-is-no-block", UNSEEN),
    ("read/home-is-empty", HOME),
    ("deny/blocks-even-when-the-command-succeeds", HOME),
    ("deny/a-grant-opens-exactly-its-resource", HOME),
    ("protect/home-file-that-does-not-exist", HOME),
    ("environment/basics", HOME),
    (
        "rights/no-inherited-descriptors",
        "the case looks at the shell itself, which holds its private channels",
    ),
    ("exit/program-not-found", "a shell says that with exit code 127"),
];

/// What a container with a guest does not promise, and why.
const EXCUSED_WITH_GUEST: &[(&str, &str)] = &[
    (
        "write/readable-is-not-writable",
        "what is shown read-only is so by its mount, and says \"Read-only file system\"",
    ),
    (
        "network/host-loopback",
        "the container's loopback is its own, and nobody listens there: nothing is refused",
    ),
    ("network/own-loopback-works", "the guest lets nothing connect, not even to itself"),
    ("limit/open-files", "a shell needs more than the case leaves it, and refuses to start with less"),
];

/// What a container with nothing but `sh` does not promise, and why.
const EXCUSED_WITH_SH_ALONE: &[(&str, &str)] = &[
    ("deny/file-in-an-allowed-directory", EMPTY),
    ("deny/link-made-inside", EMPTY),
    ("deny/through-a-link", EMPTY),
    ("deny/rule-about-a-link-holds-for-its-target", EMPTY),
    ("deny-glob/every-depth", EMPTY),
    ("deny-glob/wildcard-name", EMPTY),
    ("deny/write-remove-rename", LATER),
    ("deny/ancestor-cannot-be-moved-away", LATER),
    ("protect/ancestor-cannot-be-moved", LATER),
    ("protect/deeper-ancestor-cannot-be-moved", LATER),
    ("protect-absent", LATER),
    ("protect-nested/made-during-the-run", LATER),
    ("protect-nested/in-a-directory-called-deleted", LATER),
    ("protect-nested/through-a-descriptor", LATER),
    ("protect-nested/through-a-link-into-proc", LATER),
    ("protect-git/no-program-can-be-configured", LATER),
    ("late/ancestor-of-a-denied-file-renamed-outside", LATER),
    ("late/cannot-be-copied-moved-or-linked", LATER),
    ("late/denied-name-by-rename", LATER),
    ("late/denied-name-in-a-new-directory", LATER),
    ("late/denied-name-made-by-the-command", LATER),
    ("late/denied-name-made-by-the-host", LATER),
    ("late/literal-that-did-not-exist", LATER),
    ("late/mask-replaced-by-a-rename-outside", LATER),
    ("late/protected-file-replaced-by-a-rename-outside", LATER),
    ("late/repository-made-by-the-host", LATER),
    ("late/through-descriptor-and-link", LATER),
    (
        "deny-glob/unscanned-directories-too",
        "directories that are built and not written are not looked through",
    ),
    ("protect/write-is-refused", READ_ONLY),
    ("protect/new-file-in-a-protected-directory", READ_ONLY),
    ("write/readable-is-not-writable", READ_ONLY),
    ("network/host-loopback", "dash has no /dev/tcp, and nobody would tell what was refused"),
    ("network/internet", "dash has no /dev/tcp, and nobody would tell what was refused"),
];

const EMPTY: &str =
    "a denied file is covered with nothing: it reads as empty, and nobody tells that it was read";
const LATER: &str = "nobody looks at names that come or move when the container has been made";
const READ_ONLY: &str =
    "what is read-only is so by its mount, says \"Read-only file system\", and is only guessed";

const UNSEEN: &str = "what is not shown to the container does not exist inside, so nothing is refused";
const HOME: &str = "the home inside is the container's own, elsewhere, and gone at the end";

/// The table in parts, so that no test takes minutes.
const PARTS: usize = 4;

fn conforms(kind: Kind, name: &str, guest: &str, excused: &[(&str, &str)], mine: &[Case]) {
    let Some(engine) = TestEngine::shared_of(kind) else { return };
    let provider = DockerProvider::default();
    let by = |mut options: CreateOptions, request: &ExecRequest| -> Result<ExecResult> {
        // The same names inside as outside, which the cases speak of.
        let docker = json!({ "workdir": options.cwd });
        options.provider_options = provider_options(&engine.host(), docker);
        options.provider_options.set("guest", json!(guest));
        conformance::run_once(&provider, options, request)
    };
    let base = room();
    let only = std::env::var("CONFORMANCE").unwrap_or_default();
    let environment = std::env::vars_os().collect();
    let excused = [EXCUSED_EVERYWHERE, excused].concat();
    let contenders = [Contender { name, run: &by, excused: &excused }];
    let matrix = conformance::run(&contenders, mine, base.path(), &environment, &only);
    println!("{matrix}");
    // A single case is in one part only.
    if only.is_empty() || matrix.rows() > 0 {
        matrix.must_be_green();
    }
}

fn of_docker(part: usize) {
    conforms(Kind::Docker, "docker", "required", EXCUSED_WITH_GUEST, &in_part(part));
}

fn of_nothing_but_sh(part: usize) {
    conforms(Kind::Docker, "docker/sh", "off", EXCUSED_WITH_SH_ALONE, &in_part(part));
}

fn in_part(part: usize) -> Vec<Case> {
    cases::all().into_iter().skip(part).step_by(PARTS).collect()
}

#[test]
fn containers_conform_first_part() {
    of_docker(0);
}

#[test]
fn containers_conform_second_part() {
    of_docker(1);
}

#[test]
fn containers_conform_third_part() {
    of_docker(2);
}

#[test]
fn containers_conform_fourth_part() {
    of_docker(3);
}

#[test]
fn containers_with_nothing_but_sh_conform_first_part() {
    of_nothing_but_sh(0);
}

#[test]
fn containers_with_nothing_but_sh_conform_second_part() {
    of_nothing_but_sh(1);
}

#[test]
fn containers_with_nothing_but_sh_conform_third_part() {
    of_nothing_but_sh(2);
}

#[test]
fn containers_with_nothing_but_sh_conform_fourth_part() {
    of_nothing_but_sh(3);
}

/// What another engine gives; limits, mounts and the network are asked for in `podman`, and the rest is the guest's.
#[test]
fn containers_of_podman_conform() {
    let mine: Vec<_> = cases::all().into_iter().filter(|case| case.name.starts_with("rights/")).collect();
    conforms(Kind::Podman, "podman", "required", EXCUSED_WITH_GUEST, &mine);
}
