//! The table of cases, in groups.

mod files;
mod late;
mod limits;
mod processes;
mod protect;
mod streams;

use super::case::Case;

/// Every case, in the order of the matrix.
#[must_use]
pub fn all() -> Vec<Case> {
    [files::cases(), protect::cases(), late::cases(), processes::cases(), limits::cases(), streams::cases()]
        .concat()
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_unique_and_have_a_group() {
        let cases = super::all();
        let mut names: Vec<&str> = cases.iter().map(|case| case.name).collect();
        assert!(names.iter().all(|name| name.contains('/')), "{names:?}");
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(count >= 90, "{count}");
    }

    #[test]
    fn every_case_expects_something_of_the_result_or_the_host() {
        for case in super::all() {
            let expects =
                !case.expectations.is_empty() || !matches!(case.exit, super::super::case::Exit::Any);
            assert!(expects, "{}", case.name);
        }
    }
}
