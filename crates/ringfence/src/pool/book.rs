//! The book of a pool: who has which sandbox, and what comes next. Nothing here waits; the caller tells the time.

use std::collections::BTreeMap;
use std::time::Duration;

use ringfence_model::{Error, ErrorKind, Result};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolConfig {
    /// At most so many exist at once, warm ones and those being made or destroyed included.
    pub max: usize,
    /// So many are kept that nobody has used yet.
    pub min: usize,
    /// A session's sandbox that was not used for so long is destroyed.
    pub idle: Duration,
    /// A sandbox that was used so often is replaced.
    pub max_uses: u32,
    /// How often is swept.
    pub sweep: Duration,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self {
            max: 10,
            min: 2,
            idle: Duration::from_secs(300),
            max_uses: 100,
            sweep: Duration::from_secs(60),
        }
    }
}

/// Stands for one sandbox, or the place of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It is there, and nobody uses it now.
    Idle,
    /// It is being made.
    Acquiring,
    Busy,
    /// It is being destroyed.
    Leaving,
}

#[derive(Debug, Clone)]
struct Entry {
    state: State,
    session: Option<String>,
    uses: u32,
    /// Since when it is as it is.
    since: Duration,
}

/// The sandboxes of a pool, counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    pub total: usize,
    pub busy: usize,
    /// Warm ones included.
    pub idle: usize,
    /// Ready for a session that has none.
    pub warm: usize,
    pub acquiring: usize,
    pub leaving: usize,
    pub max: usize,
}

/// The next step of somebody who wants a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Use it: it is marked as busy.
    Use(Ticket),
    /// Make it, then say [`Book::made`] or [`Book::gone`].
    Make(Ticket),
    /// Destroy it, say [`Book::gone`], and ask again.
    Destroy(Ticket),
    /// Ask again when something has changed.
    Wait,
}

/// The accounts of a pool.
#[derive(Debug)]
pub struct Book {
    config: PoolConfig,
    entries: BTreeMap<Ticket, Entry>,
    next: u64,
}

impl Book {
    #[must_use]
    pub fn new(config: PoolConfig) -> Self {
        Self { config, entries: BTreeMap::new(), next: 0 }
    }

    #[must_use]
    pub fn config(&self) -> &PoolConfig {
        &self.config
    }

    /// The next step to give `session` a sandbox.
    pub fn acquire(&mut self, session: &str, now: Duration) -> Result<Step> {
        let own = self.entries.iter().find(|(_, entry)| entry.session.as_deref() == Some(session));
        if let Some((&ticket, entry)) = own {
            return match entry.state {
                State::Busy | State::Acquiring => Err(in_use(session)),
                State::Leaving => Ok(Step::Wait),
                State::Idle if entry.uses >= self.config.max_uses => Ok(self.leave(ticket)),
                State::Idle => Ok(self.take(ticket, session, now)),
            };
        }
        if let Some(ticket) = self.oldest(|entry| entry.state == State::Idle && entry.session.is_none()) {
            return Ok(self.take(ticket, session, now));
        }
        if self.entries.len() < self.config.max {
            return Ok(Step::Make(self.place(Some(session), now)));
        }
        // Full: whoever has not used theirs for the longest time loses it.
        match self.oldest(|entry| entry.state == State::Idle) {
            Some(ticket) => Ok(self.leave(ticket)),
            None => Ok(Step::Wait),
        }
    }

    /// The session does not need it now. None when it has none in use.
    pub fn release(&mut self, session: &str, now: Duration) -> Option<Ticket> {
        let used = |entry: &Entry| entry.state == State::Busy && entry.session.as_deref() == Some(session);
        let ticket = self.oldest(used)?;
        self.set(ticket, State::Idle, now);
        Some(ticket)
    }

    /// It was made. Busy when it was made for a session, else warm.
    pub fn made(&mut self, ticket: Ticket, now: Duration) {
        if let Some(entry) = self.entries.get_mut(&ticket) {
            entry.state = if entry.session.is_some() { State::Busy } else { State::Idle };
            entry.uses = u32::from(entry.session.is_some());
            entry.since = now;
        }
    }

    /// It does not exist (any more).
    pub fn gone(&mut self, ticket: Ticket) {
        self.entries.remove(&ticket);
    }

    /// One more to be kept warm, to be made by the caller; none when there are enough, or no more may be.
    pub fn warm_one(&mut self, now: Duration) -> Option<Ticket> {
        let warm =
            |entry: &&Entry| entry.session.is_none() && matches!(entry.state, State::Idle | State::Acquiring);
        let wanted = self.entries.values().filter(warm).count() < self.config.min;
        (wanted && self.entries.len() < self.config.max).then(|| self.place(None, now))
    }

    /// Those whose sessions have not used them for too long, to be destroyed by the caller. Warm ones stay.
    pub fn sweep(&mut self, now: Duration) -> Vec<Ticket> {
        let idle = self.config.idle;
        let old = |entry: &Entry| {
            entry.state == State::Idle && entry.session.is_some() && now.saturating_sub(entry.since) >= idle
        };
        let tickets: Vec<Ticket> =
            self.entries.iter().filter(|(_, entry)| old(entry)).map(|(&ticket, _)| ticket).collect();
        for &ticket in &tickets {
            self.leave(ticket);
        }
        tickets
    }

    /// Everything that can be destroyed at once; what is being made or destroyed is not among it.
    pub fn close(&mut self) -> Vec<Ticket> {
        let there = |entry: &Entry| matches!(entry.state, State::Idle | State::Busy);
        let tickets: Vec<Ticket> =
            self.entries.iter().filter(|(_, entry)| there(entry)).map(|(&ticket, _)| ticket).collect();
        for &ticket in &tickets {
            self.leave(ticket);
        }
        tickets
    }

    /// To be destroyed by the caller, whoever has it.
    pub fn leave(&mut self, ticket: Ticket) -> Step {
        if let Some(entry) = self.entries.get_mut(&ticket) {
            entry.state = State::Leaving;
        }
        Step::Destroy(ticket)
    }

    #[must_use]
    pub fn state(&self, session: &str) -> Option<State> {
        self.entries.values().find(|entry| entry.session.as_deref() == Some(session)).map(|entry| entry.state)
    }

    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let count =
            |which: &dyn Fn(&Entry) -> bool| self.entries.values().filter(|entry| which(entry)).count();
        Statistics {
            total: self.entries.len(),
            busy: count(&|entry| entry.state == State::Busy),
            idle: count(&|entry| entry.state == State::Idle),
            warm: count(&|entry| entry.state == State::Idle && entry.session.is_none()),
            acquiring: count(&|entry| entry.state == State::Acquiring),
            leaving: count(&|entry| entry.state == State::Leaving),
            max: self.config.max,
        }
    }

    fn place(&mut self, session: Option<&str>, now: Duration) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        let session = session.map(str::to_owned);
        self.entries.insert(ticket, Entry { state: State::Acquiring, session, uses: 0, since: now });
        ticket
    }

    fn take(&mut self, ticket: Ticket, session: &str, now: Duration) -> Step {
        if let Some(entry) = self.entries.get_mut(&ticket) {
            entry.session = Some(session.to_owned());
            entry.uses += 1;
            entry.state = State::Busy;
            entry.since = now;
        }
        Step::Use(ticket)
    }

    fn set(&mut self, ticket: Ticket, state: State, now: Duration) {
        if let Some(entry) = self.entries.get_mut(&ticket) {
            (entry.state, entry.since) = (state, now);
        }
    }

    fn oldest(&self, which: impl Fn(&Entry) -> bool) -> Option<Ticket> {
        let found = self.entries.iter().filter(|(_, entry)| which(entry));
        found.min_by_key(|(ticket, entry)| (entry.since, **ticket)).map(|(&ticket, _)| ticket)
    }
}

fn in_use(session: &str) -> Error {
    let message = format!("the session \"{session}\" has a sandbox in use already");
    Error::new(ErrorKind::ConcurrentAccess, message).hint("release it first, or use another session")
}
