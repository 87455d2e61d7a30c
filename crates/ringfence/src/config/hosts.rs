//! Hosts that a person answered about for good, in the user's own file: `allowedHosts` and `blockedHosts`.

use std::path::Path;

use ringfence_model::config::HostWord;
use ringfence_model::{Error, ErrorKind, HostRule, Result, RuleLayer, RuleSource};

use super::grants::{Change, add_to_list, remove_from_list};

/// What was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostList {
    Allowed,
    Blocked,
}

impl HostList {
    /// The names of the list in a file, the first of them the one that is written.
    const fn names(self) -> [&'static str; 2] {
        match self {
            Self::Allowed => ["allowedHosts", "allowed_hosts"],
            Self::Blocked => ["blockedHosts", "blocked_hosts"],
        }
    }

    const fn other(self) -> Self {
        match self {
            Self::Allowed => Self::Blocked,
            Self::Blocked => Self::Allowed,
        }
    }
}

/// Adds a host to a list of the user's file, which is made when there is none; comments and order stay. The latest
/// answer counts: exactly the same host is taken off the other list.
pub fn keep_host(file: &Path, list: HostList, host: &str) -> Result<Change> {
    let wrong = |message| Error::new(ErrorKind::Validation, message);
    let host = match HostWord::of(host).map_err(wrong)? {
        HostWord::Rule => {
            HostRule::parse(host, RuleSource::layer(RuleLayer::User)).map_err(wrong)?.to_string()
        }
        HostWord::Set(_) | HostWord::HostPort(_) => host.to_owned(),
    };
    forget_host(file, list.other(), &host)?;
    if kept_hosts(file, list)?.iter().any(|known| is_same_host(known, &host)) {
        return Ok(Change::Unchanged);
    }
    add_to_list(file, list.names()[0], &host)
}

/// The hosts on a list of the user's file, as they are written.
pub fn kept_hosts(file: &Path, list: HostList) -> Result<Vec<String>> {
    let lists = super::grants::read(file)?;
    Ok(match list {
        HostList::Allowed => {
            lists.allowed_hosts.iter().flatten().map(|host| host.as_str().to_owned()).collect()
        }
        HostList::Blocked => {
            lists.blocked_hosts.iter().flatten().map(|host| host.as_str().to_owned()).collect()
        }
    })
}

/// Takes exactly this host off a list of the user's file, however it is written there; says how many there were.
pub fn forget_host(file: &Path, list: HostList, host: &str) -> Result<usize> {
    remove_from_list(file, &list.names(), |text| is_same_host(text, host))
}

/// Whether two texts are the same rule about hosts.
#[must_use]
pub fn is_same_host(one: &str, other: &str) -> bool {
    let written = |text: &str| HostRule::parse(text, RuleSource::layer(RuleLayer::User)).ok();
    one == other || written(one).is_some_and(|one| Some(one) == written(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_answer_about_a_host_is_the_one_that_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("sandbox.json");
        let text = || std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, "{\n  // mine\n  \"allowed_hosts\": [\"a.example\"]\n}\n").unwrap();
        let keep = |list, host: &str| keep_host(&file, list, host).unwrap();
        assert_eq!(keep(HostList::Allowed, "A.example."), Change::Unchanged);
        assert_eq!(keep(HostList::Blocked, "a.example"), Change::Written);
        assert!(text().contains("// mine") && text().contains("\"blockedHosts\""), "{}", text());
        assert_eq!(super::super::grants::read(&file).unwrap().allowed_hosts, Some(vec![]));
        assert_eq!(forget_host(&file, HostList::Blocked, "a.example").unwrap(), 1);
        assert_eq!(forget_host(&file, HostList::Blocked, "a.example").unwrap(), 0);
        let error = keep_host(&file, HostList::Allowed, "*").unwrap_err();
        assert!(error.to_string().contains("every host"), "{error}");
    }
}
