//! Characters that look like others, or like nothing.

use ringfence_bash::{Context, Part, PartKind, Script, Span, Visitor, Word, WordRole, walk};
use ringfence_model::ViolationKind;

use super::{Check, Report};
use crate::finding::Rule;

const CONTROL: Rule = Rule::ask("control-character", "remove the character");
const INVISIBLE: Rule = Rule::ask("invisible-character", "remove the character");
const ALIKE: Rule = Rule::ask("look-alike", "write it in plain letters");

/// Control and invisible characters anywhere; look-alikes outside of quotes and in names of commands.
#[derive(Debug)]
pub(super) struct Characters;

impl Check for Characters {
    fn name(&self) -> &'static str {
        "characters"
    }

    fn kind(&self) -> ViolationKind {
        ViolationKind::DangerousPattern
    }

    fn text(&self, text: &str, report: &mut Report<'_>) {
        if text.bytes().all(|byte| (0x20..0x7f).contains(&byte) || matches!(byte, b'\n' | b'\t')) {
            return;
        }
        let mut before = '\0';
        let mut chars = text.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let at = u32::try_from(at).unwrap_or(u32::MAX);
            let span = Span::new(at, at.saturating_add(u32::try_from(c.len_utf8()).unwrap_or(1)));
            let code = u32::from(c);
            if c.is_control() && !matches!(c, '\n' | '\t') {
                report.add(CONTROL, span, format!("the control character U+{code:04X} is in the text"));
            } else if is_invisible(c)
                && !(is_joiner(c)
                    && is_pictogram(before)
                    && chars.peek().is_none_or(|(_, next)| !next.is_ascii_alphanumeric()))
            {
                report.add(INVISIBLE, span, format!("the invisible character U+{code:04X} is in the text"));
            }
            before = c;
        }
    }

    fn script(&self, script: &Script, report: &mut Report<'_>) {
        let mut found = Found(vec![]);
        walk(script, &mut found);
        for (span, what) in found.0 {
            report.add(ALIKE, span, what);
        }
    }
}

fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180e}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}' | '\u{2028}' | '\u{2029}')
}

fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200d}')
}

fn is_pictogram(c: char) -> bool {
    matches!(c, '\u{2190}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}' | '\u{fe0f}')
}

/// Characters that take the place of an ASCII one.
fn is_alike(c: char) -> bool {
    matches!(c, '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}'
        | '\u{ff01}'..='\u{ff5e}' | '\u{1d400}'..='\u{1d7ff}' | '\u{2100}'..='\u{218f}' | '\u{24b6}'..='\u{24e9}' | '\u{2044}' | '\u{2215}'
        | '\u{2018}'..='\u{201f}' | '\u{ab}' | '\u{bb}' | '\u{2039}' | '\u{203a}' | '\u{2032}'..='\u{2036}' | '\u{29f8}' | '\u{37e}' | '\u{2223}' | '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}')
}

/// Whether a run of letters mixes Latin with letters that look like it.
pub(crate) fn is_mixed(text: &str) -> bool {
    text.split(|c: char| !c.is_alphabetic()).any(|run| {
        let latin = run.chars().any(|c| c.is_ascii_alphabetic());
        let other = run.chars().any(|c| matches!(c, '\u{370}'..='\u{52f}' | '\u{13a0}'..='\u{13ff}' | '\u{a4d0}'..='\u{a4ff}' | '\u{250}'..='\u{2af}'));
        latin && other
    })
}

struct Found(Vec<(Span, String)>);

impl Found {
    fn look(&mut self, text: &str, span: Span) {
        if text.is_ascii() {
            return;
        }
        if let Some(c) = text.chars().find(|c| is_alike(*c)) {
            self.0.push((span, format!("U+{:04X} looks like a plain character and is not", u32::from(c))));
        } else if is_mixed(text) {
            self.0.push((span, format!("`{text}` mixes letters of several alphabets")));
        }
    }
}

impl<'t> Visitor<'t> for Found {
    fn part(&mut self, context: &Context<'t>, part: &'t Part) {
        if let PartKind::Lit(text) | PartKind::Escaped(text) = &part.kind
            && !context.inside(|kind| {
                matches!(kind, ringfence_bash::FrameKind::DoubleQuote | ringfence_bash::FrameKind::HereDoc)
            })
        {
            self.look(text, part.span);
        }
    }

    fn word(&mut self, _: &Context<'t>, role: WordRole, word: &'t Word) {
        if role == WordRole::Name
            && let Some(name) = word.as_literal().filter(|name| !name.is_ascii())
        {
            self.look(&name, word.span);
            let letters = name.chars().any(|c| !c.is_ascii() && c.is_alphanumeric());
            if letters && !name.contains(['.', '/']) {
                self.0.push((word.span, format!("`{name}` is written in letters that look like others")));
            }
        }
    }
}
