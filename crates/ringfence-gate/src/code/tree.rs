//! Python and JavaScript: the rules of `queries/*.scm`, applied to a syntax tree.

use ringfence_bash::Span;
use tree_sitter::{Node, Parser, QueryCursor, StreamingIterator as _};

use super::Language;
use super::loops::is_endless;
use super::names::Names;
use super::queries::{CodeRule, Does, language, matches, rules};
use super::reading::{MOST_STEPS, Question, Reading, Step, What};
use super::steps::span;
use crate::shell::Place;
use crate::value::Val;

/// Reads a program.
pub(crate) fn read(of: Language, question: &Question) -> Result<Reading, String> {
    let text = question.code.as_str();
    let (Some(language), Some(rules)) = (language(of), rules(of)) else {
        return Err("the rules for this language cannot be loaded".to_owned());
    };
    let mut parser = Parser::new();
    let tree = parser.set_language(&language).ok().and_then(|()| parser.parse(text, None));
    let tree = tree.ok_or_else(|| "the code cannot be read".to_owned())?;
    let root = tree.root_node();
    let place = Place { home: &question.home, project: &question.project, also: &[], files: None };
    let cwd = question.cwd.as_deref();
    let names = Names::of(root, text, place, cwd);
    let mut program = Program { names, place, cwd, steps: vec![] };
    let mut cursor = QueryCursor::new();
    let mut found = cursor.matches(&rules.query, root, text.as_bytes());
    while let Some(hit) = found.next() {
        let Some(about_it) = rules.rules.get(hit.pattern_index) else { continue };
        let capture = |name: &str| {
            let index = rules.query.capture_index_for_name(name)?;
            hit.captures().iter().find(|capture| capture.index == index).map(|capture| capture.node)
        };
        for rule in about_it {
            program.hit(rule, &capture);
        }
        if program.steps.len() > MOST_STEPS {
            break;
        }
    }
    let (texts, modules) = outline(root, &program.names);
    Ok(Reading { complete: !root.has_error(), steps: program.steps, texts, modules })
}

/// Strings and comments, and the modules that are loaded by name.
fn outline(root: Node<'_>, names: &Names<'_>) -> (Vec<(u32, u32)>, Vec<String>) {
    let (mut texts, mut modules): (Vec<(u32, u32)>, Vec<String>) = (vec![], vec![]);
    let mut cursor = root.walk();
    loop {
        let node = cursor.node();
        match node.kind() {
            "string_content" | "string_fragment" | "comment" => {
                let Span { start, end } = span(node);
                texts.push((start, end));
            }
            "import_statement" | "call_expression" => {
                let source = node.child_by_field_name("source").or_else(|| loads(node, names));
                let module = source.and_then(|source| names.value(source, 0).known().map(str::to_owned));
                modules.extend(module.filter(|module| module.len() < 256 && !modules.contains(module)));
            }
            _ => {}
        }
        if cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return (texts, modules);
            }
        }
    }
}

/// The argument of a call that loads a module.
fn loads<'t>(call: Node<'t>, names: &Names<'_>) -> Option<Node<'t>> {
    let function = names.source(call.child_by_field_name("function")?);
    let by_name =
        function == "import" || function.ends_with("require") || function.ends_with("getBuiltinModule");
    by_name.then(|| names.argument(call, 0)).flatten()
}

/// Whether brackets go deeper than any honest program's. Those in strings count; that does no harm.
pub(crate) fn is_deep(text: &str) -> bool {
    let mut depth = 0i32;
    text.bytes().any(|byte| {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = (depth - 1).max(0),
            _ => {}
        }
        depth > 200
    })
}

/// Modules whose members start, remove or load things.
const POWERFUL: &[&str] = &[
    "os",
    "posix",
    "subprocess",
    "pty",
    "shutil",
    "builtins",
    "ctypes",
    "importlib",
    "child_process",
    "fs",
    "vm",
    "process",
    "cluster",
    "module",
];

/// Tables in which every function can be found.
const EVERYTHING: &[&str] = &[
    "globalThis",
    "global",
    "window",
    "self",
    "globals()",
    "locals()",
    "__builtins__",
    "sys.modules",
    "vars()",
];

/// Whether an expression puts a text together.
fn is_built(node: Node<'_>) -> bool {
    match node.kind() {
        "binary_operator" | "binary_expression" | "call" | "call_expression" | "concatenated_string" => true,
        "template_string" | "string" => super::literal::children(node)
            .any(|child| matches!(child.kind(), "template_substitution" | "interpolation")),
        "subscript" | "subscript_expression" => true,
        "parenthesized_expression" => node.named_child(0).is_some_and(is_built),
        _ => false,
    }
}

pub(super) struct Program<'a> {
    pub(super) names: Names<'a>,
    pub(super) place: Place<'a>,
    pub(super) cwd: Option<&'a str>,
    pub(super) steps: Vec<Step>,
}

impl<'a> Program<'a> {
    fn hit<'t>(&mut self, rule: &CodeRule, capture: &dyn Fn(&str) -> Option<Node<'t>>) {
        let named = |node: Option<Node<'t>>| node.and_then(|node| self.names.name(node, 0));
        let subject = match rule.does {
            Does::Reference => named(capture("reference")),
            Does::Environment => named(capture("target")),
            _ => named(capture("function")),
        };
        if !rule.names.is_empty() {
            let Some(subject) = &subject else { return };
            let plain = subject.strip_suffix("()").filter(|_| rule.does == Does::Reference).is_none();
            if !plain || !rule.names.iter().any(|pattern| matches(pattern, subject)) {
                return;
            }
        }
        let Some(node) = capture("call").or_else(|| capture("reference")).or_else(|| capture("target"))
        else {
            return;
        };
        let receiver = capture("receiver");
        self.act(rule, node, receiver, capture("value"), subject.as_deref().unwrap_or_default());
    }

    fn act(
        &mut self,
        rule: &CodeRule,
        node: Node<'_>,
        receiver: Option<Node<'_>>,
        value: Option<Node<'_>>,
        subject: &str,
    ) {
        let first = self.names.argument(node, 0);
        let first_value = || first.map_or_else(Val::unknown, |first| self.names.value(first, 0));
        let receiver_value = || receiver.map_or_else(Val::unknown, |receiver| self.names.value(receiver, 0));
        match rule.does {
            Does::Ask => self.ask(rule, node, subject),
            Does::Reference => {
                if is_passed_around(node) {
                    self.ask(rule, node, subject);
                }
            }
            Does::Shell => {
                let text = first_value();
                self.run(rule, node, &text, subject);
            }
            Does::Spawn => self.spawn(rule, node, first, subject),
            Does::Program => {
                let mut words = first.map(|first| vec![self.names.value(first, 0)]).unwrap_or_default();
                let zeroth = subject.starts_with("os.exec") || subject.starts_with("os.posix");
                if let Some(second) = self.names.argument(node, 1) {
                    match self.list(second) {
                        Some(list) => words.extend(list.into_iter().skip(usize::from(zeroth))),
                        None => words.push(self.names.value(second, 0)),
                    }
                }
                if self.option_is_set(node, "shell") {
                    let mut line = Val::default();
                    for word in &words {
                        line.extend(word);
                        line.push_text(" ");
                    }
                    return self.run(rule, node, &line, subject);
                }
                self.words(rule, node, &words, subject);
            }
            Does::Template => {
                let text = node
                    .child_by_field_name("arguments")
                    .map_or_else(Val::unknown, |text| self.names.value(text, 0));
                self.run(rule, node, &text, subject);
            }
            Does::Timer => {
                if first.is_some_and(|first| {
                    matches!(first.kind(), "string" | "template_string" | "binary_expression")
                }) {
                    self.ask(rule, node, subject);
                }
            }
            Does::Variables => {
                let from = usize::from(subject == "Object.assign");
                let environment = from == 0
                    || first.and_then(|first| self.names.name(first, 0)).as_deref() == Some("process.env");
                if let (Some(map), true) = (self.names.argument(node, from), environment) {
                    self.variables(node, map);
                }
            }
            Does::Code => {
                let text = first_value();
                match text.known() {
                    Some(code) if !first.is_some_and(is_built) => {
                        self.step(node, What::Code(code.to_owned()));
                    }
                    _ => self.ask(rule, node, subject),
                }
            }
            Does::Data => {
                let own = first.and_then(|first| self.names.name(first, 0));
                if !own.is_some_and(|name| name.ends_with(".dumps()")) {
                    self.ask(rule, node, subject);
                }
            }
            Does::Loader => {
                let loader = self
                    .keyword_text(node, "Loader")
                    .or_else(|| self.names.argument(node, 1).map(|loader| self.names.source(loader)));
                let loader = loader.unwrap_or_default().rsplit('.').next().unwrap_or_default();
                if loader.contains("Unsafe") || matches!(loader, "Loader" | "CLoader") {
                    self.ask(rule, node, subject);
                }
            }
            Does::Endless => {
                if is_endless(node, &self.names) {
                    self.ask(rule, node, subject);
                }
            }
            Does::Member => {
                let of = first.and_then(|first| self.names.name(first, 0)).unwrap_or_default();
                let member = self.names.argument(node, 1).map(|member| self.names.value(member, 0));
                let built = self
                    .names
                    .argument(node, 1)
                    .is_some_and(|member| is_built(member) || member.kind() == "identifier");
                if matches!(of.as_str(), "Function" | "eval") {
                    self.ask(rule, node, subject);
                }
                if POWERFUL.contains(&of.as_str())
                    && (subject != "getattr"
                        || built
                        || member.is_some_and(|member| member.known().is_none()))
                {
                    self.ask(rule, node, subject);
                }
            }
            Does::Built => {
                let index =
                    node.child_by_field_name("subscript").or_else(|| node.child_by_field_name("index"));
                let built = index.is_some_and(is_built);
                let chosen = index.is_some_and(|index| index.kind() == "identifier");
                if POWERFUL.contains(&subject) && (built || chosen) || EVERYTHING.contains(&subject) && built
                {
                    self.ask(rule, node, subject);
                }
            }
            Does::Fork => {
                if is_endless(node, &self.names) {
                    self.shell(node, super::FORK_BOMB);
                }
            }
            Does::Worker => {
                let text = first_value();
                if self.option_is_set(node, "eval") {
                    match text.known() {
                        Some(code) => self.step(node, What::Code(code.to_owned())),
                        None => self.ask(rule, node, subject),
                    }
                } else if first.is_some_and(|first| {
                    self.names.source(first).contains("data:") || self.names.source(first).contains("blob:")
                }) {
                    self.ask(rule, node, subject);
                }
            }
            Does::Import => {
                let awaited = node.parent().is_some_and(|parent| parent.kind().starts_with("await"));
                let module = first_value();
                let hidden = subject == "import"
                    && !awaited
                    && module.known().is_some_and(|module| {
                        matches!(module.trim_start_matches("node:"), "child_process" | "vm" | "cluster")
                    });
                let text = module.known().unwrap_or_default();
                let remote = ["data:", "http:", "https:", "blob:"].iter().any(|kind| text.starts_with(kind));
                let passed = POWERFUL.contains(&text)
                    && node.parent().is_some_and(|parent| {
                        matches!(parent.kind(), "argument_list" | "list" | "tuple" | "dictionary" | "pair")
                    });
                let built =
                    POWERFUL.contains(&text.trim_start_matches("node:")) && first.is_some_and(is_built);
                if module.known().is_none() || hidden || remote || passed || built {
                    self.ask(rule, node, subject);
                }
            }
            Does::Remove => self.path(rule, node, "rm -rf -- ", &first_value(), subject),
            Does::RemoveReceiver => self.path(rule, node, "rm -rf -- ", &receiver_value(), subject),
            Does::Read => self.file(node, "cat -- ", &first_value()),
            Does::ReadReceiver => self.file(node, "cat -- ", &receiver_value()),
            Does::Write => self.file(node, ": > ", &first_value()),
            Does::WriteReceiver => self.file(node, ": > ", &receiver_value()),
            Does::Open => {
                let mode = self
                    .names
                    .argument(node, 1)
                    .map(|mode| self.names.value(mode, 0))
                    .or_else(|| self.keyword(node, "mode"));
                let writes = mode
                    .is_some_and(|mode| mode.known().is_none_or(|mode| mode.contains(['w', 'a', 'x', '+'])));
                let path = first_value();
                self.file(node, if writes && subject != "pathlib.Path" { ": > " } else { "cat -- " }, &path);
            }
            Does::Change => self.file(node, "chmod 777 ", &first_value()),
            Does::Link => {
                self.file(node, "cat -- ", &first_value());
                if let Some(second) = self.names.argument(node, 1) {
                    let target = self.names.value(second, 0);
                    self.file(node, ": > ", &target);
                }
            }
            Does::Signal => {
                let target = first.map(|first| self.names.source(first).trim()).unwrap_or_default();
                if target.starts_with('-') || matches!(target, "0" | "1") {
                    self.ask(rule, node, subject);
                }
            }
            Does::Send => {
                let address = first_value().lossy("");
                if self.mentions_environment(node) {
                    self.ask(rule, node, subject);
                } else if self.mentions_file(node) && !crate::shell_internals::is_loopback(&address) {
                    let message = format!("`{subject}`: what is in a file is sent to another machine");
                    self.step(node, What::Unclear { rule: "sends-data".to_owned(), message });
                }
                if crate::checks::outflow::names_metadata(&address) {
                    let message = "the keys that a cloud gives to this machine are asked for".to_owned();
                    self.step(node, What::Unclear { rule: rule.rule.to_owned(), message });
                }
            }
            Does::Environment => {
                let name = subject.rsplit('.').next().unwrap_or_default();
                let value = value.map_or_else(Val::unknown, |value| self.names.value(value, 0));
                self.variable(node, name, &value);
            }
            Does::Putenv => {
                let name = first_value();
                let value = self
                    .names
                    .argument(node, 1)
                    .map_or_else(Val::unknown, |value| self.names.value(value, 0));
                self.variable(node, name.known().unwrap_or("LD_PRELOAD"), &value);
            }
        }
    }
}

/// Whether a name is used as a value, and not called, imported or part of a longer name.
fn is_passed_around(node: Node<'_>) -> bool {
    let Some(parent) = node.parent() else { return false };
    match parent.kind() {
        "call" | "call_expression" => parent.child_by_field_name("function") != Some(node),
        "attribute"
        | "member_expression"
        | "import_specifier"
        | "import_clause"
        | "namespace_import"
        | "dotted_name"
        | "aliased_import"
        | "import_from_statement"
        | "import_statement"
        | "function_definition"
        | "class_definition"
        | "keyword_argument"
        | "formal_parameters"
        | "parameters"
        | "pair" => false,
        "assignment" | "assignment_expression" | "variable_declarator" => {
            let left = parent.child_by_field_name("left").or_else(|| parent.child_by_field_name("name"));
            left != Some(node)
        }
        _ => true,
    }
}
