//! Requests of the kernel to the file system of traps.

use std::os::fd::AsFd as _;

use ringfence_linux::fuse::{Attempt, Guard, Kind, Server, Trap};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};

/// The fixed part of a request, as in `linux/fuse.h`.
const HEADER: usize = 40;
/// The fixed part of a reply: length, error, and the request's number.
const REPLY: usize = 16;

/// The paths that were tried.
#[derive(Default)]
struct Tried(usize);

impl Guard for Tried {
    fn attempted(&mut self, attempt: Attempt<'_>) {
        assert!(attempt.path.is_absolute(), "{attempt:?}");
        self.0 += 1;
    }
}

/// Whatever arrives, the server goes on, and each of its answers has the length it says and the number of a request.
pub fn fuse_wire(bytes: &[u8]) {
    let requests = requests(bytes);
    let pair =
        || socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::NONBLOCK, None).unwrap();
    let ((kernel, device), (stop, stopped)) = (pair(), pair());
    let traps = [
        Trap { path: c"/usr/share".to_owned(), kind: Kind::Directory },
        Trap { path: c"/nowhere/key".to_owned(), kind: Kind::File },
    ];
    for request in &requests {
        // A full queue takes no more; those that are in it are enough.
        let _ = send(&kernel, request, SendFlags::empty());
    }
    send(&stop, b"x", SendFlags::empty()).unwrap();
    Server::new(device, &traps).unwrap().serve(stopped.as_fd(), &mut Tried::default());
    let mut reply = vec![0; 64 * 1024];
    while let Ok((length, _)) = recv(&kernel, &mut reply[..], RecvFlags::empty()) {
        if length == 0 {
            break;
        }
        let reply = &reply[..length];
        assert!(length >= REPLY, "a reply of {length} bytes");
        let said = u32::from_ne_bytes(reply[..4].try_into().unwrap());
        assert_eq!(usize::try_from(said).unwrap(), length);
        assert!(requests.iter().any(|request| request[8..16] == reply[8..16]), "nobody asked for this");
    }
}

/// Up to 16 requests, each after a byte that says how long its body is. Their own lengths are put right: the kernel's are.
fn requests(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut requests = Vec::new();
    while let Some((&body, rest)) = bytes.split_first()
        && rest.len() >= HEADER
        && requests.len() < 16
    {
        let end = rest.len().min(HEADER + usize::from(body));
        let mut request = rest[..end].to_vec();
        let length = u32::try_from(end).unwrap();
        request[..4].copy_from_slice(&length.to_ne_bytes());
        requests.push(request);
        bytes = &rest[end..];
    }
    requests
}
