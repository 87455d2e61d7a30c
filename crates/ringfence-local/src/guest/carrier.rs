//! Carries connections in pieces: one thread between the sockets of this side and the words to the other.
//!
//! The same on both sides. No side has more of a connection in hand than [`WINDOW`]: one that sends more breaks it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use ringfence_linux::supervisor::addresses_in_use;
use ringfence_model::LockExt as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, getpeername, recv, send, shutdown, sockopt};

use super::out_wire::{Piece, Raw, WINDOW};
use crate::wake::Wake;

/// As much is read at a time.
const MOST_READ: usize = 64 << 10;
/// Less than this is not said to be taken while more is there.
const WORTH_SAYING: usize = WINDOW / 4;

#[derive(Debug)]
pub(super) struct Carrier {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    wake: Wake,
}

#[derive(Debug, Default)]
struct State {
    streams: BTreeMap<u64, Stream>,
    /// To be said by the thread, so that everything about a connection is said in one order.
    unsaid: Vec<(u64, Piece)>,
    /// Something can be done about these.
    due: BTreeSet<u64>,
    stop: bool,
}

#[derive(Debug)]
struct Stream {
    /// None until it is there; what comes meanwhile is kept.
    socket: Option<Arc<OwnedFd>>,
    /// For the socket.
    unsent: VecDeque<u8>,
    no_more: bool,
    taken: usize,
    /// So much may still be sent to the other side.
    credit: usize,
    has_ended: bool,
}

impl Stream {
    fn new() -> Self {
        Self {
            socket: None,
            unsent: VecDeque::new(),
            no_more: false,
            taken: 0,
            credit: WINDOW,
            has_ended: false,
        }
    }

    fn interest(&self) -> PollFlags {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, !self.has_ended && self.credit > 0);
        flags.set(PollFlags::OUT, !self.unsent.is_empty());
        flags
    }

    /// Whether more can come from the socket, as far as it knows.
    fn is_open(&self) -> bool {
        let Some(socket) = &self.socket else { return true };
        let mut fds = [PollFd::new(socket, PollFlags::RDHUP)];
        !self.has_ended && matches!(poll(&mut fds, Some(&Timespec::default())), Ok(0))
    }

    /// Who is at the other end of the socket, if that has an address.
    fn peer(&self) -> Option<SocketAddr> {
        let peer = getpeername(self.socket.as_ref()?).ok()??;
        SocketAddr::try_from(peer).ok().map(|peer| SocketAddr::new(peer.ip().to_canonical(), peer.port()))
    }
}

impl Carrier {
    pub(super) fn start(say: impl Fn(u64, Piece) + Send + 'static) -> rustix::io::Result<Self> {
        let shared = Arc::new(Shared { state: Mutex::default(), wake: Wake::new()? });
        let its = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("carrier".to_owned()).spawn(move || its.run(&say));
        Ok(Self { shared, thread: Some(thread.map_err(|_| Errno::AGAIN)?) })
    }

    /// A connection of this number comes. False when there is one.
    pub(super) fn expect(&self, id: u64) -> bool {
        let mut state = self.shared.state.locked();
        let is_new = !state.streams.contains_key(&id);
        if is_new {
            state.streams.insert(id, Stream::new());
        }
        is_new
    }

    /// It is carried between this socket and the other side, if that has not broken it off.
    pub(super) fn carry(&self, id: u64, socket: OwnedFd) {
        if rustix::io::ioctl_fionbio(&socket, true).is_err() {
            return self.abandon(id);
        }
        let mut state = self.shared.state.locked();
        match state.streams.get_mut(&id) {
            Some(stream) => stream.socket = Some(Arc::new(socket)),
            None => reset(&socket),
        }
        state.due.insert(id);
        drop(state);
        self.shared.wake.wake();
    }

    /// Nobody wants it any more.
    pub(super) fn abandon(&self, id: u64) {
        let mut state = self.shared.state.locked();
        if state.streams.remove(&id).is_some() {
            state.unsaid.push((id, Piece::Broken));
        }
        drop(state);
        self.shared.wake.wake();
    }

    /// What the other side says. Returns at once.
    pub(super) fn hear(&self, id: u64, piece: Piece) {
        let mut state = self.shared.state.locked();
        let Some(stream) = state.streams.get_mut(&id) else { return };
        match piece {
            Piece::Data { data } if stream.no_more || stream.unsent.len() + data.0.len() > WINDOW => {
                state.break_off(id);
                state.unsaid.push((id, Piece::Broken));
            }
            Piece::Data { data } => stream.unsent.extend(data.0),
            Piece::End => stream.no_more = true,
            Piece::Taken { bytes } => stream.credit = stream.credit.saturating_add(bytes).min(WINDOW),
            Piece::Broken => state.break_off(id),
        }
        state.due.insert(id);
        drop(state);
        self.shared.wake.wake();
    }

    /// How many connections somebody at this side still has open. One that is closed with much unread looks as if it
    /// were not; the kernel knows.
    pub(super) fn open(&self) -> usize {
        let state = self.shared.state.locked();
        let mut open = state.streams.values().filter(|stream| stream.is_open()).peekable();
        if open.peek().is_none() {
            return 0;
        }
        let in_use = addresses_in_use();
        open.filter(|stream| stream.peer().is_none_or(|peer| in_use.contains(&peer))).count()
    }

    /// The other side is gone: what it said is sent, and nothing more comes.
    pub(super) fn end_all(&self) {
        let mut state = self.shared.state.locked();
        let State { streams, due, .. } = &mut *state;
        streams.values_mut().for_each(|stream| stream.no_more = true);
        due.extend(streams.keys());
        drop(state);
        self.shared.wake.wake();
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        self.shared.state.locked().stop = true;
        self.shared.wake.wake();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

impl State {
    fn break_off(&mut self, id: u64) {
        if let Some(Stream { socket: Some(socket), .. }) = self.streams.remove(&id) {
            reset(&socket);
        }
    }

    /// Sends, reads and ends what can be; what came of it is to be said.
    fn attend(&mut self, id: u64, buffer: &mut [u8]) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let Some(socket) = stream.socket.clone() else { return };
        let said = match stream.attend(&socket, buffer) {
            Ok(said) => said,
            Err(_) => {
                self.break_off(id);
                vec![Piece::Broken]
            }
        };
        self.unsaid.extend(said.into_iter().map(|piece| (id, piece)));
        let is_over = |stream: &Stream| stream.has_ended && stream.no_more && stream.unsent.is_empty();
        if self.streams.get(&id).is_some_and(is_over) {
            self.streams.remove(&id);
        }
    }
}

impl Stream {
    fn attend(&mut self, socket: &OwnedFd, buffer: &mut [u8]) -> Result<Vec<Piece>, Errno> {
        let mut said = Vec::new();
        while !self.unsent.is_empty() {
            match send(socket, self.unsent.as_slices().0, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(count) => {
                    self.unsent.drain(..count);
                    self.taken += count;
                }
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(errno) => return Err(errno),
            }
        }
        if self.unsent.is_empty() && self.no_more {
            // One that is gone altogether says so when it is read.
            let _ = shutdown(socket, Shutdown::Write);
        } else if self.taken >= WORTH_SAYING || (self.taken > 0 && self.unsent.is_empty()) {
            said.push(Piece::Taken { bytes: std::mem::take(&mut self.taken) });
        }
        let room = self.credit.min(buffer.len());
        if !self.has_ended && room > 0 {
            match recv(socket, &mut buffer[..room], RecvFlags::DONTWAIT) {
                Ok((0, _)) => {
                    self.has_ended = true;
                    said.push(Piece::End);
                }
                Ok((count, _)) => {
                    self.credit -= count;
                    said.push(Piece::Data { data: Raw(buffer[..count].to_vec()) });
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(said)
    }
}

impl Shared {
    fn run(&self, say: &dyn Fn(u64, Piece)) {
        let mut buffer = vec![0; MOST_READ];
        loop {
            let mut state = self.state.locked();
            if state.stop {
                return;
            }
            let due = std::mem::take(&mut state.due);
            due.into_iter().for_each(|id| state.attend(id, &mut buffer));
            let unsaid = std::mem::take(&mut state.unsaid);
            let waited_for: Vec<(u64, Arc<OwnedFd>, PollFlags)> = state
                .streams
                .iter()
                .filter_map(|(id, stream)| Some((*id, stream.socket.clone()?, stream.interest())))
                .filter(|(.., interest)| !interest.is_empty())
                .collect();
            drop(state);
            // Who says waits for the other side to listen; who hears must not wait for that.
            unsaid.into_iter().for_each(|(id, piece)| say(id, piece));
            let mut fds: Vec<PollFd<'_>> =
                waited_for.iter().map(|(_, socket, interest)| PollFd::new(socket, *interest)).collect();
            fds.push(PollFd::from_borrowed_fd(self.wake.fd(), PollFlags::IN));
            if rustix::io::retry_on_intr(|| poll(&mut fds, None)).is_err() {
                return;
            }
            self.wake.clear();
            let ready = waited_for.iter().zip(&fds).filter(|(_, fd)| !fd.revents().is_empty());
            self.state.locked().due.extend(ready.map(|((id, ..), _)| *id));
        }
    }
}

/// Breaks it off in a way that the other end hears.
fn reset(socket: &OwnedFd) {
    let _ = sockopt::set_socket_linger(socket.as_fd(), Some(Duration::ZERO));
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;
    use std::sync::OnceLock;

    use super::*;

    /// Two carriers that talk to each other, and an end of connection 7 of each.
    fn pair() -> (Arc<OnceLock<Carrier>>, Arc<OnceLock<Carrier>>, UnixStream, UnixStream) {
        let places = [(), ()].map(|()| Arc::new(OnceLock::<Carrier>::new()));
        let ends = [0, 1].map(|index: usize| {
            let other = Arc::downgrade(&places[1 - index]);
            let say = move |id, piece| {
                let other = other.upgrade();
                if let Some(other) = other.as_ref().and_then(|other| other.get()) {
                    other.hear(id, piece);
                }
            };
            let carrier = Carrier::start(say).unwrap();
            assert!(carrier.expect(7) && !carrier.expect(7));
            places[index].set(carrier).unwrap();
            UnixStream::pair().unwrap()
        });
        let [(a, inner_a), (b, inner_b)] = ends;
        let [first, second] = places;
        first.get().unwrap().carry(7, inner_a.into());
        second.get().unwrap().carry(7, inner_b.into());
        (first, second, a, b)
    }

    #[test]
    fn everything_arrives_in_both_directions_and_ends() {
        const MUCH: usize = 5 * WINDOW + 17;
        let (first, second, mut a, mut b) = pair();
        let much: Vec<u8> = (0..MUCH).map(|at| u8::try_from(at % 251).unwrap()).collect();
        let said = much.clone();
        let writer = std::thread::spawn(move || {
            a.write_all(&said).unwrap();
            a.shutdown(std::net::Shutdown::Write).unwrap();
            let mut back = Vec::new();
            a.read_to_end(&mut back).unwrap();
            back
        });
        let mut heard = Vec::new();
        b.read_to_end(&mut heard).unwrap();
        assert!(heard == much);
        assert_eq!(second.get().unwrap().open(), 1);
        b.write_all(b"thanks").unwrap();
        drop(b);
        assert_eq!(writer.join().unwrap(), b"thanks");
        while !first.get().unwrap().shared.state.locked().streams.is_empty() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn who_does_not_read_holds_up_the_other_and_nobody_else() {
        let (first, second, mut a, b) = pair();
        a.set_nonblocking(true).unwrap();
        let mut sent = 0;
        let chunk = vec![1; 1 << 16];
        let mut quiet = 0;
        while quiet < 200 {
            match a.write(&chunk) {
                Ok(count) => {
                    sent += count;
                    quiet = 0;
                }
                Err(_) => {
                    quiet += 1;
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
        assert!(sent < 8 * WINDOW, "{sent}");
        let held = second.get().unwrap().shared.state.locked().streams[&7].unsent.len();
        assert!(held <= WINDOW, "{held}");
        assert!(first.get().unwrap().expect(8));
        drop(b);
    }

    #[test]
    fn who_sends_more_than_may_be_is_broken_off() {
        let (said, heard) = std::sync::mpsc::channel();
        let carrier = Carrier::start(move |id, piece| said.send((id, piece)).unwrap()).unwrap();
        assert!(carrier.expect(1));
        let data = || Piece::Data { data: Raw(vec![0; WINDOW]) };
        carrier.hear(1, data());
        carrier.hear(1, data());
        assert_eq!(heard.recv().unwrap(), (1, Piece::Broken));
        carrier.hear(2, data());
        assert!(carrier.expect(1), "nothing is left of it");
    }
}
