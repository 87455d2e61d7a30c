//! The bash grammar.

use std::io::Write;
use std::process::{Command, Stdio};

use ringfence_bash::{Context, ErrorKind, Extglob, Options, Part, Visitor, Word, WordRole, parse_with, walk};

struct InRange<'s>(&'s str);

impl<'t> Visitor<'t> for InRange<'_> {
    fn word(&mut self, _: &Context<'t>, _: WordRole, word: &'t Word) {
        assert!(word.span.text(self.0).is_some(), "{word:?}");
        assert!(word.parts.iter().all(|part| word.span.contains(part.span)), "{word:?}");
    }

    fn part(&mut self, _: &Context<'t>, part: &'t Part) {
        assert!(part.span.text(self.0).is_some(), "{part:?}");
    }
}

/// What bash itself says about the text.
fn bash_accepts(text: &[u8]) -> bool {
    let spawned = Command::new("bash")
        .args(["--norc", "--noprofile", "-n"])
        .env_clear()
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = spawned else { return true };
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(text);
    }
    let Ok(output) = child.wait_with_output() else { return true };
    let quiet = String::from_utf8_lossy(&output.stderr).lines().all(|line| line.contains("warning: "));
    output.status.success() && quiet
}

/// The parser neither panics nor overruns its budget, spans lie within the text, and what it accepts without reserve bash
/// accepts as well. With `RINGFENCE_FUZZ_BASH=1` in the environment, short texts are shown to `bash -n`, which reads and does
/// not run them.
pub fn bash_parse(bytes: &[u8]) {
    for extglob in [Extglob::Off, Extglob::FollowShopt, Extglob::On] {
        let options = Options { extglob, ..Options::default() };
        match parse_with(bytes, &options) {
            Ok(script) => {
                let source = std::str::from_utf8(bytes).expect("only UTF-8 is accepted");
                walk(&script, &mut InRange(source));
                let ask = extglob == Extglob::Off && bytes.len() <= 256 && script.unsupported().is_empty();
                if ask && std::env::var_os("RINGFENCE_FUZZ_BASH").is_some() {
                    assert!(bash_accepts(bytes), "bash refuses {source:?}");
                }
            }
            Err(error) => assert_ne!(error.kind(), ErrorKind::TooMuchWork, "{error}"),
        }
    }
}
