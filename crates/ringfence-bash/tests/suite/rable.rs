//! Against `rable`: its tree keeps much as raw strings; every substitution that begins
//! in one of them must be a node in ours.

use std::collections::HashSet;

use rable::{Node, NodeKind};
use ringfence_bash::parse;

use super::{commands, scripts};

/// How a raw string is quoted from the outside.
#[derive(Clone, Copy, PartialEq)]
enum Outside {
    Word,
    /// Quotes do not quote: here-documents and arithmetic.
    Text,
}

/// What the scanner is inside of.
#[derive(Clone, Copy, PartialEq)]
enum Inside {
    Word,
    Text,
    Double,
    Paren,
    Brace { quoted: bool },
}

/// Returns where substitutions begin in a raw string, by quoting rules alone.
fn openers(raw: &str, outside: Outside) -> Vec<usize> {
    let bytes = raw.as_bytes();
    let at = |n: usize| bytes.get(n).copied().unwrap_or(0);
    let mut stack = vec![if outside == Outside::Word { Inside::Word } else { Inside::Text }];
    let mut found = Vec::new();
    let mut n = 0;
    while n < bytes.len() {
        let inside = *stack.last().unwrap_or(&Inside::Word);
        let quoting = matches!(inside, Inside::Word | Inside::Paren | Inside::Brace { quoted: false });
        match at(n) {
            b'\\' => n += 1,
            b'\'' if quoting => {
                let escapes = n > 0 && at(n - 1) == b'$';
                n += 1;
                while n < bytes.len() && at(n) != b'\'' {
                    n += if escapes && at(n) == b'\\' { 2 } else { 1 };
                }
            }
            b'"' if inside == Inside::Double => drop(stack.pop()),
            b'"' if inside != Inside::Text => stack.push(Inside::Double),
            b'#' if inside == Inside::Paren && matches!(at(n - 1), b' ' | b'\n' | b'\t') => {
                while n + 1 < bytes.len() && at(n + 1) != b'\n' {
                    n += 1;
                }
            }
            b'`' => {
                found.push(n);
                n += 1;
                while n < bytes.len() && at(n) != b'`' {
                    n += if at(n) == b'\\' { 2 } else { 1 };
                }
            }
            b'$' if at(n + 1) == b'(' => {
                if at(n + 2) != b'(' {
                    found.push(n);
                }
                n += 1;
                stack.push(if at(n + 1) == b'(' { Inside::Brace { quoted: true } } else { Inside::Paren });
            }
            b'$' if at(n + 1) == b'{' => {
                n += 1;
                // Quotes do quote in patterns, even inside double quotes.
                let name = raw[n + 1..].trim_start_matches(|c: char| c.is_alphanumeric() || c == '_');
                let pattern = name.starts_with(['#', '%', '/', '^', ',']);
                stack.push(Inside::Brace { quoted: !quoting && !pattern });
            }
            b'<' | b'>' if quoting && at(n + 1) == b'(' => {
                found.push(n);
                n += 1;
                stack.push(Inside::Paren);
            }
            b'(' if inside == Inside::Paren => stack.push(Inside::Paren),
            b')' if inside == Inside::Paren => drop(stack.pop()),
            b'}' if matches!(inside, Inside::Brace { .. }) => drop(stack.pop()),
            _ => {}
        }
        n += 1;
    }
    found
}

/// Collects the raw strings of rable's tree that can expand.
#[derive(Default)]
struct Raw(Vec<(String, Outside)>);

impl Raw {
    fn text(&mut self, text: &str, outside: Outside) {
        self.0.push((text.to_owned(), outside));
    }

    fn all(&mut self, nodes: &[Node]) {
        nodes.iter().for_each(|node| self.node(node));
    }

    fn node(&mut self, node: &Node) {
        match &node.kind {
            NodeKind::Word { value, .. } | NodeKind::CondTerm { value, .. } => {
                self.text(value, Outside::Word)
            }
            NodeKind::HereDoc { content, quoted: false, .. } => self.text(content, Outside::Text),
            NodeKind::ArithmeticCommand { raw_content, redirects, .. } => {
                self.text(raw_content, Outside::Text);
                self.all(redirects);
            }
            NodeKind::Command { assignments, words, redirects } => {
                self.all(assignments);
                self.all(words);
                self.all(redirects);
            }
            NodeKind::Pipeline { commands, .. } => self.all(commands),
            NodeKind::List { items } => items.iter().for_each(|item| self.node(&item.command)),
            NodeKind::If { condition, then_body, else_body, redirects } => {
                self.node(condition);
                self.node(then_body);
                else_body.iter().for_each(|body| self.node(body));
                self.all(redirects);
            }
            NodeKind::While { condition, body, redirects }
            | NodeKind::Until { condition, body, redirects } => {
                self.node(condition);
                self.node(body);
                self.all(redirects);
            }
            NodeKind::For { words, body, redirects, .. }
            | NodeKind::Select { words, body, redirects, .. } => {
                self.all(words.as_deref().unwrap_or_default());
                self.node(body);
                self.all(redirects);
            }
            NodeKind::ForArith { init, cond, incr, body, redirects } => {
                [init, cond, incr].into_iter().for_each(|text| self.text(text, Outside::Text));
                self.node(body);
                self.all(redirects);
            }
            NodeKind::Case { word, patterns, redirects } => {
                self.node(word);
                for arm in patterns {
                    self.all(&arm.patterns);
                    arm.body.iter().for_each(|body| self.node(body));
                }
                self.all(redirects);
            }
            NodeKind::Function { body, .. } => self.node(body),
            NodeKind::Subshell { body, redirects } | NodeKind::BraceGroup { body, redirects } => {
                self.node(body);
                self.all(redirects);
            }
            NodeKind::ConditionalExpr { body, redirects } => {
                self.node(body);
                self.all(redirects);
            }
            NodeKind::Coproc { command, .. } => self.node(command),
            NodeKind::Redirect { target, .. } => self.node(target),
            NodeKind::UnaryTest { operand, .. } | NodeKind::CondNot { operand } => self.node(operand),
            NodeKind::BinaryTest { left, right, .. }
            | NodeKind::CondAnd { left, right }
            | NodeKind::CondOr { left, right } => {
                self.node(left);
                self.node(right);
            }
            NodeKind::CondParen { inner } => self.node(inner),
            NodeKind::Negation { pipeline } | NodeKind::Time { pipeline, .. } => self.node(pipeline),
            NodeKind::Array { elements } => self.all(elements),
            _ => {}
        }
    }
}

/// Takes out what either parser may have dropped from a raw text.
fn squeeze(text: &str) -> String {
    text.replace("\\\n", "").replace(['\t', ' ', '\n', ';'], "")
}

/// Returns how many substitutions were compared, and those that we do not have.
fn compare(text: &str) -> (usize, Vec<String>) {
    let Ok(script) = parse(text) else { return (0, Vec::new()) };
    if !script.unsupported().is_empty() {
        return (0, Vec::new());
    }
    let Ok(nodes) = rable::parse(text, false) else { return (0, Vec::new()) };
    let found = script.substitutions();
    let ours: HashSet<_> = found.iter().filter_map(|(span, _)| span.text(text)).map(squeeze).collect();
    let mut raw = Raw::default();
    raw.all(&nodes);
    let (mut compared, mut missing) = (0, Vec::new());
    // A quoted here-document inside a raw string hides what the scanner takes as live.
    for (raw, outside) in raw.0.iter().filter(|(raw, _)| !raw.contains("<<")) {
        for at in openers(raw, *outside) {
            compared += 1;
            let rest = squeeze(&raw[at..]);
            if !ours.iter().any(|text| rest.starts_with(text.as_str())) {
                missing.push(raw[at..].to_owned());
            }
        }
    }
    (compared, missing)
}

#[test]
fn no_substitution_that_rable_has_seen_is_missing() {
    let mut texts: Vec<_> = commands::table().into_iter().map(|case| case.text).collect();
    // Rable takes cubic time on some inputs.
    let small = scripts::on_this_machine().into_iter().filter(|found| found.text.len() <= 16_384);
    texts.extend(small.filter_map(|found| String::from_utf8(found.text).ok()));
    let (mut compared, mut lost) = (0, Vec::new());
    for text in &texts {
        let (count, missing) = compare(text);
        compared += count;
        lost.extend(missing);
    }
    println!("{compared} substitutions in {} texts compared with rable", texts.len());
    assert!(compared > 100, "only {compared} substitutions were compared");
    assert!(lost.is_empty(), "{} are not in our tree: {lost:#?}", lost.len());
}
