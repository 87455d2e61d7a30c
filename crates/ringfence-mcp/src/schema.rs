//! Schemas as every client takes them.
//!
//! Clients hand the schemas of tools on to model providers, some of which know one type for each value and no
//! formats of Rust. So an argument that may be left out is simply of its type, and a result that may be null is
//! said in branches.

use std::sync::Arc;

use rmcp::model::JsonObject;
use serde_json::{Value, json};

/// Which way what the schema describes goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Whoever gives nothing leaves it out; null is understood too, but nobody has to know.
    Arguments,
    /// Null may come.
    Result,
}

pub(crate) fn portable(schema: &Value, way: Way) -> Arc<JsonObject> {
    let mut schema = schema.clone();
    simplify(&mut schema, way);
    Arc::new(schema.as_object().cloned().unwrap_or_default())
}

fn simplify(value: &mut Value, way: Way) {
    match value {
        Value::Object(object) => {
            object.values_mut().for_each(|value| simplify(value, way));
            one_type(object, way);
        }
        Value::Array(items) => items.iter_mut().for_each(|item| simplify(item, way)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn one_type(schema: &mut JsonObject, way: Way) {
    // The numbers' formats are Rust's; ranges say the same in everybody's words.
    let is_numeric = |format: &str| ["int", "uint", "float", "double"].iter().any(|f| format.starts_with(f));
    if schema.get("format").and_then(Value::as_str).is_some_and(is_numeric) {
        schema.remove("format");
    }
    let Some(branches) = nullable(schema) else { return };
    match way {
        Way::Arguments => {
            schema.extend(branches);
            if schema.get("default").is_some_and(Value::is_null) {
                schema.remove("default");
            }
        }
        Way::Result => {
            schema.insert("anyOf".to_owned(), json!([branches, { "type": "null" }]));
        }
    }
}

/// Takes apart what is of one type or null, and gives what is left for the other branch.
fn nullable(schema: &mut JsonObject) -> Option<JsonObject> {
    let null = json!("null");
    if let Some(Value::Array(types)) = schema.get("type")
        && types.contains(&null)
    {
        let mut others = types.iter().filter(|name| **name != null);
        let (Some(only), None) = (others.next().cloned(), others.next()) else { return None };
        schema.remove("type");
        // What a number's range says belongs to the number.
        let mut branch = JsonObject::from_iter([("type".to_owned(), only)]);
        for bound in ["minimum", "maximum"] {
            branch.extend(schema.remove(bound).map(|value| (bound.to_owned(), value)));
        }
        return Some(branch);
    }
    let Some(Value::Array(branches)) = schema.get("anyOf") else { return None };
    let mut others = branches.iter().filter(|branch| branch.get("type") != Some(&null));
    let (Some(Value::Object(only)), None) = (others.next().cloned(), others.next()) else { return None };
    (branches.len() == 2).then(|| {
        schema.remove("anyOf");
        only
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(schema: Value, arguments: Value, result: Value) {
        assert_eq!(Value::Object((*portable(&schema, Way::Arguments)).clone()), arguments);
        assert_eq!(Value::Object((*portable(&schema, Way::Result)).clone()), result);
    }

    #[test]
    fn null_is_left_out_of_arguments_and_a_branch_of_results() {
        check(
            json!({ "properties": { "n": {
                "type": ["integer", "null"], "format": "uint64", "minimum": 1, "description": "d", "default": null,
            } } }),
            json!({ "properties": { "n": { "type": "integer", "minimum": 1, "description": "d" } } }),
            json!({ "properties": { "n": {
                "anyOf": [{ "type": "integer", "minimum": 1 }, { "type": "null" }], "description": "d",
                "default": null,
            } } }),
        );
        check(
            json!({ "anyOf": [{ "$ref": "#/$defs/K" }, { "type": "null" }], "description": "d" }),
            json!({ "$ref": "#/$defs/K", "description": "d" }),
            json!({ "anyOf": [{ "$ref": "#/$defs/K" }, { "type": "null" }], "description": "d" }),
        );
    }

    #[test]
    fn the_rest_stays() {
        for schema in [
            json!({ "type": "string", "format": "date-time" }),
            json!({ "type": ["string", "integer"] }),
            json!({ "anyOf": [{ "type": "string" }, { "type": "integer" }, { "type": "null" }] }),
            json!({ "anyOf": [{ "type": "string" }] }),
        ] {
            check(schema.clone(), schema.clone(), schema);
        }
    }
}
