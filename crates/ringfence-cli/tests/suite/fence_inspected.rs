//! Hosts whose requests are looked into: what a rule says passes, nothing else does, and a credential that is put in
//! outside is never inside.
//!
//! The host is one of the test's own on loopback, with a certificate of an authority that only this person trusts. It
//! gives away whatever it is told.

use std::io::BufRead as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::suite::fence_network_support;
use crate::suite::fence_support::{Fenced, Launcher, for_every_launcher};
#[cfg(feature = "mcp")]
use crate::suite::mcp::{Agent, call};
use crate::suite::support::Room;

const HOST: &str = include_str!("../data/inspected_host.js");
const PROGRAM: &str = include_str!("../data/inspected.py");
/// The secret, which only the host may hear.
pub(crate) const SECRET: &str = "ghp_kZ8vQ2mN5xR7tY1wE4uI9oP3aS6dF0gH2jK4";
/// In every spelling it is known by this.
pub(crate) const PART: &str = "kZ8vQ2mN5xR7tY1wE4uI9oP3";

for_every_launcher! {
    programs_that_know_nothing_of_it_are_served,
    other_requests_are_refused_by_their_rule,
    git_fetches_and_does_not_push,
    what_is_long_or_goes_both_ways_passes,
}

/// A host on loopback, `a.test` and `b.test`.
pub(crate) struct Site {
    directory: tempfile::TempDir,
    server: Child,
    pub(crate) port: u16,
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn openssl(directory: &Path, words: &str) {
    let ran = Command::new("openssl").args(words.split(' ')).current_dir(directory).output().unwrap();
    assert!(ran.status.success(), "openssl {words}: {ran:?}");
}

/// Makes `cert.pem` and `key.pem` of a host with these names, and `ca.pem`, whom it is to be trusted by.
pub(crate) fn certify(at: &Path, names: &[&str]) {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(
        at,
        &format!("req -x509 {key} -keyout ca.key -out ca.pem -days 2 -subj /CN=authority-of-the-test"),
    );
    openssl(at, &format!("req {key} -keyout key.pem -out request.pem -subj /CN=host"));
    let names: Vec<String> = names.iter().map(|name| format!("DNS:{name}")).collect();
    std::fs::write(at.join("names"), format!("subjectAltName={}\n", names.join(","))).unwrap();
    openssl(
        at,
        "x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out cert.pem",
    );
}

impl Site {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        certify(at, &["a.test", "b.test"]);
        std::fs::write(at.join("host.js"), HOST).unwrap();
        let mut server = Command::new("node");
        server.arg("host.js").arg(at).current_dir(at).env_remove("NODE_EXTRA_CA_CERTS");
        let mut server = server.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        std::io::BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().parse().unwrap();
        Self { directory, server, port }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The requests that it heard: the version, method, host, path and credential of each request.
    pub(crate) fn heard(&self) -> String {
        std::fs::read_to_string(self.file("heard")).unwrap_or_default()
    }

    /// The rules of most tests.
    pub(crate) fn rules(&self) -> serde_json::Value {
        let port = self.port;
        json!([
            { "host": "a.test", "port": port, "methods": ["GET"], "paths": ["/v1/**"],
              "credential": { "header": "Authorization", "value": "Bearer $A_TOKEN" } },
            { "host": "a.test", "port": port, "methods": ["PUT"], "paths": ["/up/*"] },
            format!("b.test:{port}"),
            // A rule has to name the loopback address that both names lead to.
            "127.0.0.1:1",
        ])
    }

    pub(crate) fn room(&self, launcher: Launcher, rules: &serde_json::Value) -> Room {
        let mut room = fence_network_support::room(launcher, "127.0.0.1", &[]);
        room.env.push(("A_TOKEN".to_owned(), SECRET.to_owned()));
        room.env.push(("SSL_CERT_FILE".to_owned(), self.file("ca.pem").display().to_string()));
        room.configure(&json!({ "allowedHosts": rules }).to_string());
        room.write("inspected.py", PROGRAM);
        room
    }

    /// Whether there is a way out by name here; else that it is said, and that nothing gets out.
    pub(crate) fn is_reached(&self, room: &Room) -> bool {
        let ran =
            room.fenced(&format!("curl -sS -m 30 https://a.test:{}/v1/first; echo $A_TOKEN", self.port));
        assert!(!ran.json.to_string().contains(PART), "{ran:?}");
        if ran.promises("noWayOut") {
            assert!(ran.stdout.contains("\"method\":\"GET\""), "{ran:?}");
            return true;
        }
        assert!(ran.code == 0 && self.heard().is_empty(), "{ran:?}");
        false
    }

    pub(crate) fn curl(&self, room: &Room, options: &str, host: &str, path: &str) -> Fenced {
        let address = format!("https://{host}:{}{path}", self.port);
        let ran = room.fenced(&format!("curl -sS -i -m 30 --path-as-is {options} '{address}'"));
        assert!(!ran.json.to_string().contains(PART), "{ran:?}");
        ran
    }

    /// Says texts inside of TLS to `a.test`, which is asked for by that name.
    pub(crate) fn say(&self, room: &Room, name: &str, texts: &[&str]) -> Fenced {
        let texts: String =
            texts.iter().map(|text| format!(" '{}'", text.replace("PORT", &self.port.to_string()))).collect();
        let ran = room.fenced(&format!("python3 inspected.py a.test {} {name}{texts}", self.port));
        assert!(!ran.json.to_string().contains(PART), "{ran:?}");
        ran
    }
}

/// Refusals of the network; runtimes look at other things too.
fn refused_requests(ran: &Fenced) -> Vec<&str> {
    ran.resources().into_iter().filter(|resource| resource.contains(".test")).collect()
}

const JAVA: &str = r#"
import java.net.URI; import java.net.http.*;
class Get { public static void main(String[] a) throws Exception {
  var request = HttpRequest.newBuilder(URI.create(a[0])).build();
  System.out.println(HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).body());
} }
"#;

fn programs_that_know_nothing_of_it_are_served(launcher: Launcher) {
    let site = Site::new();
    let room = site.room(launcher, &site.rules());
    if !site.is_reached(&room) {
        return;
    }
    room.write("Get.java", JAVA);
    let requests = "import sys, requests; print(requests.get(sys.argv[1]).text)";
    let urllib = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode())";
    let fetch = "fetch(process.argv[1]).then((answer) => answer.text()).then(console.log)";
    for (program, probe, line) in [
        ("curl", "curl --version", "curl -sS -m 30 --http1.1 ADDRESS".to_owned()),
        ("curl", "curl --version", "curl -sS -m 30 --http2 ADDRESS".to_owned()),
        ("python3", "python3 -c ''", format!("python3 -c '{urllib}' ADDRESS")),
        ("requests", "python3 -c 'import requests'", format!("python3 -c '{requests}' ADDRESS")),
        ("node", "node --version", format!("node -e '{fetch}' ADDRESS")),
        ("java", "java --version", "java -XX:TieredStopAtLevel=1 Get.java ADDRESS".to_owned()),
        ("wget", "wget --version", "wget -qO- ADDRESS".to_owned()),
    ] {
        let there = room.fenced(probe);
        if there.code != 0 {
            ringfence_testing::lacks(program, &there.stderr);
            continue;
        }
        let path = format!("/v1/{program}");
        let ran = room.fenced(&line.replace("ADDRESS", &format!("https://a.test:{}{path}", site.port)));
        assert!(ran.code == 0 && ran.stdout.contains("\"method\":\"GET\""), "{program}: {ran:?}");
        assert!(
            !ran.json.to_string().contains(PART) && refused_requests(&ran).is_empty(),
            "{program}: {ran:?}"
        );
        let said = format!("| GET | a.test:{} | {path} | Bearer {SECRET} |", site.port);
        assert!(site.heard().contains(&said), "{program}: {}", site.heard());
    }
    assert!(site.heard().contains("2.0 | GET") && site.heard().contains("1.1 | GET"), "{}", site.heard());
}

fn other_requests_are_refused_by_their_rule(launcher: Launcher) {
    let site = Site::new();
    let room = site.room(launcher, &site.rules());
    if !site.is_reached(&room) {
        return;
    }
    let before = site.heard();
    for (options, path, asked) in [
        ("-X POST -d x", "/v1/x", "POST"),
        ("-X DELETE", "/v1/x", "DELETE"),
        ("--http1.1", "/v2/x?k=/v1/x", "GET"),
        ("--http2", "/v2/x?k=/v1/x", "GET"),
        ("-T inspected.py", "/up/a/b", "PUT"),
    ] {
        let ran = site.curl(&room, options, "a.test", path);
        let path = path.split('?').next().unwrap();
        let resource = format!("{asked} https://a.test:{}{path}", site.port);
        assert!(ran.stdout.contains(" 403"), "{ran:?}");
        let text =
            format!("GET of /v1/** by `a.test:{port}`; PUT of /up/* by `a.test:{port}`", port = site.port);
        assert!(ran.stdout.contains(&format!("ringfence: {resource} is not among")), "{ran:?}");
        assert!(ran.stdout.contains(&text), "{ran:?}");
        assert_eq!(ran.resources(), [resource], "{ran:?}");
        let violation = &ran.json["violations"][0];
        assert_eq!(violation["rule"], format!("a.test:{}", site.port), "{violation}");
        assert!(violation["ruleSource"]["file"].to_string().contains("sandbox.json"), "{violation}");
    }
    assert_eq!(site.heard(), before, "nothing of it arrived");
}

fn git_fetches_and_does_not_push(launcher: Launcher) {
    let site = Site::new();
    let rules = json!([
        { "host": "a.test", "port": site.port, "methods": ["GET"] },
        { "host": "a.test", "port": site.port, "methods": ["POST"], "paths": ["/**/git-upload-pack"] },
        "127.0.0.1:1",
    ]);
    let room = site.room(launcher, &rules);
    if !site.is_reached(&room) {
        return;
    }
    let git = |words: &str| {
        let mut git = Command::new("git");
        let identity = ["-c", "user.name=x", "-c", "user.email=x@y", "-c", "init.defaultBranch=main"];
        let ran =
            git.args(identity).args(words.split(' ')).current_dir(site.directory.path()).output().unwrap();
        assert!(ran.status.success(), "git {words}: {ran:?}");
    };
    git("init -q --bare git/own.git");
    git("init -q work");
    std::fs::write(site.file("work/file"), "content\n").unwrap();
    git("-C work add file");
    git("-C work commit -q -m first");
    git("-C work push -q ../git/own.git HEAD:main");
    let address = format!("https://a.test:{}/git/own.git", site.port);
    let ran = room.fenced(&format!("git clone -q {address} got && cat got/file"));
    assert!(ran.code == 0 && ran.stdout == "content\n", "{ran:?}");
    let ran = room.fenced(
        "cd got && git -c user.name=x -c user.email=x@y commit -q --allow-empty -m more && git push -q origin HEAD:more",
    );
    assert!(ran.code != 0 && ran.stderr.contains("403"), "{ran:?}");
    let refused = format!("POST {address}/git-receive-pack");
    assert!(ran.resources().contains(&refused.as_str()), "{ran:?}");
    assert!(!site.file("git/own.git/refs/heads/more").exists());
}

fn what_is_long_or_goes_both_ways_passes(launcher: Launcher) {
    let site = Site::new();
    let room = site.room(launcher, &site.rules());
    if !site.is_reached(&room) {
        return;
    }
    const MUCH: usize = 32 << 20;
    for options in ["--http1.1", "--http1.1 -H 'Transfer-Encoding: chunked'", "--http2"] {
        let address = format!("https://a.test:{}/up/much", site.port);
        let ran =
            room.fenced(&format!("head -c {MUCH} /dev/zero | curl -sS -m 120 {options} -T - {address}"));
        assert!(ran.stdout.contains(&format!("\"size\":{MUCH}")), "{options}: {ran:?}");
    }
    let ran = site.curl(&room, "--http2", "a.test", "/v1/trailers");
    assert!(ran.stdout.contains("body\n") && ran.stdout.contains("grpc-status: 0"), "{ran:?}");

    let wanted = "GET /v1/socket HTTP/1.1\\r\\nHost: a.test:PORT\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n\\r\\n";
    let ran = site.say(&room, "a.test", &[wanted, "said both ways."]);
    assert!(ran.stdout.contains("101 Switching") && ran.stdout.ends_with("said both ways."), "{ran:?}");
    let said = format!("upgrade | websocket | a.test:{} | /v1/socket | Bearer {SECRET}", site.port);
    assert!(site.heard().contains(&said), "{}", site.heard());
}

#[test]
fn a_session_and_a_reader_of_three_lines_have_it_too() {
    let site = Site::new();
    let rules = json!([{ "host": "a.test", "port": site.port, "methods": ["GET"] }, "127.0.0.1:1"]);
    let room = site.room(Launcher::Native, &rules);
    if !site.is_reached(&room) {
        return;
    }
    let address = format!("https://a.test:{}/x", site.port);
    let command = |text: &str| json!({ "id": text, "command": text }).to_string() + "\n";
    let lines = command(&format!("curl -sS {address}")) + &command(&format!("curl -sS -d x {address}"));
    let answers = room.session(&lines);
    let text = serde_json::to_string(&answers).unwrap();
    assert!(text.contains("\\\"method\\\":\\\"GET\\\""), "{text}");
    assert!(text.contains(&format!("POST {address} is not among the requests")), "{text}");
    let explained = room.run(&["explain", &format!("a.test:{}", site.port)]).expect(0).stdout;
    assert!(explained.contains("looked into, passes: GET (`a.test:"), "{explained}");
}

#[test]
fn a_credential_that_is_not_there_is_said_before_anything_runs() {
    let mut room = Room::new();
    let file = room.home.join("project/secret-key");
    std::fs::write(&file, "the-secret-of-a-file\n").unwrap();
    let rule = |credential: serde_json::Value| {
        json!({ "allowedHosts": [{ "host": "a.test", "credential": credential }] }).to_string()
    };
    room.configure(&rule(json!({ "header": "A", "value": "Bearer $MISSING_TOKEN" })));
    let ran = room.run(&["run", "--no-gate", "-c", "touch ran"]);
    assert!(ran.code != 0 && !room.project.join("ran").exists(), "{ran:?}");
    assert!(
        ran.stderr.contains("the credential for `a.test`") && ran.stderr.contains("sandbox.json:1"),
        "{ran:?}"
    );
    assert!(ran.stderr.contains("the variable MISSING_TOKEN is not set"), "{ran:?}");

    // A file that holds one is nobody's inside, wherever it is.
    room.configure(&rule(json!({ "header": "A", "file": file, "variable": "KEY" })));
    if !room.has_fence() {
        return;
    }
    room.launcher = "auto";
    let ran = room.fenced("cat secret-key; echo $KEY");
    assert!(!ran.stdout.contains("the-secret") && ran.stdout.starts_with("ringfence"), "{ran:?}");
    assert!(ran.resources().contains(&file.to_str().unwrap()), "{ran:?}");
}

#[cfg(feature = "mcp")]
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_of_the_protocol_is_told_what_passes_and_has_no_credential() {
    let site = Site::new();
    let room = site.room(Launcher::Native, &site.rules());
    if !site.is_reached(&room) {
        return;
    }
    let client = Agent::default().connect(&room).await;
    let line = format!("env; curl -sS https://a.test:{port}/v1/x https://a.test:{port}/v2", port = site.port);
    let ran = call(&client, "bash", json!({ "command": line })).await.to_string();
    assert!(ran.contains("\\\"method\\\":\\\"GET\\\"") && ran.contains("/v2 is not among"), "{ran}");
    let status = call(&client, "sandbox_status", json!({})).await.to_string();
    assert!(status.contains(&format!("a.test:{} (GET of /v1/**)", site.port)), "{status}");
    assert!(!ran.contains(PART) && !status.contains(PART), "{ran} {status}");
    assert!(site.heard().contains(&format!("/v1/x | Bearer {SECRET}")), "{}", site.heard());
    client.cancel().await.unwrap();
}
