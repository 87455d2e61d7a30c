//! Thousands of mixed commands on one shell: every result belongs to its command.

use std::time::Instant;

use super::shell_protocol::{Room, stdout};

/// Enough for a test; `SHELL_COMMANDS=10000` asks for more, and `SHELL_SEED` repeats a failure.
const COMMANDS: usize = 1_200;

/// A small generator, so that a failure can be repeated by its seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

#[test]
fn no_result_is_anothers() {
    let Some(room) = Room::new() else { return };
    let wanted = std::env::var("SHELL_COMMANDS").ok().and_then(|text| text.parse().ok());
    let seed = std::env::var("SHELL_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()) * 2_654_435_761 + 1);
    let mut dice = Dice(seed);
    let began = Instant::now();
    // What the shell should remember; none after it was replaced.
    let mut memory: Option<usize> = None;
    let (mut done, mut restarts, mut timeouts, mut lost) = (0, 0, 0, 0);
    for turn in 0..wanted.unwrap_or(COMMANDS) {
        let code = i32::try_from(dice.roll(200)).unwrap();
        let say = format!("seed {seed}, turn {turn}");
        let kind = dice.roll(40);
        let result = match kind {
            0..=13 => {
                let result = room.run(&format!("echo turn {turn}; (exit {code})"));
                assert_eq!((stdout(&result), result.exit_code), (format!("turn {turn}\n"), code), "{say}");
                result
            }
            14..=18 => {
                let result = room.run(&format!("echo \"${{memory-none}}\"; memory={turn}"));
                let remembered = memory.map_or("none".to_owned(), |turn| turn.to_string());
                assert_eq!(stdout(&result), format!("{remembered}\n"), "{say}: {result:?}");
                memory = Some(turn);
                result
            }
            19..=22 => {
                let result = room.run(&format!("sh -c 'printf {turn}; printf e{turn} >&2; exit {code}'"));
                assert_eq!((stdout(&result), result.exit_code), (turn.to_string(), code), "{say}");
                assert_eq!(result.stderr, format!("e{turn}").into_bytes(), "{say}");
                result
            }
            23..=24 => {
                let result = room.run(&format!("seq 1 {} | tail -n 1", turn + 1));
                assert_eq!(stdout(&result), format!("{}\n", turn + 1), "{say}");
                result
            }
            25 => room.run("(sleep 0.01; exit 3) & (sleep 0.02) >/dev/null & :"),
            26 => room.run(&format!("echo \"open {turn}")),
            27..=29 => {
                let hang = ["sleep 50", "while :; do :; done", "sleep 50 | cat", "f() { sleep 50; }; f"]
                    [usize::try_from(dice.roll(4)).unwrap()];
                let result = room.run_for(&format!("echo {turn}; {hang}; echo never"), 1 + dice.roll(30));
                assert!(result.timed_out && result.exit_code == 124, "{say}: {hang}: {result:?}");
                assert!([String::new(), format!("{turn}\n")].contains(&stdout(&result)), "{say}: {result:?}");
                timeouts += 1;
                result
            }
            30..=31 => {
                // May or may not be in time; either way it is this one's result.
                let result =
                    room.run_for(&format!("sleep 0.0{}; echo {turn}", dice.roll(4)), 1 + dice.roll(30));
                let whole = format!("{turn}\n");
                assert!(result.timed_out || stdout(&result) == whole, "{say}: {result:?}");
                assert!(stdout(&result).is_empty() || stdout(&result) == whole, "{say}: {result:?}");
                result
            }
            32 => {
                let result = room.run(&format!("echo {turn}; exit {code}"));
                assert_eq!((stdout(&result), result.exit_code), (format!("{turn}\n"), code), "{say}");
                assert!(result.restarted, "{say}");
                result
            }
            33 => {
                let result = room.run(&format!("echo {turn}; kill -KILL $$; echo never"));
                assert_eq!((stdout(&result), result.signal), (format!("{turn}\n"), Some(9)), "{say}");
                assert!(result.restarted, "{say}");
                result
            }
            34 => room.run("exec >/dev/null 2>&1; printf() { :; }; set -e; trap 'echo x' DEBUG; :"),
            35 => room.run("for fd in {10..40}; do eval \"exec $fd>&-\"; done 2>/dev/null"),
            36 => room.run("builtin() { :; }"),
            _ => room.run(&format!("printf '{turn} 0' >/dev/null; : ")),
        };
        // Only what ends its shell does. A timeout may, where bash itself does not get away in time.
        let may_end_its_shell = matches!(kind, 27..=33 | 36);
        assert!(!result.restarted || may_end_its_shell, "{say}, kind {kind}: {result:?}");
        if result.restarted && result.timed_out {
            lost += 1;
        }
        if result.restarted {
            // Replaced before the command: it ran in the new one, and may have set the memory there.
            if memory != Some(turn) {
                memory = None;
            }
            restarts += 1;
        }
        done += 1;
    }
    let time = began.elapsed();
    eprintln!(
        "{done} commands, {timeouts} timeouts ({lost} with the shell), {restarts} restarts in {time:?}"
    );
    assert!(done >= 1_000 && restarts > 0 && timeouts > lost);
}
