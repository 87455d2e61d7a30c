//! What the shell and its watchman run, and the form of a request to it.

use ringfence_model::{Command, Error, ErrorKind, ExecRequest, Result, shell_word};

/// See the file.
pub(super) const WATCHMAN: &str = include_str!("watchman.sh");
pub(super) const WRAPPER: &str = include_str!("wrapper.sh");
pub(super) const SHELL: &str = include_str!("shell.sh");

/// What every process of a shell has in its environment.
pub(super) const MARK: &str = "RINGFENCE_SHELL";

/// A shell reads its commands byte by byte, a million in half a second or so.
const LONGEST_COMMAND: usize = 4 << 20;
const LONGEST_INPUT: usize = 16 << 20;
/// Input is spelled out in lines of about this length.
const PIECE: usize = 16 << 10;

/// Unknown to everybody until it is sent.
pub(super) fn nonce() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

/// Two numbers: the first comes back with the status, the second is where the command's output ends. They are sent behind the
/// command, so that the shell does not know them before the command has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seal {
    pub(super) nonce: String,
    pub(super) mark: String,
}

impl Seal {
    pub(super) fn new() -> Self {
        Self { nonce: nonce(), mark: nonce() }
    }

    pub(super) fn line(&self) -> String {
        format!("{} {}\n", self.nonce, self.mark)
    }
}

/// The lines for one command, without its seal. `file` is a name for its input that nobody has.
pub(super) fn request(text: &str, input: Option<&[u8]>, file: &str) -> Result<String> {
    let too_long = |what: &str, most: usize| {
        let message =
            format!("{what} is too long for a shell without a guest, which takes {} MiB", most >> 20);
        Error::new(ErrorKind::Validation, message).hint("put it in a file of the workspace")
    };
    if text.contains('\0') {
        return Err(Error::new(ErrorKind::Validation, "a command cannot contain a NUL byte"));
    }
    if text.len() > LONGEST_COMMAND {
        return Err(too_long("the command", LONGEST_COMMAND));
    }
    let Some(input) = input else { return Ok(format!("__ringfence_command={}\n", one_line(text))) };
    if input.len() > LONGEST_INPUT {
        return Err(too_long("its input", LONGEST_INPUT));
    }
    let file = one_line(file);
    let mut lines = format!(
        "__ringfence_input={file}; (umask 077; : >{file}); \
         while IFS= read -r __ringfence_piece <&6 && [ \"$__ringfence_piece\" ]; do \
         printf %b \"$__ringfence_piece\" >>{file}; done; unset __ringfence_piece; __ringfence_command={}\n",
        one_line(text)
    );
    for piece in input.chunks(PIECE) {
        lines.push_str(&spelled_out(piece));
        lines.push('\n');
    }
    lines.push('\n');
    Ok(lines)
}

/// One word, on one line.
fn one_line(text: &str) -> String {
    shell_word(text).replace('\n', r#"'"$__ringfence_n"'"#)
}

/// For `printf %b`.
fn spelled_out(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for &byte in bytes {
        match byte {
            b'\\' => text.push_str("\\\\"),
            b' '..=b'~' => text.push(char::from(byte)),
            other => text.push_str(&format!("\\0{other:03o}")),
        }
    }
    text
}

/// The command as the shell reads it: a directory and variables that are for one command only are those of a subshell.
pub(super) fn text(request: &ExecRequest) -> Result<String> {
    let words = match &request.command {
        Command::Shell(text) => text.clone(),
        Command::Argv(argv) => {
            let words: Option<Vec<String>> = argv.iter().map(|word| word.to_str().map(shell_word)).collect();
            words.ok_or_else(|| not_text("a word of the command"))?.join(" ")
        }
    };
    if request.cwd.is_none() && request.env.is_empty() {
        return Ok(words);
    }
    let mut text = "(".to_owned();
    if let Some(cwd) = &request.cwd {
        text.push_str(&format!("{} || exit; ", change_to(cwd)?));
    }
    for (name, value) in &request.env {
        text.push_str(&format!("export {} || exit; ", shell_word(&format!("{name}={value}"))));
    }
    text.push_str(&format!("eval {}\n)", shell_word(&words)));
    Ok(text)
}

/// `cd`, whatever the directory is called.
pub(super) fn change_to(cwd: &std::path::Path) -> Result<String> {
    let cwd = cwd.to_str().ok_or_else(|| not_text("the directory of the command"))?;
    Ok(format!("CDPATH= cd -- {}", shell_word(cwd)))
}

fn not_text(what: &str) -> Error {
    Error::new(ErrorKind::Validation, format!("{what} is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_one_line_and_input_is_spelled_out() {
        assert_eq!(
            request("echo 'a\nb'", None, "").unwrap(),
            "__ringfence_command='echo '\\''a'\"$__ringfence_n\"'b'\\'''\n"
        );
        let lines = request("cat", Some(b"\0\\n\xff\n"), "/tmp/in").unwrap();
        let lines: Vec<&str> = lines.split('\n').collect();
        assert!(lines[0].ends_with("__ringfence_command='cat'"), "{lines:?}");
        assert_eq!(lines[1..], ["\\0000\\\\n\\0377\\0012", "", ""]);
        assert!(request("a\0b", None, "").is_err());
        assert!(request(&"x".repeat(LONGEST_COMMAND + 1), None, "").is_err());
    }

    #[test]
    fn a_directory_and_variables_of_one_command_stay_with_it() {
        let mut wanted = ExecRequest::argv(["printf", "it's"]);
        wanted.cwd = Some("/a b".into());
        wanted.env.insert("A".to_owned(), "1'".to_owned());
        let said = text(&wanted).unwrap();
        assert_eq!(
            said,
            r"(CDPATH= cd -- '/a b' || exit; export 'A=1'\''' || exit; eval ''\''printf'\'' '\''it'\''\'\'''\''s'\'''
)"
        );
    }
}
