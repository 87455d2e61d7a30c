//! Loops and functions that would start processes without end.

use tree_sitter::Node;

use super::literal::children;
use super::names::Names;

/// More nodes than this are not looked at for a way out of a loop.
const MOST_NODES: usize = 4096;

/// What waits for something, so that a loop around it does not run away.
const WAITING: &[&str] = &[
    "sleep",
    "accept",
    "get",
    "recv",
    "wait",
    "join",
    "communicate",
    "input",
    "poll",
    "select",
    "readline",
    "result",
    "acquire",
];

/// Whether a call would be made over and over, with nothing that ends or slows it down.
pub(super) fn is_endless(call: Node<'_>, names: &Names<'_>) -> bool {
    let mut up = call;
    for _ in 0..64 {
        let Some(parent) = up.parent() else { return false };
        up = parent;
        let endless = match up.kind() {
            "while_statement" | "do_statement" => {
                up.child_by_field_name("condition").is_some_and(|condition| is_true(names.source(condition)))
            }
            "for_statement" => match up.child_by_field_name("right") {
                Some(over) => names.name(over, 0).is_some_and(|name| {
                    ["itertools.count()", "itertools.cycle()", "itertools.repeat()"].contains(&name.as_str())
                }),
                None => has_no_condition(names.source(up)),
            },
            "call_expression" => is_hasty_timer(up, names),
            "function_definition" | "function_declaration" | "function_expression" => calls_itself(up, names),
            _ => false,
        };
        if endless && !has_way_out(up, call, names) {
            return true;
        }
    }
    false
}

fn is_true(condition: &str) -> bool {
    let condition: String = condition.chars().filter(|c| !c.is_whitespace() && !"()".contains(*c)).collect();
    matches!(condition.as_str(), "True" | "true" | "notFalse" | "!false" | "!0" | "not0" | "1==1" | "1===1")
        || condition.parse::<u64>().is_ok_and(|number| number != 0)
}

/// `for (…;;…)`.
fn has_no_condition(text: &str) -> bool {
    let head: String = text.chars().take(256).filter(|c| !c.is_whitespace()).collect();
    head.split_once(';').is_some_and(|(before, rest)| before.starts_with("for(") && rest.starts_with(';'))
}

/// A timer that comes back more often than ten times a second.
fn is_hasty_timer(call: Node<'_>, names: &Names<'_>) -> bool {
    let timer = call.child_by_field_name("function").map(|function| names.source(function));
    let period = names.argument(call, 1).map(|period| names.source(period));
    timer == Some("setInterval") && period.is_none_or(|period| period.parse().is_ok_and(|ms: u64| ms < 100))
}

/// Whether a function calls itself whatever happens.
fn calls_itself(function: Node<'_>, names: &Names<'_>) -> bool {
    let Some(name) = function.child_by_field_name("name").map(|name| names.source(name)) else {
        return false;
    };
    let Some(body) = function.child_by_field_name("body") else { return false };
    find(body, &|node| {
        if matches!(node.kind(), "if_statement" | "try_statement" | "match_statement" | "switch_statement") {
            return Found::Skip;
        }
        let itself = matches!(node.kind(), "call" | "call_expression")
            && node.child_by_field_name("function").is_some_and(|called| names.source(called) == name);
        if itself { Found::Yes } else { Found::No }
    })
}

fn has_way_out(around: Node<'_>, call: Node<'_>, names: &Names<'_>) -> bool {
    find(around, &|node| {
        let waits = || {
            let called = node.child_by_field_name("function").map(|called| names.source(called));
            called.is_some_and(|called| WAITING.contains(&called.rsplit('.').next().unwrap_or(called)))
        };
        match node.kind() {
            "break_statement" | "return_statement" | "raise_statement" | "throw_statement" | "await"
            | "await_expression" => Found::Yes,
            "call" | "call_expression" if node != call && waits() => Found::Yes,
            _ => Found::No,
        }
    })
}

enum Found {
    Yes,
    No,
    /// Nothing below counts.
    Skip,
}

fn find<'t>(root: Node<'t>, look: &dyn Fn(Node<'t>) -> Found) -> bool {
    let mut stack = vec![root];
    let mut looked = 0;
    while let Some(node) = stack.pop() {
        looked += 1;
        match look(node) {
            Found::Yes => return true,
            Found::No if looked < MOST_NODES => stack.extend(children(node)),
            Found::No | Found::Skip => {}
        }
    }
    false
}
