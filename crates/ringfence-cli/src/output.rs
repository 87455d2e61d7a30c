//! Standard output: text, JSON, colours for a terminal.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};

use ringfence::model::{Error, ErrorKind, Result, visible};
use serde::Serialize;

/// Prints text as it is.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(|error| Error::new(ErrorKind::Internal, "cannot write to standard output").caused_by(error))
}

/// Prints one JSON value, for people who look at it and programs that read it.
pub(crate) fn print_json(value: &impl Serialize) -> Result<()> {
    print(&(serde_json::to_string_pretty(value).map_err(not_json)? + "\n"))
}

/// Prints one JSON value on each line.
pub(crate) fn print_json_lines<T: Serialize>(values: impl IntoIterator<Item = T>) -> Result<()> {
    for value in values {
        print(&(serde_json::to_string(&value).map_err(not_json)? + "\n"))?;
    }
    Ok(())
}

fn not_json(error: serde_json::Error) -> Error {
    Error::new(ErrorKind::Internal, "cannot write the result as JSON").caused_by(error)
}

/// Whether an error only says that nobody reads any more, as in `ringfence log | head -1`.
pub(crate) fn nobody_reads(error: &Error) -> bool {
    let cause = error.source.as_ref().and_then(|cause| cause.downcast_ref::<std::io::Error>());
    cause.is_some_and(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
}

/// How a word is meant; the word says it too, so that colour never carries the meaning alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Good,
    Warning,
    Bad,
    Quiet,
    Strong,
}

/// Colours, or none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Palette {
    colours: bool,
}

impl Palette {
    /// Colours on a terminal that has them, unless `NO_COLOR` is set.
    pub(crate) fn of_stdout() -> Self {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let dumb = set("TERM").is_none_or(|term| term == "dumb");
        Self { colours: std::io::stdout().is_terminal() && set("NO_COLOR").is_none() && !dumb }
    }

    #[cfg(test)]
    pub(crate) const fn plain() -> Self {
        Self { colours: false }
    }

    pub(crate) fn paint(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Good => "32",
            Tone::Warning => "33",
            Tone::Bad => "31",
            Tone::Quiet => "2",
            Tone::Strong => "1",
            Tone::Plain => return text.to_owned(),
        };
        if self.colours { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// Text from elsewhere on one line, without characters that could steer a terminal.
pub(crate) fn one_line(text: &str) -> String {
    visible(&text.replace(['\n', '\t', '\r'], " "))
}

/// A table whose columns are as wide as they have to be. The last one takes what is left.
#[derive(Debug)]
pub(crate) struct Table {
    header: Vec<&'static str>,
    rows: Vec<Vec<(Tone, String)>>,
    is_whole: bool,
}

impl Table {
    pub(crate) fn new(header: &[&'static str]) -> Self {
        Self { header: header.to_vec(), rows: Vec::new(), is_whole: false }
    }

    /// The last column is never cut: a terminal wraps it.
    pub(crate) fn whole(self) -> Self {
        Self { is_whole: true, ..self }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = (Tone, String)>) {
        self.rows.push(cells.into_iter().map(|(tone, text)| (tone, one_line(&text))).collect());
    }

    pub(crate) fn print(&self) -> Result<()> {
        print(&self.render(Palette::of_stdout(), terminal_width()))
    }

    /// With a width, the last column is cut to it; without one (a pipe) nothing is lost.
    pub(crate) fn render(&self, palette: Palette, width: Option<usize>) -> String {
        let length = |text: &str| text.chars().count();
        let mut widths: Vec<usize> = self.header.iter().map(|title| length(title)).collect();
        for row in &self.rows {
            for (widest, (_, text)) in widths.iter_mut().zip(row) {
                *widest = length(text).max(*widest);
            }
        }
        let last = widths.len().saturating_sub(1);
        let before: usize = widths[..last].iter().map(|width| width + 2).sum();
        let room = width.filter(|_| !self.is_whole).map(|width| width.saturating_sub(before).max(20));
        let mut text = String::new();
        let header = self.header.iter().map(|title| (Tone::Quiet, (*title).to_owned())).collect();
        for row in std::iter::once(&header).chain(&self.rows) {
            for (index, (tone, cell)) in row.iter().enumerate() {
                if index == last {
                    let cell = room.map_or_else(|| cell.clone(), |room| cut(cell, room));
                    text.push_str(&palette.paint(*tone, &cell));
                } else {
                    let gap = widths[index] - length(cell) + 2;
                    let _ = write!(text, "{}{:gap$}", palette.paint(*tone, cell), "");
                }
            }
            text.truncate(text.trim_end_matches(' ').len());
            text.push('\n');
        }
        text
    }
}

/// At most so many characters; an ellipsis shows that there were more.
pub(crate) fn cut(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    text.chars().take(room.saturating_sub(1)).chain(['…']).collect()
}

fn terminal_width() -> Option<usize> {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(&stdout).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_the_last_is_cut_only_on_a_terminal() {
        let mut table = Table::new(&["AGE", "COMMAND"]);
        table.row([
            (Tone::Plain, "2m ago".to_owned()),
            (Tone::Plain, "cargo test --workspace --all".to_owned()),
        ]);
        table.row([(Tone::Plain, "3d".to_owned()), (Tone::Plain, String::new())]);
        assert_eq!(
            table.render(Palette::plain(), None),
            "AGE     COMMAND\n2m ago  cargo test --workspace --all\n3d\n"
        );
        assert!(table.render(Palette::plain(), Some(28)).contains("cargo test --worksp…\n"));
        assert!(table.whole().render(Palette::plain(), Some(28)).contains("--workspace --all\n"));
    }

    #[test]
    fn text_from_elsewhere_cannot_steer_the_terminal() {
        assert_eq!(one_line("a\nb\u{1b}[31mc\u{202e}d"), "a b\\u{1b}[31mc\\u{202e}d");
    }

    #[test]
    fn colours_wrap_whole_words() {
        let colours = Palette { colours: true };
        assert_eq!(colours.paint(Tone::Bad, "denied"), "\u{1b}[31mdenied\u{1b}[0m");
        assert_eq!(colours.paint(Tone::Plain, "x"), "x");
    }
}
