//! The processes of one sandbox as its host sees them.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// No real tree is larger; a sandbox that makes more is ended as a whole.
const MOST: usize = 100_000;

/// One process, looked at again and again: its files in `/proc` stay open. What cannot be seen is absent.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) pid: i32,
    children: Option<File>,
    /// The children of its parent: itself, and those whose own parents are gone.
    siblings: Option<File>,
    syscall: Option<File>,
    descriptors: Option<OwnedFd>,
}

impl Seen {
    pub(crate) fn new(pid: i32) -> Self {
        let children = |pid: i32| File::open(format!("/proc/{pid}/task/{pid}/children")).ok();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Self {
            pid,
            children: children(pid),
            siblings: parent(pid).and_then(children),
            syscall: File::open(format!("/proc/{pid}/syscall")).ok(),
            descriptors: rustix::fs::open(format!("/proc/{pid}/fd"), flags, Mode::empty()).ok(),
        }
    }

    /// Whether it waits in `read` for this descriptor; none when that cannot be seen.
    pub(crate) fn waits_for(&self, descriptor: i32) -> Option<bool> {
        let mut buffer = [0; 256];
        let length = self.syscall.as_ref()?.read_at(&mut buffer, 0).ok()?;
        let mut words = std::str::from_utf8(&buffer[..length]).ok()?.split(' ');
        let number: Option<i64> = words.next()?.trim().parse().ok();
        let argument = words.next().and_then(|word| i64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
        Some(number == Some(libc::SYS_read) && argument == Some(descriptor.into()))
    }

    /// What its descriptor is, in the kernel's words; empty when it has none.
    pub(crate) fn link(&self, descriptor: i32) -> Vec<u8> {
        let Some(directory) = &self.descriptors else { return vec![] };
        rustix::fs::readlinkat(directory, descriptor.to_string(), Vec::with_capacity(64))
            .map(std::ffi::CString::into_bytes)
            .unwrap_or_default()
    }

    /// The other end of a pipe that it writes to by this descriptor, if that is still the one of this link.
    pub(crate) fn open_pipe(&self, descriptor: i32, link: &[u8]) -> Option<OwnedFd> {
        let directory = self.descriptors.as_ref()?;
        // By now it may be a terminal, which must not become this process's own.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(directory, descriptor.to_string(), flags, Mode::empty()).ok()?;
        let own = format!("/proc/self/fd/{}", opened.as_raw_fd());
        let is_same = fs::read_link(own).is_ok_and(|own| own.as_os_str().as_encoded_bytes() == link);
        is_same.then_some(opened)
    }

    /// Tells it something; one that is gone does not hear it.
    pub(crate) fn send(&self, signal: Signal) {
        send(self.pid, signal);
    }
}

/// The processes directly below a process, and those whose parents are gone: what stands at the top of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tops(BTreeSet<i32>);

impl Tops {
    pub(crate) fn now(bash: &Seen) -> Self {
        let mut tops = BTreeSet::new();
        for file in [&bash.children, &bash.siblings].into_iter().flatten() {
            numbers(file, &mut tops);
        }
        tops.remove(&bash.pid);
        Self(tops)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = i32> + '_ {
        self.0.iter().copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those that were not there before.
    pub(crate) fn since(self, before: &Self) -> Self {
        Self(self.0.difference(&before.0).copied().collect())
    }

    /// Sends a signal to all of them and all below them.
    pub(crate) fn signal(&self, signal: Signal) {
        for pid in self.with_all_below() {
            send(pid, signal);
        }
    }

    /// Whether any of them, or below them, has this open under a number that `except` does not know. One
    /// that cannot be looked at may have it.
    pub(crate) fn hold(&self, link: &[u8], except: impl Fn(i32) -> bool) -> bool {
        self.with_all_below().into_iter().any(|pid| {
            let entries = match fs::read_dir(format!("/proc/{pid}/fd")) {
                Ok(entries) => entries,
                Err(error) => return error.kind() == std::io::ErrorKind::PermissionDenied,
            };
            entries.flatten().any(|entry| {
                let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
                number.is_some_and(|number| !except(number))
                    && fs::read_link(entry.path())
                        .is_ok_and(|seen| seen.as_os_str().as_encoded_bytes() == link)
            })
        })
    }

    fn with_all_below(&self) -> BTreeSet<i32> {
        let mut reached = BTreeSet::new();
        let mut waiting: Vec<i32> = self.0.iter().copied().collect();
        while let Some(pid) = waiting.pop() {
            if reached.len() < MOST && reached.insert(pid) {
                waiting.extend(children(pid));
            }
        }
        reached
    }
}

/// Where a process of a shell stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stands {
    /// It is bash itself.
    Bash,
    /// It is this child of bash, or below it.
    Below(i32),
    /// It is this one, whose parent is gone, or below it.
    Apart(i32),
}

/// Where the process stands that has the number `inner` inside; none when it is not to be found.
pub(crate) fn find(bash: i32, inner: u32) -> Option<Stands> {
    let is_it = |pid: i32| inner_number(pid) == Some(inner);
    if is_it(bash) {
        return Some(Stands::Bash);
    }
    let has_it = |top: &i32| Tops(BTreeSet::from([*top])).with_all_below().into_iter().any(is_it);
    let below = children(bash).into_iter().find(has_it).map(Stands::Below);
    below.or_else(|| {
        let beside = parent(bash).map(children).unwrap_or_default();
        beside.into_iter().filter(|pid| *pid != bash).find(has_it).map(Stands::Apart)
    })
}

/// The number that a process has inside.
fn inner_number(pid: i32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("NStgid:"))?;
    line.split_ascii_whitespace().last()?.parse().ok()
}

/// Sends a signal to a process that may be gone.
fn send(pid: i32, signal: Signal) {
    let Some(pid) = Pid::from_raw(pid) else { return };
    if let Ok(fd) = pidfd_open(pid, PidfdFlags::empty()) {
        let _ = pidfd_send_signal(&fd, signal);
    }
}

/// Reads a list of processes from its beginning.
fn numbers(file: &File, into: &mut BTreeSet<i32>) {
    let mut text = vec![0; 4096];
    let mut length = 0;
    // A list that did not fill the space was whole.
    while let Ok(more) = file.read_at(&mut text[length..], length as u64) {
        length += more;
        if more == 0 || length + 16 < text.len() {
            break;
        }
        text.resize(length + 4096, 0);
    }
    into.extend(parse(&text[..length]));
}

fn children(pid: i32) -> Vec<i32> {
    let path: PathBuf = format!("/proc/{pid}/task/{pid}/children").into();
    parse(&fs::read(path).unwrap_or_default()).collect()
}

fn parse(text: &[u8]) -> impl Iterator<Item = i32> + '_ {
    text.split(u8::is_ascii_whitespace).filter_map(|word| std::str::from_utf8(word).ok()?.parse().ok())
}

fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may contain anything, but nothing after it contains a parenthesis.
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}
