//! What a rule makes of a call: commands to judge, or questions.

use ringfence_bash::Span;
use tree_sitter::Node;

use super::literal::children;
use super::queries::CodeRule;
use super::reading::{Step, What};
use super::tree::Program;
use crate::value::{Seg, Val};

impl<'a> Program<'a> {
    pub(super) fn ask(&mut self, rule: &CodeRule, node: Node<'_>, subject: &str) {
        let message =
            if subject.is_empty() { rule.reason.clone() } else { format!("`{subject}`: {}", rule.reason) };
        self.step(node, What::Unclear { rule: rule.rule.to_owned(), message });
    }

    pub(super) fn step(&mut self, node: Node<'_>, what: What) {
        let Span { start, end } = span(node);
        self.steps.push(Step { start, end, what });
    }

    /// Judges a text that is handed to a shell.
    pub(super) fn run(&mut self, rule: &CodeRule, node: Node<'_>, text: &Val, subject: &str) {
        match text.known() {
            Some(text) => self.shell(node, text),
            None => self.ask(rule, node, subject),
        }
    }

    pub(super) fn shell(&mut self, node: Node<'_>, text: &str) {
        self.step(node, What::Shell(text.to_owned()));
    }

    pub(super) fn spawn(&mut self, rule: &CodeRule, node: Node<'_>, first: Option<Node<'_>>, subject: &str) {
        if let Some(map) = self.keyword_node(node, "env") {
            self.variables(node, map);
        }
        let Some(first) = first.or_else(|| self.keyword_node(node, "args")) else {
            return self.ask(rule, node, subject);
        };
        let by_shell = self.keyword_text(node, "shell").is_some_and(|value| value != "False");
        if let Some(list) = self.list(first) {
            return self.words(rule, node, &list, subject);
        }
        let text = self.names.value(first, 0);
        if by_shell {
            self.run(rule, node, &text, subject);
        } else {
            self.words(rule, node, &[text], subject);
        }
    }

    /// Judges a command line that is given as words.
    pub(super) fn words(&mut self, rule: &CodeRule, node: Node<'_>, words: &[Val], subject: &str) {
        match words.first() {
            // A shell without a text is for somebody at the other end.
            Some(first)
                if first.known().is_some_and(|name| crate::is_shell(crate::path::base_name(name)))
                    && words[1..].iter().all(is_interactive) =>
            {
                self.ask(rule, node, subject);
            }
            Some(first) if first.known().is_some() => {
                let line: Vec<String> = words.iter().map(quote).collect();
                self.shell(node, &line.join(" "));
            }
            _ => self.ask(rule, node, subject),
        }
    }

    /// Judges what is done to a path by the shell command that would do it.
    pub(super) fn path(&mut self, rule: &CodeRule, node: Node<'_>, command: &str, path: &Val, subject: &str) {
        if path.has_unknown() {
            self.ask(rule, node, subject);
        }
        self.shell(node, &format!("{command}{}", quote(path)));
    }

    /// The same for reading and writing, where a path that is not known is ordinary.
    pub(super) fn file(&mut self, node: Node<'_>, command: &str, path: &Val) {
        // Code that forgets to expand `~` means the home directory.
        let expanded = path.known().and_then(|text| text.strip_prefix("~/"));
        let expanded = expanded.map(|rest| Val::text(format!("{}/{rest}", self.place.home)));
        let path = expanded.as_ref().unwrap_or(path);
        if path.segs().first().is_some_and(|seg| matches!(seg, Seg::Text(_))) && !path.has_unknown() {
            self.shell(node, &format!("{command}{}", quote(path)));
        } else if let Some(why) = crate::checks::secrets::secret(path, self.cwd, self.place) {
            let message = format!("a file that may hold secrets is used: {why}");
            self.step(node, What::Unclear { rule: "code-secret".to_owned(), message });
        }
    }

    pub(super) fn variable(&mut self, node: Node<'_>, name: &str, value: &Val) {
        if !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !name.starts_with(|c: char| c.is_ascii_digit())
        {
            self.shell(node, &format!("export {name}={}", quote(value)));
        }
    }

    pub(super) fn list(&self, node: Node<'_>) -> Option<Vec<Val>> {
        if !matches!(node.kind(), "list" | "tuple" | "array") {
            return None;
        }
        let items = children(node).filter(|child| child.is_named() && child.kind() != "comment");
        Some(items.take(256).map(|child| self.names.value(child, 0)).collect())
    }

    /// Every variable that a written table sets.
    pub(super) fn variables(&mut self, node: Node<'_>, map: Node<'_>) {
        for pair in children(map).filter(|child| child.kind() == "pair") {
            let (Some(key), Some(value)) =
                (pair.child_by_field_name("key"), pair.child_by_field_name("value"))
            else {
                continue;
            };
            let name = match key.kind() {
                "property_identifier" => self.names.source(key).to_owned(),
                _ => self.names.value(key, 0).known().unwrap_or_default().to_owned(),
            };
            let value = self.names.value(value, 0);
            self.variable(node, &name, &value);
        }
    }

    /// Whether an option in a written table is given and not false.
    pub(super) fn option_is_set(&self, call: Node<'_>, name: &str) -> bool {
        (1..3)
            .filter_map(|index| self.names.argument(call, index))
            .filter(|node| node.kind() == "object")
            .any(|object| {
                children(object).filter(|child| child.kind() == "pair").any(|pair| {
                    let key = pair
                        .child_by_field_name("key")
                        .map(|key| self.names.source(key).trim_matches(['"', '\'']));
                    let value = pair.child_by_field_name("value").map(|value| self.names.source(value));
                    key == Some(name) && value != Some("false")
                })
            })
    }

    pub(super) fn keyword_text(&self, call: Node<'_>, name: &str) -> Option<&'a str> {
        self.keyword_node(call, name).map(|value| self.names.source(value))
    }

    pub(super) fn keyword_node<'t>(&self, call: Node<'t>, name: &str) -> Option<Node<'t>> {
        let arguments = call.child_by_field_name("arguments")?;
        let named = children(arguments).find(|child| {
            child.kind() == "keyword_argument"
                && child.child_by_field_name("name").is_some_and(|n| self.names.source(n) == name)
        })?;
        named.child_by_field_name("value")
    }

    pub(super) fn keyword(&self, call: Node<'_>, name: &str) -> Option<Val> {
        self.keyword_text(call, name).map(|text| Val::text(text.trim_matches(['"', '\''])))
    }

    /// Whether a file is read among the arguments.
    pub(super) fn mentions_file(&self, call: Node<'_>) -> bool {
        let Some(arguments) = call.child_by_field_name("arguments") else { return false };
        let reads = |name: &str| {
            matches!(
                name,
                "open" | "io.open" | "builtins.open" | "fs.readFileSync" | "fs.createReadStream" | "Bun.file"
            ) || name.ends_with(".read_bytes")
                || name.ends_with(".read_text")
        };
        let mut stack = vec![arguments];
        for _ in 0..2048 {
            let Some(node) = stack.pop() else { return false };
            let called = match node.kind() {
                "call" | "call_expression" => node.child_by_field_name("function"),
                _ => None,
            };
            if called.and_then(|called| self.names.name(called, 0)).is_some_and(|name| reads(&name)) {
                return true;
            }
            stack.extend(children(node));
        }
        true
    }

    /// Whether the environment as a whole is among the arguments.
    pub(super) fn mentions_environment(&self, call: Node<'_>) -> bool {
        let Some(arguments) = call.child_by_field_name("arguments") else { return false };
        let mut stack = vec![arguments];
        let mut looked = 0;
        while let Some(node) = stack.pop() {
            looked += 1;
            if looked > 2048 {
                return true;
            }
            if node.kind() == "identifier"
                && self.names.name(node, 0).is_some_and(|name| name.starts_with("os.environ.items()"))
            {
                return true;
            }
            if matches!(node.kind(), "attribute" | "member_expression") {
                if let Some(name) = self.names.name(node, 0)
                    && matches!(name.as_str(), "os.environ" | "process.env")
                {
                    return true;
                }
                continue;
            }
            stack.extend(children(node));
        }
        false
    }
}

fn is_interactive(word: &Val) -> bool {
    word.known().is_some_and(|word| {
        word.starts_with('-') && !word.contains('c') && word != "--version" && word != "--help"
    })
}

pub(super) fn span(node: Node<'_>) -> Span {
    let range = node.byte_range();
    Span::new(u32::try_from(range.start).unwrap_or(u32::MAX), u32::try_from(range.end).unwrap_or(u32::MAX))
}

/// A value as a word of the shell that stands for the same.
fn quote(val: &Val) -> String {
    let mut out = String::new();
    for seg in val.segs() {
        match seg {
            Seg::Text(text) => {
                out.push('\'');
                out.push_str(&text.replace('\'', "'\\''"));
                out.push('\'');
            }
            Seg::Star => out.push_str("\"$#\""),
            Seg::One => out.push('x'),
            Seg::Unknown | Seg::Process => out.push_str("\"$unknown\""),
        }
    }
    if out.is_empty() { "''".to_owned() } else { out }
}
