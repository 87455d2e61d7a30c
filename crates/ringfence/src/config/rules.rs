//! Rules for commands that a person keeps, in the user's own file: `safety.allowlist` and `safety.denylist`.

use std::path::Path;

use jsonc_parser::ast;
use jsonc_parser::common::Ranged as _;
use jsonc_parser::cst::CstInputValue;
use ringfence_gate::rules::{CommandRule, List};
use ringfence_model::config::Entry;
use ringfence_model::{Error, ErrorKind, Result};

use super::diagnostic::{Diagnostic, DiagnosticKind};
use super::grants::{Change, edit};
use super::source::Lines;

const LISTS: [(List, &str); 2] = [(List::Allow, "allowlist"), (List::Deny, "denylist")];

/// Adds a rule to a list of the user's file, which is made when there is none; comments and order stay. A rule
/// that cannot be read, or does not do what its examples say, is refused.
pub fn add_rule(file: &Path, list: List, rule: &str) -> Result<Change> {
    CommandRule::parse(&Entry::by_call(rule), list)
        .map_err(|error| Error::new(ErrorKind::Validation, error.to_string()))?;
    let name = LISTS.into_iter().find(|(known, _)| *known == list).map_or("denylist", |(_, name)| name);
    edit(file, |root| {
        let section = root.object_value_or_set().object_value_or_set("safety");
        let array = section.array_value_or_set(name);
        let same =
            |text: &str| text.split(" # ").next().map(str::trim) == rule.split(" # ").next().map(str::trim);
        let known = array.elements().iter().any(|element| {
            element.as_string_lit().and_then(|text| text.decoded_value().ok()).is_some_and(|text| same(&text))
        });
        if known {
            return Change::Unchanged;
        }
        array.append(CstInputValue::String(rule.to_owned()));
        array.ensure_multiline();
        Change::Written
    })
}

/// Removes a rule from a list of the user's file, however its examples are written; says how many there were.
pub fn remove_rule(file: &Path, list: List, rule: &str) -> Result<usize> {
    if !file.exists() {
        return Ok(0);
    }
    let name = LISTS.into_iter().find(|(known, _)| *known == list).map_or("denylist", |(_, name)| name);
    let plain = |text: &str| text.split(" # ").next().unwrap_or_default().trim().to_owned();
    let mut removed = 0;
    edit(file, |root| {
        let section = root.object_value().and_then(|object| object.object_value("safety"));
        let array = section.and_then(|section| section.array_value(name));
        for element in array.iter().flat_map(|array| array.elements()) {
            let text = element.as_string_lit().and_then(|text| text.decoded_value().ok());
            if text.is_some_and(|text| plain(&text) == plain(rule)) {
                element.remove();
                removed += 1;
            }
        }
        if removed > 0 { Change::Written } else { Change::Unchanged }
    })?;
    Ok(removed)
}

/// Problems of the rules of a file: those that cannot be read, and those whose examples do not hold.
pub(super) fn check(root: &ast::Value<'_>, lines: &Lines<'_>) -> Vec<Diagnostic> {
    let Some(root) = root.as_object() else { return vec![] };
    let mut found = section(root, "safety", lines);
    for agent in root.get_object("agents").iter().flat_map(|agents| &agents.properties) {
        if let Some(of_agent) = agent.value.as_object() {
            found.extend(section(of_agent, &format!("agents.{}.safety", agent.name.as_str()), lines));
        }
    }
    found
}

fn section(object: &ast::Object<'_>, key: &str, lines: &Lines<'_>) -> Vec<Diagnostic> {
    let Some(safety) = object.get_object("safety") else { return vec![] };
    let mut found = Vec::new();
    for (list, name) in LISTS {
        let elements = safety.get_array(name).map(|array| array.elements.as_slice()).unwrap_or_default();
        for (index, element) in elements.iter().enumerate() {
            let Some(text) = element.as_string_lit() else { continue };
            if let Err(error) = CommandRule::parse(&Entry::by_call(text.value.as_ref()), list) {
                found.push(
                    Diagnostic::error(DiagnosticKind::BadValue, error.to_string())
                        .at(Some(lines.at(element.range().start)))
                        .key(format!("{key}.{name}[{index}]")),
                );
            }
        }
    }
    found
}
