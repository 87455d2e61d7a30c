//! Here-document bodies, read when the line that announced them ends.

use crate::error::Result;
use crate::parser::{Parser, Patterns, Pending};
use crate::span::Derived;
use crate::text::TextMode;
use crate::word::{Part, PartKind, Word};

impl Parser<'_> {
    /// Moves past a newline that ends a command line, and the bodies that follow it.
    pub(crate) fn newline(&mut self) -> Result<()> {
        self.pos += 1;
        if self.patterns == Patterns::NextLine {
            self.patterns = Patterns::On;
        }
        for pending in std::mem::take(&mut self.pending) {
            self.read_body(&pending)?;
        }
        Ok(())
    }

    /// Ends the bodies that are still awaited when the text ends: bash takes what
    /// is there, with a warning.
    pub(crate) fn end_here_docs(&mut self) -> Result<()> {
        for pending in std::mem::take(&mut self.pending) {
            self.read_body(&pending)?;
        }
        Ok(())
    }

    fn read_body(&mut self, pending: &Pending) -> Result<()> {
        let start = self.pos;
        let mut derived = Derived::default();
        let end = loop {
            let line = self.pos;
            if line >= self.end {
                break line;
            }
            let first = derived.text.len();
            self.body_line(pending, &mut derived)?;
            let text = derived.text.get(first..).unwrap_or_default();
            if text.strip_suffix(b"\n").unwrap_or(text) == pending.end_line.as_bytes() {
                derived.text.truncate(first);
                derived.map.truncate(first);
                break line;
            }
            if self.in_paren && text.starts_with(pending.end_line.as_bytes()) && text.contains(&b')') {
                return Err(self.unsupported(line, "a here-document delimiter before `)` on the same line"));
            }
        };
        let after = self.pos;
        derived.close(self.origin(end));
        let span = self.span(start, end);
        let parts = if pending.quoted {
            let text = String::from_utf8_lossy(&derived.text).into_owned();
            let lit = Part { span, kind: PartKind::Lit(text) };
            if derived.text.is_empty() { Vec::new() } else { vec![lit] }
        } else {
            let quoted_args = std::mem::take(&mut self.quoted_args);
            let depth = self.budget.depth;
            let result = self.on_derived(&derived, |parser| {
                let end = parser.end;
                parser.text(end, TextMode::HERE_DOC)
            });
            self.quoted_args = quoted_args;
            match result {
                Ok(parts) => parts,
                Err(error) => {
                    self.recover(depth, error)?;
                    let kind = PartKind::Unsupported("a here-document body that does not parse");
                    vec![Part { span, kind }]
                }
            }
        };
        self.pos = after;
        // The slot is filled once: each pending body is read once.
        let _ = pending.slot.set(Word { span, parts });
        Ok(())
    }

    /// Takes one line of a body, as bash sees it: without leading tabs for `<<-`,
    /// and, unless quoted, joined with the next line after a backslash.
    fn body_line(&mut self, pending: &Pending, derived: &mut Derived) -> Result<()> {
        while pending.strip_tabs && self.byte(self.pos) == Some(b'\t') {
            self.tick()?;
            self.pos += 1;
        }
        while let Some(byte) = self.byte(self.pos) {
            self.tick()?;
            if byte == b'\\' && !pending.quoted {
                if self.byte(self.pos + 1) == Some(b'\n') {
                    self.pos += 2;
                    continue;
                }
                derived.push(byte, self.origin(self.pos));
                self.pos += 1;
                if let Some(next) = self.byte(self.pos) {
                    derived.push(next, self.origin(self.pos));
                    self.pos += 1;
                }
                continue;
            }
            derived.push(byte, self.origin(self.pos));
            self.pos += 1;
            if byte == b'\n' {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::tree::{HereDoc, Target};

    fn bodies(text: &str) -> Vec<(bool, String)> {
        let script = crate::parse(text).unwrap();
        let docs = script.redirects().into_iter().filter_map(|(_, redirect)| match &redirect.target {
            Target::HereDoc(doc) => Some(doc.clone()),
            Target::Word(_) | Target::Close => None,
        });
        let value = |doc: HereDoc| (doc.quoted, doc.body().as_literal().unwrap_or_else(|| "?".to_owned()));
        docs.map(value).collect()
    }

    fn one(quoted: bool, body: &str) -> Vec<(bool, String)> {
        vec![(quoted, body.to_owned())]
    }

    #[test]
    fn bodies_are_what_bash_passes_on() {
        assert_eq!(bodies("cat <<E\na\nb\nE\nc"), one(false, "a\nb\n"));
        assert_eq!(bodies("cat <<'E'\n$a\\\nE\n"), one(true, "$a\\\n"));
        assert_eq!(bodies("cat <<E\na\\\nb\\$c\\d\nE"), one(false, "ab$c\\d\n"));
        assert_eq!(bodies("cat <<-E\n\t\ta\n\tE\n"), one(false, "a\n"));
        assert_eq!(bodies("cat <<-'E'\n\ta\\\n\tb\n\tE\n"), one(true, "a\\\nb\n"));
        assert_eq!(bodies("cat <<E\nE"), one(false, ""));
        assert_eq!(bodies("cat <<E\na"), one(false, "a"));
        assert_eq!(bodies("cat <<E\n E\nE \nE\n"), one(false, " E\nE \n"));
        assert_eq!(bodies("cat <<E\n$x\nE"), one(false, "?"));
        assert_eq!(bodies("cat <<A <<'B'\na\nA\nb\nB"), [one(false, "a\n"), one(true, "b\n")].concat());
    }

    #[test]
    fn spans_of_a_stripped_body_point_into_the_source() {
        let source = "cat <<-E\n\t\t$(id)\n\tE\n";
        let script = crate::parse(source).unwrap();
        let spans: Vec<_> =
            script.substitutions().iter().map(|(span, _)| span.text(source).unwrap()).collect();
        assert_eq!(spans, ["$(id)"]);
    }
}
