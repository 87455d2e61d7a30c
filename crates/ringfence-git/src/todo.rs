//! The steps of a rebase, or of several picks, that git goes on with when a person says so.

/// Whether no step runs a program. What is not understood runs one.
#[must_use]
pub fn is_harmless(text: &str) -> bool {
    const STEPS: [&str; 27] = [
        "pick",
        "p",
        "reword",
        "r",
        "edit",
        "e",
        "squash",
        "s",
        "fixup",
        "f",
        "break",
        "b",
        "drop",
        "d",
        "label",
        "l",
        "reset",
        "t",
        "noop",
        "revert",
        "update-ref",
        "u",
        "#",
        "comment",
        "merge",
        "m",
        "nop",
    ];
    text.lines().all(|line| {
        let word = line.split_whitespace().next().unwrap_or("#");
        word.starts_with('#') || STEPS.contains(&word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_steps_that_run_nothing_pass() {
        assert!(is_harmless(
            "pick 12ab x\n# exec no\n\nfixup -C 34 y\n\tdrop 1\nmerge -C a b # c\nupdate-ref refs/heads/x\n"
        ));
        for text in ["exec evil", "x evil", "pick 1\n  exec evil\n", "EXEC evil", "pick 1\rexec evil\nexec e"]
        {
            assert!(!is_harmless(text), "{text}");
        }
    }
}
