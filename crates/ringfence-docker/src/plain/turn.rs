//! One command while it runs.

use std::time::Duration;

use ringfence_local::capture::Capture;
use ringfence_model::ExecEvent;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::live::{Began, Heard, Live, Report, Whose};
use super::script::Seal;
use super::sieve::Sieve;

/// How long processes may take to end by themselves.
const GRACE: Duration = Duration::from_millis(200);
/// How often a command that shall end is told so; the watchman's answers tell when it has been done.
const INSISTENCE: Duration = Duration::from_millis(50);
/// How long the shell itself may take to leave a command whose processes are gone.
const LEAVING: Duration = Duration::from_secs(5);
/// How long output that was written may be on its way, on a machine with other things to do.
const ON_ITS_WAY: Duration = Duration::from_secs(30);
/// As many bytes of a command a shell surely reads in a second.
const READ_IN_A_SECOND: usize = 100_000;
/// How long the second of two connections that end together may take.
const MOMENT: Duration = Duration::from_secs(2);

/// How a command came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// The shell said so.
    Reported(i32),
    /// The shell ended with it, with this status.
    Gone(i32),
    /// The shell lives but is of no use any more.
    Spoiled,
    /// Nothing is heard of it any more; why, when it did not end by itself.
    Lost(Option<String>),
    /// It did not run: its input could not be put anywhere.
    NoInput,
}

/// Why a command was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stopped {
    Timeout,
    Cancel,
}

/// What a command came to.
#[derive(Debug)]
pub(super) struct Turned {
    pub(super) end: End,
    pub(super) stopped: Option<Stopped>,
    pub(super) outputs: [Capture; 2],
    /// What others wrote after its end.
    pub(super) late: Vec<ExecEvent>,
    /// Whether the shell said that it begins. It does so before, on the channel on which its end is told.
    pub(super) began: bool,
    /// Whether both of its programs are there.
    pub(super) whole: bool,
}

/// A command that is about to be sent.
pub(super) struct Turn<'a> {
    pub(super) live: &'a mut Live,
    pub(super) lines: &'a str,
    pub(super) deadline: Option<Instant>,
    pub(super) cap: Option<u64>,
    pub(super) cancel: &'a Notify,
    /// Hears what happens. Closed: nobody waits for it any more.
    pub(super) tell: &'a mpsc::Sender<ExecEvent>,
}

struct Watched {
    seal: Seal,
    sieves: [Sieve; 2],
    began: Option<Began>,
    /// Somebody says what only the shell could say, and does not know the number.
    tampered: bool,
    done: Option<i32>,
    gone: Option<i32>,
    watchman_over: bool,
    shell_over: Option<Option<String>>,
    no_input: bool,
    left: Option<u32>,
}

impl Turn<'_> {
    pub(super) async fn run(mut self) -> Turned {
        let seal = Seal::new();
        let sieve = || Sieve::new(&seal.mark, &self.live.farewell.mark);
        let mut watched = Watched {
            sieves: [sieve(), sieve()],
            seal,
            began: None,
            tampered: false,
            done: None,
            gone: None,
            watchman_over: false,
            shell_over: None,
            no_input: false,
            left: None,
        };
        let mut turned = Turned {
            end: End::Spoiled,
            stopped: None,
            outputs: [Capture::new(self.cap), Capture::new(self.cap)],
            late: vec![],
            began: false,
            whole: true,
        };
        self.live.send(&format!("{}{}", self.lines, watched.seal.line()));
        turned.end = self.until_end(&mut watched, &mut turned).await;
        turned.began = watched.began.is_some();
        for index in [0, 1] {
            let rest = watched.sieves[index].finish();
            self.received(index, rest, &mut turned).await;
        }
        if turned.stopped.is_some() && matches!(turned.end, End::Reported(_)) {
            self.clear_away(&mut watched, &mut turned).await;
        }
        turned.whole = !watched.watchman_over && !watched.is_silent();
        turned
    }

    async fn until_end(&mut self, watched: &mut Watched, turned: &mut Turned) -> End {
        let mut stop: Option<Instant> = None;
        // Since when only the rest of the output is waited for.
        let mut rest_since: Option<Instant> = None;
        // A shell that waits begins at once; if it does not, somebody else has read what it was sent.
        let reading = Duration::from_secs((self.lines.len() / READ_IN_A_SECOND) as u64);
        let to_begin = Instant::now() + ON_ITS_WAY + reading;
        loop {
            if watched.began.is_none() && Instant::now() > to_begin {
                return End::Spoiled;
            }
            let ended = watched.ended();
            if let Some(end) = &ended {
                let since = *rest_since.get_or_insert_with(Instant::now);
                let patience = if matches!(end, End::Lost(_)) { MOMENT } else { ON_ITS_WAY };
                let complete = watched.sieves.iter().all(Sieve::ended) || watched.is_silent();
                match end {
                    End::Lost(_) if since.elapsed() <= patience => {}
                    // Whatever it says next is not believed.
                    End::Spoiled => return End::Spoiled,
                    _ if complete => return end.clone(),
                    // Without its marks the shell did not say it.
                    End::Reported(_) if since.elapsed() > patience => return End::Spoiled,
                    _ if since.elapsed() > patience => return end.clone(),
                    _ => {}
                }
            }
            let due = match (stop, ended.is_some()) {
                (Some(_), false) => Instant::now() + INSISTENCE,
                (_, true) => Instant::now() + MOMENT,
                (None, false) if watched.began.is_none() => {
                    self.deadline.map_or(to_begin, |deadline| deadline.min(to_begin))
                }
                (None, false) => self.deadline.unwrap_or_else(|| Instant::now() + ON_ITS_WAY),
            };
            let stopping = stop.is_some() || ended.is_some();
            tokio::select! {
                heard = self.live.heard.recv() => match heard {
                    Some(heard) => self.hear(heard, watched, turned).await,
                    None => return End::Lost(None),
                },
                () = tokio::time::sleep_until(due) => {}
                () = self.cancel.notified(), if !stopping => turned.stopped = Some(Stopped::Cancel),
                () = self.tell.closed(), if !stopping => turned.stopped = Some(Stopped::Cancel),
            }
            let now = Instant::now();
            if stop.is_none() && watched.ended().is_none() {
                if turned.stopped.is_none() && self.deadline.is_some_and(|deadline| now >= deadline) {
                    turned.stopped = Some(Stopped::Timeout);
                }
                stop = turned.stopped.map(|_| now);
                if stop.is_some() {
                    self.live.stop("TERM", watched.began.unwrap_or(Began::NEVER));
                }
            } else if let Some(begun) = stop {
                if begun.elapsed() > GRACE + LEAVING {
                    return End::Spoiled;
                }
                // The watchman answers when it has done what it was told before.
                if watched.left.take().is_some() {
                    let signal = if begun.elapsed() > GRACE { "KILL" } else { "TERM" };
                    tokio::time::sleep(INSISTENCE / 5).await;
                    self.live.stop(signal, watched.began.unwrap_or(Began::NEVER));
                }
            }
        }
    }

    async fn hear(&self, heard: Heard, watched: &mut Watched, turned: &mut Turned) {
        match heard {
            Heard::Output(index, bytes) => {
                let sifted = watched.sieves[index].push(&bytes);
                self.received(index, sifted.own, turned).await;
                if !sifted.late.is_empty() {
                    turned.late.push(event(index, sifted.late));
                }
            }
            Heard::Over(Whose::Watchman, _) => watched.watchman_over = true,
            Heard::Over(Whose::Shell, why) => watched.shell_over = Some(why),
            Heard::Report(report) => match report {
                Report::Began(began) => {
                    watched.began.get_or_insert(began);
                }
                Report::Done { nonce, status } => {
                    let its = nonce == watched.seal.nonce;
                    watched.done = watched.done.or(i32::try_from(status).ok().filter(|_| its));
                    watched.tampered |= !its;
                }
                Report::Gone { secret, status } => {
                    let its = secret == self.live.farewell.nonce;
                    watched.gone = watched.gone.or(i32::try_from(status).ok().filter(|_| its));
                    watched.tampered |= !its;
                }
                Report::InputFailed => watched.no_input = true,
                Report::Left { count } => watched.left = Some(count),
                _ => {}
            },
        }
    }

    async fn received(&self, index: usize, bytes: Vec<u8>, turned: &mut Turned) {
        if !bytes.is_empty() {
            turned.outputs[index].push(&bytes);
            // Somebody who does not listen any more misses nothing.
            let _ = self.tell.send(event(index, bytes)).await;
        }
    }

    /// What the command left behind goes with it.
    async fn clear_away(&mut self, watched: &mut Watched, turned: &mut Turned) {
        let begun = Instant::now();
        while begun.elapsed() < GRACE + LEAVING {
            watched.left = None;
            let signal = if begun.elapsed() > GRACE { "KILL" } else { "TERM" };
            self.live.clear(signal, watched.began.unwrap_or(Began::NEVER));
            while watched.left.is_none() {
                match tokio::time::timeout(ON_ITS_WAY, self.live.heard.recv()).await {
                    Ok(Some(heard)) if !self.live.is_over(&heard) => self.hear(heard, watched, turned).await,
                    _ => {
                        turned.end = End::Spoiled;
                        return;
                    }
                }
            }
            if watched.left == Some(0) {
                return;
            }
            tokio::time::sleep(INSISTENCE / 5).await;
        }
    }
}

impl Watched {
    fn ended(&self) -> Option<End> {
        if self.tampered {
            return Some(End::Spoiled);
        }
        if self.no_input {
            return self.done.map(|_| End::NoInput);
        }
        if let Some(status) = self.gone {
            return Some(End::Gone(status));
        }
        if let Some(status) = self.done {
            return Some(End::Reported(status));
        }
        match &self.shell_over {
            Some(why) => Some(End::Lost(why.clone())),
            // Nobody could end it any more.
            None => self.watchman_over.then_some(End::Lost(None)),
        }
    }

    /// Nothing more can come from the shell.
    fn is_silent(&self) -> bool {
        self.shell_over.is_some()
    }
}

pub(super) fn event(index: usize, bytes: Vec<u8>) -> ExecEvent {
    if index == 1 { ExecEvent::Stderr(bytes) } else { ExecEvent::Stdout(bytes) }
}
