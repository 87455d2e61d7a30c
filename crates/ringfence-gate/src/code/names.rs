//! What names and expressions of a program stand for, with imports, aliases and constants followed.

use std::collections::HashMap;

use tree_sitter::Node;

use super::literal::{STARRED, children, module_name, unescape};
use crate::shell::Place;
use crate::value::{Seg, Val};

/// Expressions are followed this deep.
const MOST_DEPTH: usize = 24;

/// Names and constants of one program.
pub(crate) struct Names<'a> {
    pub(crate) text: &'a str,
    pub(crate) place: Place<'a>,
    pub(crate) cwd: Option<&'a str>,
    aliases: HashMap<String, String>,
    constants: HashMap<String, Val>,
}

impl<'a> Names<'a> {
    /// Reads imports and assignments of the whole program, wherever they stand.
    pub(crate) fn of(root: Node<'_>, text: &'a str, place: Place<'a>, cwd: Option<&'a str>) -> Self {
        let mut names = Self { text, place, cwd, aliases: HashMap::new(), constants: HashMap::new() };
        let mut cursor = root.walk();
        let mut down = true;
        loop {
            if down {
                names.take_in(cursor.node());
            }
            if down && cursor.goto_first_child() {
                continue;
            }
            if cursor.goto_next_sibling() {
                down = true;
            } else if cursor.goto_parent() {
                down = false;
            } else {
                break;
            }
        }
        names
    }

    pub(crate) fn source(&self, node: Node<'_>) -> &'a str {
        self.text.get(node.byte_range()).unwrap_or_default()
    }

    fn field(&self, node: Node<'_>, name: &str) -> &'a str {
        node.child_by_field_name(name).map(|child| self.source(child)).unwrap_or_default()
    }

    fn alias(&mut self, name: &str, meaning: String) {
        if !name.is_empty() && name != meaning && meaning.len() < 256 {
            self.aliases.insert(name.to_owned(), meaning);
        }
    }

    fn take_in(&mut self, node: Node<'_>) {
        match node.kind() {
            // Python
            "import_statement" if node.child_by_field_name("source").is_none() => {
                for child in children(node).filter(|child| child.kind() == "aliased_import") {
                    let meaning = self.field(child, "name").to_owned();
                    self.alias(self.field(child, "alias"), meaning);
                }
            }
            "import_from_statement" => {
                let module = self.field(node, "module_name");
                for child in children(node) {
                    match child.kind() {
                        "aliased_import" => {
                            let meaning = format!("{module}.{}", self.field(child, "name"));
                            self.alias(self.field(child, "alias"), meaning);
                        }
                        "wildcard_import" => {
                            for name in STARRED
                                .iter()
                                .filter(|(known, _)| *known == module)
                                .flat_map(|(_, names)| *names)
                            {
                                self.alias(name, format!("{module}.{name}"));
                            }
                        }
                        "dotted_name" if self.source(child) != module => {
                            self.alias(self.source(child), format!("{module}.{}", self.source(child)));
                        }
                        _ => {}
                    }
                }
            }
            // JavaScript
            "import_statement" => self.js_import(node),
            "assignment" | "assignment_expression" | "named_expression" => {
                let (left, right) = (
                    node.child_by_field_name("left").or_else(|| node.child_by_field_name("name")),
                    node.child_by_field_name("right").or_else(|| node.child_by_field_name("value")),
                );
                if let (Some(left), Some(right)) = (left, right) {
                    self.assign(left, right);
                }
            }
            "variable_declarator" => {
                if let (Some(left), Some(right)) =
                    (node.child_by_field_name("name"), node.child_by_field_name("value"))
                {
                    self.assign(left, right);
                }
            }
            "augmented_assignment" | "augmented_assignment_expression" => {
                let name = self.field(node, "left").to_owned();
                self.constants.insert(name, Val::unknown());
            }
            "for_statement" | "for_in_clause" | "for_in_statement" => {
                if let (Some(left), Some(right)) =
                    (node.child_by_field_name("left"), node.child_by_field_name("right"))
                {
                    if let Some(meaning) = self.name(right, 0) {
                        self.alias(self.source(left), format!("{meaning}[]"));
                        // `for k, v in …`: each of them.
                        for name in children(left).filter(|child| child.kind() == "identifier") {
                            self.alias(self.source(name), format!("{meaning}[]"));
                        }
                    }
                    let found = self.globbed(right).unwrap_or_else(Val::unknown);
                    self.constants.insert(self.source(left).to_owned(), found);
                }
            }
            _ => {}
        }
    }

    /// What `Path(…).glob(…)` and its like give: something below the directory.
    fn globbed(&self, node: Node<'_>) -> Option<Val> {
        let function = node.child_by_field_name("function")?;
        let object = function.child_by_field_name("object")?;
        let name = self.name(function, 0)?;
        let last = name.rsplit('.').next()?;
        if !name.starts_with("pathlib.") || !matches!(last, "glob" | "rglob" | "iterdir") {
            return None;
        }
        let mut val = self.value(object, 0);
        val.push_text("/");
        let pattern = self.argument(node, 0).map(|pattern| self.value(pattern, 0));
        let everything = pattern
            .as_ref()
            .and_then(Val::known)
            .is_none_or(|text| matches!(text, "*" | "**" | "**/*" | "*.*"));
        if !everything {
            val.push(Seg::One);
        }
        val.push(Seg::Star);
        Some(val)
    }

    fn js_import(&mut self, node: Node<'_>) {
        let Some(source) = node.child_by_field_name("source") else { return };
        let module = module_name(self.value(source, 0).known().unwrap_or_default());
        let mut cursor = node.walk();
        let mut stack: Vec<Node<'_>> = node.children(&mut cursor).collect();
        while let Some(child) = stack.pop() {
            match child.kind() {
                "import_specifier" => {
                    let name = self.field(child, "name");
                    let alias = child.child_by_field_name("alias").map_or(name, |alias| self.source(alias));
                    self.alias(alias, format!("{module}.{name}"));
                }
                "identifier" => {
                    let name = self.source(child);
                    self.aliases.insert(name.to_owned(), module.clone());
                }
                "import_clause" | "named_imports" | "namespace_import" => {
                    stack.extend(children(child));
                }
                _ => {}
            }
        }
    }

    fn assign(&mut self, left: Node<'_>, right: Node<'_>) {
        match left.kind() {
            "identifier" => {
                let name = self.source(left).to_owned();
                if let Some(meaning) = self.name(right, 0)
                    && meaning != name
                {
                    self.alias(&name, meaning);
                }
                let val = self.value(right, 0);
                let same = self.constants.get(&name).is_none_or(|old| *old == val);
                self.constants.insert(name, if same { val } else { Val::unknown() });
            }
            "object_pattern" => {
                let Some(base) = self.name(right, 0) else { return };
                for child in children(left) {
                    match child.kind() {
                        "shorthand_property_identifier_pattern" => {
                            let name = self.source(child);
                            self.alias(name, format!("{base}.{name}"));
                        }
                        "pair_pattern" => {
                            let meaning = format!("{base}.{}", self.field(child, "key"));
                            self.alias(self.field(child, "value"), meaning);
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    /// The dotted name of an expression: `sp.run` after `import subprocess as sp` is `subprocess.run`.
    pub(crate) fn name(&self, node: Node<'_>, depth: usize) -> Option<String> {
        if depth > MOST_DEPTH {
            return None;
        }
        let name = match node.kind() {
            "identifier" | "dotted_name" | "property_identifier" | "import" => {
                let text = self.source(node);
                match self.aliases.get(text) {
                    Some(meaning) => meaning.clone(),
                    None => text.to_owned(),
                }
            }
            "attribute" => {
                self.dotted(node.child_by_field_name("object")?, self.field(node, "attribute"), depth)?
            }
            "member_expression" => {
                self.dotted(node.child_by_field_name("object")?, self.field(node, "property"), depth)?
            }
            "subscript" | "subscript_expression" => {
                let object =
                    node.child_by_field_name("value").or_else(|| node.child_by_field_name("object"))?;
                let index =
                    node.child_by_field_name("subscript").or_else(|| node.child_by_field_name("index"))?;
                let base = self.name(object, depth + 1)?;
                match self.value(index, depth + 1).known() {
                    Some(key) if !key.is_empty() && base == "sys.modules" => module_name(key),
                    Some(key) if !key.is_empty() => format!("{base}.{key}"),
                    _ => format!("{base}.?"),
                }
            }
            "call" | "call_expression" => self.call_name(node, depth)?,
            "new_expression" => {
                format!("{}()", self.name(node.child_by_field_name("constructor")?, depth + 1)?)
            }
            "parenthesized_expression" => self.name(node.named_child(0)?, depth + 1)?,
            "sequence_expression" => {
                let last = u32::try_from(node.named_child_count()).ok()?.checked_sub(1)?;
                self.name(node.named_child(last)?, depth + 1)?
            }
            "await" | "await_expression" => self.name(node.named_child(0)?, depth + 1)?,
            "list" | "array" | "tuple" => "[]".to_owned(),
            "binary_operator" => {
                let left = self.name(node.child_by_field_name("left")?, depth + 1)?;
                if !left.starts_with("pathlib.") {
                    return None;
                }
                left
            }
            _ => return None,
        };
        if name.len() > 512 {
            return None;
        }
        for global in ["globalThis.", "window.", "global.", "self."] {
            if let Some(rest) = name.strip_prefix(global) {
                return Some(rest.to_owned());
            }
        }
        Some(name)
    }

    fn dotted(&self, object: Node<'_>, attribute: &str, depth: usize) -> Option<String> {
        let base = self.name(object, depth + 1).unwrap_or_else(|| "()".to_owned());
        Some(if attribute == "__dict__" { base } else { format!("{base}.{attribute}") })
    }

    fn call_name(&self, node: Node<'_>, depth: usize) -> Option<String> {
        let function = self.name(node.child_by_field_name("function")?, depth + 1)?;
        let first = self.argument(node, 0);
        let literal =
            first.map(|first| self.value(first, depth + 1)).and_then(|val| val.known().map(str::to_owned));
        match function.rsplit('.').next().unwrap_or_default() {
            "require" | "__import__" | "import_module" | "getBuiltinModule" | "import"
            | "createRequire()" => {
                return Some(literal.map_or_else(|| "?".to_owned(), |module| module_name(&module)));
            }
            _ => {}
        }
        match function.as_str() {
            "getattr" => {
                let base = self.name(first?, depth + 1).unwrap_or_else(|| "()".to_owned());
                let key = self.argument(node, 1).map(|second| self.value(second, depth + 1));
                return Some(match key.as_ref().and_then(Val::known) {
                    Some("__dict__") => base,
                    Some(key) => format!("{base}.{key}"),
                    None => format!("{base}.?"),
                });
            }
            "vars" => return self.name(first?, depth + 1),
            "util.promisify" => return self.name(first?, depth + 1),
            _ => {}
        }
        Some(format!("{function}()"))
    }

    /// The `index`th positional argument of a call.
    pub(crate) fn argument<'t>(&self, call: Node<'t>, index: usize) -> Option<Node<'t>> {
        let arguments = call.child_by_field_name("arguments")?;
        let mut positional = children(arguments).filter(|child| {
            child.is_named() && !matches!(child.kind(), "keyword_argument" | "comment" | "dictionary_splat")
        });
        positional.nth(index)
    }

    /// The value of an expression, as far as it is constant.
    pub(crate) fn value(&self, node: Node<'_>, depth: usize) -> Val {
        if depth > MOST_DEPTH {
            return Val::unknown();
        }
        match node.kind() {
            "string" | "template_string" | "concatenated_string" => self.string(node, depth),
            "integer" | "number" => Val::text(self.source(node)),
            "parenthesized_expression" | "await" | "await_expression" => {
                node.named_child(0).map_or_else(Val::unknown, |child| self.value(child, depth + 1))
            }
            "binary_operator" | "binary_expression" => {
                let (Some(left), Some(right)) =
                    (node.child_by_field_name("left"), node.child_by_field_name("right"))
                else {
                    return Val::unknown();
                };
                let joint = match self.field(node, "operator") {
                    "+" => "",
                    "/" => "/",
                    _ => return Val::unknown(),
                };
                let mut val = self.value(left, depth + 1);
                val.push_text(joint);
                val.extend(&self.value(right, depth + 1));
                val
            }
            "identifier" => match self.source(node) {
                "__dirname" | "__file__" | "__filename" => self.cwd.map_or_else(Val::unknown, Val::text),
                name => self.constants.get(name).cloned().unwrap_or_else(Val::unknown),
            },
            "attribute" | "member_expression" | "subscript" | "subscript_expression" => {
                match self.name(node, depth + 1).as_deref() {
                    Some("os.environ.HOME" | "process.env.HOME") => Val::text(self.place.home),
                    Some("os.sep" | "path.sep") => Val::text("/"),
                    _ => Val::unknown(),
                }
            }
            "call" | "call_expression" => self.call_value(node, depth),
            _ => Val::unknown(),
        }
    }

    fn string(&self, node: Node<'_>, depth: usize) -> Val {
        let mut val = Val::default();
        let raw = children(node).next().is_some_and(|start| {
            self.source(start).to_ascii_lowercase().contains('r') && start.kind() == "string_start"
        });
        for child in children(node) {
            match child.kind() {
                "string_content" | "string_fragment" => {
                    let text = self.source(child);
                    match unescape(text).filter(|_| !raw) {
                        Some(text) => val.push_text(&text),
                        None if raw => val.push_text(text),
                        None => val.push(Seg::Unknown),
                    }
                }
                "escape_sequence" => match unescape(self.source(child)) {
                    Some(text) => val.push_text(&text),
                    None => val.push(Seg::Unknown),
                },
                "interpolation" | "template_substitution" => {
                    let inner = child.child_by_field_name("expression").or_else(|| child.named_child(0));
                    match inner {
                        Some(inner) => val.extend(&self.value(inner, depth + 1)),
                        None => val.push(Seg::Unknown),
                    }
                }
                "string" => val.extend(&self.string(child, depth + 1)),
                _ => {}
            }
        }
        val
    }

    fn call_value(&self, node: Node<'_>, depth: usize) -> Val {
        let Some(function) = node.child_by_field_name("function") else { return Val::unknown() };
        let Some(name) = self.name(function, depth + 1) else { return Val::unknown() };
        let argument = |index| self.argument(node, index).map(|child| self.value(child, depth + 1));
        match name.as_str() {
            "os.path.join" | "posixpath.join" | "path.join" | "path.resolve" | "pathlib.Path"
            | "pathlib.PurePath" | "pathlib.PosixPath" => {
                let mut val = Val::default();
                let mut index = 0;
                while let Some(next) = argument(index) {
                    if next.prefix().starts_with('/') {
                        val = Val::default();
                    } else if index > 0 {
                        val.push_text("/");
                    }
                    val.extend(&next);
                    index += 1;
                }
                if index == 0 { Val::text(".") } else { val }
            }
            "os.path.expanduser" | "pathlib.Path().expanduser" => {
                let val = argument(0).unwrap_or_else(Val::unknown);
                if val.prefix().starts_with('~') {
                    let mut home = Val::text(self.place.home);
                    home.extend(&val.skip(1));
                    return home;
                }
                val
            }
            "pathlib.Path.home" | "os.homedir" | "os.path.home" => Val::text(self.place.home),
            "os.getcwd" | "pathlib.Path.cwd" | "process.cwd" => self.cwd.map_or_else(Val::unknown, Val::text),
            "os.environ.get" | "os.getenv" if argument(0).is_some_and(|val| val.known() == Some("HOME")) => {
                Val::text(self.place.home)
            }
            "tempfile.mkdtemp" | "tempfile.mktemp" | "os.tmpdir" | "tempfile.gettempdir" => {
                Val::text("/tmp/x")
            }
            "str" | "os.fspath" | "os.path.abspath" | "os.path.realpath" | "os.path.normpath" | "bytes"
            | "String" => argument(0).unwrap_or_else(Val::unknown),
            "chr" | "String.fromCharCode" => {
                let code = argument(0).and_then(|val| val.known().and_then(|text| text.parse::<u32>().ok()));
                code.and_then(char::from_u32).map_or_else(Val::unknown, |c| Val::text(c.to_string()))
            }
            _ => {
                let last = name.rsplit('.').next().unwrap_or_default();
                let object = function.child_by_field_name("object");
                match (last, object) {
                    (
                        "encode" | "decode" | "toString" | "strip" | "trim" | "resolve" | "absolute"
                        | "as_posix" | "expanduser",
                        Some(object),
                    ) => self.value(object, depth + 1),
                    ("joinpath", Some(object)) => {
                        let mut val = self.value(object, depth + 1);
                        val.push_text("/");
                        val.extend(&argument(0).unwrap_or_else(Val::unknown));
                        val
                    }
                    _ => Val::unknown(),
                }
            }
        }
    }
}
