//! Everyday tools over the way out: each reaches an allowed host by its name, and knows nothing of a sandbox.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::suite::fence_network_support::room;
use crate::suite::fence_network_tools_support::{Tools, tools};
use crate::suite::fence_support::{Launcher, has, is_root, wait_until};
use crate::suite::support::Room;

const LAUNCHERS: [Launcher; 2] = [Launcher::Native, Launcher::Bwrap];

/// Lets each tool trust the test's own authority, by its own variable.
const TRUSTED: &str =
    "for name in SSL_CERT_FILE CURL_CA_BUNDLE GIT_SSL_CAINFO NODE_EXTRA_CA_CERTS REQUESTS_CA_BUNDLE
do export $name=$PWD/authority.pem; done; ";

/// A server of the test's own, ended when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `a.test`, by HTTP and by HTTPS under an authority of its own, with a repository.
struct Host {
    _server: Running,
    _place: tempfile::TempDir,
    authority: PathBuf,
    repository: PathBuf,
    plain: u16,
    secure: u16,
}

impl Host {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let sh = |text: &str| {
            let made = Command::new("sh").args(["-ec", text]).current_dir(place.path()).output().unwrap();
            assert!(made.status.success(), "{made:?}");
        };
        sh("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.pem 2>&1
            openssl req -newkey rsa:2048 -nodes -subj /CN=a.test -keyout key -out request 2>&1
            printf subjectAltName=DNS:a.test > names
            openssl x509 -req -in request -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out own 2>&1
            cat own key > server.pem
            git init -q --bare -b main repositories/repository.git
            git -C repositories/repository.git config http.receivepack true
            git init -q -b main work && cd work && echo first > file && git add file
            git -c user.name=n -c user.email=n@example commit -qm first
            git push -q ../repositories/repository.git main");
        std::fs::write(at("server.py"), include_str!("../data/https_server.py")).unwrap();
        let mut child = Command::new("/usr/bin/python3")
            .args([at("server.py"), at("server.pem"), at("repositories")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ports = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ports).unwrap();
        let mut ports = ports.split_whitespace().map(|port| port.parse().unwrap());
        Self {
            authority: at("ca.pem"),
            repository: at("repositories/repository.git"),
            plain: ports.next().unwrap(),
            secure: ports.next().unwrap(),
            _server: Running(child),
            _place: place,
        }
    }

    /// A room where it is allowed and trusted.
    fn room(&self, launcher: Launcher) -> Room {
        let ports = [self.plain, self.secure].map(|port| format!("a.test:{port}"));
        let room = room(launcher, "127.0.0.1", &[&ports[..], &["127.0.0.1:1".to_owned()]].concat());
        let authority = std::fs::read_to_string(&self.authority).unwrap();
        room.write("authority.pem", &authority);
        room
    }
}

/// What a command prints, and that it used a connection for it.
#[track_caller]
fn prints(room: &Room, command: &str, want: &str) {
    let ran = room.fenced(&format!("{TRUSTED}{command}"));
    assert!(ran.code == 0 && ran.stdout.contains(want), "{command}: {ran:?}");
    let connections = ran.json["connections"].as_array().unwrap();
    assert!(connections.iter().all(|one| one["host"] == "a.test"), "{command}: {connections:?}");
    assert!(!connections.is_empty(), "{command}: {ran:?}");
    // Some look at files that are not theirs; nobody is kept from a host.
    assert!(!ran.json["violations"].to_string().contains("network"), "{command}: {ran:?}");
}

#[test]
fn curl_wget_and_git_reach_a_host() {
    let host = Host::new();
    let (plain, secure) = (host.plain, host.secure);
    for launcher in LAUNCHERS {
        let room = host.room(launcher);
        prints(&room, &format!("curl -sS http://a.test:{plain}/x"), "page /x");
        prints(
            &room,
            &format!("curl -sS https://a.test:{secure}/x https://a.test:{secure}/y"),
            "page /xpage /y",
        );
        prints(&room, &format!("curl -sS --tcp-fastopen -d said https://a.test:{secure}/"), "echo said");
        prints(
            &room,
            &format!("head -c 3000000 /dev/zero | curl -sS -T - -X POST http://a.test:{plain}/ | wc -c"),
            "3000005",
        );
        prints(&room, &format!("wget -qO- http://a.test:{plain}/x"), "page /x");
        prints(
            &room,
            &format!("wget -qO- --ca-certificate=authority.pem https://a.test:{secure}/x"),
            "page /x",
        );
        let git = format!(
            "git clone -q https://a.test:{secure}/repository.git && cd repository && cat file && echo {0} > {0} && git add . &&
             git -c user.name=n -c user.email=n@example commit -qm {0} && git push -q origin HEAD:{0} && git fetch -q && git ls-remote origin {0}",
            launcher.name()
        );
        prints(&room, &git, "first");
        let pushed = Command::new("git")
            .arg("-C")
            .arg(&host.repository)
            .args(["log", "--format=%s", launcher.name()])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&pushed.stdout), format!("{}\nfirst\n", launcher.name()));
    }
}

#[test]
fn runtimes_reach_a_host() {
    let Some(tools) = tools() else { return };
    if !has("javac", &["--version"]) {
        return;
    }
    let host = Host::new();
    let (plain, secure) = (host.plain, host.secure);
    for launcher in LAUNCHERS {
        let mut room = host.room(launcher);
        tools.add_to(&mut room);
        room.write("Fetch.java", include_str!("../data/Fetch.java"));
        let url = format!("https://a.test:{secure}/x");
        prints(
            &room,
            &format!("node -e 'fetch(\"{url}\").then(r => r.text()).then(console.log)'"),
            "page /x",
        );
        prints(
            &room,
            &format!(
                "node -e 'require(\"http\").get(\"http://a.test:{plain}/x\", r => r.pipe(process.stdout))'"
            ),
            "page /x",
        );
        prints(
            &room,
            &format!("node -e 'require(\"https\").get(\"{url}\", r => r.pipe(process.stdout))'"),
            "page /x",
        );
        let python = tools.venv.join("bin/python").display().to_string();
        prints(
            &room,
            &format!("{python} -c 'import requests; print(requests.get(\"{url}\").text)'"),
            "page /x",
        );
        prints(&room, &format!("{python} -c 'import httpx; print(httpx.get(\"{url}\").text)'"), "page /x");
        let aiohttp = format!(
            "import aiohttp, asyncio\nasync def main():\n async with aiohttp.ClientSession() as s:\n  async with s.get(\"{url}\") as r: print(await r.text())\nasyncio.run(main())"
        );
        prints(&room, &format!("{python} -c '{aiohttp}'"), "page /x");
        prints(&room, &format!("javac Fetch.java && java Fetch http://a.test:{plain}/x"), "page /x");
    }
}

#[test]
fn git_reaches_a_host_by_ssh() {
    let Some(tools) = tools() else { return };
    let host = Host::new();
    for launcher in LAUNCHERS {
        let Some(server) = Sshd::new(&tools) else { return };
        let room =
            room(launcher, "127.0.0.1", &[format!("a.test:{}", server.port), "127.0.0.1:1".to_owned()]);
        let key = std::fs::read_to_string(server.place.path().join("client")).unwrap();
        let path = room.write("client", &key);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let text = format!(
            "export GIT_SSH_COMMAND='ssh -F none -i client -o IdentitiesOnly=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=known -p {}'
             git clone -q root@a.test:{} && cat repository/file",
            server.port,
            host.repository.display()
        );
        prints(&room, &text, "first");
    }
}

/// A real one, of this user's own, as far as it can be one.
struct Sshd {
    _child: Running,
    place: tempfile::TempDir,
    port: u16,
}

/// What it wants of a machine, in mounts of its own: a user, and an empty directory.
const SERVE: &str =
    "mount -t tmpfs none /run && mkdir /run/sshd && mount --bind passwd /etc/passwd && exec \"$@\"";

impl Sshd {
    fn new(tools: &Tools) -> Option<Self> {
        if !is_root() {
            // Users without a name cannot log in anywhere.
            if Command::new("id").arg("-un").output().is_ok_and(|said| !said.status.success()) {
                ringfence_testing::degraded("ssh", "a user without a name is nobody to it");
            }
            return None;
        }
        let place = tempfile::tempdir().unwrap();
        for key in ["host", "client"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(place.path().join(key))
                .status()
                .unwrap();
            assert!(made.success());
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let here = place.path().display();
        let text = format!(
            "ListenAddress 127.0.0.1\nPort {port}\nHostKey {here}/host\nAuthorizedKeysFile {here}/client.pub\nPidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin yes\n"
        );
        std::fs::write(place.path().join("config"), text).unwrap();
        let log = std::fs::File::create(place.path().join("log")).unwrap();
        let users = std::fs::read_to_string("/etc/passwd").unwrap();
        std::fs::write(
            place.path().join("passwd"),
            format!("{users}sshd:x:74:65534::/run/sshd:/usr/sbin/nologin\n"),
        )
        .unwrap();
        let child = Command::new("unshare")
            .args(["-m", "sh", "-c", SERVE, "sh"])
            .arg(tools.sshd())
            .args(["-D", "-e", "-f"])
            .arg(place.path().join("config"))
            .current_dir(place.path())
            .stderr(log)
            .spawn()
            .unwrap();
        let child = Running(child);
        let listens = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        assert!(
            wait_until(Duration::from_secs(20), listens),
            "{:?}",
            std::fs::read_to_string(place.path().join("log"))
        );
        Some(Self { _child: child, place, port })
    }
}

#[test]
fn a_database_of_this_machine_is_reached_by_its_port() {
    if !has("redis-server", &["--version"]) || !has("redis-cli", &["--version"]) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let child = Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--daemonize", "no"])
        .current_dir(place.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let _server = Running(child);
    let listens = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
    assert!(wait_until(Duration::from_secs(20), listens));
    for launcher in LAUNCHERS {
        let room = Room::on(launcher);
        let command = format!("redis-cli -p {port} set key value; redis-cli -h localhost -p {port} get key");
        let refused = room.fenced(&command);
        assert!(!refused.stdout.contains("OK"), "{refused:?}");
        let ran = room.fenced_with(&["--allow-host", &format!("host-port:{port}")], &command);
        assert_eq!(ran.stdout, "OK\nvalue\n", "{ran:?}");
    }
}
