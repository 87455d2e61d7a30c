//! What a program of the host prints, for as long as somebody waits for it.

use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// Why nothing was heard.
#[derive(Debug, thiserror::Error)]
pub enum Silent {
    #[error("it cannot be started: {0}")]
    NotStarted(std::io::Error),
    #[error("it did not end within {} seconds", .0.as_secs())]
    Late(Duration),
    #[error("it failed: {0}")]
    Failed(ExitStatus),
    #[error("what it printed cannot be read as text")]
    NoText,
}

/// Runs the command, which reads nothing and whose errors nobody hears, and returns the first `most` bytes of what it
/// prints. When `patience` ends, so does it, with everything that it started.
pub fn printed(command: &mut Command, patience: Duration, most: u64) -> Result<String, Silent> {
    let deadline = Instant::now() + patience;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    let mut child = command.spawn().map_err(Silent::NotStarted)?;
    let Some(output) = child.stdout.take() else { return Err(Silent::NoText) };
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let read = output.take(most).read_to_end(&mut text);
        let _ = sender.send(read.map(|_| text));
    });
    let left = |deadline: Instant| deadline.saturating_duration_since(Instant::now());
    let Ok(read) = receiver.recv_timeout(left(deadline)) else {
        end(&mut child);
        return Err(Silent::Late(patience));
    };
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if !left(deadline).is_zero() => std::thread::sleep(Duration::from_millis(2)),
            _ => {
                end(&mut child);
                return Err(Silent::Late(patience));
            }
        }
    };
    if !status.success() {
        return Err(Silent::Failed(status));
    }
    read.ok().and_then(|text| String::from_utf8(text).ok()).ok_or(Silent::NoText)
}

fn end(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(text: &str, patience: Duration) -> Result<String, Silent> {
        printed(Command::new("sh").args(["-c", text]), patience, 5)
    }

    #[test]
    fn what_is_printed_is_heard_and_no_more_than_that() {
        let long = Duration::from_secs(60);
        assert_eq!(shell("echo one", long).unwrap(), "one\n");
        assert!(matches!(shell("echo one; exit 3", long), Err(Silent::Failed(_))));
        assert!(matches!(shell("printf '\\377'", long), Err(Silent::NoText)));
        let none = printed(&mut Command::new("/nonexistent/program"), long, 5);
        assert!(matches!(none, Err(Silent::NotStarted(_))));
    }

    #[test]
    fn nobody_is_waited_for_any_longer() {
        let since = Instant::now();
        for text in ["exec sleep 600", "sleep 600 & wait", "exec >&-; exec sleep 600"] {
            assert!(matches!(shell(text, Duration::from_millis(200)), Err(Silent::Late(_))), "{text}");
        }
        assert!(since.elapsed() < Duration::from_secs(60));
    }
}
