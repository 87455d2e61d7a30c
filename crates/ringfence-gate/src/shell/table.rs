//! The table of options that run something: `data/options.md`, read once.
//!
//! A row is a rule. What the columns mean is said in that file, which is for people as well.

use std::sync::{LazyLock, OnceLock};

/// What the value of an option is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    Shell,
    Judged,
    Perhaps,
    Program,
    Rest,
    Script,
    Load,
    Settings,
    Source,
    Send,
    Changes,
}

impl Takes {
    fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "shell" => Self::Shell,
            "judged" => Self::Judged,
            "perhaps" => Self::Perhaps,
            "program" => Self::Program,
            "rest" => Self::Rest,
            "script" => Self::Script,
            "load" => Self::Load,
            "settings" => Self::Settings,
            "source" => Self::Source,
            "send" => Self::Send,
            "changes" => Self::Changes,
            _ => return None,
        })
    }
}

/// How an option is written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// `-I`.
    Letter(char),
    /// `--long`, which may be shortened.
    Long(&'static str),
    /// Exactly this word; the value is the next, or behind `=`.
    Word(&'static str),
    /// What begins so; the value is what follows.
    Glued(&'static str),
    /// A name with gaps, before and behind the star, and its value behind `=`.
    Pattern(&'static str, &'static str),
    /// Words that are no option: all, the first, the last.
    Operand,
    First,
    Last,
    /// Every word.
    Each,
    /// What stands behind `=` or `:` in an option, whatever its name.
    Tail,
    /// The word of the column `with`.
    With,
    /// The text on standard input.
    Stdin,
    /// The program itself, whatever its words are.
    Always,
}

#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) spelling: Spelling,
    /// Whether it counts only before the first word that is no option.
    pub(crate) is_own: bool,
}

impl Spec {
    fn read(word: &'static str) -> Self {
        let (word, is_own) = word.strip_prefix('<').map_or((word, false), |rest| (rest, true));
        let mut letters = word.chars().skip(1);
        let spelling = match word {
            "@operand" => Spelling::Operand,
            "@first" => Spelling::First,
            "@last" => Spelling::Last,
            "@word" => Spelling::Each,
            "@glued" => Spelling::Tail,
            "@with" => Spelling::With,
            "@stdin" => Spelling::Stdin,
            "@always" => Spelling::Always,
            "+" => Spelling::Glued("+"),
            "@@" => Spelling::Glued("@"),
            _ if word.starts_with('=') => Spelling::Word(&word[1..]),
            _ if word.contains('*') && word != ".*" => {
                let name = word.strip_suffix("=*").unwrap_or(word);
                let (before, behind) = name.split_once('*').unwrap_or((name, ""));
                Spelling::Pattern(before, behind)
            }
            _ if word.ends_with(['=', ':', ',']) => Spelling::Glued(word),
            _ if word.starts_with("--") && word.len() > 2 => Spelling::Long(word),
            _ if word.starts_with('-') && word.len() == 2 && word != "--" => {
                Spelling::Letter(letters.next().unwrap_or('-'))
            }
            _ => Spelling::Word(word),
        };
        Self { spelling, is_own }
    }
}

/// What a value must hold.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Path,
    File,
    Outside,
    Url,
    Remote,
    Code,
    Alone,
    Text(String),
    LineStart(String),
}

impl Mark {
    fn read(word: &'static str) -> Self {
        let text = |word: &str| word.replace('␣', " ").replace("\\|", "|").to_lowercase();
        match word {
            "@path" => Self::Path,
            "@file" => Self::File,
            "@outside" => Self::Outside,
            "@url" => Self::Url,
            "@remote" => Self::Remote,
            "@code" => Self::Code,
            "@alone" => Self::Alone,
            _ => match word.strip_prefix('^') {
                Some(rest) => Self::LineStart(text(rest)),
                None => Self::Text(text(word)),
            },
        }
    }
}

#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) with: Vec<&'static str>,
    pub(crate) options: Vec<Spec>,
    pub(crate) takes: Takes,
    pub(crate) only: Vec<Mark>,
    pub(crate) fine: Vec<&'static str>,
    /// Whether it is about every program, of which little is known.
    pub(crate) is_general: bool,
}

impl Row {
    pub(crate) fn is_always(&self) -> bool {
        self.options.iter().any(|spec| spec.spelling == Spelling::Always)
    }
}

/// A line of the table. It is read when somebody asks about one of its programs: few commands name many.
#[derive(Debug)]
struct Line {
    text: &'static str,
    row: OnceLock<Option<Row>>,
}

impl Line {
    /// None of a line that is no row.
    fn row(&self) -> Option<&Row> {
        self.row.get_or_init(|| row(self.text)).as_ref()
    }
}

#[derive(Debug, Default)]
struct Table {
    lines: Vec<Line>,
    /// Names, and names without a version, each with the number of a line.
    names: Vec<(&'static str, usize)>,
    versioned: Vec<(&'static str, usize)>,
}

const TEXT: &str = include_str!("../../data/options.md");

static TABLE: LazyLock<Table> = LazyLock::new(|| read(TEXT));

fn read(text: &'static str) -> Table {
    let mut table = Table::default();
    let lines = text.lines().filter(|line| line.starts_with('|') && !line.starts_with("|-"));
    for text in lines.filter(|line| !line.starts_with("| program |")) {
        let number = table.lines.len();
        let (names, _) = text[1..].split_once('|').unwrap_or_default();
        for name in names.split_ascii_whitespace() {
            match name.strip_suffix('*') {
                Some(stem) => table.versioned.push((stem, number)),
                None => table.names.push((name, number)),
            }
        }
        table.lines.push(Line { text, row: OnceLock::new() });
    }
    table
}

/// The numbers of the lines about a name.
fn numbers<'a>(names: &'a [(&str, usize)], name: &'a str) -> impl Iterator<Item = usize> + 'a {
    names.iter().filter(move |(named, _)| *named == name).map(|(_, number)| *number)
}

fn row(line: &'static str) -> Option<Row> {
    let cells = cells(line);
    let &[names, with, options, takes, only, fine] = cells.as_slice() else { return None };
    let row = Row {
        with: with.split(',').filter(|word| !word.is_empty()).collect(),
        options: options.split_whitespace().map(Spec::read).collect(),
        takes: Takes::by_name(takes)?,
        only: only.split_whitespace().map(Mark::read).collect(),
        fine: fine.split_whitespace().collect(),
        is_general: names == "*",
    };
    (!names.is_empty() && !row.options.is_empty()).then_some(row)
}

/// The cells of a line; `\|` is no border.
pub(crate) fn cells(line: &'static str) -> Vec<&'static str> {
    let mut cells = vec![];
    let mut start = 1;
    for (at, _) in line.match_indices('|').skip(1) {
        if !line[..at].ends_with('\\') {
            cells.push(line[start..at].trim());
            start = at + 1;
        }
    }
    cells
}

/// The rows about a program, by its name or by what is left of that without a version, a flavour and a target.
pub(crate) fn rows(name: &str) -> impl Iterator<Item = &'static Row> {
    let table = &*TABLE;
    let plain = plain_name(name);
    let mut numbered: Vec<usize> = numbers(&table.names, name).collect();
    if numbered.is_empty() {
        numbered.extend(numbers(&table.names, plain));
    }
    numbered.extend(numbers(&table.versioned, plain));
    numbered.into_iter().filter_map(|number| table.lines[number].row())
}

/// The rows about every program.
pub(crate) fn general_rows() -> impl Iterator<Item = &'static Row> {
    let table = &*TABLE;
    numbers(&table.versioned, "").filter_map(|number| table.lines[number].row())
}

/// `gcc` of `x86_64-linux-gnu-gcc-12`, `vim` of `vim.tiny`, `python` of `python3.12`.
fn plain_name(name: &str) -> &str {
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    let name = if name.matches('-').count() >= 2 { name.rsplit('-').next().unwrap_or(name) } else { name };
    match name.split_once('.') {
        Some((stem, flavour)) if !stem.is_empty() && flavour.chars().all(|c| c.is_ascii_alphabetic()) => stem,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_a_rule() {
        let table = read(TEXT);
        assert!(table.lines.len() > 300);
        for line in &table.lines {
            let row = line.row().unwrap_or_else(|| panic!("no row: {}", line.text));
            let with = row.options.iter().any(|spec| spec.spelling == Spelling::With);
            assert!(!with || !row.with.is_empty(), "{row:?} names no sub-command");
            assert!(row.takes != Takes::Script || !row.only.is_empty(), "{row:?} has no marks");
        }
    }

    #[test]
    fn names_are_found_with_their_version() {
        assert!(rows("tar").next().is_some());
        assert!(rows("pip3.12").next().is_some());
        assert!(rows("x86_64-linux-gnu-gcc-12").next().is_some());
        assert!(rows("vim.tiny").next().is_some());
        assert!(rows("echo").next().is_none());
        assert!(general_rows().count() >= 5);
    }
}
