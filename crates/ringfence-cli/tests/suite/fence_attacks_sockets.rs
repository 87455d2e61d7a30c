//! Attempts to get a byte out: local sockets, loopback services of the host, raw and foreign families.

use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::Path;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::suite::fence_support::{Launcher, RACES, SOCKETS, WAIT, for_every_launcher, wait_until};
use crate::suite::support::Room;

for_every_launcher! {
    sockets_in_the_project_that_were_there_before,
    sockets_in_the_project_that_appear_later,
    late_sockets_that_are_not_refused_are_named,
    no_connection_is_made_before_it_is_judged,
    sockets_of_the_sandboxs_own_work_and_stop_nobody,
    sockets_elsewhere_on_the_host,
    abstract_sockets_of_the_host,
    services_of_the_host_on_loopback,
    no_port_tells_whether_the_host_listens,
    the_internet_and_foreign_families,
    names_resolve_to_nothing,
    a_name_is_told_and_there_is_none,
}

/// Listeners of the host on a path: whatever arrives at one of them got out.
pub(super) struct Listeners {
    stream: UnixListener,
    dgram: UnixDatagram,
    seqpacket: OwnedFd,
}

impl Listeners {
    pub(super) fn at(directory: &Path) -> Self {
        let stream = UnixListener::bind(directory.join("stream.sock")).unwrap();
        let dgram = UnixDatagram::bind(directory.join("dgram.sock")).unwrap();
        stream.set_nonblocking(true).unwrap();
        dgram.set_nonblocking(true).unwrap();
        let address = SocketAddrUnix::new(directory.join("seqpacket.sock")).unwrap();
        Self { stream, dgram, seqpacket: seqpacket(&address) }
    }

    /// What arrived: bytes, or a connection that carries some.
    pub(super) fn arrived(&self) -> Vec<String> {
        let mut arrived = Vec::new();
        while let Ok((connection, _)) = self.stream.accept() {
            connection.set_read_timeout(Some(std::time::Duration::from_millis(200))).unwrap();
            let mut bytes = [0; 16];
            if std::io::Read::read(&mut &connection, &mut bytes).unwrap_or(0) > 0 {
                arrived.push("bytes on the stream".to_owned());
            }
        }
        let mut bytes = [0; 16];
        if self.dgram.recv(&mut bytes).is_ok() {
            arrived.push("a datagram".to_owned());
        }
        if let Ok(connection) = rustix::net::accept(&self.seqpacket)
            && rustix::net::recv(&connection, &mut bytes[..], rustix::net::RecvFlags::DONTWAIT)
                .is_ok_and(|(count, _)| count > 0)
        {
            arrived.push("a packet".to_owned());
        }
        arrived
    }
}

fn seqpacket(address: &SocketAddrUnix) -> OwnedFd {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    rustix::net::bind(&socket, address).unwrap();
    rustix::net::listen(&socket, 8).unwrap();
    socket
}

/// Every way to a local socket, for the three kinds at `place` (`{place}/stream.sock` …).
fn ways(place: &str) -> String {
    let ways = [
        "stream stream",
        "stream-sendmsg stream",
        "seqpacket seqpacket",
        "pair-seqpacket-sendto seqpacket",
        "seqpacket-rights seqpacket",
        "dgram dgram",
        "raw-local dgram",
        "dgram-sendto dgram",
        "dgram-sendmsg dgram",
        "dgram-sendmmsg dgram",
        "dgram-rights dgram",
        "pair-dgram-sendto dgram",
        "pair-dgram-sendmsg dgram",
        "pair-raw-sendto dgram",
    ];
    ways.map(|way| {
        let (way, kind) = way.split_once(' ').unwrap();
        format!("echo \"{way} $(./sockets {way} {place}/{kind}.sock)\"\n")
    })
    .concat()
}

fn assert_refused(stdout: &str, count: usize) {
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines.len(), count, "{stdout}");
    assert!(lines.iter().all(|line| line.contains(" refused ")), "{stdout}");
}

fn sockets_in_the_project_that_were_there_before(launcher: Launcher) {
    let room = Room::on(launcher);
    room.helper(&SOCKETS);
    let listeners = Listeners::at(&room.project);
    assert_refused(&room.fenced(&ways(".")).stdout, 14);
    assert_eq!(listeners.arrived(), Vec::<String>::new());
    // Outside the same helper gets through.
    assert_eq!(SOCKETS.unfenced(&["stream", "stream.sock"], &room.project), "REACHED");
    assert_eq!(SOCKETS.unfenced(&["pair-dgram-sendto", "dgram.sock"], &room.project), "REACHED");
    assert_eq!(listeners.arrived(), ["bytes on the stream", "a datagram"]);
}

fn sockets_in_the_project_that_appear_later(launcher: Launcher) {
    let room = Room::on(launcher);
    room.helper(&SOCKETS);
    let listeners = std::sync::Mutex::new(None);
    let open = || *listeners.lock().unwrap() = Some(Listeners::at(&room.project));
    let ran = room.fenced_while(open, &ways("."));
    assert_refused(&ran.stdout, 14);
    let place = room.project.join("stream.sock").display().to_string();
    assert!(ran.resources().contains(&place.as_str()), "{ran:?}");
    assert_eq!(listeners.lock().unwrap().as_ref().unwrap().arrived(), Vec::<String>::new());
}

/// Where nobody looks at connections, the result says so; nowhere else does one get through.
fn late_sockets_that_are_not_refused_are_named(launcher: Launcher) {
    let room = Room::on(launcher);
    room.helper(&SOCKETS);
    for precision in ["off", "writes"] {
        let (ready, go) = (room.project.join("ready"), room.project.join("go"));
        let text = format!("{WAIT}./sockets stream stream.sock");
        let (ran, listeners) = std::thread::scope(|scope| {
            let listeners = scope.spawn(|| {
                wait_until(Duration::from_secs(30), || ready.exists());
                let listeners = Listeners::at(&room.project);
                std::fs::write(&go, "").unwrap();
                listeners
            });
            (room.fenced_with(&["--precision", precision], &text), listeners.join().unwrap())
        });
        let degraded = ran.json["sandbox"]["degraded"].to_string();
        let is_named = degraded.contains("the connection to a local socket that somebody outside makes");
        assert_eq!(is_named, !listeners.arrived().is_empty(), "{precision}: {ran:?}");
        assert_eq!(
            is_named,
            precision == "off" && ran.json["sandbox"]["adapter"] != "local/landlock",
            "{ran:?}"
        );
        for left in ["ready", "go", "stream.sock", "dgram.sock", "seqpacket.sock"] {
            std::fs::remove_file(room.project.join(left)).unwrap();
        }
    }
}

/// Nobody of the host sees as much as a connection.
fn no_connection_is_made_before_it_is_judged(launcher: Launcher) {
    let room = Room::on(launcher);
    room.helper(&SOCKETS);
    room.helper(&RACES);
    let listeners = std::sync::Mutex::new(None);
    let open = || *listeners.lock().unwrap() = Some(Listeners::at(&room.project));
    let ran = room.fenced_while(open, "./sockets stream stream.sock; ./races connect 2");
    assert!(ran.stdout.contains(" tries, 0 leaks"), "{ran:?}");
    let listeners = listeners.lock().unwrap();
    let accepted = listeners.as_ref().unwrap().stream.accept().map(drop);
    // Without namespaces it is known only afterwards whose socket it was.
    if ran.promises("noNamespaces") {
        assert_eq!(accepted.unwrap_err().kind(), ErrorKind::WouldBlock);
    }
    // Outside, the same helper gets through.
    let outside = RACES.unfenced(&["connect", "1"], &room.project);
    assert!(!outside.contains(" 0 leaks"), "{outside}");
}

fn sockets_of_the_sandboxs_own_work_and_stop_nobody(launcher: Launcher) {
    let room = Room::on(launcher);
    // A listener that accepts nobody, filled up; then somebody who waits; then everybody else.
    let program = "
import os, socket, threading, time
for place in ['own.sock', '/tmp/own.sock', '\\0own']:
    try:
        listener = socket.socket(socket.AF_UNIX); listener.bind(place); listener.listen(1)
        first = socket.socket(socket.AF_UNIX); first.connect(place)
        accepted, _ = listener.accept(); accepted.send(b'hello'); print(first.recv(9).decode(), flush=True)
    except PermissionError:
        print('refused', flush=True)
full = socket.socket(socket.AF_UNIX); full.bind('full.sock'); full.listen(0)
def fill():
    while True:
        s = socket.socket(socket.AF_UNIX); s.connect('full.sock'); held.append(s)
held = []
threading.Thread(target=fill, daemon=True).start()
time.sleep(0.5)
print(len(held), open('new', 'w').write('still served'), flush=True)
os._exit(0)
";
    room.write("try.py", program);
    let ran = room.fenced("python3 try.py");
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), 4, "{ran:?}");
    // Without namespaces there is no /tmp and no abstract name of its own.
    let others = if ran.promises("directoriesOnHost") { "hello" } else { "refused" };
    assert_eq!(lines[..3], ["hello", others, others], "{ran:?}");
    assert!(lines[3].ends_with(" 12"), "{ran:?}");
    assert_eq!(ran.code, 0, "{ran:?}");
}

fn sockets_elsewhere_on_the_host(launcher: Launcher) {
    let room = Room::on(launcher);
    room.helper(&SOCKETS);
    let outside = tempfile::tempdir().unwrap();
    let in_tmp = tempfile::Builder::new().prefix("rf").tempdir_in("/tmp").unwrap();
    for place in [room.home.as_path(), outside.path(), in_tmp.path()] {
        let listeners = Listeners::at(place);
        assert_refused(&room.fenced(&ways(&place.display().to_string())).stdout, 14);
        assert_eq!(listeners.arrived(), Vec::<String>::new(), "{}", place.display());
    }
    // A link in the project to a socket outside is no way either.
    let listeners = Listeners::at(&{
        let deep = room.home.join("deep");
        std::fs::create_dir(&deep).unwrap();
        deep
    });
    for kind in ["stream", "dgram", "seqpacket"] {
        let name = format!("{kind}.sock");
        std::os::unix::fs::symlink(room.home.join("deep").join(&name), room.project.join(&name)).unwrap();
    }
    assert_refused(&room.fenced(&ways(".")).stdout, 14);
    assert_eq!(listeners.arrived(), Vec::<String>::new());
}

fn abstract_sockets_of_the_host(launcher: Launcher) {
    let room = Room::on(launcher);
    room.helper(&SOCKETS);
    let name = format!("ringfence-test-{}", std::process::id());
    let stream = SocketAddrUnix::new_abstract_name(format!("{name}-s").as_bytes()).unwrap();
    let listener = seqpacket(&stream);
    let dgram = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )
    .unwrap();
    rustix::net::bind(&dgram, &SocketAddrUnix::new_abstract_name(format!("{name}-d").as_bytes()).unwrap())
        .unwrap();
    let script = ["seqpacket @{}-s", "dgram @{}-d", "dgram-sendto @{}-d", "pair-dgram-sendto @{}-d"]
        .map(|way| format!("echo \"$(./sockets {}) refused?\"\n", way.replace("{}", &name)))
        .concat();
    let ran = room.fenced(&script);
    assert!(!ran.stdout.contains("REACHED"), "{ran:?}");
    assert!(rustix::net::accept(&listener).is_err());
    assert_eq!(SOCKETS.unfenced(&["seqpacket", &format!("@{name}-s")], &room.project), "REACHED");
    assert!(rustix::net::accept(&listener).is_ok());
}

fn services_of_the_host_on_loopback(launcher: Launcher) {
    let room = Room::on(launcher);
    room.helper(&SOCKETS);
    let v4 = TcpListener::bind("127.0.0.1:0").unwrap();
    let any = TcpListener::bind("0.0.0.0:0").unwrap();
    let v6 = TcpListener::bind("[::1]:0").ok();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    for listener in [Some(&v4), Some(&any), v6.as_ref()].into_iter().flatten() {
        listener.set_nonblocking(true).unwrap();
    }
    udp.set_nonblocking(true).unwrap();
    let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
    let mut script = String::new();
    for (way, host, port) in [
        ("tcp4", "127.0.0.1", port(&v4)),
        ("tcp4-fastopen", "127.0.0.1", port(&v4)),
        ("tcp4-mptcp", "127.0.0.1", port(&v4)),
        ("tcp4", "127.0.0.1", port(&any)),
        ("tcp4", "0.0.0.0", port(&any)),
        ("tcp6", "::ffff:127.0.0.1", port(&v4)),
        ("tcp6", "::1", v6.as_ref().map_or(1, port)),
    ] {
        script += &format!("echo \"{way} $(./sockets {way} {host} {port})\"\n");
    }
    let ran = room.fenced(&script);
    assert_refused(&ran.stdout, 7);
    let udp_port = udp.local_addr().unwrap().port();
    let ways = ["udp4", "udp4-sendto", "udp4-sendmsg"];
    let script = ways.map(|way| format!("./sockets {way} 127.0.0.1 {udp_port}\n")).concat();
    room.fenced(&script);
    for listener in [Some(&v4), Some(&any), v6.as_ref()].into_iter().flatten() {
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    }
    assert_eq!(udp.recv(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
    let want = format!("127.0.0.1:{}", port(&v4));
    assert!(ran.resources().contains(&want.as_str()), "{ran:?}");
}

fn no_port_tells_whether_the_host_listens(launcher: Launcher) {
    let room = Room::on(launcher);
    let (host, free) = (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let [port, unused] = [&host, &free].map(|listener| listener.local_addr().unwrap().port());
    drop(free);
    room.write(
        "try.py",
        "import errno, select, socket, sys
def end(port, blocking):
    s = socket.socket()
    s.setblocking(blocking)
    error = s.connect_ex(('127.0.0.1', port))
    if error == errno.EINPROGRESS:
        select.select([], [s], [], 10)
        error = s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    return errno.errorcode.get(error, error)
taken, free = map(int, sys.argv[1:3])
print(*(end(port, blocking) for port in (taken, free) for blocking in (True, False)))
if sys.argv[3:]:
    server = socket.create_server(('127.0.0.1', taken))
    print(*(end(taken, blocking) for blocking in (True, False)))
",
    );
    let ran = room.fenced(&format!("python3 try.py {port} {unused}"));
    assert_eq!(ran.stdout, format!("{}\n", ["ECONNREFUSED"; 4].join(" ")), "{ran:?}");
    assert_eq!(ran.resources(), [format!("127.0.0.1:{port}")], "a person is told");
    if ran.promises("noOwnNetwork") {
        let ran = room.fenced(&format!("python3 try.py {port} {unused} serve"));
        assert!(ran.stdout.ends_with("\n0 0\n"), "the port of a server inside is its own: {ran:?}");
    }
    host.set_nonblocking(true).unwrap();
    assert!(host.accept().is_err());
}

fn the_internet_and_foreign_families(launcher: Launcher) {
    let room = Room::on(launcher);
    room.helper(&SOCKETS);
    let ways = [
        "tcp4 192.0.2.1 80",
        "tcp4 169.254.169.254 80",
        "tcp4 10.0.0.1 443",
        "tcp4-fastopen 192.0.2.1 80",
        "udp4 192.0.2.1 123",
        "udp4-sendto 192.0.2.1 123",
        "udp4-sendmsg 192.0.2.1 123",
        "udp4-sendto 255.255.255.255 67",
        "tcp6 2001:db8::1 80",
        "udp6-sendto 2001:db8::1 123",
        "udp6-sendto ff02::1 123",
        "icmp 192.0.2.1",
        "raw4",
        "raw6",
        "packet",
        "packet-old",
        "netlink-netfilter",
        "netlink-audit",
        "netlink-uevent",
        "vsock",
        "alg",
        "bluetooth",
        "can",
        "sctp",
    ];
    let script = ways.map(|way| format!("echo \"{way} $(./sockets {way})\"\n")).concat();
    assert_refused(&room.fenced(&script).stdout, ways.len());
}

fn names_resolve_to_nothing(launcher: Launcher) {
    let room = Room::on(launcher);
    let ran = room.fenced(
        "python3 -c 'import socket; socket.getaddrinfo(\"example.com\", 80)' 2>&1 | tail -1; \
         getent hosts example.com; curl -sS --max-time 3 http://example.com/ 2>&1; true",
    );
    assert!(!ran.stdout.contains("<html") && !ran.stdout.contains("93.184"), "{ran:?}");
}

/// Told by its name, and at once: who waits for a name server that never answers has waited for nothing.
fn a_name_is_told_and_there_is_none(launcher: Launcher) {
    let room = Room::on(launcher);
    let script = "python3 - <<'end'
import socket
for name in ['one.example', 'two.example']:
    try: print(socket.getaddrinfo(name, 80))
    except socket.gaierror as error: print(error.errno == socket.EAI_NONAME)
try: socket.getaddrinfo('a' * 50 + '.' + 'b' * 50, 80)
except socket.gaierror: pass
# Whatever is no question is told as it would be anywhere else.
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'garbage', ('192.0.2.7', 53))
# A name server of one's own is one's own affair.
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(('127.0.0.1', 0))
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.connect(server.getsockname())
client.send(b'hello')
print(server.recv(9))
end";
    let ran = room.fenced(script);
    if launcher == Launcher::Landlock {
        // No network namespace, so no datagrams and no name; but nobody waits.
        assert!(!ran.stdout.contains("True"), "{ran:?}");
        return;
    }
    assert_eq!(ran.stdout, "True\nTrue\nb'hello'\n", "{ran:?}");
    let long = format!("{}.{}", "a".repeat(50), "b".repeat(50));
    assert_eq!(ran.resources(), ["one.example", "two.example", long.as_str(), "192.0.2.7:53"], "{ran:?}");
    let violation = &ran.json["violations"][0];
    assert_eq!(violation["operation"], "lookup", "{violation}");
    assert!(violation["program"].as_str().unwrap().contains("python3"), "{violation}");
}
