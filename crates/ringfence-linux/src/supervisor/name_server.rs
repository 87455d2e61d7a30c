//! The servers behind the addresses that somebody inside turns to for names: one thread for each, by datagrams or streams.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use ringfence_model::LockExt as _;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, accept_with, bind, listen, recv, recvfrom,
    send, sendto, socket_with,
};
use rustix::pipe::PipeFlags;

use super::mount_grant::Namespaces;
use super::name_lookup::{Asked, Sent, add_to_loopback};
use super::name_query::Query;
use super::outside::Names;
use crate::sys::Sys;

/// What is asked faster than it is told is not told.
const MOST_UNTOLD: usize = 256;
/// Whoever comes then takes the place of the one that has been here longest.
const MOST_STREAMS: usize = 32;
const LONGEST: usize = 4096;

/// Answers what is asked.
#[derive(Debug)]
pub(super) struct Hearing {
    /// Where hosts have names.
    pub(super) names: Option<Arc<Mutex<Names>>>,
    pub(super) asked: Asked,
}

impl Hearing {
    /// What is answered to a message to `server`; none when nothing was asked. Names that nobody has are told.
    pub(super) fn answer(&self, message: &[u8], server: SocketAddr, asker: i32) -> Option<Vec<u8>> {
        let (sent, answer) = match Query::read(message) {
            Some(query) => {
                let known = self.names.as_ref().and_then(|names| names.locked().address(&query.name));
                if let Some(known) = known {
                    return Some(query.address(known));
                }
                let answer = query.no_such_name();
                (Sent::Query(query.name), Some(answer))
            }
            None => (Sent::Other(server), None),
        };
        let news = (asker, sent);
        let mut asked = self.asked.locked();
        // Each name is asked for twice, once for each kind of address.
        if asked.back() != Some(&news) && asked.len() < MOST_UNTOLD {
            asked.push_back(news);
        }
        answer
    }
}

/// What a server says.
#[derive(Debug)]
pub(super) struct Answers {
    pub(super) server: SocketAddr,
    /// Who turned to it last.
    pub(super) asker: Arc<Mutex<i32>>,
    pub(super) hearing: Hearing,
}

impl Answers {
    fn to(&self, message: &[u8]) -> Option<Vec<u8>> {
        self.hearing.answer(message, self.server, *self.asker.locked())
    }
}

/// The thread that answers, until this is dropped.
#[derive(Debug)]
pub(super) struct Answering {
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Answering {
    /// Answers at that address of the network namespace that the thread `tid` is in.
    pub(super) fn begin(tid: i32, kind: SocketType, answers: Answers) -> Sys<Self> {
        let at = answers.server;
        let socket = Namespaces::of(tid).ok_or(Errno::NOSYS)?.bring(1, &|| server_socket(at, kind))?;
        let socket = socket.into_iter().next().ok_or(Errno::IO)?;
        let (ended, stop) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let work = move || {
            if kind == SocketType::STREAM {
                serve_streams(&socket, &ended, &answers);
            } else {
                serve_datagrams(&socket, &ended, &answers);
            }
        };
        let thread =
            std::thread::Builder::new().name("names".to_owned()).spawn(work).map_err(|_| Errno::AGAIN)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

fn serve_datagrams(socket: &OwnedFd, ended: &OwnedFd, answers: &Answers) {
    let mut query = [0_u8; LONGEST];
    loop {
        let mut fds = [PollFd::new(socket, PollFlags::IN), PollFd::new(ended, PollFlags::empty())];
        if rustix::io::retry_on_intr(|| poll(&mut fds, None)).is_err() || !fds[1].revents().is_empty() {
            return;
        }
        let Ok((length, _, Some(from))) = recvfrom(socket, &mut query[..], RecvFlags::DONTWAIT) else {
            continue;
        };
        if let Some(answer) = answers.to(&query[..length]) {
            let _ = sendto(socket, &answer, SendFlags::DONTWAIT, &from);
        }
    }
}

/// Somebody who asks by a stream, and what was read and is no whole question yet.
struct Asking {
    stream: OwnedFd,
    read: Vec<u8>,
}

impl Asking {
    /// False when there is nothing more to say to it.
    fn serve(&mut self, answers: &Answers) -> bool {
        let mut part = [0_u8; LONGEST];
        match recv(&self.stream, &mut part[..], RecvFlags::DONTWAIT) {
            Ok((0, _)) => return false,
            Ok((count, _)) => self.read.extend_from_slice(&part[..count]),
            Err(errno) => return errno == Errno::AGAIN || errno == Errno::INTR,
        }
        // Each question and each answer has its length before it.
        while let Some((length, rest)) = self.read.split_first_chunk::<2>() {
            let Some(question) = rest.get(..usize::from(u16::from_be_bytes(*length))) else { break };
            let Some(answer) = answers.to(question) else { return false };
            let used = 2 + question.len();
            let Ok(length) = u16::try_from(answer.len()) else { return false };
            let message = [&length.to_be_bytes()[..], &answer].concat();
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            // Who asks without listening to the answers is not waited for.
            if send(&self.stream, &message, flags) != Ok(message.len()) {
                return false;
            }
            self.read.drain(..used);
        }
        true
    }
}

fn serve_streams(listener: &OwnedFd, ended: &OwnedFd, answers: &Answers) {
    let mut all: Vec<Asking> = Vec::new();
    loop {
        let fds = [PollFd::new(ended, PollFlags::empty()), PollFd::new(listener, PollFlags::IN)];
        let streams = all.iter().map(|one| PollFd::new(&one.stream, PollFlags::IN));
        let mut fds: Vec<_> = fds.into_iter().chain(streams).collect();
        if rustix::io::retry_on_intr(|| poll(&mut fds, None)).is_err() || !fds[0].revents().is_empty() {
            return;
        }
        let is_new = !fds[1].revents().is_empty();
        let mut is_ready = fds[2..].iter().map(|fd| !fd.revents().is_empty()).collect::<Vec<_>>().into_iter();
        all.retain_mut(|one| !is_ready.next().unwrap_or(false) || one.serve(answers));
        if is_new && let Ok(stream) = accept_with(listener, SocketFlags::CLOEXEC) {
            if all.len() == MOST_STREAMS {
                all.remove(0);
            }
            all.push(Asking { stream, read: Vec::new() });
        }
    }
}

/// A socket at that address, which is made one of this network namespace's own. Allocates nothing.
fn server_socket(address: SocketAddr, kind: SocketType) -> Sys<OwnedFd> {
    if !address.ip().is_loopback() {
        add_to_loopback(address.ip(), if address.is_ipv4() { 32 } else { 128 })?;
    }
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &address)?;
    if kind == SocketType::STREAM {
        // A caller that left before it was accepted is not waited for.
        rustix::io::ioctl_fionbio(&socket, true)?;
        listen(&socket, 64)?;
    }
    Ok(socket)
}
