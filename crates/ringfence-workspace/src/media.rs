//! Media files of a message, brought into the workspace where the agent can see them.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use ringfence_model::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::atomic::{IfThere, Staged};
use crate::error::{explain, explain_io};
use crate::path::Inner;
use crate::workspace::{Mode, Workspace, WorkspaceOptions};

/// Where staged media go.
pub const INBOUND: &str = "media/inbound";

/// The one directory of the host from which media may come.
#[derive(Debug)]
pub struct MediaPlace {
    directory: Workspace,
}

impl MediaPlace {
    pub fn open(directory: &Path) -> Result<Self> {
        let options = WorkspaceOptions { mode: Mode::ReadOnly, ..WorkspaceOptions::default() };
        Ok(Self { directory: Workspace::open(directory, options)? })
    }
}

/// What a message refers to. Paths are of the host before staging and of the workspace after it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MediaRefs {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media_path: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub media_paths: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media_url: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub media_urls: Vec<String>,
}

/// What became of one source.
#[derive(Debug)]
pub struct StagedMedia {
    pub source: String,
    /// Where it is in the workspace, or why it is not.
    pub outcome: Result<PathBuf>,
}

impl Workspace {
    /// Copies every local file that `refs` mentions into the workspace and rewrites the mention. The same
    /// source is copied once. What may not be staged keeps its path, and the reason is in the result;
    /// addresses of other places are left alone.
    pub fn stage_media(&self, media: &MediaPlace, refs: &mut MediaRefs) -> Vec<StagedMedia> {
        let mut known: HashMap<String, Option<String>> = HashMap::new();
        let mut staged = Vec::new();
        let single = [&mut refs.media_path, &mut refs.media_url].into_iter().filter_map(Option::as_mut);
        let many = refs.media_paths.iter_mut().chain(refs.media_urls.iter_mut());
        for mention in single.chain(many) {
            let Some(source) = local_path(mention) else { continue };
            let place = known.entry(source.clone()).or_insert_with(|| {
                let outcome = self.stage_file(media, Path::new(&source));
                let place = outcome.as_ref().ok().map(|path| path.display().to_string());
                staged.push(StagedMedia { source: source.clone(), outcome });
                place
            });
            if let Some(place) = place {
                mention.clone_from(place);
            }
        }
        staged
    }

    /// Copies one file of the media directory, under a name that is not taken yet.
    pub fn stage_file(&self, media: &MediaPlace, source: &Path) -> Result<PathBuf> {
        self.must_be_writable(source)?;
        let inside = media.directory.relative(source).map_err(|error| {
            let message = format!("cannot stage {}: it is not in the media directory", source.display());
            Error::new(ErrorKind::PathAccessDenied, message).caused_by(error)
        })?;
        let name = Inner::of_entry(&inside)?.file_name().to_owned();
        for number in 0..10_000 {
            let target = Path::new(INBOUND).join(numbered(&name, number));
            if self.exists(&target) {
                continue;
            }
            if self.copy_in(media, &inside, &target)? {
                return Ok(target);
            }
        }
        let message = format!("cannot stage {}: too many files have its name", source.display());
        Err(Error::new(ErrorKind::ResourceLimitExceeded, message))
    }

    fn copy_in(&self, media: &MediaPlace, source: &Path, target: &Path) -> Result<bool> {
        let (mut file, facts) = media.directory.open_file(&Inner::of_entry(source)?)?;
        self.room_for(usize::try_from(facts.size).unwrap_or(usize::MAX))?;
        let place = self.place_to_write(&Inner::of_entry(target)?)?;
        let staged = Staged::new(place, None, |copy| std::io::copy(&mut file, copy).map(drop))
            .map_err(|error| explain_io("stage", source, error))?;
        if !media.directory.is_still_ours(&Inner::of_entry(source)?, &file, &facts)? {
            return Err(explain("stage", source, rustix::io::Errno::AGAIN));
        }
        staged.commit(IfThere::Keep).map_err(|errno| explain("stage", source, errno))
    }
}

/// `photo.jpg`, `photo-1.jpg`, `photo-2.jpg`, …
fn numbered(name: &OsStr, number: usize) -> OsString {
    if number == 0 {
        return name.to_owned();
    }
    let path = Path::new(name);
    let mut numbered = path.file_stem().unwrap_or(name).to_owned();
    numbered.push(format!("-{number}"));
    if let Some(extension) = path.extension() {
        numbered.push(".");
        numbered.push(extension);
    }
    numbered
}

/// The host's path that a mention stands for; none when it is an address elsewhere.
fn local_path(mention: &str) -> Option<String> {
    let mention = mention.trim();
    if let Some(path) = mention.strip_prefix("file://") {
        return Some(path.to_owned());
    }
    let scheme = mention.split_once(':').map(|(scheme, _)| scheme);
    let elsewhere = scheme.is_some_and(|scheme| {
        scheme.len() > 1 && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+.-".contains(c))
    });
    (!mention.is_empty() && !elsewhere).then(|| mention.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_are_numbered_before_the_extension() {
        for (name, number, want) in [
            ("a.jpg", 0, "a.jpg"),
            ("a.jpg", 1, "a-1.jpg"),
            ("a.tar.gz", 2, "a.tar-2.gz"),
            ("noext", 3, "noext-3"),
            (".hidden", 1, ".hidden-1"),
        ] {
            assert_eq!(numbered(OsStr::new(name), number), want);
        }
    }

    #[test]
    fn addresses_of_other_places_are_not_paths() {
        for (mention, want) in [
            ("/media/a.jpg", Some("/media/a.jpg")),
            ("file:///media/a.jpg", Some("/media/a.jpg")),
            ("a.jpg", Some("a.jpg")),
            ("https://example.org/a.jpg", None),
            ("data:image/png;base64,AAAA", None),
            ("", None),
        ] {
            assert_eq!(local_path(mention).as_deref(), want, "{mention}");
        }
    }
}
