//! One file: reading it safely, parsing it, remembering where everything stood.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use jsonc_parser::ast;
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use ringfence_model::config::{ConfigFile, aliases};
use rustix::fs::{CWD, Mode, OFlags, openat};
use serde_json::Value;

use super::diagnostic::{Diagnostic, DiagnosticKind};
use super::rules;

/// Longer than any configuration a person writes; a bound so that a project cannot make us read forever.
const MAX_BYTES: u64 = 1 << 20;

/// The name of the file, in ringfence's home and in a project's `.ringfence`.
pub(super) const FILE_NAME: &str = "sandbox.json";
/// The directory of a project's own file.
pub(super) const PROJECT_DIRECTORY: &str = ".ringfence";

/// The finding at a place where a configuration may be.
pub(super) type Found = Result<Option<Source>, Diagnostic>;

/// The text of a file.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) text: String,
    /// Users other than the owner can write it.
    pub(super) open_to_others: bool,
}

/// Reads the user's own file; none is fine.
pub(super) fn read_user(ringfence_home: &Path) -> Found {
    let path = ringfence_home.join(FILE_NAME);
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = openat(CWD, &path, flags, Mode::empty());
    read(opened.map(File::from), path)
}

/// Reads the project's file. The project is not trusted: no symbolic link is followed below it, and only a
/// regular file of bounded size is read.
pub(super) fn read_project(project: &Path) -> Found {
    let path = project.join(PROJECT_DIRECTORY).join(FILE_NAME);
    let directory = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let file = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
    let place = project.join(PROJECT_DIRECTORY);
    let opened = openat(CWD, &place, directory, Mode::empty())
        .and_then(|directory| openat(&directory, FILE_NAME, file, Mode::empty()))
        // Linux says "not a directory" for a link to one; that must not pass for "no file here".
        .map_err(|error| match error {
            rustix::io::Errno::NOTDIR if place.is_symlink() => rustix::io::Errno::LOOP,
            error => error,
        });
    read(opened.map(File::from), path)
}

fn read(opened: Result<File, rustix::io::Errno>, path: PathBuf) -> Found {
    let unreadable = |why: String| {
        Err(Diagnostic::error(DiagnosticKind::Unreadable, format!("cannot be read: {why}"))
            .in_file(Some(&path)))
    };
    let file = match opened {
        Ok(file) => file,
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => return Ok(None),
        Err(rustix::io::Errno::LOOP) => return unreadable("a symbolic link is not followed here".to_owned()),
        Err(error) => return unreadable(io::Error::from(error).to_string()),
    };
    match read_bounded(&file) {
        Ok((text, open_to_others)) => Ok(Some(Source { path, text, open_to_others })),
        Err(error) => unreadable(error.to_string()),
    }
}

fn read_bounded(file: &File) -> io::Result<(String, bool)> {
    use std::os::unix::fs::PermissionsExt as _;

    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut text = String::new();
    file.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(io::Error::other("longer than 1 MiB"));
    }
    Ok((text, metadata.permissions().mode() & 0o002 != 0))
}

/// Positions of keys and list entries: `policy/filesystem/allowWrite/0` → line and column, from 1. Keys by
/// their one name.
#[derive(Debug, Default)]
pub(super) struct Positions(HashMap<String, (u32, u32)>);

impl Positions {
    pub(super) fn get(&self, path: &str) -> Option<(u32, u32)> {
        self.0.get(path).copied()
    }
}

/// A file that parsed as a configuration.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) config: ConfigFile,
    pub(super) positions: Positions,
}

/// As [`parse`], without the keys that nobody knows: they are told, and the rest counts.
pub(super) fn parse_known(file: &Path, text: &str) -> Result<(Parsed, Vec<Diagnostic>), Diagnostic> {
    /// A file with more than so many is no configuration of ours.
    const MOST: usize = 64;
    let mut unknown: Vec<Diagnostic> = vec![];
    let mut removed: Vec<Vec<String>> = vec![];
    loop {
        let problem = match parse_without(file, text, &removed) {
            Ok(parsed) => return Ok((parsed, unknown)),
            Err(problem) => problem,
        };
        let name =
            problem.problem.message.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next());
        let (Some(name), true) = (name, unknown.len() < MOST) else { return Err(problem.problem) };
        let mut place: Vec<String> = problem.place.split('/').map(str::to_owned).collect();
        place.retain(|part| !part.is_empty());
        if place.last().is_none_or(|last| *last != aliases::canonical(name)) {
            place.push(aliases::canonical(name).into_owned());
        }
        // What was not found the last time will not be found now.
        if removed.contains(&place) {
            return Err(problem.problem);
        }
        let message = format!("`{name}` is not a key that ringfence knows: left out");
        unknown.push(Diagnostic {
            severity: super::diagnostic::Severity::Warning,
            message,
            ..problem.problem
        });
        removed.push(place);
    }
}

/// Takes out what stands at a place.
fn remove(value: &mut Value, place: &[String]) {
    let Some((first, rest)) = place.split_first() else { return };
    match value {
        Value::Object(object) => {
            let named: Vec<String> =
                object.keys().filter(|key| aliases::canonical(key) == first.as_str()).cloned().collect();
            for key in named {
                match object.get_mut(&key) {
                    Some(below) if !rest.is_empty() => remove(below, rest),
                    _ => drop(object.remove(&key)),
                }
            }
        }
        Value::Array(items) => {
            let item = first.parse::<usize>().ok().and_then(|index| items.get_mut(index));
            item.into_iter().for_each(|item| remove(item, rest));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Parses a whole file; the first thing that is wrong with it is the error.
pub(super) fn parse(file: &Path, text: &str) -> Result<Parsed, Diagnostic> {
    parse_without(file, text, &[]).map_err(|misfit| misfit.problem)
}

fn parse_without(file: &Path, text: &str, removed: &[Vec<String>]) -> Result<Parsed, Box<Misfit>> {
    let whole =
        |problem: Diagnostic| Box::new(Misfit { place: String::new(), problem: problem.in_file(Some(file)) });
    let ast = parse_ast(text).map_err(whole)?;
    let lines = Lines::new(text);
    let mut positions = Positions::default();
    let mut value = match &ast {
        Some(ast) => {
            locate(ast, &lines, &mut String::new(), &mut positions);
            to_value(ast, &lines).map_err(whole)?
        }
        None => Value::Object(serde_json::Map::new()),
    };
    removed.iter().for_each(|place| remove(&mut value, place));
    match from_value(value) {
        // A rule that does not do what its examples say is found here, before anything relies on it.
        Ok(config) => match ast.iter().flat_map(|ast| rules::check(ast, &lines)).next() {
            Some(problem) => Err(whole(problem)),
            None => Ok(Parsed { config, positions }),
        },
        Err(misfit) => {
            let problem = misfit.problem.in_file(Some(file)).at(positions.get(&misfit.place));
            Err(Box::new(Misfit { place: misfit.place, problem }))
        }
    }
}

/// Why an object is not a configuration, and where, in the form [`Positions`] knows.
#[derive(Debug)]
pub(super) struct Misfit {
    pub(super) place: String,
    pub(super) problem: Diagnostic,
}

/// Reads an object as a configuration.
pub(super) fn from_value(value: Value) -> Result<ConfigFile, Box<Misfit>> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let mut place = String::new();
        let mut key = String::new();
        for segment in error.path() {
            use serde_path_to_error::Segment;
            match segment {
                Segment::Map { key: name } => {
                    push(&mut place, &aliases::canonical(name));
                    key.push_str(if key.is_empty() { "" } else { "." });
                    key.push_str(name);
                }
                Segment::Seq { index } => {
                    push(&mut place, &index.to_string());
                    key.push_str(&format!("[{index}]"));
                }
                Segment::Enum { .. } | Segment::Unknown => {}
            }
        }
        let message = error.into_inner().to_string();
        let kind = if message.starts_with("unknown field") {
            DiagnosticKind::UnknownKey
        } else if message.starts_with("invalid type") {
            DiagnosticKind::WrongType
        } else {
            DiagnosticKind::BadValue
        };
        Box::new(Misfit { place, problem: Diagnostic::error(kind, message).key(key) })
    })
}

/// JSON with comments and trailing commas; nothing looser.
pub(super) fn options() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

pub(super) fn parse_ast(text: &str) -> Result<Option<ast::Value<'_>>, Diagnostic> {
    let parsed = parse_to_ast(text.trim_start_matches('\u{feff}'), &CollectOptions::default(), &options());
    parsed.map(|parsed| parsed.value).map_err(|error| {
        let place = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let message = error.kind().to_string();
        let mut letters = message.chars();
        let message = letters.next().map(|c| c.to_lowercase().to_string() + letters.as_str());
        Diagnostic::error(DiagnosticKind::Syntax, message.unwrap_or_default())
            .at(Some((place(error.line_display()), place(error.column_display()))))
    })
}

/// Byte offsets to lines and columns.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let text = text.trim_start_matches('\u{feff}');
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { text, starts }
    }

    pub(super) fn at(&self, offset: usize) -> (u32, u32) {
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = self.starts.get(line.wrapping_sub(1)).copied().unwrap_or(0);
        let column = self.text.get(start..offset).map_or(0, |before| before.chars().count()) + 1;
        (u32::try_from(line).unwrap_or(u32::MAX), u32::try_from(column).unwrap_or(u32::MAX))
    }
}

fn push(path: &mut String, part: &str) {
    if !path.is_empty() {
        path.push('/');
    }
    path.push_str(part);
}

fn locate(value: &ast::Value<'_>, lines: &Lines<'_>, path: &mut String, positions: &mut Positions) {
    let length = path.len();
    match value {
        ast::Value::Object(object) => {
            for property in &object.properties {
                push(path, &aliases::canonical(property.name.as_str()));
                positions.0.insert(path.clone(), lines.at(property.range().start));
                locate(&property.value, lines, path, positions);
                path.truncate(length);
            }
        }
        ast::Value::Array(array) => {
            for (index, element) in array.elements.iter().enumerate() {
                push(path, &index.to_string());
                positions.0.insert(path.clone(), lines.at(element.range().start));
                locate(element, lines, path, positions);
                path.truncate(length);
            }
        }
        ast::Value::StringLit(_)
        | ast::Value::NumberLit(_)
        | ast::Value::BooleanLit(_)
        | ast::Value::NullKeyword(_) => {}
    }
}

/// The plain value. A key given twice is an error: only one of the two could count.
pub(super) fn to_value(value: &ast::Value<'_>, lines: &Lines<'_>) -> Result<Value, Diagnostic> {
    Ok(match value {
        ast::Value::StringLit(text) => Value::String(text.value.to_string()),
        ast::Value::NumberLit(number) => number.value.parse().map(Value::Number).map_err(|_| {
            Diagnostic::error(DiagnosticKind::Syntax, format!("`{}` is not a number", number.value))
                .at(Some(lines.at(number.range.start)))
        })?,
        ast::Value::BooleanLit(boolean) => Value::Bool(boolean.value),
        ast::Value::NullKeyword(_) => Value::Null,
        ast::Value::Array(array) => Value::Array(
            array.elements.iter().map(|element| to_value(element, lines)).collect::<Result<_, _>>()?,
        ),
        ast::Value::Object(object) => {
            let mut map = serde_json::Map::new();
            for property in &object.properties {
                let name = property.name.as_str();
                if map.insert(name.to_owned(), to_value(&property.value, lines)?).is_some() {
                    return Err(Diagnostic::error(DiagnosticKind::DuplicateKey, "is given twice")
                        .key(name)
                        .at(Some(lines.at(property.range.start))));
                }
            }
            Value::Object(map)
        }
    })
}
