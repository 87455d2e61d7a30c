//! Markdown that can be read beside other windows: no line is too long, except in tables and blocks of code.

use super::{File, Problem};

/// Longer lines are wrapped, at 120.
const MAX_COLUMNS: usize = 140;

pub(crate) fn check(documents: &[File], problems: &mut Vec<Problem>) {
    for document in documents {
        for (line, columns) in too_long(&document.text) {
            let text = format!("{columns} columns; wrap it at 120 (the limit is {MAX_COLUMNS})");
            problems.push(Problem { file: document.path.clone(), line, text });
        }
    }
}

/// Numbers and lengths of the lines that are too long.
fn too_long(text: &str) -> Vec<(usize, usize)> {
    let mut in_code = false;
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let begin = line.trim_start();
        if begin.starts_with("```") || begin.starts_with("~~~") {
            in_code = !in_code;
        } else if !in_code && !begin.starts_with('|') {
            let columns = line.chars().count();
            if columns > MAX_COLUMNS {
                found.push((number + 1, columns));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_code_may_be_wide() {
        let wide = "é".repeat(MAX_COLUMNS + 1);
        let text = format!("{wide}\n| {wide} |\n```\n{wide}\n```\n- {}\n", "é".repeat(MAX_COLUMNS - 2));
        assert_eq!(too_long(&text), [(1, MAX_COLUMNS + 1)]);
    }
}
