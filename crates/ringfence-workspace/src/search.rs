//! Finding text in files.

use std::fs::File;
use std::io::Read;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use ringfence_model::{Access, Error, ErrorKind, Result};
use rustix::fs::FileType;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::beneath::{PLACE, Place, READ, facts_of, open_plain_at};
use crate::edit::positions;
use crate::path::Inner;
use crate::tree::{self, Next};
use crate::workspace::{HardLinks, Workspace};

/// What to look for, and how far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchOptions {
    pub ignore_case: bool,
    pub max_matches: usize,
    pub max_files: usize,
    /// Larger files are passed over.
    pub max_file_bytes: u64,
    /// Names of directories that are not entered.
    pub skip: Vec<String>,
}

impl Default for SearchOptions {
    fn default() -> Self {
        Self {
            ignore_case: false,
            max_matches: 1000,
            max_files: 50_000,
            max_file_bytes: 4 << 20,
            skip: [".git", "node_modules", "target"].map(str::to_owned).to_vec(),
        }
    }
}

/// One line that contains the text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Match {
    pub path: PathBuf,
    /// Counted from 1.
    pub line: usize,
    /// At most [`Match::LONGEST`] bytes of it.
    pub text: String,
}

impl Match {
    pub const LONGEST: usize = 500;
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SearchReport {
    pub matches: Vec<Match>,
    pub files_searched: usize,
    /// Too large, not text, not readable, or hard links.
    pub files_passed_over: usize,
    /// A limit ended the search.
    pub truncated: bool,
}

impl Workspace {
    /// Looks for `text` (plain, no pattern) in the text files below `path`. Follows no link.
    pub fn search(&self, path: &Path, text: &str, options: &SearchOptions) -> Result<SearchReport> {
        let searcher = Searcher::new(text, options)?;
        let inner = Inner::new(path)?;
        let top = self.open_directory(&inner)?;
        let mut report = SearchReport::default();
        let mut candidates = Vec::new();
        tree::visit(top.as_fd(), &mut |below, facts| {
            let skipped =
                below.file_name().is_some_and(|name| options.skip.iter().any(|skip| name == skip.as_str()));
            match facts.kind {
                FileType::Directory if skipped => return Next::Skip,
                FileType::RegularFile if facts.size > options.max_file_bytes => report.files_passed_over += 1,
                FileType::RegularFile => candidates.push(below.to_owned()),
                _ => {}
            }
            if candidates.len() >= options.max_files {
                report.truncated = true;
                return Next::Stop;
            }
            Next::Enter
        });
        for candidate in candidates {
            let Some(content) = self.read_text_at(top.as_fd(), &candidate, options.max_file_bytes) else {
                report.files_passed_over += 1;
                continue;
            };
            if searcher.look(&inner.as_path().join(&candidate), &content, &mut report).is_break() {
                break;
            }
        }
        Ok(report)
    }

    /// The content of a text file that is the workspace's own.
    fn read_text_at(&self, top: BorrowedFd<'_>, path: &Path, limit: u64) -> Option<Vec<u8>> {
        let file = File::from(open_plain_at(top, path, READ).ok()?);
        let facts = facts_of(&file).ok()?;
        if facts.kind != FileType::RegularFile
            || (facts.names > 1 && self.options().hard_links == HardLinks::Refuse)
        {
            return None;
        }
        self.guard_open(&file, Access::Read).ok()?;
        let mut content = Vec::new();
        (&file).take(limit).read_to_end(&mut content).ok()?;
        let parent = path.parent().unwrap_or(Path::new(""));
        let there = open_plain_at(top, parent, PLACE).and_then(|directory| {
            let place = Place { directory, name: path.file_name().unwrap_or_default().to_owned() };
            place.settled_facts()?.ok_or(Errno::NOENT)
        });
        let ours = self.is_ours(path, &facts, there, &file).unwrap_or(false);
        (ours && is_text(&content)).then_some(content)
    }
}

/// Looks for one text in the contents of files, wherever they come from.
#[derive(Debug)]
pub struct Searcher<'o> {
    needle: Vec<u8>,
    options: &'o SearchOptions,
}

impl<'o> Searcher<'o> {
    pub fn new(text: &str, options: &'o SearchOptions) -> Result<Self> {
        if text.is_empty() || text.contains('\n') {
            return Err(Error::new(
                ErrorKind::Validation,
                "the text to search must be one line and not empty",
            ));
        }
        Ok(Self { needle: folded(text.as_bytes(), options.ignore_case), options })
    }

    /// Adds what a file, shown as `path`, contains to the report; breaks when that has enough.
    pub fn look(&self, path: &Path, content: &[u8], report: &mut SearchReport) -> ControlFlow<()> {
        report.files_searched += 1;
        for (number, line) in content.split(|&byte| byte == b'\n').enumerate() {
            if positions(&folded(line, self.options.ignore_case), &self.needle).is_empty() {
                continue;
            }
            if report.matches.len() >= self.options.max_matches {
                report.truncated = true;
                return ControlFlow::Break(());
            }
            let kept = &line[..line.len().min(Match::LONGEST)];
            let text = String::from_utf8_lossy(kept).trim_end_matches('\r').to_owned();
            report.matches.push(Match { path: path.to_owned(), line: number + 1, text });
        }
        ControlFlow::Continue(())
    }
}

/// Whether a search looks into it.
#[must_use]
pub fn is_text(content: &[u8]) -> bool {
    !content[..content.len().min(8192)].contains(&0)
}

fn folded(text: &[u8], ignore_case: bool) -> Vec<u8> {
    if ignore_case { String::from_utf8_lossy(text).to_lowercase().into_bytes() } else { text.to_vec() }
}
