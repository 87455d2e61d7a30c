//! What a profile says beside the rules of the policy.

use ringfence_model::{ErrorKind, PathRule, Policy};
use ringfence_seatbelt::{MacEnv, Mode, SeatbeltSettings, render};

use crate::sbpl::{Profile, Subject};

pub(crate) fn rules(patterns: &[&str]) -> Vec<PathRule> {
    patterns.iter().map(|pattern| PathRule::built_in(*pattern)).collect()
}

pub(crate) fn env() -> MacEnv {
    MacEnv::new("/Users/u", "/private/var/rf/own")
}

/// The policy that a default configuration gives for a project.
pub(crate) fn usual() -> Policy {
    let mut policy = Policy::default();
    let filesystem = &mut policy.filesystem;
    filesystem.allow_write = rules(&["/Users/u/project"]);
    filesystem.allow_read = rules(&["/opt/homebrew", "/Users/u/.cargo/bin"]);
    filesystem.deny =
        rules(&["/Users/u/.ssh", "/Users/u/.aws", "/etc/passwd", "**/.env", "**/credentials.json"]);
    filesystem.protect = rules(&["**/.git/hooks", "**/.git/config", "/Users/u/project/.vscode"]);
    filesystem.private = rules(&["/Users/u", "/tmp"]);
    policy
}

fn evaluated(policy: &Policy, env: &MacEnv) -> Profile {
    Profile::parse(render(policy, env).unwrap().text()).unwrap()
}

#[test]
fn the_profile_denies_by_default() {
    let text = render(&Policy::default(), &env()).unwrap().text().to_owned();
    assert!(text.starts_with("(version 1)\n(deny default)\n"), "{text}");
    let profile = Profile::parse(&text).unwrap();
    assert!(!profile.allows_path("file-read-data", "/Users/u/x"));
    assert!(!profile.allows("sysctl-write", Subject::Name("kern.hostname")));
}

#[test]
fn a_shell_can_start() {
    let profile = evaluated(&Policy::default(), &env());
    assert!(profile.allows("process-fork", Subject::Nothing));
    for program in ["/bin/bash", "/usr/bin/env"] {
        assert!(profile.allows_path("process-exec", program));
        assert!(profile.allows_path("file-map-executable", program));
    }
    for path in [
        "/usr/lib/dyld",
        "/usr/lib/libSystem.B.dylib",
        "/System/Library/dyld/dyld_shared_cache_arm64e",
        "/System/Volumes/Preboot/Cryptexes/OS/usr/lib/libc++.1.dylib",
        "/Library/Preferences/.GlobalPreferences.plist",
        "/private/var/db/timezone/localtime",
        "/private/etc/profile",
        "/dev/urandom",
        "/",
    ] {
        assert!(profile.allows_path("file-read-data", path), "{path}");
        assert!(!profile.allows_path("file-write-data", path), "{path}");
    }
    for device in ["/dev/null", "/dev/tty", "/dev/fd/3"] {
        assert!(profile.allows_path("file-read-data", device), "{device}");
        assert!(profile.allows_path("file-write-data", device), "{device}");
    }
    assert!(!profile.allows_path("file-read-data", "/dev/rdisk0"));
    assert!(profile.allows_path("file-ioctl", "/dev/ttys003"));
    for link in ["/tmp", "/var", "/etc"] {
        assert!(profile.allows_path("file-read-metadata", link), "{link}");
    }
    assert!(profile.allows("sysctl-read", Subject::Name("hw.ncpu")));
    assert!(!profile.allows("sysctl-read", Subject::Name("kern.procargs2")));
}

#[test]
fn other_terminals_of_the_user_stay_closed() {
    let profile = evaluated(&Policy::default(), &env());
    for operation in ["file-read-data", "file-write-data"] {
        assert!(!profile.allows_path(operation, "/dev/ttys003"));
        assert!(profile.allows(operation, Subject::OwnTerminal(b"/dev/ttys003")));
        assert!(!profile.allows(operation, Subject::OwnTerminal(b"/dev/disk0")));
    }
}

#[test]
fn signals_stay_within_the_sandbox() {
    let profile = evaluated(&Policy::default(), &env());
    assert!(profile.allows("signal", Subject::Process { same_sandbox: true }));
    assert!(!profile.allows("signal", Subject::Process { same_sandbox: false }));
}

#[test]
fn shared_memory_and_a_few_services_are_allowed() {
    let profile = evaluated(&Policy::default(), &env());
    assert!(profile.allows("ipc-posix-shm", Subject::Nothing));
    assert!(profile.allows("mach-lookup", Subject::Name("com.apple.system.opendirectoryd.libinfo")));
    assert!(!profile.allows("mach-lookup", Subject::Name("com.apple.securityd")));
}

#[test]
fn the_network_is_denied_in_every_mode() {
    for mode in [Mode::Strict, Mode::NoNetwork, Mode::ReadOnly] {
        let profile = evaluated(&usual(), &env().with_mode(mode));
        for operation in ["network-outbound", "network-inbound", "network-bind"] {
            assert!(!profile.allows(operation, Subject::Nothing));
        }
    }
}

#[test]
fn an_open_network_is_refused_by_name() {
    let mut policy = Policy::default();
    policy.network.allow_network = true;
    let error = render(&policy, &env()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    assert!(error.message.contains("network.allowNetwork"), "{}", error.message);
}

#[test]
fn allowed_paths_are_read_and_written() {
    let profile = evaluated(&usual(), &env());
    assert!(profile.allows_path("file-read-data", "/Users/u/project/src/main.rs"));
    assert!(profile.allows_path("file-write-create", "/Users/u/project/new"));
    assert!(profile.allows_path("file-read-data", "/opt/homebrew/bin/git"));
    assert!(!profile.allows_path("file-write-data", "/opt/homebrew/bin/git"));
    assert!(!profile.allows_path("file-read-data", "/Users/u/other"));
}

#[test]
fn deny_rules_come_after_allow_rules() {
    let text = render(&usual(), &env()).unwrap().text().to_owned();
    let at = |needle: &str| text.find(needle).unwrap_or_else(|| panic!("{needle} in {text}"));
    assert!(at("(subpath \"/Users/u/project\")") < at("; The deny list."));
    assert!(at("; Protected places.") < at("; The deny list."));
    assert!(at("; The deny list.") < at("; What a person granted."));
    let profile = Profile::parse(&text).unwrap();
    assert!(!profile.allows_path("file-read-data", "/Users/u/project/.env"));
    assert!(!profile.allows_path("file-read-metadata", "/Users/u/project/sub/.env"));
    assert!(profile.allows_path("file-read-data", "/Users/u/project/.git/hooks/pre-push"));
    assert!(!profile.allows_path("file-write-create", "/Users/u/project/.git/hooks/pre-push"));
}

#[test]
fn globs_become_anchored_expressions() {
    let text = render(&usual(), &env().with_case(ringfence_seatbelt::Case::Exact)).unwrap().text().to_owned();
    assert!(text.contains(r#"(regex "^(/[^/]+)*/\\.env$")"#), "{text}");
    let profile = Profile::parse(&text).unwrap();
    assert!(profile.allows_path("file-read-data", "/Users/u/project/.environment"));
    assert!(profile.allows_path("file-read-data", "/Users/u/project/my.env"));
    assert!(!profile.allows_path("file-read-data", "/Users/u/project/.env/inside"));
}

#[test]
fn the_links_of_the_root_are_followed() {
    let mut policy = usual();
    policy.filesystem.deny.extend(rules(&["/etc", "/var/secret"]));
    policy.filesystem.allow_write.extend(rules(&["/tmp/shared"]));
    let profile = evaluated(&policy, &env());
    assert!(!profile.allows_path("file-read-data", "/private/etc/hosts"));
    assert!(!profile.allows_path("file-read-data", "/private/var/secret/x"));
    assert!(profile.allows_path("file-write-data", "/private/tmp/shared/x"));
    assert!(!profile.allows_path("file-write-data", "/private/tmp/other"));
}

#[test]
fn the_second_name_of_user_files_is_closed() {
    let profile = evaluated(&usual(), &env().with_mode(Mode::NoNetwork));
    assert!(!profile.allows_path("file-read-data", "/System/Volumes/Data/Users/u/.ssh/id_rsa"));
}

#[test]
fn private_directories_become_one_of_the_sandbox() {
    let profile = evaluated(&usual(), &env());
    assert!(!profile.allows_path("file-read-data", "/Users/u/.cache/x"));
    assert!(!profile.allows_path("file-write-create", "/private/tmp/x"));
    assert!(profile.allows_path("file-write-create", "/private/var/rf/own/home/.cache/x"));
    assert!(profile.allows_path("file-write-create", "/private/var/rf/own/tmp/x"));
    assert!(!profile.allows_path("file-read-data", "/private/var/rf/own/tmp/.env"));
}

#[test]
fn directories_on_the_way_can_be_looked_at_but_not_listed() {
    let mut policy = usual();
    policy.filesystem.allow_read.extend(rules(&["/Users/u/.aws/public", "/srv/data/*.csv"]));
    let profile = evaluated(&policy, &env());
    for directory in ["/Users", "/Users/u", "/Users/u/.cargo", "/srv", "/srv/data"] {
        assert!(profile.allows_path("file-read-metadata", directory), "{directory}");
        assert!(!profile.allows_path("file-read-data", directory), "{directory}");
    }
    assert!(!profile.allows_path("file-read-metadata", "/Users/u/.aws"), "the deny list comes later");
    assert!(!profile.allows_path("file-read-metadata", "/Users/u/notes"));
}

#[test]
fn a_protected_place_cannot_be_renamed_away() {
    let profile = evaluated(&usual(), &env());
    for directory in
        ["/Users/u/project/.git", "/Users/u/project/sub/.git", "/Users/u/project", "/Users/u/project/.GIT"]
    {
        assert!(!profile.allows_path("file-write-unlink", directory), "{directory}");
    }
    assert!(profile.allows_path("file-write-unlink", "/Users/u/project/src"));
    assert!(profile.allows_path("file-write-create", "/Users/u/project/.git"));
}

#[test]
fn hard_links_are_refused() {
    assert!(!evaluated(&usual(), &env()).allows_path("file-link", "/Users/u/project/x"));
}

#[test]
fn another_spelling_of_a_refused_name_is_refused() {
    let profile = evaluated(&usual(), &env());
    assert!(!profile.allows_path("file-read-data", "/Users/u/project/.ENV"));
    assert!(!profile.allows_path("file-write-create", "/Users/u/project/.Git/Hooks/x"));
}

#[test]
fn read_only_writes_nothing_of_the_host() {
    let profile = evaluated(&usual(), &env().with_mode(Mode::ReadOnly));
    assert!(profile.allows_path("file-read-data", "/Users/u/project/x"));
    assert!(!profile.allows_path("file-write-data", "/Users/u/project/x"));
    assert!(profile.allows_path("file-write-data", "/private/var/rf/own/tmp/x"));
    assert!(profile.allows_path("file-write-data", "/dev/null"));
}

#[test]
fn no_network_reads_the_machine_but_for_the_deny_list() {
    let profile = evaluated(&usual(), &env().with_mode("normal".parse().unwrap()));
    assert!(profile.allows("process-fork", Subject::Nothing));
    assert!(profile.allows_path("process-exec", "/Applications/x"));
    assert!(profile.allows_path("file-read-data", "/Users/u/notes"));
    assert!(!profile.allows_path("file-read-data", "/Users/u/.ssh/id_rsa"));
    assert!(!profile.allows_path("file-write-data", "/Users/u/notes"));
    assert!(profile.allows_path("file-write-data", "/Users/u/project/x"));
}

#[test]
fn each_part_of_the_settings_reaches_the_profile() {
    let settings = SeatbeltSettings::strict("/w").temp("/private/tmp/t").allow_read("/r").allow_write("/x");
    let profile = evaluated(&settings.apply(Policy::default()), &env().with_mode(settings.mode().clone()));
    for path in ["/w/a", "/private/tmp/t/a", "/x/a"] {
        assert!(profile.allows_path("file-write-data", path), "{path}");
    }
    assert!(profile.allows_path("file-read-data", "/r/a"));
    assert!(!profile.allows_path("file-write-data", "/r/a"));
}

#[test]
fn a_custom_profile_is_used_as_it_is() {
    let text = "(version 1)\n(allow default)\n(deny file-read* (subpath \"/private/etc\"))\n";
    let profile = render(&usual(), &env().with_mode(Mode::Custom(text.to_owned()))).unwrap();
    assert_eq!(profile.text(), text);
    assert!(!profile.enforces_policy);
    assert_eq!(profile.notes.len(), 1);
    let evaluated = Profile::parse(text).unwrap();
    assert!(!evaluated.allows_path("file-read-data", "/private/etc/hosts"));
    assert!(evaluated.allows_path("file-read-data", "/Users/u/.ssh/id_rsa"), "as written, and no more");
}

#[test]
fn an_empty_profile_is_an_error() {
    for text in ["", " \n"] {
        let error = render(&usual(), &env().with_mode(Mode::Custom(text.to_owned()))).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidConfig);
    }
}

#[test]
fn what_cannot_be_expressed_is_refused_by_name() {
    let mut policy = usual();
    policy.filesystem.deny.extend(rules(&["/p/[abc"]));
    let error = render(&policy, &env()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    assert!(error.message.contains("/p/[abc") && error.message.contains("built-in"), "{}", error.message);
}

#[test]
fn a_rule_that_covers_nothing_is_noted() {
    let mut policy = usual();
    policy.filesystem.deny.extend(rules(&["$UNSET/secret"]));
    policy.filesystem.private.extend(rules(&["/dev/shm"]));
    let notes = render(&policy, &env()).unwrap().notes;
    assert!(notes.iter().any(|note| note.contains("$UNSET/secret")), "{notes:?}");
    assert!(notes.iter().any(|note| note.contains("/dev/shm")), "{notes:?}");
}

#[test]
fn a_log_tag_marks_refusals() {
    let text = render(&usual(), &env().with_log_tag("rf-7")).unwrap().text().to_owned();
    assert!(text.contains("(deny default (with message \"rf-7\"))"), "{text}");
    Profile::parse(&text).unwrap();
    // A refusal by a rule is as much of a refusal as one by default.
    let refusing = text.split("\n(").filter(|form| form.starts_with("deny") && !form.contains("sysctl-name"));
    for form in refusing {
        assert!(form.contains("(with message \"rf-7\")"), "{form}");
    }
    assert!(render(&usual(), &env().with_log_tag("a\")(allow default)")).is_err());
}
