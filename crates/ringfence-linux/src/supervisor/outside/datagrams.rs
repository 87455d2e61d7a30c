//! Datagrams to hosts whose rule allows them.
//!
//! What stands for a host is an address of the sandbox's own loopback interface. A socket of ours takes what is sent to
//! that port of it, and the relay carries it. Who may send was decided before that socket is there, and nothing else is
//! reached there: so a call may go on, whatever becomes of its address meanwhile.

use std::cell::Cell;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use ringfence_model::{Access, Host, LockExt as _, Operation};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, ipproto, socket_with, sockopt};

use super::super::name_lookup::NAME_SERVER;
use super::super::{Answer, Denial, Supervisor, describe, network};
use super::sockets::Sockets;
use super::{Reach, Wanted, WayOut, denial, denial_of_port};
use crate::sys::Sys;

/// Ports of hosts that one sandbox sends to.
const MOST: usize = 256;

/// A socket inside that is bound to what stands for a host.
#[derive(Debug)]
pub struct DatagramSocket {
    pub socket: OwnedFd,
    /// A raw socket for ICMP with the same address, by which senders hear that nobody is there.
    pub errors: Option<OwnedFd>,
}

impl Sockets {
    /// Takes what is sent to that address from now on. None when that is so already.
    fn take_datagrams(&self, to: SocketAddr) -> Sys<Option<DatagramSocket>> {
        let mut taken = self.datagrams.locked();
        if taken.contains(&to) {
            return Ok(None);
        }
        if taken.len() >= MOST {
            return Err(Errno::NOBUFS);
        }
        self.make_own(to.ip())?;
        let is_v4 = to.is_ipv4();
        let made = Cell::new(0);
        let mut sockets = self.namespaces.bring(if is_v4 { 2 } else { 1 }, &|| {
            let family = if is_v4 { AddressFamily::INET } else { AddressFamily::INET6 };
            match made.replace(1) {
                0 => socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, Some(ipproto::UDP)),
                _ => socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, Some(ipproto::ICMP)),
            }
        })?;
        let errors = if is_v4 { sockets.pop() } else { None };
        let socket = sockets.pop().ok_or(Errno::IO)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &to)?;
        if let Some(errors) = &errors {
            bind(errors, &SocketAddr::new(to.ip(), 0))?;
        }
        taken.insert(to);
        Ok(Some(DatagramSocket { socket, errors }))
    }

    fn takes_datagrams(&self, to: SocketAddr) -> bool {
        self.datagrams.locked().contains(&to)
    }
}

impl WayOut {
    /// Whether datagrams to that address are carried already.
    fn carries(&self, to: SocketAddr) -> bool {
        self.sockets.get().and_then(Option::as_ref).is_some_and(|sockets| sockets.takes_datagrams(to))
    }
}

impl Supervisor<'_> {
    /// Whether what the caller's socket sends to that address is carried to the host.
    pub(in super::super) fn carries_datagrams(&self, tid: i32, own: &OwnedFd, to: SocketAddr) -> bool {
        let Some((way, host)) = self.host_of_datagrams(to) else { return false };
        if way.carries(to) {
            return true;
        }
        if sockopt::socket_type(own) != Ok(SocketType::DGRAM)
            || way.outside.decide_datagrams(&host, to.port()) != Reach::Allowed
        {
            return false;
        }
        let violation = describe::violation(tid, denial(&host, to.port(), None));
        match way.own_sockets(tid).and_then(|sockets| sockets.take_datagrams(to)) {
            Ok(Some(socket)) => {
                way.outside.carry_datagrams(&Wanted::by(&violation, &host, to.port()), socket);
                true
            }
            Ok(None) => true,
            Err(_) => false,
        }
    }

    /// Refuses a datagram to an address, by the name that it stands for.
    pub(in super::super) fn refuse_datagram(&self, to: SocketAddr) -> Answer {
        let Some((way, host)) = self.host_of_datagrams(to) else {
            return network::refuse_address(Operation::Send, to);
        };
        let denial = match way.outside.decide_datagrams(&host, to.port()) {
            Reach::Denied(None) if !self.stands_for_a_name(to) => {
                return network::refuse_address(Operation::Send, to);
            }
            Reach::Denied(rule) => denial(&host, to.port(), rule),
            Reach::DeniedPort(why) => denial_of_port(&host, to.port(), why),
            Reach::Allowed | Reach::Ask => denial(&host, to.port(), None),
        };
        Answer::Deny(Denial { operation: Operation::Send, access: Access::Write, ..denial })
    }

    /// Loopback is the sandbox's own, and so are look-ups.
    fn host_of_datagrams(&self, to: SocketAddr) -> Option<(&WayOut, Host)> {
        let way = self.way_out.as_deref().filter(|way| way.is_by_name())?;
        if network::is_loopback(to) || to.port() == NAME_SERVER {
            return None;
        }
        Some((way, way.host(to.ip())?))
    }
}
