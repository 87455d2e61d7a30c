//! How a question looks: a frame in a colour of its own, on a terminal in a known state.

use ringfence_model::{Decision, visible};

/// Ends whatever sequence is unfinished, and takes back what a program may have set: margins, attributes, character
/// sets, colours, a hidden cursor, insert mode, and modes in which the terminal itself sends bytes (mouse,
/// focus, paste). The rest of the screen below is cleared.
pub(super) const FRESH: &str = "\x18\x1b\\\x1b[!p\x1b7\x1b[r\x1b8\x1b[0m\x1b(B\x0f\x1b[4l\x1b[?7h\x1b[?25h\
    \x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1006l\x1b[?2004l\x1b]104\x07\x1b]110\x07\x1b]111\x07\r\n\x1b[J";

const BAR: &str = "\x1b[1;33m│\x1b[0m ";

/// A line of its own: of single size, and with nothing of what was there before.
const CLEAN: &str = "\r\x1b#5\x1b[2K";

/// The question itself, without the answers.
pub(super) fn question(lines: &str, columns: usize) -> String {
    let title = " ringfence asks ";
    let rule = "─".repeat(columns.clamp(40, 72) - title.len() - 2);
    let mut text = format!("{CLEAN}\x1b[1;33m┌─\x1b[7m{title}\x1b[27m{rule}\x1b[0m\r\n");
    for line in lines.lines() {
        for part in wrapped(&visible(line), columns) {
            text.push_str(&format!("{CLEAN}{BAR}{part}\r\n"));
        }
    }
    text
}

/// One more line inside the frame, left open for what follows.
pub(super) fn line(text: &str) -> String {
    format!("{CLEAN}{BAR}{text}")
}

/// The last line.
pub(super) fn end(word: &str) -> String {
    format!("{word}\r\n{CLEAN}\x1b[1;33m└─\x1b[0m\r\n")
}

/// The keys, as they are offered.
pub(super) fn answers(offered: &[Decision]) -> String {
    let has = |decision| offered.contains(&decision);
    let mut allow = vec![];
    if has(Decision::AllowOnce) {
        allow.push("[o]nce");
    }
    if has(Decision::AllowSession) {
        allow.push("for this [s]ession");
    }
    if has(Decision::AllowPermanent) {
        allow.push("[a]lways");
    }
    let never = if has(Decision::DenyPermanent) { ", ne[v]er ask again" } else { "" };
    format!("allow {}; [d]eny{never}, or [q]uit? ", allow.join(", "))
}

/// Pieces that fit beside the bar; a terminal of unknown width wraps itself.
fn wrapped(line: &str, columns: usize) -> Vec<String> {
    let room = columns.saturating_sub(3);
    let characters: Vec<char> = line.chars().collect();
    if room < 20 || characters.len() <= room {
        return vec![line.to_owned()];
    }
    let mut pieces = vec![];
    let mut rest = characters.as_slice();
    while rest.len() > room {
        let blank = rest[..room].iter().rposition(|c| *c == ' ').filter(|at| *at > room / 2);
        let (piece, after) = rest.split_at(blank.map_or(room, |at| at + 1));
        pieces.push(piece.iter().collect());
        rest = after;
    }
    pieces.push(rest.iter().collect());
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_stay_inside_the_frame() {
        let text = question(&"word ".repeat(40), 40);
        let longest = text.lines().map(|line| line.matches("word").count()).max().unwrap();
        assert!(longest <= 8, "{text}");
        assert_eq!(text.matches("word").count(), 40);
        assert_eq!(text.matches('│').count(), text.lines().count() - 1, "each line has its bar");
    }

    #[test]
    fn only_what_can_be_answered_is_offered() {
        let some = answers(&[Decision::AllowOnce, Decision::Deny, Decision::Abort]);
        assert_eq!(some, "allow [o]nce; [d]eny, or [q]uit? ");
    }

    #[test]
    fn text_cannot_leave_the_frame() {
        let text = question("a\u{1b}[2J\u{202e}b", 80);
        assert!(text.contains("a\\u{1b}[2J\\u{202e}b"), "{text}");
    }
}
