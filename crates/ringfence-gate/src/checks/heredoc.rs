//! Here-documents whose delimiter is not what it seems.

use ringfence_model::ViolationKind;
use ringfence_model::config::Strictness;

use super::{Check, Report};
use crate::finding::Rule;
use crate::shell::Cmd;

const EXPANDING: Rule = Rule::deny("heredoc-delimiter", "use a plain word as delimiter, quoted: <<'EOF'");
const UNQUOTED: Rule =
    Rule::note("heredoc-unquoted", "quote the delimiter if nothing is meant to expand: <<'EOF'");

/// Delimiters with an expansion in them; bodies that expand.
#[derive(Debug)]
pub(super) struct Heredoc;

impl Check for Heredoc {
    fn name(&self) -> &'static str {
        "heredoc_injection"
    }

    fn kind(&self) -> ViolationKind {
        ViolationKind::HeredocInjection
    }

    fn unreadable(&self, error: &ringfence_bash::Error, report: &mut Report<'_>) {
        // The parser takes no delimiter of which it cannot say where the body ends.
        if error.kind() == ringfence_bash::ErrorKind::Unsupported
            && error.message().starts_with("this here-document delimiter")
        {
            report.add(EXPANDING, error.span(), "the delimiter looks like an expansion");
        }
    }

    fn command(&self, cmd: &Cmd<'_>, report: &mut Report<'_>) {
        for redir in cmd.redirs {
            let Some((delimiter, quoted)) = &redir.delimiter else { continue };
            let expanding = delimiter.contains(['$', '`']);
            if expanding {
                report.add(
                    EXPANDING,
                    redir.span,
                    format!("the delimiter `{delimiter}` looks like an expansion"),
                );
            } else if !quoted && (redir.expands || report.strictness == Strictness::Strict) {
                report.add(UNQUOTED, redir.span, "the delimiter is not quoted, so the body expands");
            }
        }
    }
}
