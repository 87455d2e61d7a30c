//! Languages that `run_code` knows, and how their code is run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ringfence_gate as gate;
use ringfence_model::{Error, ErrorKind, Result, shell_word};
use ringfence_workspace::{FileKind, ListOptions, Workspace};
use serde::Deserialize;

/// Stands in a command for the file that the code is written to.
pub(crate) const FILE: &str = "{file}";

/// How code of one language is run.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Language {
    /// The program and its arguments. Code comes on standard input, unless `{file}` is among them.
    pub command: Vec<String>,
    /// Of the file, with its dot.
    #[serde(default)]
    pub extension: String,
    /// Where a container of its own runs such code; none: where the configured image does.
    #[serde(default)]
    pub container: Option<CodeImage>,
}

/// An image, and what runs code in it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CodeImage {
    /// Its name for the engine.
    pub image: String,
    /// As that of a [`Language`].
    pub command: Vec<String>,
}

/// Languages by name. The default knows Python, JavaScript and the shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Languages(BTreeMap<String, Language>);

impl Default for Languages {
    fn default() -> Self {
        let words = |command: [&str; 2]| command.map(str::to_owned).to_vec();
        let known = |name: &str, command, extension: &str, image: &str, inside| {
            let container = Some(CodeImage { image: image.to_owned(), command: words(inside) });
            let language = Language { command: words(command), extension: extension.to_owned(), container };
            (name.to_owned(), language)
        };
        Self(BTreeMap::from([
            known("python", ["python3", "-"], ".py", "python:3.11-slim", ["python3", "-"]),
            known("javascript", ["node", "-"], ".js", "node:20-slim", ["node", "-"]),
            known("shell", ["bash", "-s"], ".sh", "alpine:latest", ["sh", "-s"]),
        ]))
    }
}

impl Languages {
    /// Adds one, or replaces it.
    pub fn add(&mut self, name: &str, language: Language) -> Result<()> {
        if name.trim().is_empty() || language.command.first().is_none_or(String::is_empty) {
            return Err(Error::new(ErrorKind::InvalidConfig, "a language needs a name and a command"));
        }
        self.0.insert(name.trim().to_lowercase(), language);
        Ok(())
    }

    /// The languages that have an image of their own.
    pub(crate) fn images(&self) -> impl Iterator<Item = (&str, &CodeImage)> {
        self.0.iter().filter_map(|(name, language)| Some((name.as_str(), language.container.as_ref()?)))
    }

    /// The language by one of its names.
    pub(crate) fn get(&self, name: &str) -> Result<(&str, &Language)> {
        let wanted = name.trim().to_lowercase();
        let wanted = match gate::Language::by_name(&wanted) {
            Some(known) if !self.0.contains_key(&wanted) => known.name().to_owned(),
            _ => wanted,
        };
        self.0.get_key_value(&wanted).map(|(name, language)| (name.as_str(), language)).ok_or_else(|| {
            let known: Vec<&str> = self.0.keys().map(String::as_str).collect();
            let message =
                format!("`{name}` is not a language that is known here; known are {}", known.join(", "));
            Error::new(ErrorKind::Validation, message)
        })
    }
}

/// How the gate reads a language.
pub(crate) fn for_gate(name: &str) -> gate::Language {
    gate::Language::by_name(name).unwrap_or(gate::Language::Unknown)
}

/// Code that is ready to run.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) command: String,
    pub(crate) stdin: Vec<u8>,
    file: Option<PathBuf>,
}

impl Prepared {
    /// Writes the code to a file only where its language needs one. `seen` is where the sandbox has the workspace, and
    /// `below` where the code runs in that.
    pub(crate) fn new(
        (command, extension): (&[String], &str),
        code: &str,
        workspace: &Workspace,
        seen: &Path,
        below: &Path,
    ) -> Result<Self> {
        let needs_file = command.iter().any(|word| word.contains(FILE));
        let file = needs_file.then(|| {
            let name = format!(".ringfence-code-{}{}", uuid::Uuid::now_v7().simple(), extension);
            if workspace.exists(Path::new("temp")) {
                Path::new("temp").join(name)
            } else {
                PathBuf::from(name)
            }
        });
        let mut words = vec![];
        for word in command {
            let inside = file.as_ref().map(|file| seen.join(file).display().to_string()).unwrap_or_default();
            words.push(shell_word(&word.replace(FILE, &inside)));
        }
        let directory = seen.join(below).display().to_string();
        let command = format!("( cd -- {} && exec {} )", shell_word(&directory), words.join(" "));
        let stdin = if let Some(file) = &file {
            workspace.write(file, code.as_bytes())?;
            vec![]
        } else {
            code.as_bytes().to_vec()
        };
        Ok(Self { command, stdin, file })
    }

    pub(crate) fn tidy(self, workspace: &Workspace) {
        if let Some(file) = self.file {
            // A file that is gone needs no removing.
            let _ = workspace.remove(&file, ringfence_workspace::RemoveDepth::Single);
        }
    }
}

/// Directories whose files are not worth telling.
const UNINTERESTING: [&str; 3] = [".git", "node_modules", "target"];

/// The files of a workspace at one time.
#[derive(Debug)]
pub(crate) struct Snapshot {
    files: BTreeMap<PathBuf, (u64, i64)>,
    truncated: bool,
}

/// Changes that code made to the files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) created: Vec<String>,
    pub(crate) changed: Vec<String>,
    /// There are too many files to be sure of all.
    pub(crate) incomplete: bool,
}

impl Snapshot {
    pub(crate) fn of(workspace: &Workspace) -> Result<Self> {
        let listing = workspace.list(Path::new(""), ListOptions::recursive())?;
        let interesting = |path: &Path| {
            !path.components().any(|part| UNINTERESTING.iter().any(|name| part.as_os_str() == *name))
        };
        let files = listing
            .entries
            .into_iter()
            .filter(|entry| entry.kind == FileKind::File && interesting(&entry.path));
        Ok(Self {
            files: files.map(|entry| (entry.path, (entry.size, entry.modified_ms))).collect(),
            truncated: listing.truncated,
        })
    }

    /// The differences in `later`. `since_ms` tells new files from those that a full list had no room for.
    pub(crate) fn until(&self, later: &Self, since_ms: i64) -> Changes {
        let mut changes = Changes { incomplete: self.truncated || later.truncated, ..Changes::default() };
        for (path, facts) in &later.files {
            let list = match self.files.get(path) {
                None if changes.incomplete && facts.1 < since_ms => continue,
                None => &mut changes.created,
                Some(before) if before != facts => &mut changes.changed,
                Some(_) => continue,
            };
            list.push(path.display().to_string());
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_workspace::WorkspaceOptions;

    #[test]
    fn languages_have_names_and_more_can_be_added() {
        let mut languages = Languages::default();
        for (asked, found) in
            [("Python", "python"), ("py", "python"), ("js", "javascript"), ("bash", "shell")]
        {
            assert_eq!(languages.get(asked).unwrap().0, found);
        }
        let error = languages.get("cobol").unwrap_err();
        assert!(error.message.contains("javascript, python, shell"), "{}", error.message);
        let perl = Language {
            command: vec!["perl".to_owned(), FILE.to_owned()],
            extension: ".pl".to_owned(),
            container: None,
        };
        languages.add("Perl", perl.clone()).unwrap();
        assert_eq!(languages.get("perl").unwrap().1, &perl);
        assert!(languages.add("x", Language { command: vec![], ..perl }).is_err());
        assert!(serde_json::from_str::<Language>(r#"{"command":["ruby","-"]}"#).is_ok());
    }

    #[test]
    fn code_goes_to_a_file_only_where_that_is_needed() {
        let temp = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(temp.path(), WorkspaceOptions::default()).unwrap();
        let languages = Languages::default();
        let (seen, top) = (Path::new("/seen"), Path::new(""));
        let prepared = Prepared::new(
            (&languages.get("python").unwrap().1.command, ".py"),
            "print(1)",
            &workspace,
            seen,
            Path::new("below"),
        )
        .unwrap();
        assert!(prepared.command.starts_with("( cd -- '/seen/below' && "), "{}", prepared.command);
        assert!(prepared.command.ends_with("exec 'python3' '-' )"), "{}", prepared.command);
        assert_eq!(prepared.stdin, b"print(1)");
        assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 0);
        let perl = Language {
            command: vec!["perl".to_owned(), FILE.to_owned()],
            extension: ".pl".to_owned(),
            container: None,
        };
        let perl = (perl.command.as_slice(), perl.extension.as_str());
        let prepared = Prepared::new(perl, "print 1", &workspace, seen, top).unwrap();
        assert!(prepared.command.contains("'/seen/.ringfence-code-"), "{}", prepared.command);
        assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 1);
        prepared.tidy(&workspace);
        assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 0);
        std::fs::create_dir(temp.path().join("temp")).unwrap();
        let prepared = Prepared::new(perl, "print 1", &workspace, seen, top).unwrap();
        assert!(prepared.command.contains("'/seen/temp/.ringfence-code-"), "{}", prepared.command);
        assert_eq!(std::fs::read_dir(temp.path().join("temp")).unwrap().count(), 1);
        prepared.tidy(&workspace);
        assert_eq!(std::fs::read_dir(temp.path().join("temp")).unwrap().count(), 0);
    }

    #[test]
    fn created_and_changed_files_are_told_apart() {
        let temp = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(temp.path(), WorkspaceOptions::default()).unwrap();
        let write = |path: &str, text: &str| workspace.write(Path::new(path), text.as_bytes()).unwrap();
        write("same", "1");
        write("other", "1");
        let before = Snapshot::of(&workspace).unwrap();
        write("other", "more");
        write("deep/new", "1");
        write(".git/objects/x", "1");
        let changes = before.until(&Snapshot::of(&workspace).unwrap(), 0);
        assert_eq!(
            (changes.created, changes.changed),
            (vec!["deep/new".to_owned()], vec!["other".to_owned()])
        );
    }
}
