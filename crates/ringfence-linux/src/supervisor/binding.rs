//! Binding local sockets on behalf of the caller.
//!
//! A socket is a file with a name, which may be a protected one. As with every other name Landlock lets nobody inside
//! make one in the trees that may be written; the supervisor binds the caller's own socket at the place that it judged.

use std::os::fd::{AsFd, BorrowedFd};

use ringfence_model::{Access, Operation};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::SocketAddrUnix;

use super::call::{Call, Last};
use super::network::{self, Address};
use super::notif::{self, Notification};
use super::on_behalf::Place;
use super::target::Resolved;
use super::{Answer, Supervisor, caller_ids};
use crate::sys;

impl Supervisor<'_> {
    pub(super) fn bind(
        &mut self,
        listener: BorrowedFd<'_>,
        notification: &Notification,
        socket: i32,
        (address, length): (u64, u64),
    ) -> Answer {
        let tid = notification.tid;
        if let Some(answer) = self.bind_loopback(listener, notification, socket, (address, length)) {
            return answer;
        }
        let path = match network::read_address(tid, address, length) {
            Address::Path(path) => path,
            Address::Internet(at) => {
                return self
                    .bind_datagrams(tid, socket, at)
                    .unwrap_or_else(|| self.bind_beside_ours(listener, notification, socket, at));
            }
            Address::Abstract(_) | Address::Other => return Answer::Continue,
        };
        if let Err(unread) = self.absolute(tid, &path) {
            return unread.into();
        }
        match self.resolve(Last::Name) {
            Resolved::Missing => {}
            // The kernel says what is wrong with it.
            Resolved::Exists | Resolved::Unreachable | Resolved::Nowhere => return Answer::Continue,
        }
        match self.verdict(Operation::Bind, Access::Write) {
            Answer::Continue if self.is_kept(self.real.as_path()) => {}
            answer => return answer,
        }
        if !notif::is_valid(listener, notification.id) {
            return Answer::Continue;
        }
        let Some(_lowered) = self.powers.lower() else { return Answer::Done(Err(Errno::ACCESS)) };
        if let Some(answer) = self.feeds_git(Call::decode(notification)) {
            return answer;
        }
        let Some(own) = network::take_descriptor(tid, socket) else { return Answer::Done(Err(Errno::BADF)) };
        if rustix::net::sockopt::socket_domain(&own) != Ok(rustix::net::AddressFamily::UNIX) {
            return Answer::Continue;
        }
        let bound = self.place(self.real.as_path()).and_then(|place| bind_at(tid, own.as_fd(), &place));
        Answer::Done(bound.map(|()| 0))
    }
}

/// Binds in a directory that no text leads to any more, on a thread that works there: an address is a path, and a
/// path could lead elsewhere by now.
fn bind_at(tid: i32, socket: BorrowedFd<'_>, place: &Place) -> Result<(), Errno> {
    let umask = caller_ids::umask(tid).ok_or(Errno::SRCH)?;
    let address = SocketAddrUnix::new(place.name.as_c_str())?;
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, || {
            sys::unshare_fs()?;
            rustix::process::umask(Mode::from_raw_mode(umask));
            rustix::process::fchdir(&place.directory)?;
            rustix::net::bind(socket, &address)
        });
        thread.map_err(|_| Errno::AGAIN)?.join().map_err(|_| Errno::IO)?
    })
}
