//! Answers of file tools, wherever the files are.

use std::fmt::Write as _;

use ringfence_workspace::{FileKind, Listing, PatchReport, SearchReport};
use serde_json::json;

use super::args;
use crate::session::ToolResult;

/// Lines that one call reads unless it says otherwise.
const LINES: usize = 2000;
/// Characters of one line that are shown.
const LONGEST_LINE: usize = 2000;

/// The lines of a file that were asked for.
pub(super) fn lines(path: &str, text: &str, args: &args::Read) -> ToolResult {
    let (first, most) = (args.offset.unwrap_or(1).max(1), args.limit.unwrap_or(LINES));
    let all = text.lines().count();
    let mut shown = String::new();
    for (index, line) in text.lines().enumerate().skip(first - 1).take(most) {
        let line: String = line.chars().take(LONGEST_LINE).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(shown, "{:>6}\t{line}", index + 1);
    }
    let more = all.saturating_sub((first - 1).saturating_add(most));
    let mut result = ToolResult::text(shown).with("path", path).with("lines", all);
    if more > 0 {
        result.truncated = true;
        result = result.with("linesLeft", more);
    }
    result
}

pub(super) fn written(path: &str, existed: bool, bytes: usize) -> ToolResult {
    let verb = if existed { "replaced" } else { "created" };
    ToolResult::text(format!("{verb} {path} ({bytes} bytes)\n")).with("path", path).with("created", !existed)
}

pub(super) fn edited(path: &str, count: usize) -> ToolResult {
    let text = format!("replaced {count} in {path}\n");
    ToolResult::text(text).with("path", path).with("replacements", count)
}

pub(super) fn patched(report: &PatchReport) -> ToolResult {
    let mut text = String::new();
    for (mark, paths) in [("A", &report.added), ("M", &report.updated), ("D", &report.deleted)] {
        for path in paths {
            let _ = writeln!(text, "{mark} {}", path.display());
        }
    }
    for (from, to) in &report.moved {
        let _ = writeln!(text, "R {} -> {}", from.display(), to.display());
    }
    ToolResult::text(text).with("patch", json!(report))
}

pub(super) fn listed(listing: &Listing) -> ToolResult {
    let mut text = String::new();
    for entry in &listing.entries {
        let mark = match entry.kind {
            FileKind::Directory => "/",
            FileKind::Symlink => "@",
            FileKind::File | FileKind::Other => "",
        };
        let _ = writeln!(text, "{}{mark}", entry.path.display());
    }
    let mut result = ToolResult::text(text).with("entries", json!(listing.entries));
    result.truncated = listing.truncated;
    result
}

pub(super) fn found(report: &SearchReport) -> ToolResult {
    let mut text = String::new();
    for found in &report.matches {
        let _ = writeln!(text, "{}:{}:{}", found.path.display(), found.line, found.text);
    }
    let mut result = ToolResult::text(text).with("search", json!(report));
    result.truncated = report.truncated;
    result
}
