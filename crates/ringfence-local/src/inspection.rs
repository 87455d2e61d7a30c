//! What a sandbox needs when requests to a host are looked into: an authority that its programs trust, and credentials
//! that they do not have.

mod credentials;
mod jks;
mod trust;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use ringfence_model::{Access, Error, ErrorKind, Filesystem, PathOutcome, Policy, Result};
use ringfence_relay::{Authority, Secret, Settings};

use crate::host::Host;
use crate::synthetic_etc::Replaced;

pub(crate) use trust::FIRST as TRUSTED;

use credentials::Fetched;
use trust::Trust;

/// All of it, for one sandbox.
#[derive(Debug)]
pub(crate) struct Inspection {
    /// Its key is here and nowhere else.
    authority: Authority,
    trust: Trust,
    fetched: Fetched,
}

impl Inspection {
    /// None where no rule looks into requests. The credentials are fetched now.
    pub(crate) fn of(policy: &Policy, host: &Host) -> Result<Option<Self>> {
        if !policy.network.allowed_hosts.iter().any(|rule| rule.inspect.is_some()) {
            return Ok(None);
        }
        let fetched = Fetched::of(policy, host)?;
        let authority = Authority::default();
        let certificate = authority.certificate_pem().map_err(|why| {
            Error::new(ErrorKind::Internal, format!("no authority for hosts that are inspected: {why}"))
        })?;
        Ok(Some(Self { trust: Trust::of(&certificate, host), authority, fetched }))
    }

    /// Files of the host that read otherwise inside.
    pub(crate) fn replaced(&self) -> &[Replaced] {
        &self.trust.replaced
    }

    /// Files that are inside only.
    pub(crate) fn own_files(&self) -> &[Replaced] {
        &self.trust.own
    }

    /// What the relay has to know.
    pub(crate) fn tell(&self, settings: &mut Settings) {
        settings.authority = self.authority.clone();
        settings.secrets = self.fetched.secrets.clone();
    }

    /// Writes those files to `place`, where there are no mounts.
    pub(crate) fn write_own_files(&self, place: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(place)?;
        self.own_files().iter().try_for_each(|(path, content)| std::fs::write(at(place, path), content))
    }

    /// Puts placeholders where the credentials would be. Programs are told whom to trust, by our files at their own
    /// place or another, unless somebody said that already.
    pub(crate) fn furnish(
        &self,
        env: &mut BTreeMap<OsString, OsString>,
        files: &OwnFiles,
        is_said: impl Fn(&str) -> bool,
    ) {
        for (name, value) in self.trust.variables.iter().filter(|(name, _)| !is_said(name)) {
            let value = match files {
                OwnFiles::None => continue,
                OwnFiles::AtTheirPlace => value.clone(),
                OwnFiles::At(place) => at(place, Path::new(value)).into_os_string(),
            };
            env.insert((*name).into(), value);
        }
        for (name, placeholder) in self.fetched.variables.iter().filter(|(name, _)| !is_said(name)) {
            env.insert(name.into(), placeholder.into());
        }
        // The same secret may be in a variable of another name.
        for value in env.values_mut() {
            for hidden in self.fetched.secrets.iter().flat_map(|secret: &Secret| &secret.hidden) {
                let changed = replaced(value, hidden.value.as_bytes(), hidden.placeholder.as_bytes());
                if let Some(changed) = changed {
                    *value = changed;
                }
            }
        }
    }
}

/// Where the files that are inside only are.
#[derive(Debug)]
pub(crate) enum OwnFiles {
    None,
    AtTheirPlace,
    At(PathBuf),
}

/// One of our files at another place; every other path as it is.
fn at(place: &Path, path: &Path) -> PathBuf {
    path.strip_prefix(trust::OWN).map_or_else(|_| path.to_owned(), |name| place.join(name))
}

/// Whether nobody inside could have made or changed it.
pub(crate) fn is_out_of_reach(filesystem: &Filesystem, path: &Path) -> bool {
    path.ancestors().all(|path| filesystem.decide(path, Access::Write).outcome != PathOutcome::Allowed)
}

/// The text with another word in the place of one; none where it is not in it.
fn replaced(text: &OsStr, word: &[u8], other: &[u8]) -> Option<OsString> {
    let (mut rest, mut changed) = (text.as_bytes(), Vec::new());
    while let Some(at) = rest.windows(word.len()).position(|part| part == word) {
        changed.extend_from_slice(&rest[..at]);
        changed.extend_from_slice(other);
        rest = &rest[at + word.len()..];
    }
    (rest.len() < text.len()).then(|| {
        changed.extend_from_slice(rest);
        OsString::from_vec(changed)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_replaced_wherever_it_is() {
        let replaced =
            |text: &str| replaced(OsStr::new(text), b"abc", b"-").map(|text| text.into_string().unwrap());
        assert_eq!(replaced("xabcabcy").as_deref(), Some("x--y"));
        assert_eq!(replaced("abc").as_deref(), Some("-"));
        assert_eq!(replaced("ab"), None);
        assert_eq!(replaced(""), None);
    }
}
