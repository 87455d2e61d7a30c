//! The acceptance tables name tests; those tests must exist.
//!
//! A table row holds references such as `crates/ringfence-model::a_test` or
//! `crates/ringfence-model/src/decide.rs::a_test`: a crate or a file, then the name of a function in it. A macro with
//! `fn $name` makes a function of each line `name: …`.

use super::{File, Problem, source};

/// Checks every reference and gives their number.
pub(crate) fn check(tables: &[File], sources: &[File], problems: &mut Vec<Problem>) -> usize {
    let code: Vec<(&str, String)> =
        sources.iter().map(|file| (file.path.as_str(), source::code_only(&file.text))).collect();
    let mut count = 0;
    for table in tables {
        for (number, line) in table.text.lines().enumerate() {
            if !line.trim_start().starts_with('|') {
                continue;
            }
            for reference in references(line) {
                count += 1;
                if !exists(reference, &code) {
                    problems.push(Problem {
                        file: table.path.clone(),
                        line: number + 1,
                        text: format!("no test is at {reference}"),
                    });
                }
            }
        }
    }
    count
}

fn references(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| c.is_whitespace() || "|`,;()<>".contains(c))
        .filter(|word| word.contains("::") && (word.starts_with("crates/") || word.starts_with("xtask")))
}

fn exists(reference: &str, code: &[(&str, String)]) -> bool {
    let mut parts = reference.split("::");
    let place = parts.next().unwrap_or_default();
    let Some(function) = parts.last() else { return false };
    let definition = format!("fn {function}");
    let by_macro = format!("    {function}: ");
    let defines = |code: &str| {
        source::has_word(code, &definition)
            || code.contains("fn $name()") && code.lines().any(|line| line.starts_with(&by_macro))
    };
    code.iter()
        .filter(|(path, _)| *path == place || path.starts_with(&format!("{}/", place.trim_end_matches('/'))))
        .any(|(_, code)| defines(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_must_name_a_function_that_exists() {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let sources = [
            file("crates/a/src/x.rs", "#[test]\nfn holds() {}\n// fn only_a_comment()\n"),
            file("crates/ab/src/x.rs", "#[test]\nfn other() {}\n"),
            file(
                "crates/b/tests/m.rs",
                "macro_rules! m { () => { fn $name() {} } }\nm! {\n    made: 1,\n}\n",
            ),
            file("crates/b/tests/n.rs", "struct N {\n    field: u8,\n}\n"),
        ];
        let table = file(
            "docs/acceptance.md",
            "crates/a::not_in_a_table\n\
             | S0-1 | crates/a::holds |\n\
             | S0-2 | `crates/a/src/x.rs::holds`, crates/a::x::holds |\n\
             | S0-3 | crates/a::hold |\n\
             | S0-4 | crates/a::only_a_comment |\n\
             | S0-5 | crates/a::other |\n\
             | S0-6 | crates/b/tests/m.rs::made (rule: x) |\n\
             | S0-7 | crates/b/tests/n.rs::field |\n",
        );
        let mut problems = Vec::new();
        assert_eq!(check(&[table], &sources, &mut problems), 8);
        let lines: Vec<usize> = problems.iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [4, 5, 6, 8]);
    }
}
