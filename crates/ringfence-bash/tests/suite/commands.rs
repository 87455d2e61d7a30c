//! The table of nasty snippets: which commands can each one run?

use ringfence_bash::parse;

/// A snippet with what the table says about it.
pub(super) struct Case {
    pub(super) text: String,
    pub(super) want: String,
}

/// Reads the table.
pub(super) fn table() -> Vec<Case> {
    let blocks = include_str!("../data/commands.txt").split("\n----\n").skip(1);
    let case = |block: &str| {
        let (text, want) = block.rsplit_once("\n=> ").expect("a block ends in `=>`");
        Case { text: text.to_owned(), want: want.trim().to_owned() }
    };
    blocks.map(case).collect()
}

/// Says what a text can run, in the words of the table.
fn commands(text: &str) -> String {
    let Ok(script) = parse(text) else { return "refused".to_owned() };
    let found = script.simple_commands();
    let named = found.iter().filter(|command| !command.simple.words.is_empty());
    let mut names: Vec<_> = named.map(|command| command.name().unwrap_or_else(|| "?".to_owned())).collect();
    names.sort();
    names.dedup();
    if !script.unsupported().is_empty() {
        names.push("+unsupported".to_owned());
    }
    if names.is_empty() { "-".to_owned() } else { names.join(" ") }
}

#[test]
fn every_command_is_in_the_tree() {
    let table = table();
    assert!(table.len() >= 151, "the table has {} snippets", table.len());
    let mut wrong = Vec::new();
    for Case { text, want } in &table {
        let got = commands(text);
        if got != *want {
            wrong.push(format!("{text}\n  want: {want}\n  got:  {got}  ({:?})", parse(text).err()));
        }
    }
    println!("{} snippets", table.len());
    assert!(wrong.is_empty(), "{} of {} wrong:\n{}", wrong.len(), table.len(), wrong.join("\n"));
}
