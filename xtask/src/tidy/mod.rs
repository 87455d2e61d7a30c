//! Rules of the house that no compiler checks.

mod acceptance;
mod dependencies;
mod listed;
mod source;
mod width;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::report::Done;
use crate::shell;

/// Where `unsafe` may be written, and why there.
const UNSAFE_ALLOWED: &[(&str, &str)] = &[("crates/ringfence-linux/", "is the interface to the kernel")];

/// A file longer than this is split.
const MAX_LINES: usize = 800;

/// Words that mean "not done"; written in two parts so that this file passes.
const UNFINISHED: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// A rule that a file breaks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// A file of the repository, by its path from the root.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

pub(crate) fn check() -> Result<Done> {
    let root = shell::clean_root()?;
    let mut sources = Vec::new();
    for directory in ["crates", "xtask", "tests"] {
        collect(&root, &root.join(directory), "rs", &mut sources)?;
    }
    let tables = [read(&root, &root.join("docs/acceptance.md"))?];
    let mut problems: Vec<Problem> = sources.iter().flat_map(check_source).collect();
    let references = acceptance::check(&tables, &sources, &mut problems);
    let manifest = read(&root, &root.join("Cargo.toml"))?;
    let document = read(&root, &root.join("docs/dependencies.md"))?;
    dependencies::check(&manifest, &document, &mut problems);
    let mut manifests = Vec::new();
    collect(&root, &root.join("crates"), "toml", &mut manifests)?;
    listed::check(&manifests, &sources, &mut problems);
    let mut documents = Vec::new();
    collect(&root, &root.join("docs"), "md", &mut documents)?;
    collect_here(&root, &root, "md", &mut documents)?;
    width::check(&documents, &mut problems);
    println!("{} source files, {references} references from the acceptance tables", sources.len());
    if problems.is_empty() {
        return Ok(Done::passed());
    }
    for problem in &problems {
        println!("{}:{}: {}", problem.file, problem.line, problem.text);
    }
    Ok(Done::Failed { reason: format!("{} problems, see above", problems.len()), notes: Vec::new() })
}

/// The files of a directory and of those below it.
fn collect(root: &Path, directory: &Path, extension: &str, into: &mut Vec<File>) -> Result<()> {
    if !directory.is_dir() {
        return Ok(());
    }
    collect_here(root, directory, extension, into)?;
    for entry in entries(directory)? {
        if entry.is_dir() && entry.file_name().is_some_and(|name| name != "target") {
            collect(root, &entry, extension, into)?;
        }
    }
    Ok(())
}

/// The files of a directory itself.
fn collect_here(root: &Path, directory: &Path, extension: &str, into: &mut Vec<File>) -> Result<()> {
    for entry in entries(directory)? {
        if !entry.is_dir() && entry.extension().is_some_and(|found| found == extension) {
            into.push(read(root, &entry)?);
        }
    }
    Ok(())
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(directory)
        .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect())
        .with_context(|| format!("listing {}", directory.display()))?;
    entries.sort();
    Ok(entries)
}

fn read(root: &Path, path: &Path) -> Result<File> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let path = path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned();
    Ok(File { path, text })
}

fn check_source(file: &File) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut problem = |line: usize, text: String| {
        problems.push(Problem { file: file.path.clone(), line, text });
    };
    let lines = file.text.lines().count();
    if lines > MAX_LINES {
        problem(lines, format!("{lines} lines; split it (the limit is {MAX_LINES})"));
    }
    let root_of_crate = file.path.ends_with("/src/lib.rs") || file.path.ends_with("/src/main.rs");
    if root_of_crate && !file.text.trim_start().starts_with("//!") {
        problem(1, "a crate begins with its documentation (`//!`)".to_owned());
    }
    let unsafe_allowed = UNSAFE_ALLOWED.iter().any(|(place, _)| file.path.starts_with(place));
    let code = source::code_only(&file.text);
    for (number, (full, code)) in file.text.lines().zip(code.lines()).enumerate() {
        let number = number + 1;
        if !unsafe_allowed && source::has_word(code, "unsafe") {
            problem(number, "`unsafe` belongs into crates/ringfence-linux".to_owned());
        }
        if let Some(word) = UNFINISHED.iter().find(|word| source::has_word(full, word)) {
            problem(number, format!("`{word}`: finish it, or write down what is missing in the docs"));
        }
        if source::has_word(code, "dbg") && code.contains("dbg!") {
            problem(number, "`dbg!` is for debugging".to_owned());
        }
        if code.contains("#[ignore") {
            problem(number, "an ignored test tests nothing; assert what happens today instead".to_owned());
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str) -> Vec<String> {
        let file = File { path: path.to_owned(), text: text.to_owned() };
        check_source(&file).into_iter().map(|problem| format!("{}: {}", problem.line, problem.text)).collect()
    }

    #[test]
    fn unsafe_stays_in_its_crate() {
        let code = "fn f() {\n    unsafe { g() }\n}\n";
        assert_eq!(problems("crates/a/src/x.rs", code), ["2: `unsafe` belongs into crates/ringfence-linux"]);
        assert!(problems("crates/ringfence-linux/src/x.rs", code).is_empty());
        let mentions = "// unsafe\nconst A: &str = \"unsafe\";\n#![forbid(unsafe_code)]\n";
        assert!(problems("crates/a/src/x.rs", mentions).is_empty());
    }

    #[test]
    fn a_crate_has_documentation() {
        assert_eq!(problems("crates/a/src/lib.rs", "fn f() {}\n").len(), 1);
        assert!(problems("crates/a/src/lib.rs", "//! What it is.\n").is_empty());
        assert!(problems("crates/a/src/other.rs", "fn f() {}\n").is_empty());
    }

    #[test]
    fn long_files_are_named() {
        assert_eq!(problems("crates/a/src/x.rs", &"\n".repeat(MAX_LINES + 1)).len(), 1);
        assert!(problems("crates/a/src/x.rs", &"\n".repeat(MAX_LINES)).is_empty());
    }

    #[test]
    fn unfinished_work_is_named() {
        let marker = UNFINISHED[0];
        assert_eq!(problems("crates/a/src/x.rs", &format!("// {marker}: later\n")).len(), 1);
        assert!(problems("crates/a/src/x.rs", &format!("// {marker}Write is a tool\n")).is_empty());
        assert_eq!(problems("crates/a/src/x.rs", "fn f() { dbg!(1); }\n").len(), 1);
        assert_eq!(problems("crates/a/src/x.rs", "#[test]\n#[ignore]\nfn f() {}\n").len(), 1);
    }
}
