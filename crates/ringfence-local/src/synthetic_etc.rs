//! Files below `/etc` that read otherwise inside.
//!
//! The names of the host's users are nobody's business, but programs look up their own user, root and nobody. So they
//! find these three, and no others. And the machine's own name leads to the machine, as on every host.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use ringfence_model::policy::Filesystem;
use ringfence_model::{Access, PathRule, RuleLayer};

const USERS: &str = "/etc/passwd";
const GROUPS: &str = "/etc/group";
const HOSTS: &str = "/etc/hosts";
/// Tells the C library where to look.
const SWITCH: &str = "/etc/nsswitch.conf";

const NOBODY: u32 = 65534;
/// Groups below are the system's own.
const FIRST_OF_PEOPLE: u32 = 1000;

/// A path, and what is read there.
pub(crate) type Replaced = (PathBuf, Vec<u8>);

/// What policy says of the host's users.
#[derive(Debug, Clone, Default)]
pub(crate) struct Users {
    /// The built-in rules that deny the host's list, where another is shown in its place.
    denied_by: Vec<PathRule>,
}

impl Users {
    /// Takes the built-in rule about the host's list out of the policy: in its place another list is shown. A rule that
    /// somebody wrote stays, and then there is none.
    pub(crate) fn show_own(fs: &mut Filesystem) -> Self {
        if !is_plain_file(Path::new(USERS)) {
            return Self::default();
        }
        let is_built_in = |rule: &mut PathRule| {
            rule.source.layer == RuleLayer::BuiltIn && rule.path.as_literal() == Some(Path::new(USERS))
        };
        let denied_by: Vec<PathRule> = fs.deny.extract_if(.., is_built_in).collect();
        if !fs.decide(Path::new(USERS), Access::Read).allowed() {
            fs.deny.extend(denied_by);
            return Self::default();
        }
        Self { denied_by }
    }

    /// Denies the host's list again, where no mount covers it.
    pub(crate) fn deny_hosts(&self, fs: &mut Filesystem) {
        fs.deny.extend(self.denied_by.iter().cloned());
    }

    /// All files that read otherwise. `home` is that of the sandbox, `machine` its name; where hosts are reached by name,
    /// none but the machine itself has an address in a file.
    pub(crate) fn replaced(
        &self,
        fs: &Filesystem,
        home: &Path,
        machine: &str,
        by_name: bool,
    ) -> Vec<Replaced> {
        let mut replaced = Vec::new();
        let mut add = |path: &str, content: Option<String>| {
            if let Some(content) = content.filter(|_| is_plain_file(Path::new(path))) {
                replaced.push((PathBuf::from(path), content.into_bytes()));
            }
        };
        let may_read = |path: &str| fs.decide(Path::new(path), Access::Read).allowed();
        let read = |path: &str| std::fs::read_to_string(path).ok();
        let switch = read(SWITCH);
        if self.denied_by.is_empty() {
            let look_nowhere = |text: String| lines(&text, without_files);
            add(SWITCH, switch.filter(|_| !may_read(USERS)).map(look_nowhere));
        } else {
            let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
            let (users, groups) = (read(USERS).unwrap_or_default(), read(GROUPS).unwrap_or_default());
            add(USERS, Some(own_users(&users, user, group, home)));
            add(GROUPS, Some(own_groups(&groups, group)).filter(|_| may_read(GROUPS)));
            add(SWITCH, switch.map(|text| lines(&text, from_files)));
        }
        let known = |hosts: String| if by_name { lines(&hosts, only_itself) } else { hosts };
        let hosts = read(HOSTS).filter(|_| may_read(HOSTS)).map(known);
        add(HOSTS, hosts.map(|hosts| with_machine(hosts, machine)));
        replaced
    }
}

/// A line of the hosts file, when it is about this machine's own loopback.
fn only_itself(line: &str) -> String {
    let address = line.split_whitespace().next().and_then(|word| word.parse::<std::net::IpAddr>().ok());
    if address.is_none_or(|address| address.is_loopback()) { line.to_owned() } else { String::new() }
}

fn is_plain_file(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|metadata| metadata.is_file())
}

fn lines(text: &str, changed: impl Fn(&str) -> String) -> String {
    text.lines().map(|line| changed(line) + "\n").collect()
}

/// A line of nsswitch.conf by which users and groups are looked up in the files alone: what else knows them is outside.
fn from_files(line: &str) -> String {
    match line.split_once(':') {
        Some((database @ ("passwd" | "group" | "initgroups"), _)) => format!("{database}: files"),
        _ => without_files(line),
    }
}

/// A line of nsswitch.conf that no longer sends look-ups to a denied file.
fn without_files(line: &str) -> String {
    match line.split_once(':') {
        Some((database @ ("passwd" | "shadow" | "gshadow"), sources)) => {
            let kept: Vec<&str> =
                sources.split_whitespace().filter(|source| !matches!(*source, "files" | "compat")).collect();
            format!("{database}: {}", kept.join(" "))
        }
        _ => line.to_owned(),
    }
}

/// Root, this user and nobody; of this one what the host says, but for the home.
fn own_users(hosts: &str, user: u32, group: u32, home: &Path) -> String {
    let entry = |id: u32| {
        hosts
            .lines()
            .map(|line| line.split(':').collect::<Vec<_>>())
            .find(|fields| fields.len() == 7 && fields[2].parse() == Ok(id))
    };
    let mut text = String::new();
    let home = home.display().to_string();
    let home = if home.contains([':', '\n']) { "/" } else { &home };
    let mut add = |id: u32, group: u32, name: &str, home: &str| {
        let known = entry(id);
        let field =
            |index: usize, otherwise| known.as_ref().map_or(otherwise, |fields: &Vec<&str>| fields[index]);
        let shell = field(6, if id == user { "/bin/sh" } else { "/usr/sbin/nologin" });
        let _ = writeln!(text, "{}:x:{id}:{group}:{}:{home}:{shell}", field(0, name), field(4, ""));
    };
    add(0, 0, "root", if user == 0 { home } else { "/root" });
    if user != 0 && user != NOBODY {
        add(user, group, "user", home);
    }
    add(NOBODY, NOBODY, "nobody", if user == NOBODY { home } else { "/nonexistent" });
    text
}

/// The system's groups and the user's own, without their members.
fn own_groups(hosts: &str, group: u32) -> String {
    let mut text = String::new();
    let mut seen = Vec::new();
    for line in hosts.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        let Some(id) = fields.get(2).and_then(|id| id.parse::<u32>().ok()) else { continue };
        if id < FIRST_OF_PEOPLE || id == group || id == NOBODY {
            seen.push(id);
            let _ = writeln!(text, "{}:x:{id}:", fields[0]);
        }
    }
    for (id, name) in [(0, "root"), (group, "user"), (NOBODY, "nogroup")] {
        if !seen.contains(&id) {
            seen.push(id);
            let _ = writeln!(text, "{name}:x:{id}:");
        }
    }
    text
}

/// The host's list, in which the sandbox's machine has a place.
fn with_machine(mut hosts: String, machine: &str) -> String {
    let is_named = |line: &str| {
        let line = line.split('#').next().unwrap_or_default();
        line.split_whitespace().skip(1).any(|name| name == machine)
    };
    if machine.is_empty() || hosts.lines().any(is_named) {
        return hosts;
    }
    if !hosts.is_empty() && !hosts.ends_with('\n') {
        hosts.push('\n');
    }
    let _ = writeln!(hosts, "127.0.1.1\t{machine}");
    hosts
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &str = "root:x:0:0:root:/root:/bin/bash\nada:x:1000:1000:Ada,,,:/home/ada:/bin/zsh\n\
                         eve:x:1001:1001::/home/eve:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";

    #[test]
    fn three_users_are_known_and_no_other() {
        assert_eq!(
            own_users(USERS, 1000, 1000, Path::new("/home/ada")),
            "root:x:0:0:root:/root:/bin/bash\nada:x:1000:1000:Ada,,,:/home/ada:/bin/zsh\n\
             nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
        );
        assert_eq!(
            own_users("", 7, 8, Path::new("/h")),
            "root:x:0:0::/root:/usr/sbin/nologin\nuser:x:7:8::/h:/bin/sh\n\
             nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n"
        );
        assert_eq!(
            own_users(USERS, 0, 0, Path::new("/own")).lines().next(),
            Some("root:x:0:0:root:/own:/bin/bash")
        );
    }

    #[test]
    fn groups_have_no_members() {
        assert_eq!(
            own_groups("root:x:0:\nadm:x:4:ada,eve\nada:x:1000:eve\neve:x:1001:\n", 1000),
            "root:x:0:\nadm:x:4:\nada:x:1000:\nnogroup:x:65534:\n"
        );
    }

    #[test]
    fn the_machine_has_one_line() {
        let hosts = "127.0.0.1 localhost # box";
        assert_eq!(with_machine(hosts.to_owned(), "box"), "127.0.0.1 localhost # box\n127.0.1.1\tbox\n");
        assert_eq!(with_machine("127.0.1.1 box\n".to_owned(), "box"), "127.0.1.1 box\n");
    }

    #[test]
    fn look_ups_go_to_the_files_alone() {
        assert_eq!(from_files("passwd:         files systemd"), "passwd: files");
        assert_eq!(from_files("shadow:         files systemd"), "shadow: systemd");
        assert_eq!(from_files("hosts: files dns"), "hosts: files dns");
    }
}
