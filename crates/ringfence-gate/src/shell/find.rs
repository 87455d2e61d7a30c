//! `find` and its like: where they look, and what they run on what they find.

use super::unwrap::{Inner, replaced};
use crate::value::{Arg, Seg, Val};

/// Tests that leave only some of what there is.
const FILTERS: &[&str] = &[
    "-name",
    "-iname",
    "-path",
    "-ipath",
    "-wholename",
    "-regex",
    "-iregex",
    "-empty",
    "-newer",
    "-mtime",
    "-mmin",
    "-atime",
    "-amin",
    "-ctime",
    "-cmin",
    "-size",
    "-perm",
    "-inum",
    "-samefile",
    "-lname",
];

/// Where `find` looks: the words before its expression.
pub(crate) fn starts(args: &[Arg]) -> Vec<Arg> {
    let is_option =
        |arg: &&Arg| matches!(arg.known(), Some("-H" | "-L" | "-P" | "-O3" | "-O2" | "-O1" | "-D"));
    let begins = |arg: &&Arg| !arg.val.prefix().starts_with(['-', '(', '!', ',']) && !arg.is("");
    let starts: Vec<Arg> = args.iter().skip_while(is_option).take_while(begins).cloned().collect();
    if starts.is_empty() {
        let span = args.first().map_or_else(Default::default, |arg| arg.span);
        return vec![Arg::new(Val::text("."), span)];
    }
    starts
}

/// What `find` finds: some of what is below each start, or all of it when nothing is filtered.
pub(crate) fn found(args: &[Arg]) -> Vec<Arg> {
    let is_filter = |index: usize| {
        let before = index.checked_sub(1).and_then(|before| args[before].known());
        let pattern = args.get(index + 1).and_then(Arg::known).unwrap_or_default();
        args[index].known().is_some_and(|word| FILTERS.contains(&word))
            && !matches!(before, Some("!" | "-not"))
            && !matches!(pattern, "*" | "**" | ".*" | "*/*")
    };
    // `-o` lets through what the filter does not.
    let either = args.iter().any(|arg| arg.is("-o") || arg.is("-or"));
    let prunes = args.iter().any(|arg| arg.is("-prune"));
    let filtered = (0..args.len()).any(is_filter) && (!either || prunes || only_names(args));
    let whole = |start: Arg| {
        let mut val = start.val.clone();
        val.push_text("/");
        if filtered {
            val.push(Seg::One);
        }
        val.push(Seg::Star);
        Arg::new(val, start.span)
    };
    starts(args).into_iter().map(whole).collect()
}

/// Whether both sides of every `-o` are filters: `-name a -o -name b`.
fn only_names(args: &[Arg]) -> bool {
    args.iter().enumerate().filter(|(_, arg)| arg.is("-o") || arg.is("-or")).all(|(index, _)| {
        args.get(index + 1).and_then(Arg::known).is_some_and(|word| FILTERS.contains(&word))
    })
}

/// The commands that are run on what is found.
pub(crate) fn commands(name: &str, args: &[Arg]) -> Vec<Inner> {
    let mut inner = vec![];
    let is_exec = |arg: &Arg| match arg.known() {
        Some("-exec" | "-execdir" | "-ok" | "-okdir") => name.ends_with("find"),
        Some("-x" | "-X" | "--exec" | "--exec-batch") => !name.ends_with("find"),
        _ => false,
    };
    let found = found(args);
    let mut at = 0;
    while at < args.len() {
        if !is_exec(&args[at]) {
            at += 1;
            continue;
        }
        let begin = at + 1;
        let length =
            args[begin..].iter().position(|arg| arg.is(";") || arg.is("+")).unwrap_or(args.len() - begin);
        let command = &args[begin..begin + length];
        for place in found.iter().take(8) {
            let words: Vec<Arg> =
                command.iter().map(|arg| Arg::new(replaced(&arg.val, "{}", &place.val), arg.span)).collect();
            if !words.is_empty() {
                inner.push(Inner::command(words));
            }
        }
        at = begin + length;
    }
    inner
}
