//! Words of a command as the text that a shell reads.

use std::borrow::Cow;

use ringfence_model::Command;

/// The text that is judged for a command: its own, or its words, quoted where a shell would change them.
#[must_use]
pub fn text_of(command: &Command) -> String {
    match command {
        Command::Shell(text) => text.clone(),
        Command::Argv(words) => {
            let words: Vec<_> =
                words.iter().map(|word| quoted(&word.to_string_lossy()).into_owned()).collect();
            words.join(" ")
        }
    }
}

fn quoted(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./,:+@%".contains(c);
    // A word like `if` or `{` is a name here, and an operator to a shell.
    let reserved = [
        "if", "then", "else", "elif", "fi", "do", "done", "case", "esac", "while", "until", "for", "select",
        "function", "time", "in", "coproc",
    ];
    if !word.is_empty() && word.chars().all(plain) && !reserved.contains(&word) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(ringfence_model::shell_word(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_what_they_are() {
        for (words, text) in [
            (&["ls", "-l", "a b"][..], "ls -l 'a b'"),
            (&["echo", "$HOME", "", "it's"], r"echo '$HOME' '' 'it'\''s'"),
            (&["if", "~", "*"], "'if' '~' '*'"),
        ] {
            let command = Command::Argv(words.iter().map(Into::into).collect());
            assert_eq!(text_of(&command), text);
        }
    }
}
