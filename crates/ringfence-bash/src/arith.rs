//! Arithmetic and subscripts.
//!
//! Bash evaluates these texts after expanding them, and the evaluation expands
//! subscripts once more: `(( a['$(id)'] ))` runs `id`, quotes or not. So a dollar or
//! a backquote that survives the first expansion as text is never taken as harmless.

use crate::error::Result;
use crate::parser::Parser;
use crate::text::TextMode;
use crate::word::{Brace, Part, PartKind, Word};

impl Parser<'_> {
    /// Parses arithmetic from here to `close`.
    pub(crate) fn arith_text(&mut self, close: usize) -> Result<Vec<Part>> {
        let parts = self.text(close, TextMode::ARITH)?;
        Ok(distrust(parts))
    }

    /// Parses a subscript between two positions.
    pub(crate) fn subscript(&mut self, open: usize, close: usize) -> Result<Vec<Part>> {
        let here = std::mem::replace(&mut self.pos, open);
        let parts = self.text(close, TextMode::SUBSCRIPT)?;
        self.pos = here;
        Ok(distrust(parts))
    }
}

/// Marks parts whose text would be expanded a second time.
pub(crate) fn distrust(mut parts: Vec<Part>) -> Vec<Part> {
    let doubtful = |part: &Part| hides_expansion(part);
    if let Some(span) = parts.iter().find(|part| doubtful(part)).map(|part| part.span) {
        parts.push(Part { span, kind: PartKind::Unsupported("quoted text that arithmetic expands again") });
    }
    parts
}

fn hides_expansion(part: &Part) -> bool {
    let hides = |text: &str| text.contains(['$', '`']);
    match &part.kind {
        PartKind::Lit(text) | PartKind::Escaped(text) | PartKind::SingleQ(text) => hides(text),
        PartKind::AnsiC { decoded, .. } => decoded.as_deref().is_none_or(hides),
        PartKind::DoubleQ(parts) | PartKind::LocaleQ(parts) | PartKind::Arith(parts) => {
            parts.iter().any(hides_expansion)
        }
        PartKind::ExtGlob(glob) => glob.parts.iter().any(hides_expansion),
        PartKind::Param(param) => param.args.iter().any(word_hides),
        PartKind::Brace(Brace::List(words)) => words.iter().any(word_hides),
        PartKind::CmdSub(_)
        | PartKind::ProcSub(_)
        | PartKind::Brace(Brace::Range(_))
        | PartKind::Glob(_)
        | PartKind::Tilde(_)
        | PartKind::Array(_)
        | PartKind::Unsupported(_) => false,
    }
}

/// Tells whether a word holds text that arithmetic would expand.
pub(crate) fn word_hides(word: &Word) -> bool {
    word.parts.iter().any(hides_expansion)
}
