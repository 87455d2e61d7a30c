//! A sandbox that runs the same program several times, side by side: shells that share files, processes and
//! limits.

use std::cell::{Cell, RefCell};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ringfence_fence::EventSink;
use ringfence_linux::cgroup::Reached;
use ringfence_linux::host_loop::Outcome;
use ringfence_linux::launch::{Door, LaunchError, Stdio};
use ringfence_linux::plan::Exec;
use ringfence_model::LockExt as _;
use ringfence_model::{Error, ErrorKind, ExecEvent, ExecRequest, ExecResult, Result, Violation};
use rustix::termios::Winsize;

use super::{Asker, Collected, LocalFence, Ready, Run, Selected, asker, command, launch_error};
use crate::approval::Approval;
use crate::limits::Gauge;
use crate::relay;

/// One more run in a held sandbox.
pub(crate) struct ExtraCommand {
    /// The program's descriptors, by their numbers; the first also stands in for standard ones not named.
    pub(crate) given: Vec<(OwnedFd, i32)>,
    pub(crate) terminal: Option<Winsize>,
    pub(crate) approval: Option<Approval>,
    pub(crate) events: Box<dyn Fn(ExecEvent) + Send + Sync>,
    pub(crate) on_terminal: Box<dyn FnMut(OwnedFd) + Send>,
    /// Told how it ended, whatever happens.
    pub(crate) done: Box<dyn FnOnce(Result<ExecResult>) + Send>,
}

enum Order {
    Open(Box<ExtraCommand>),
    Close,
    /// The sandbox is there.
    Up,
    /// The sandbox is gone.
    Over,
}

/// The sandbox; it is built when the first run is asked for, and again when it is gone.
#[derive(Debug)]
pub(crate) struct HeldSandbox {
    fence: Arc<LocalFence>,
    request: ExecRequest,
    running: Mutex<Option<Running>>,
    meter: Arc<Meter>,
}

/// Which limits were reached, and how much of it was told.
#[derive(Debug, Default)]
struct Meter(Mutex<Option<(Gauge, Reached)>>);

impl Meter {
    fn lock(&self) -> MutexGuard<'_, Option<(Gauge, Reached)>> {
        self.0.locked()
    }

    /// The limits reached since the last time.
    fn news(&self) -> Reached {
        let mut meter = self.lock();
        let Some((gauge, told)) = &mut *meter else { return Reached::default() };
        let now = gauge.read();
        let news = now.since(*told);
        *told = now;
        news
    }
}

#[derive(Debug)]
struct Running {
    orders: Sender<Order>,
    thread: JoinHandle<()>,
    /// Nothing runs in it any more, though those who attended to it may still be busy with a question.
    over: Arc<AtomicBool>,
}

impl Running {
    fn is_over(&self) -> bool {
        self.thread.is_finished() || self.over.load(Ordering::Acquire)
    }
}

impl HeldSandbox {
    /// Every run is of this request.
    pub(crate) fn new(fence: Arc<LocalFence>, request: ExecRequest) -> Self {
        Self { fence, request, running: Mutex::default(), meter: Arc::default() }
    }

    /// The limits of all its processes together that were reached since somebody asked.
    pub(crate) fn reached(&self) -> Vec<Violation> {
        self.fence.inputs.limits.together(self.meter.news(), None)
    }

    pub(crate) fn fence(&self) -> &Arc<LocalFence> {
        &self.fence
    }

    pub(crate) fn open(&self, command: ExtraCommand) -> Result<()> {
        let mut running = self.running.locked();
        let sandbox = match running.take() {
            Some(sandbox) if !sandbox.is_over() => sandbox,
            _ => self.build()?,
        };
        let sent = sandbox.orders.send(Order::Open(Box::new(command)));
        *running = Some(sandbox);
        sent.map_err(|_| Error::new(ErrorKind::SpawnFailed, "the sandbox ended"))
    }

    /// Whether a run that could not begin met a sandbox that has just ended: somebody killed its first process. The next
    /// one builds it anew.
    pub(crate) fn has_ended(&self) -> bool {
        const MOMENT: Duration = Duration::from_millis(10);
        (0..50).any(|tries| {
            if tries > 0 {
                std::thread::sleep(MOMENT);
            }
            self.running.locked().as_ref().is_none_or(Running::is_over)
        })
    }

    /// Ends everything inside. The next run builds it anew.
    pub(crate) fn close(&self) {
        let running = self.running.locked().take();
        if let Some(Running { orders, thread, .. }) = running {
            let _ = orders.send(Order::Close);
            let _ = thread.join();
        }
    }

    fn build(&self) -> Result<Running> {
        let (orders, received) = channel();
        let (up, is_up) = channel();
        let (fence, request, sender) = (Arc::clone(&self.fence), self.request.clone(), orders.clone());
        let (meter, over) = (Arc::clone(&self.meter), Arc::<AtomicBool>::default());
        let is_over = Arc::clone(&over);
        // The sandbox dies with the thread that starts it.
        let thread = std::thread::spawn(move || {
            if let Err(error) = fence.keep(&request, &received, &sender, &up, &meter, &is_over) {
                let _ = up.send(Err(error));
            }
        });
        is_up.recv().unwrap_or_else(|_| Err(Error::new(ErrorKind::SpawnFailed, "the sandbox ended")))?;
        Ok(Running { orders, thread, over })
    }
}

impl Drop for HeldSandbox {
    fn drop(&mut self) {
        self.close();
    }
}

/// The things that all runs in a sandbox have in common.
#[derive(Clone, Copy)]
struct Common<'a> {
    fence: &'a LocalFence,
    selected: &'a Selected,
    ready: &'a Ready<'a>,
    exec: &'a Exec,
    request: &'a ExecRequest,
}

impl<'a> Common<'a> {
    fn run(
        self,
        launch_failed: &'a RefCell<Option<LaunchError>>,
        events: EventSink<'a>,
        asker: Option<Arc<Asker>>,
        on_held: Option<&'a dyn Fn()>,
    ) -> Run<'a> {
        Run {
            inputs: &self.fence.inputs,
            selected: self.selected,
            ready: self.ready,
            launch_failed,
            exec: self.exec,
            deadline: None,
            events,
            violations: Mutex::default(),
            usage: Cell::default(),
            created: Cell::default(),
            asker,
            on_held,
            on_gauge: None,
            is_shell: true,
            tally: Arc::default(),
            private_home: Mutex::default(),
        }
    }

    fn serve(self, door: &Door<'_>, command: ExtraCommand) {
        let ExtraCommand { given, terminal, approval, events, on_terminal, done } = command;
        let outcome = self.attend_to(door, given, terminal, approval, &*events, on_terminal);
        done(outcome);
    }

    fn attend_to(
        self,
        door: &Door<'_>,
        given: Vec<(OwnedFd, i32)>,
        terminal: Option<Winsize>,
        approval: Option<Approval>,
        events: EventSink<'_>,
        on_terminal: Box<dyn FnMut(OwnedFd) + Send>,
    ) -> Result<ExecResult> {
        let started = Instant::now();
        let asker = approval.map(|approval| asker(approval, self.request)).transpose()?;
        let borrowed: Vec<(BorrowedFd<'_>, i32)> =
            given.iter().map(|(fd, target)| (fd.as_fd(), *target)).collect();
        let sandbox =
            door.another(&borrowed, terminal).map_err(|error| launch_error(&error, self.selected))?;
        drop(given);
        let failed = RefCell::default();
        let common: Common<'_> = self;
        let run = common.run(&failed, events, asker, None);
        let outcome = run.serve(&sandbox, on_terminal)?;
        self.fence.end_of(run, self.request, outcome, Collected::nothing(), started)
    }
}

impl LocalFence {
    /// Keeps a sandbox until it is closed. `up` is told when it is there.
    fn keep(
        &self,
        request: &ExecRequest,
        orders: &Receiver<Order>,
        sender: &Sender<Order>,
        up: &Sender<Result<()>>,
        meter: &Meter,
        over: &AtomicBool,
    ) -> Result<()> {
        let mut selected = self.selection.current();
        loop {
            let launch_failed = RefCell::default();
            let kept = self.keep_by(&selected, request, orders, sender, up, &launch_failed, meter, over);
            selected = match launch_failed.into_inner() {
                // Nothing has run in it.
                Some(error) if error.is_of_the_machine() => {
                    self.selection.instead_of(&self.inputs, &selected, &error)?
                }
                _ => return kept,
            };
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one sandbox, taken apart")]
    fn keep_by(
        &self,
        selected: &Selected,
        request: &ExecRequest,
        orders: &Receiver<Order>,
        sender: &Sender<Order>,
        up: &Sender<Result<()>>,
        launch_failed: &RefCell<Option<LaunchError>>,
        meter: &Meter,
        over: &AtomicBool,
    ) -> Result<()> {
        let inputs = &self.inputs;
        let ready = selected.fence_plan.ready(inputs)?;
        ready.refuse_unseen(&inputs.cwd)?;
        let env = ready.environment(inputs, &inputs.cwd, &request.env);
        let exec = Exec { held: true, ..command::prepare(request, &env, &inputs.cwd)? };
        let null = relay::open_null().map_err(|errno| {
            Error::new(ErrorKind::SpawnFailed, "cannot prepare a sandbox")
                .caused_by(std::io::Error::from(errno))
        })?;
        let common = Common { fence: self, selected, ready: &ready, exec: &exec, request };
        let begin = |gauge: Gauge| {
            let now = gauge.read();
            *meter.lock() = Some((gauge, now));
        };
        let sandbox = Run { on_gauge: Some(&begin), ..common.run(launch_failed, &|_| (), None, None) };
        sandbox.launched(Stdio::Raw([null.as_raw_fd(); 3]), [null], |sandbox| {
            let door = &sandbox.door();
            let (outcome, failed) = std::thread::scope(|scope| {
                let main = scope.spawn(move || {
                    let failed = RefCell::default();
                    let on_held = || {
                        let _ = sender.send(Order::Up);
                    };
                    let outcome = common.run(&failed, &|_| (), None, Some(&on_held)).serve(sandbox, drop);
                    over.store(true, Ordering::Release);
                    let _ = sender.send(Order::Over);
                    (outcome, failed.into_inner())
                });
                loop {
                    match orders.recv() {
                        Ok(Order::Open(command)) => {
                            scope.spawn(move || common.serve(door, *command));
                        }
                        Ok(Order::Up) => {
                            let _ = up.send(Ok(()));
                        }
                        Ok(Order::Over) => break,
                        Ok(Order::Close) | Err(_) => sandbox.kill(),
                    }
                }
                main.join().unwrap_or_else(|_| {
                    (Err(Error::new(ErrorKind::Internal, "the thread of the sandbox failed")), None)
                })
            });
            launch_failed.replace(failed);
            outcome.map(|_: Outcome| ())
        })
    }
}
