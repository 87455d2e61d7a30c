//! Ports that a server inside wants, and that sockets of ours have.
//!
//! Ours have the address that a program inside connects to, with its port, and the kernel keeps a port from whoever wants
//! it at all addresses without `SO_REUSEADDR`, up to a minute after the connection has ended. On a network a
//! connection to somebody's port takes nobody's port; so the supervisor binds the caller's socket beside ours.

use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, bind, sockopt};

use super::super::network::{listeners, take_descriptor};
use super::super::notif::{self, Notification};
use super::super::{Answer, Supervisor};

/// Nobody inside has one below; the kernel says so.
const FIRST_OF_ALL: u16 = 1024;

impl Supervisor<'_> {
    /// Binds the caller's socket where sockets of ours could be in its way.
    pub(in super::super) fn bind_beside_ours(
        &self,
        listener: BorrowedFd<'_>,
        notification: &Notification,
        socket: i32,
        at: SocketAddr,
    ) -> Answer {
        let ours = self.way_out.as_ref().and_then(|way| way.sockets.get()?.as_ref());
        let Some(ours) = ours.filter(|ours| at.port() >= FIRST_OF_ALL && ours.had_port(at.port())) else {
            return Answer::Continue;
        };
        let Some(own) = take_descriptor(notification.tid, socket) else { return Answer::Continue };
        // The caller's own only if it still waits.
        if !notif::is_valid(listener, notification.id) || sockopt::socket_type(&own) != Ok(SocketType::STREAM)
        {
            return Answer::Continue;
        }
        let at = match (sockopt::socket_domain(&own), at) {
            (Ok(AddressFamily::INET), SocketAddr::V4(_)) | (Ok(AddressFamily::INET6), SocketAddr::V6(_)) => {
                at
            }
            (Ok(AddressFamily::INET6), SocketAddr::V4(v4)) => (v4.ip().to_ipv6_mapped(), v4.port()).into(),
            _ => return Answer::Continue,
        };
        let Some(_lowered) = self.powers.lower() else { return Answer::Done(Err(Errno::ACCESS)) };
        let others = || {
            let all = listeners(&notification.tid.to_string(), at.port());
            all.saturating_sub(ours.listeners(at.port()))
        };
        Answer::Done(bind_beside(&own, at, others).map(|()| 0))
    }
}

/// What allows company stays, because the kernel looks once more when the socket begins to listen. Another server of the
/// sandbox's own is in the way as ever.
fn bind_beside(own: &OwnedFd, at: SocketAddr, others: impl Fn() -> usize) -> Result<(), Errno> {
    match bind(own, &at) {
        Err(Errno::ADDRINUSE) => {}
        done => return done,
    }
    let before = sockopt::socket_reuseaddr(own)?;
    sockopt::set_socket_reuseaddr(own, true)?;
    let mut done = bind(own, &at);
    if done == Err(Errno::ADDRINUSE) && others() == 0 {
        // One of ours listens, for a connection that is being made.
        let before = sockopt::socket_reuseport(own)?;
        sockopt::set_socket_reuseport(own, true)?;
        done = bind(own, &at);
        if done.is_err() {
            sockopt::set_socket_reuseport(own, before)?;
        }
    }
    if done.is_err() {
        sockopt::set_socket_reuseaddr(own, before)?;
    }
    done
}
