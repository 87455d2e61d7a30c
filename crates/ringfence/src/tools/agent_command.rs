//! Agent commands in a shell line: `read`, `write`, `edit`.
//!
//! They look like commands and are not: nothing in them expands, and they stand alone on their line.

use ringfence_bash::{CommandKind, RedirectOp, Script};
use ringfence_model::{Error, ErrorKind, Result};

use super::args;

/// The request of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AgentCommand {
    Read(args::Read),
    Write(args::Write),
    Edit(args::Edit),
}

/// Reads a line whose first word is `name`.
pub(crate) fn parse(name: &str, line: &str) -> Result<AgentCommand> {
    let (line, body) = split_heredoc(line)?;
    let words = words(&line)?;
    let words = &words[1..];
    match name {
        "read" => read(words),
        "write" => write(words, body),
        _ => edit(words),
    }
}

fn usage(text: &str) -> Error {
    Error::new(ErrorKind::Validation, format!("usage: {text}"))
}

fn read(words: &[Word]) -> Result<AgentCommand> {
    const USAGE: &str = "read <file> [--offset N] [--limit N]";
    let mut found = args::Read { path: String::new(), offset: None, limit: None };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut number = || {
            let next = words.next().and_then(|word| word.text.parse().ok());
            next.ok_or_else(|| usage(USAGE)).map(Some)
        };
        match word.text.as_str() {
            "--offset" => found.offset = number()?,
            "--limit" => found.limit = number()?,
            option if option.starts_with('-') && !word.quoted => return Err(usage(USAGE)),
            path if found.path.is_empty() => path.clone_into(&mut found.path),
            _ => return Err(usage(USAGE)),
        }
    }
    if found.path.is_empty() { Err(usage(USAGE)) } else { Ok(AgentCommand::Read(found)) }
}

fn write(words: &[Word], body: Option<String>) -> Result<AgentCommand> {
    const USAGE: &str = "write <file> <content>, or write <file> with a here-document";
    let Some((file, content)) = words.split_first() else { return Err(usage(USAGE)) };
    let content = match (body, content) {
        (Some(body), []) => body,
        (None, []) | (Some(_), _) => return Err(usage(USAGE)),
        (None, words) => words.iter().map(Word::unescaped).collect::<Vec<_>>().join(" "),
    };
    Ok(AgentCommand::Write(args::Write { path: file.text.clone(), content, escalated: false }))
}

fn edit(words: &[Word]) -> Result<AgentCommand> {
    const USAGE: &str = "edit <file> <old> <new> [--all]";
    let all = words.last().is_some_and(|word| word.text == "--all" && !word.quoted);
    let words = if all { &words[..words.len() - 1] } else { words };
    let [path, old, new] = words else { return Err(usage(USAGE)) };
    let (path, old, new) = (path.text.clone(), old.unescaped(), new.unescaped());
    Ok(AgentCommand::Edit(args::Edit { path, old, new, all, escalated: false }))
}

/// Whether the line is one simple command and nothing else; here-documents may follow it. None when it is not
/// shell text at all.
pub(crate) fn stands_alone(line: &str) -> Option<bool> {
    let script: Script = ringfence_bash::parse(line).ok()?;
    let [item] = script.items.as_slice() else { return Some(false) };
    let [stage] = item.first.stages.as_slice() else { return Some(false) };
    let plain = item.rest.is_empty() && !item.background && item.first.negations == 0;
    let simple = matches!(&stage.command.kind, CommandKind::Simple(simple) if simple.assignments.is_empty());
    let redirected = stage.command.redirects.iter().any(|redirect| redirect.op != RedirectOp::HereDoc);
    Some(plain && simple && !redirected)
}

/// The first line without its here-document, and the document's body as it is written.
fn split_heredoc(text: &str) -> Result<(String, Option<String>)> {
    let Some((first, rest)) = text.split_once('\n') else { return Ok((text.to_owned(), None)) };
    let Some((before, delimiter)) = first.rsplit_once("<<") else {
        // A quoted content may go over several lines.
        return Ok((text.to_owned(), None));
    };
    let bare = delimiter.trim_start_matches('-').trim().trim_matches(['\'', '"']);
    let is_name = !bare.is_empty() && bare.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_name {
        return Ok((text.to_owned(), None));
    }
    let strip = delimiter.starts_with('-');
    let mut body = String::new();
    for line in rest.split_inclusive('\n') {
        let line = if strip { line.trim_start_matches('\t') } else { line };
        if line.trim_end_matches('\n') == bare {
            return Ok((before.trim_end().to_owned(), Some(body)));
        }
        body.push_str(line);
    }
    Err(Error::new(ErrorKind::Validation, format!("the here-document is not closed by `{bare}`")))
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Word {
    text: String,
    quoted: bool,
    /// In single quotes nothing means anything else.
    literal: bool,
}

impl Word {
    /// With `\n`, `\t`, `\r` and `\\` as what they stand for.
    fn unescaped(&self) -> String {
        if self.literal {
            return self.text.clone();
        }
        let mut text = String::with_capacity(self.text.len());
        let mut chars = self.text.chars();
        while let Some(c) = chars.next() {
            let escaped = match (c, chars.as_str().chars().next()) {
                ('\\', Some('n')) => '\n',
                ('\\', Some('t')) => '\t',
                ('\\', Some('r')) => '\r',
                ('\\', Some('\\')) => '\\',
                _ => {
                    text.push(c);
                    continue;
                }
            };
            chars.next();
            text.push(escaped);
        }
        text
    }
}

fn words(line: &str) -> Result<Vec<Word>> {
    let mut words = vec![];
    let mut word: Option<Word> = None;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                word.quoted = true;
                word.literal = c == '\'';
                loop {
                    match chars.next() {
                        None => {
                            return Err(Error::new(
                                ErrorKind::Validation,
                                format!("the quote {c} is not closed"),
                            ));
                        }
                        Some(end) if end == c => break,
                        Some('\\') if c == '"' && chars.peek() == Some(&'"') => {
                            chars.next();
                            word.text.push('"');
                        }
                        Some(inner) => word.text.push(inner),
                    }
                }
            }
            c => word.get_or_insert_default().text.push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<AgentCommand> {
        parse(line.split(' ').next().unwrap(), line)
    }

    fn written(path: &str, content: &str) -> AgentCommand {
        AgentCommand::Write(args::Write {
            path: path.to_owned(),
            content: content.to_owned(),
            escalated: false,
        })
    }

    #[test]
    fn read_takes_offset_and_limit() {
        let read = |path: &str, offset, limit| {
            AgentCommand::Read(args::Read { path: path.to_owned(), offset, limit })
        };
        assert_eq!(parsed("read a.txt").unwrap(), read("a.txt", None, None));
        assert_eq!(parsed("read 'a b' --limit 5 --offset 3").unwrap(), read("a b", Some(3), Some(5)));
        for wrong in ["read", "read a b", "read --limit x a", "read -r x", "read 'a"] {
            assert_eq!(parsed(wrong).unwrap_err().kind, ErrorKind::Validation, "{wrong}");
        }
    }

    #[test]
    fn write_takes_quotes_escapes_and_here_documents() {
        for (line, path, content) in [
            (r#"write a.txt "two\nlines\t\\ end""#, "a.txt", "two\nlines\t\\ end"),
            (r"write a.txt 'as \n it is'", "a.txt", r"as \n it is"),
            (r#"write "a b" "x \"quoted\" $HOME `ls`""#, "a b", r#"x "quoted" $HOME `ls`"#),
            ("write a.txt bare words", "a.txt", "bare words"),
            ("write a.sh <<'EOF'\necho $1\n  in\nEOF", "a.sh", "echo $1\n  in\n"),
            ("write a.sh <<-E\n\techo\n\tE\n", "a.sh", "echo\n"),
            ("write a \"over\ntwo\"", "a", "over\ntwo"),
        ] {
            assert_eq!(parsed(line).unwrap(), written(path, content), "{line}");
        }
        for wrong in ["write", "write a", "write a x <<E\nb\nE", "write a <<E\nnever closed"] {
            assert_eq!(parsed(wrong).unwrap_err().kind, ErrorKind::Validation, "{wrong}");
        }
    }

    #[test]
    fn edit_takes_old_and_new() {
        let edit = |old: &str, new: &str, all| {
            let (path, old, new) = ("f".to_owned(), old.to_owned(), new.to_owned());
            AgentCommand::Edit(args::Edit { path, old, new, all, escalated: false })
        };
        assert_eq!(parsed("edit f a b").unwrap(), edit("a", "b", false));
        assert_eq!(parsed(r#"edit f "a b" "c\nd" --all"#).unwrap(), edit("a b", "c\nd", true));
        assert_eq!(parsed("edit f a '--all'").unwrap(), edit("a", "--all", false));
        for wrong in ["edit f", "edit f a", "edit f a b c"] {
            assert_eq!(parsed(wrong).unwrap_err().kind, ErrorKind::Validation, "{wrong}");
        }
    }

    #[test]
    fn what_stands_alone() {
        for (line, want) in [
            ("read a", Some(true)),
            ("write a <<E\nb\nE", Some(true)),
            ("write a \"$(date)\"", Some(true)),
            ("read a && rm b", Some(false)),
            ("read a | wc", Some(false)),
            ("read a; ls", Some(false)),
            ("read x < f", Some(false)),
            ("IFS= read x", Some(false)),
            ("read a &", Some(false)),
            ("read 'a", None),
        ] {
            assert_eq!(stands_alone(line), want, "{line}");
        }
    }
}
