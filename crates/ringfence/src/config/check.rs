//! Everything that is wrong with a file, as much as possible at once, each with its place and what to do.
//!
//! The file is compared with the JSON schema, which is made from the same types that read it; what a schema
//! cannot say is found by reading it.

use std::path::Path;

use jsonc_parser::ast;
use jsonc_parser::common::Ranged;
use ringfence_model::Result;
use ringfence_model::config::aliases;
use serde_json::Value;

use super::diagnostic::{Diagnostic, DiagnosticKind, Severity};
use super::load::{BadFile, LoadOptions, load};
use super::rules;
use super::source::{self, Lines};
use super::words::{closest, list};

/// The JSON schema of `sandbox.json`.
#[must_use]
pub fn schema() -> Value {
    aliases::schema()
}

/// Checks the files a load would read. Empty: all is well. Warnings are things that are valid but do not do
/// what they seem to.
pub fn check(options: &LoadOptions<'_>) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for source in [source::read_user(options.ringfence_home), source::read_project(options.project)] {
        match source {
            Ok(Some(source)) => found.extend(check_text(&source.path, &source.text)),
            Ok(None) => {}
            Err(problem) => found.push(problem),
        }
    }
    // Problems that only show when the layers come together; broken files were named above.
    let options = LoadOptions { bad_file: BadFile::Warn, ..options.clone() };
    if let Ok(loaded) = load(&options) {
        let named = |warning: &Diagnostic| {
            matches!(warning.kind, DiagnosticKind::LayerDropped | DiagnosticKind::UnknownKey)
        };
        found.extend(loaded.warnings.into_iter().filter(|warning| !named(warning)));
    }
    found
}

/// Checks one file's text.
#[must_use]
pub fn check_text(file: &Path, text: &str) -> Vec<Diagnostic> {
    let ast = match source::parse_ast(text) {
        Ok(Some(ast)) => ast,
        Ok(None) => return vec![],
        Err(problem) => return vec![problem.in_file(Some(file))],
    };
    let schema = schema();
    let mut checker = Checker { root: &schema, lines: Lines::new(text), found: vec![] };
    checker.value(&schema, &ast, "");
    let mut found = checker.found;
    found.extend(rules::check(&ast, &Lines::new(text)));
    if found.is_empty() {
        found.extend(source::parse(file, text).err());
    }
    found.into_iter().map(|problem| problem.in_file(Some(file))).collect()
}

/// Refuses when there is an error among the findings, naming the first.
pub fn refuse_errors(found: &[Diagnostic]) -> Result<()> {
    let errors: Vec<&Diagnostic> = found.iter().filter(|d| d.severity == Severity::Error).collect();
    match errors.first() {
        None => Ok(()),
        Some(first) => {
            let more = errors.len() - 1;
            let more = if more == 0 { String::new() } else { format!(" (and {more} more)") };
            Err(ringfence_model::Error::new(
                ringfence_model::ErrorKind::InvalidConfig,
                format!("{first}{more}"),
            ))
        }
    }
}

struct Checker<'a> {
    root: &'a Value,
    lines: Lines<'a>,
    found: Vec<Diagnostic>,
}

impl<'a> Checker<'a> {
    fn resolve(&self, mut schema: &'a Value) -> &'a Value {
        while let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            match self.root.pointer(reference.trim_start_matches('#')) {
                Some(target) if target != schema => schema = target,
                Some(_) | None => break,
            }
        }
        schema
    }

    fn report(&mut self, kind: DiagnosticKind, at: usize, key: &str, message: String) -> &mut Diagnostic {
        self.found.push(Diagnostic::error(kind, message).at(Some(self.lines.at(at))).key(key));
        let last = self.found.len() - 1;
        &mut self.found[last]
    }

    fn value(&mut self, schema: &'a Value, value: &ast::Value<'_>, key: &str) {
        let schema = self.resolve(schema);
        if let Some(alternatives) = alternatives(schema) {
            return self.alternatives(schema, alternatives, value, key);
        }
        if !self.type_fits(schema, value) {
            let message = format!("must be {}, not {}", self.expected(schema), type_of(value).1);
            self.report(DiagnosticKind::WrongType, value.range().start, key, message);
            return;
        }
        let words = self.words(schema);
        if let Some(text) = value.as_string_lit()
            && !words.is_empty()
            && !words.contains(&text.value.as_ref())
        {
            return self.bad_word(&words, value, key);
        }
        match value {
            ast::Value::Object(object) => self.object(schema, object, key),
            ast::Value::Array(array) => {
                if let Some(items) = schema.get("items") {
                    for (index, element) in array.elements.iter().enumerate() {
                        self.value(items, element, &format!("{key}[{index}]"));
                    }
                }
            }
            ast::Value::NumberLit(number) => self.number(schema, number, key),
            ast::Value::StringLit(text) => {
                if text.value.is_empty() && schema.get("minLength").is_some() {
                    self.report(
                        DiagnosticKind::BadValue,
                        text.range.start,
                        key,
                        "must not be empty".to_owned(),
                    );
                }
            }
            ast::Value::BooleanLit(_) | ast::Value::NullKeyword(_) => {}
        }
    }

    /// One of several shapes: fine when any fits; otherwise the findings of the shape that was meant.
    fn alternatives(
        &mut self,
        schema: &'a Value,
        alternatives: &'a [Value],
        value: &ast::Value<'_>,
        key: &str,
    ) {
        let before = std::mem::take(&mut self.found);
        let mut meant: Option<Vec<Diagnostic>> = None;
        for alternative in alternatives {
            self.value(alternative, value, key);
            let found = std::mem::take(&mut self.found);
            if found.is_empty() {
                self.found = before;
                return;
            }
            if meant.is_none() && self.type_fits(alternative, value) {
                meant = Some(found);
            }
        }
        self.found = before;
        let words = self.words(schema);
        match (value, meant) {
            (ast::Value::StringLit(_), _) if !words.is_empty() => self.bad_word(&words, value, key),
            (_, Some(found)) => self.found.extend(found),
            (_, None) => {
                let message = format!("must be {}, not {}", self.expected(schema), type_of(value).1);
                self.report(DiagnosticKind::WrongType, value.range().start, key, message);
            }
        }
    }

    fn bad_word(&mut self, words: &[&str], value: &ast::Value<'_>, key: &str) {
        let Some(text) = value.as_string_lit() else { return };
        let message = format!("`{}` is not one of {}", text.value, list(words));
        let suggestion = closest(&text.value, words.iter().copied());
        let found = self.report(DiagnosticKind::BadValue, text.range.start, key, message);
        found.suggestion = suggestion.map(|word| format!("did you mean `{word}`?"));
    }

    fn number(&mut self, schema: &Value, number: &ast::NumberLit<'_>, key: &str) {
        let Ok(value) = number.value.parse::<f64>() else { return };
        let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
        let message = if let Some(least) = bound("minimum").filter(|least| value < *least) {
            format!("must be at least {least}")
        } else if let Some(least) = bound("exclusiveMinimum").filter(|least| value <= *least) {
            format!("must be above {least}")
        } else if let Some(most) = bound("maximum").filter(|most| value > *most) {
            format!("must be at most {most}")
        } else {
            return;
        };
        self.report(DiagnosticKind::BadValue, number.range.start, key, message);
    }

    fn object(&mut self, schema: &'a Value, object: &ast::Object<'_>, key: &str) {
        let properties = schema.get("properties").and_then(Value::as_object);
        let mut seen: Vec<(String, &str)> = Vec::new();
        for property in &object.properties {
            let name = property.name.as_str();
            let at = property.range.start;
            let full = if key.is_empty() { name.to_owned() } else { format!("{key}.{name}") };
            let known = properties.and_then(|properties| properties.get(name));
            let one_name =
                if known.is_some() { aliases::canonical(name).into_owned() } else { name.to_owned() };
            if let Some((_, first)) = seen.iter().find(|(other, _)| *other == one_name) {
                let message = if *first == name {
                    "is given twice".to_owned()
                } else {
                    format!("is another name of `{first}`, which is given too")
                };
                self.report(DiagnosticKind::DuplicateKey, at, &full, message);
            }
            seen.push((one_name, name));
            if let Some(known) = known {
                self.value(known, &property.value, &full);
                continue;
            }
            match schema.get("additionalProperties") {
                Some(Value::Bool(false)) => self.unknown(properties, name, at, &full),
                Some(other) => self.value(other, &property.value, &full),
                None => {}
            }
        }
        let required = schema.get("required").and_then(Value::as_array);
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            if !object.properties.iter().any(|property| property.name.as_str() == name) {
                let message = format!("`{name}` is missing");
                self.report(DiagnosticKind::BadValue, object.range.start, key, message);
            }
        }
    }

    fn unknown(
        &mut self,
        properties: Option<&'a serde_json::Map<String, Value>>,
        name: &str,
        at: usize,
        full: &str,
    ) {
        let known = properties.into_iter().flat_map(serde_json::Map::keys).map(String::as_str);
        let suggestion = match closest(name, known) {
            Some(known) => Some(format!("did you mean `{known}`?")),
            None => self.home_of(name).map(|home| format!("it belongs in {home}")),
        };
        let found = self.report(DiagnosticKind::UnknownKey, at, full, "is not a known key".to_owned());
        found.suggestion = suggestion;
    }

    /// The place where a key would be right: at the top, or in one of the sections there.
    fn home_of(&self, name: &str) -> Option<String> {
        let top = self.root.get("properties")?.as_object()?;
        if top.contains_key(name) {
            return Some("the top of the file".to_owned());
        }
        let section = top.iter().find(|(_, section)| self.has_key(section, name))?;
        Some(format!("`{}`", section.0))
    }

    fn has_key(&self, schema: &Value, name: &str) -> bool {
        let target = schema.get("$ref").and_then(Value::as_str);
        let schema = target.and_then(|t| self.root.pointer(t.trim_start_matches('#'))).unwrap_or(schema);
        schema.get("properties").is_some_and(|properties| properties.get(name).is_some())
            || alternatives(schema).is_some_and(|list| list.iter().any(|schema| self.has_key(schema, name)))
    }

    fn type_fits(&self, schema: &'a Value, value: &ast::Value<'_>) -> bool {
        let schema = self.resolve(schema);
        if let Some(shapes) = alternatives(schema) {
            return shapes.iter().any(|shape| self.type_fits(shape, value));
        }
        let fits = |wanted: &str| {
            let is = type_of(value).0;
            wanted == is || (wanted == "number" && is == "integer")
        };
        match schema.get("type") {
            Some(Value::String(wanted)) => fits(wanted),
            Some(Value::Array(wanted)) => wanted.iter().filter_map(Value::as_str).any(fits),
            _ => match schema.get("const").or_else(|| schema.get("enum").and_then(|list| list.get(0))) {
                Some(_) => value.as_string_lit().is_some(),
                None => true,
            },
        }
    }

    /// The words a value may be; empty when it may be other things too.
    fn words(&self, schema: &'a Value) -> Vec<&'a str> {
        let schema = self.resolve(schema);
        if let Some(word) = schema.get("const").and_then(Value::as_str) {
            return vec![word];
        }
        if let Some(words) = schema.get("enum").and_then(Value::as_array) {
            return words.iter().filter_map(Value::as_str).collect();
        }
        let shapes = alternatives(schema).unwrap_or_default();
        shapes.iter().flat_map(|shape| self.words(shape)).collect()
    }

    fn expected(&self, schema: &'a Value) -> String {
        let mut names = Vec::new();
        self.expected_types(schema, &mut names);
        names.dedup();
        list(&names)
    }

    fn expected_types(&self, schema: &'a Value, names: &mut Vec<&'static str>) {
        let schema = self.resolve(schema);
        let mut push = |name: &str| match name {
            "object" => names.push("an object"),
            "array" => names.push("a list"),
            "string" => names.push("text"),
            "integer" => names.push("a whole number"),
            "number" => names.push("a number"),
            "boolean" => names.push("true or false"),
            _ => {}
        };
        match schema.get("type") {
            Some(Value::String(name)) => push(name),
            Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).for_each(push),
            _ if schema.get("const").is_some() => push("string"),
            _ => {
                for shape in alternatives(schema).unwrap_or_default() {
                    self.expected_types(shape, names);
                }
            }
        }
    }
}

fn alternatives(schema: &Value) -> Option<&[Value]> {
    let shapes = schema.get("anyOf").or_else(|| schema.get("oneOf"))?;
    shapes.as_array().map(Vec::as_slice)
}

/// The name of a value's type in a schema, and in words.
fn type_of(value: &ast::Value<'_>) -> (&'static str, &'static str) {
    match value {
        ast::Value::StringLit(_) => ("string", "text"),
        ast::Value::NumberLit(number) if number.value.contains(['.', 'e', 'E']) => ("number", "a fraction"),
        ast::Value::NumberLit(_) => ("integer", "a number"),
        ast::Value::BooleanLit(boolean) => ("boolean", if boolean.value { "true" } else { "false" }),
        ast::Value::Object(_) => ("object", "an object"),
        ast::Value::Array(_) => ("array", "a list"),
        ast::Value::NullKeyword(_) => ("null", "null"),
    }
}
