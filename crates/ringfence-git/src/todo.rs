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

/// Others are programs: `git-merge-` and the name.
const STRATEGIES: [&str; 6] = ["ort", "recursive", "resolve", "octopus", "ours", "subtree"];

/// Whether the file names one of git's own strategies.
#[must_use]
pub fn is_gits_strategy(text: &str) -> bool {
    text.strip_suffix('\n').is_some_and(|name| STRATEGIES.contains(&name))
}

/// Whether these options of several picks, as git writes them, name no program: a strategy that is not git's own is one.
#[must_use]
pub fn are_options_harmless(text: &str) -> bool {
    const PLAIN: [&str; 13] = [
        "no-commit",
        "edit",
        "allow-empty",
        "allow-empty-message",
        "keep-redundant-commits",
        "signoff",
        "record-origin",
        "allow-ff",
        "mainline",
        "strategy-option",
        "gpg-sign",
        "allow-rerere-auto",
        "default-msg-cleanup",
    ];
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '=' | '/');
    text.lines().all(|line| {
        let setting = line.strip_prefix('\t').and_then(|line| line.split_once(" = "));
        match setting {
            Some(("strategy", name)) => STRATEGIES.contains(&name),
            Some((name, value)) => PLAIN.contains(&name) && value.chars().all(is_plain),
            None => line == "[options]",
        }
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

    #[test]
    fn only_gits_own_strategies_pass() {
        assert!(is_gits_strategy("ort\n") && is_gits_strategy("ours\n"));
        for text in ["", "ort", "../evil\n", "ort\nevil\n", "Ort\n", " ort\n"] {
            assert!(!is_gits_strategy(text), "{text}");
        }
    }

    #[test]
    fn only_options_that_name_no_program_pass() {
        assert!(are_options_harmless(
            "[options]\n\tsignoff = true\n\tstrategy = ort\n\tstrategy-option = find-renames=50\n\tmainline = 1\n"
        ));
        for text in [
            "[options]\n\tstrategy = ../evil\n",
            "[options]\n\tstrategy = \"evil\"\n",
            "[options]\n\tStrategy = evil\n",
            "[options]\n\tsignoff = \\\n\tstrategy = ort\n",
            "[options] strategy = evil\n",
            "[core]\n\tsignoff = true\n",
            "[include]\n\tpath = x\n",
        ] {
            assert!(!are_options_harmless(text), "{text}");
        }
    }
}
