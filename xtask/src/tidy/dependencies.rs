//! Every dependency has a reason, and every reason a dependency.

use std::collections::BTreeMap;

use super::{File, Problem};

/// Compares `[workspace.dependencies]` with the table of reasons.
pub(crate) fn check(manifest: &File, document: &File, problems: &mut Vec<Problem>) {
    let used = in_manifest(&manifest.text);
    let explained = in_table(&document.text);
    for (name, line) in &used {
        if !explained.contains_key(name) {
            let text = format!("{name} has no reason in {}", document.path);
            problems.push(Problem { file: manifest.path.clone(), line: *line, text });
        }
    }
    for (name, line) in &explained {
        if !used.contains_key(name) {
            let text = format!("{name} is no dependency of the workspace");
            problems.push(Problem { file: document.path.clone(), line: *line, text });
        }
    }
}

/// Names and lines of the entries, our own crates left out.
fn in_manifest(text: &str) -> BTreeMap<&str, usize> {
    let mut inside = false;
    let mut names = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        if line.starts_with('[') {
            inside = line.trim() == "[workspace.dependencies]";
        } else if inside
            && let Some((name, value)) = line.split_once('=')
            && !value.contains("path =")
            && !name.trim_start().starts_with('#')
        {
            names.insert(name.trim(), number + 1);
        }
    }
    names
}

/// Names and lines of the rows below the head of the table.
fn in_table(text: &str) -> BTreeMap<&str, usize> {
    text.lines()
        .enumerate()
        .filter(|(_, line)| line.starts_with("| ") && !line.starts_with("| crate "))
        .filter_map(|(number, line)| Some((line.split('|').nth(1)?.trim(), number + 1)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_are_compared() {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let manifest = file(
            "Cargo.toml",
            "[workspace]\nresolver = \"3\"\n[workspace.dependencies]\nours = { path = \"x\" }\na = \"1\"\nb = \"2\"\n[profile.dev]\ndebug = 1\n",
        );
        let document = file("d.md", "| crate | why |\n|---|---|\n| a | reason |\n| gone | reason |\n");
        let mut problems = Vec::new();
        check(&manifest, &document, &mut problems);
        let texts: Vec<&str> = problems.iter().map(|problem| problem.text.as_str()).collect();
        assert_eq!(texts, ["b has no reason in d.md", "gone is no dependency of the workspace"]);
    }
}
