//! Who is asked, on behalf of which command.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ringfence_fence::BoxFuture;
use ringfence_fence::approve::{Approver, Question};
use ringfence_linux::host_loop::GRACE;
use ringfence_model::LockExt as _;
use ringfence_model::{Decision, Grant, Violation};

use crate::approval::Approval;
use crate::shell::live::Feed;
use crate::shell::session::Control;
use crate::shell::tree::{self, Seen, Stands, Tops};

/// How long the processes of a command that a person ended may take to be gone: longer than until they are killed.
const LEAVING: Duration = GRACE.saturating_mul(2);
const GLANCE: Duration = Duration::from_millis(1);

/// A command, and whose request it was.
type Command = (String, Option<String>);

/// The command that runs, and what those before it left running.
#[derive(Debug, Default)]
struct Commands {
    now: Command,
    bash: i32,
    /// By the processes at the top of each.
    left: BTreeMap<i32, Command>,
}

impl Commands {
    fn turn_to(&mut self, command: Command, bash: &Seen) {
        let before = std::mem::replace(&mut self.now, command);
        let tops: BTreeSet<i32> = Tops::now(bash).iter().collect();
        self.left.retain(|top, _| tops.contains(top));
        for top in tops {
            self.left.entry(top).or_insert_with(|| before.clone());
        }
        self.bash = bash.pid;
    }

    /// The command that the process belongs to which asks.
    fn of(&self, asks: &Violation) -> Command {
        let top = match asks.pid.and_then(|pid| tree::find(self.bash, pid)) {
            Some(Stands::Below(top) | Stands::Apart(top)) if self.left.contains_key(&top) => top,
            // Whose parent is gone may have been started by any of them, whenever it came to stand there.
            Some(Stands::Apart(_)) => {
                return (format!("{} (left running by a command)", asks.argv.join(" ")), None);
            }
            Some(Stands::Bash | Stands::Below(_)) | None => return self.now.clone(),
        };
        self.left.get(&top).cloned().unwrap_or_default()
    }
}

/// Stands between a sandbox and the person: knows the command that runs, and what was granted before.
#[derive(Debug)]
pub(crate) struct Desk {
    approval: Approval,
    control: Arc<Control>,
    commands: Mutex<Commands>,
    turn: AtomicU64,
    /// What holds for the session, also when its bash is replaced.
    granted: Mutex<Vec<Grant>>,
}

impl Desk {
    pub(crate) fn new(approval: Approval, control: Arc<Control>) -> Self {
        Self {
            approval,
            control,
            commands: Mutex::default(),
            turn: AtomicU64::new(0),
            granted: Mutex::default(),
        }
    }

    /// Questions are about this command from now on, unless something that was left running asks.
    pub(crate) fn turn_to(&self, command: &str, call: Option<&str>, bash: &Seen) {
        self.turn.fetch_add(1, Ordering::AcqRel);
        self.commands.locked().turn_to((command.to_owned(), call.map(str::to_owned)), bash);
    }

    /// For one sandbox, whose refusals go to `feed`.
    pub(crate) fn approval(self: &Arc<Self>, feed: &Arc<Feed>) -> Approval {
        let (desk, feed) = (Arc::clone(self), Arc::clone(feed));
        Approval {
            approver: Arc::clone(self) as Arc<dyn Approver>,
            about: self.approval.about,
            timeout: self.approval.timeout,
            on_settled: Arc::new(move |settled| {
                let question = &settled.question;
                match settled.decision {
                    Decision::AllowSession | Decision::AllowPermanent if settled.problem.is_none() => {
                        desk.keep(&question.grant);
                    }
                    Decision::Deny | Decision::DenyPermanent | Decision::Abort => {
                        feed.report_once(question.violation.clone())
                    }
                    _ => {}
                }
                (desk.approval.on_settled)(settled);
            }),
        }
    }

    fn keep(&self, grant: &Grant) {
        let mut granted = self.granted.locked();
        if !granted.contains(grant) {
            granted.push(grant.clone());
        }
    }

    fn has_granted(&self, wanted: &Grant) -> bool {
        let granted = self.granted.locked();
        granted.iter().any(|grant| {
            let covers =
                grant.path == wanted.path || (grant.recursive && wanted.path.starts_with(&grant.path));
            covers && grant.access == wanted.access && (grant.recursive || !wanted.recursive)
        })
    }
}

impl Approver for Desk {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Decision> {
        Box::pin(async move {
            if self.has_granted(&question.grant) {
                return Decision::AllowSession;
            }
            let (command, call) = self.commands.locked().of(&question.violation);
            let question = Question { command, call, ..question.clone() };
            self.approval.approver.ask(&question).await
        })
    }

    fn turn(&self) -> u64 {
        self.turn.load(Ordering::Acquire)
    }

    /// The command ends; its shell need not. Where bash itself waits for the answer it can only leave the command
    /// afterwards, when nothing else of it is left.
    fn abort(&self) -> bool {
        self.control.cancel();
        let deadline = Instant::now() + LEAVING;
        while self.control.is_ending() && Instant::now() < deadline {
            std::thread::sleep(GLANCE);
        }
        true
    }
}
