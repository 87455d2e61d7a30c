//! Verdicts in rows and columns.

use std::fmt;

/// What one contender did in one case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cell {
    /// All that was expected was seen.
    Passed,
    /// What is wrong.
    Failed(String),
    /// Why this contender does not promise it.
    Excused(String),
}

/// A row per case, a column per contender.
#[derive(Debug, Clone)]
pub struct Matrix {
    columns: Vec<String>,
    rows: Vec<(&'static str, Vec<Cell>)>,
}

impl Matrix {
    pub(super) fn new(columns: Vec<String>) -> Self {
        Self { columns, rows: Vec::new() }
    }

    pub(super) fn push(&mut self, name: &'static str, cells: Vec<Cell>) {
        self.rows.push((name, cells));
    }

    /// How many cases there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// `case, contender: what is wrong`, for each failed cell.
    #[must_use]
    pub fn failures(&self) -> Vec<String> {
        self.cells()
            .filter_map(|(case, contender, cell)| match cell {
                Cell::Failed(problem) => Some(format!("{case}, {contender}: {problem}")),
                Cell::Passed | Cell::Excused(_) => None,
            })
            .collect()
    }

    /// Ends a test with what is wrong, unless every cell is green or excused.
    ///
    /// # Panics
    ///
    /// When a case failed, or when there was none at all.
    #[track_caller]
    pub fn must_be_green(&self) {
        assert!(self.rows() > 0, "no case ran");
        let failures = self.failures();
        assert!(
            failures.is_empty(),
            "{} of {} cases failed:\n{}",
            failures.len(),
            self.rows(),
            failures.join("\n")
        );
    }

    fn cells(&self) -> impl Iterator<Item = (&'static str, &str, &Cell)> {
        self.rows.iter().flat_map(|(case, cells)| {
            self.columns.iter().zip(cells).map(|(contender, cell)| (*case, contender.as_str(), cell))
        })
    }
}

impl fmt::Display for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        write!(f, "{:width$}", "")?;
        for column in &self.columns {
            write!(f, "  {column:>10}")?;
        }
        writeln!(f)?;
        for (name, cells) in &self.rows {
            write!(f, "{name:width$}")?;
            for cell in cells {
                let word = match cell {
                    Cell::Passed => "ok",
                    Cell::Failed(_) => "FAILED",
                    Cell::Excused(_) => "excused",
                };
                write!(f, "  {word:>10}")?;
            }
            writeln!(f)?;
        }
        for (case, contender, cell) in self.cells() {
            match cell {
                Cell::Passed => {}
                Cell::Failed(problem) => writeln!(f, "FAILED {case}, {contender}: {problem}")?,
                Cell::Excused(reason) => writeln!(f, "excused {case}, {contender}: {reason}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_that_is_not_green_says_why() {
        let mut matrix = Matrix::new(vec!["native".into(), "bwrap".into()]);
        matrix.push("read/own-file", vec![Cell::Passed, Cell::Passed]);
        matrix.push("late/host", vec![Cell::Failed("exit code 0".into()), Cell::Excused("no masks".into())]);
        let text = matrix.to_string();
        assert!(text.contains("read/own-file          ok          ok"), "{text}");
        assert!(text.contains("FAILED late/host, native: exit code 0"), "{text}");
        assert!(text.contains("excused late/host, bwrap: no masks"), "{text}");
        assert_eq!(matrix.failures(), ["late/host, native: exit code 0"]);
        let told = std::panic::catch_unwind(|| matrix.must_be_green()).unwrap_err();
        assert!(told.downcast_ref::<String>().unwrap().contains("1 of 2 cases failed"));
        let none = Matrix::new(vec!["native".into()]);
        assert!(std::panic::catch_unwind(|| none.must_be_green()).is_err(), "nothing is not green");
    }
}
