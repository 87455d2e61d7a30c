//! Hosts whose requests are looked into: what a rule says passes, nothing else does, and a credential that is put in
//! outside is never inside.
//!
//! The host is one of the test's own on loopback, with a certificate of an authority that only this person trusts. It
//! gives away whatever it is told.

use std::io::BufRead as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::suite::fence_network;
use crate::suite::fence_support::{Fenced, Launcher, for_every_launcher};
#[cfg(feature = "mcp")]
use crate::suite::mcp::{Agent, call};
use crate::suite::support::Room;

const HOST: &str = include_str!("../data/inspected_host.js");
const PROGRAM: &str = include_str!("../data/inspected.py");
/// What only the host may hear.
const SECRET: &str = "ghp_kZ8vQ2mN5xR7tY1wE4uI9oP3aS6dF0gH2jK4";
/// In every spelling it is known by this.
const PART: &str = "kZ8vQ2mN5xR7tY1wE4uI9oP3";

for_every_launcher! {
    programs_that_know_nothing_of_it_are_served,
    other_requests_are_refused_by_their_rule,
    no_spelling_of_a_path_or_request_is_a_way_around,
    a_credential_never_comes_back,
    a_credential_is_put_in_for_its_own_host_alone,
    git_fetches_and_does_not_push,
    what_is_long_or_goes_both_ways_passes,
    the_authority_is_for_inspected_hosts_alone,
}

/// A host on loopback, `a.test` and `b.test`.
struct Site {
    directory: tempfile::TempDir,
    server: Child,
    port: u16,
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
    fn new() -> Self {
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

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// What was said to it: the version, method, host, path and credential of each request.
    fn heard(&self) -> String {
        std::fs::read_to_string(self.file("heard")).unwrap_or_default()
    }

    /// The rules of most tests.
    fn rules(&self) -> serde_json::Value {
        let port = self.port;
        json!([
            { "host": "a.test", "port": port, "methods": ["GET"], "paths": ["/v1/**"],
              "credential": { "header": "Authorization", "value": "Bearer $A_TOKEN" } },
            { "host": "a.test", "port": port, "methods": ["PUT"], "paths": ["/up/*"] },
            format!("b.test:{port}"),
            // What both names lead to has to be named.
            "127.0.0.1:1",
        ])
    }

    fn room(&self, launcher: Launcher, rules: &serde_json::Value) -> Room {
        let mut room = fence_network::room(launcher, "127.0.0.1", &[]);
        room.env.push(("A_TOKEN".to_owned(), SECRET.to_owned()));
        room.env.push(("SSL_CERT_FILE".to_owned(), self.file("ca.pem").display().to_string()));
        room.configure(&json!({ "allowedHosts": rules }).to_string());
        room.write("inspected.py", PROGRAM);
        room
    }

    /// Whether there is a way out by name here; else that it is said, and that nothing gets out.
    fn is_reached(&self, room: &Room) -> bool {
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

    fn curl(&self, room: &Room, options: &str, host: &str, path: &str) -> Fenced {
        let address = format!("https://{host}:{}{path}", self.port);
        let ran = room.fenced(&format!("curl -sS -i -m 30 --path-as-is {options} '{address}'"));
        assert!(!ran.json.to_string().contains(PART), "{ran:?}");
        ran
    }

    /// Says texts inside of TLS to `a.test`, which is asked for by that name.
    fn say(&self, room: &Room, name: &str, texts: &[&str]) -> Fenced {
        let texts: String =
            texts.iter().map(|text| format!(" '{}'", text.replace("PORT", &self.port.to_string()))).collect();
        let ran = room.fenced(&format!("python3 inspected.py a.test {} {name}{texts}", self.port));
        assert!(!ran.json.to_string().contains(PART), "{ran:?}");
        ran
    }
}

/// What was refused of the network; runtimes look at other things too.
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

fn no_spelling_of_a_path_or_request_is_a_way_around(launcher: Launcher) {
    let site = Site::new();
    let room = site.room(launcher, &site.rules());
    if !site.is_reached(&room) {
        return;
    }
    let before = site.heard();
    for path in [
        "/v1/../v2",
        "/v1/%2e%2e/v2",
        "/v1/.%2E/v2",
        "/v1//../v2",
        "/v1//x",
        "/v1%2f..%2fv2",
        "/v1/..;/v2",
        "//v1/x",
        "/V1/x",
    ] {
        for version in ["--http1.1", "--http2"] {
            let ran = site.curl(&room, version, "a.test", path);
            assert!(ran.stdout.contains(" 403") && ran.resources().len() == 1, "{path}: {ran:?}");
        }
    }
    let smuggled = "DELETE /v2/smuggled HTTP/1.1\\r\\nHost: a.test:PORT\\r\\n\\r\\n";
    let get = "GET /v1/x HTTP/1.1\\r\\n";
    let put = "PUT /up/x HTTP/1.1\\r\\nHost: a.test:PORT\\r\\n";
    for text in [
        // Another host, by each of the ways to name it.
        format!("{get}Host: b.test:PORT\\r\\n\\r\\n"),
        format!("{get}Host: a.test:PORT\\r\\nHost: b.test:PORT\\r\\n\\r\\n"),
        "GET https://b.test:PORT/v1/x HTTP/1.1\\r\\nHost: a.test:PORT\\r\\n\\r\\n".to_owned(),
        "CONNECT b.test:PORT HTTP/1.1\\r\\nHost: b.test:PORT\\r\\n\\r\\n".to_owned(),
        // Another protocol.
        "PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n".to_owned(),
        "SSH-2.0-x\\r\\n".to_owned(),
    ] {
        let ran = site.say(&room, "a.test", &[&text]);
        assert!(!ran.stdout.contains("HTTP/1.1 200"), "{text}: {ran:?}");
    }
    assert_eq!(site.heard(), before, "nothing of it arrived");
    // A length that is said twice, and one that is hidden: what is read differently is not passed on as it is.
    for text in [
        format!("{put}Content-Length: 4\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n{smuggled}"),
        format!(
            "{put}Transfer-Encoding: chunked\\r\\nTransfer-Encoding: identity\\r\\n\\r\\n0\\r\\n\\r\\n{smuggled}"
        ),
        format!("{put}Content-Length: 0\\r\\nContent-Length: 70\\r\\n\\r\\n{smuggled}"),
        format!("{put}Transfer-Encoding : chunked\\r\\nContent-Length: 0\\r\\n\\r\\n{smuggled}"),
        format!("{put}X: y\\r\\n Transfer-Encoding: chunked\\r\\nContent-Length: 0\\r\\n\\r\\n{smuggled}"),
    ] {
        let ran = site.say(&room, "a.test", &[&text]);
        assert!(!site.heard().contains("smuggled"), "{text}: {ran:?}");
    }

    // Whoever asks to go on in HTTP/2 is answered in what it is.
    let upgrade =
        "Connection: Upgrade, HTTP2-Settings\\r\\nUpgrade: h2c\\r\\nHTTP2-Settings: AAMAAABkAAQAAP__\\r\\n";
    let ran = site.say(&room, "a.test", &[&format!("{get}Host: a.test:PORT\\r\\n{upgrade}\\r\\n")]);
    assert!(ran.stdout.contains("HTTP/1.1 200") && !site.heard().contains("upgrade"), "{ran:?}");
    // TLS that asks for another host is none.
    let ran = site.say(&room, "b.test", &[&format!("{get}Host: b.test:PORT\\r\\n\\r\\n")]);
    assert!(ran.stdout.contains("failed") && ran.resources() == ["b.test"], "{ran:?}");
    assert!(!site.heard().contains("b.test"), "{}", site.heard());
}

fn a_credential_never_comes_back(launcher: Launcher) {
    let site = Site::new();
    let room = site.room(launcher, &site.rules());
    if !site.is_reached(&room) {
        return;
    }
    for version in ["--http1.1", "--http2"] {
        for kind in ["redirect", "reason", "name", "slowly", "compressed", "part", "trailers", "x"] {
            // It is looked for in all that is printed.
            let ran =
                site.curl(&room, &format!("{version} --compressed -r 2-9"), "a.test", &format!("/v1/{kind}"));
            assert!(ran.stdout.starts_with("HTTP/"), "{kind}: {ran:?}");
            assert!(!ran.stdout.contains(&SECRET[2..10]), "{kind}: {ran:?}");
            if kind == "compressed" {
                assert!(ran.stdout.contains(" 502"), "{ran:?}");
            }
        }
    }
    let ran = site.curl(&room, "-L", "a.test", "/v1/redirect");
    let heard = site.heard();
    let caught = heard.lines().filter(|line| line.contains("/caught")).collect::<Vec<_>>();
    assert!(caught.len() == 1 && !caught[0].contains(PART), "{caught:?}: {ran:?}");
    // What stands for it came back in its place.
    let ran =
        room.fenced(&format!("test \"$(curl -sS https://a.test:{}/v1/part)\" = \"$A_TOKEN\"", site.port));
    assert_eq!(ran.code, 0, "{ran:?}");

    // Nobody else has it either.
    for arguments in [
        &["log", "--network", "--json"][..],
        &["log", "--json"],
        &["config", "show"],
        &["config", "show", "--json"],
        &["explain", "--json", "a.test:443"],
    ] {
        let ran = room.run(arguments);
        assert!(!format!("{ran:?}").contains(PART), "{arguments:?}: {ran:?}");
    }
    for file in walk(&room.ringfence_home) {
        let text = std::fs::read(&file).unwrap();
        assert!(!text.windows(PART.len()).any(|part| part == PART.as_bytes()), "{}", file.display());
    }
}

fn walk(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

fn a_credential_is_put_in_for_its_own_host_alone(launcher: Launcher) {
    let site = Site::new();
    let mut rules = site.rules();
    let file = site.file("key");
    std::fs::write(&file, "another-one-that-is-secret\n").unwrap();
    let more = json!({ "host": "a.test", "port": site.port, "paths": ["/keys/*"],
        "credential": { "header": "X-Key", "command": ["cat", file], "variable": "KEY" } });
    rules.as_array_mut().unwrap().push(more);
    let mut room = site.room(launcher, &rules);
    // The same by another name, which somebody lets in.
    room.env.push(("OTHER".to_owned(), format!("x{SECRET}y")));
    if !site.is_reached(&room) {
        return;
    }
    let options = ["--env", "OTHER", "--env", "A_TOKEN"];
    let ran = room.fenced_with(&options, "env; cat /proc/*/environ | tr '\\0' '\\n'");
    assert!(!ran.json.to_string().contains(PART) && !ran.stdout.contains("another-one"), "{ran:?}");
    assert!(
        ran.stdout.contains("A_TOKEN=ghp_ringfence") && ran.stdout.contains("OTHER=xghp_ringfence"),
        "{ran:?}"
    );
    assert!(ran.stdout.contains("KEY=ringfence"), "{ran:?}");

    site.curl(&room, "-H \"Authorization: token $A_TOKEN\"", "a.test", "/v1/own");
    site.curl(&room, "-H \"Authorization: Bearer $A_TOKEN\"", "b.test", "/v1/other");
    site.curl(&room, "-T inspected.py -H \"Authorization: Bearer $A_TOKEN\"", "a.test", "/up/x");
    site.curl(&room, "-H \"X-Key: $KEY\"", "a.test", "/keys/x");
    site.curl(&room, "-H \"X-Key: $KEY\"", "a.test", "/v1/keyless");
    let heard = site.heard();
    let line = |path: &str| heard.lines().find(|line| line.contains(path)).unwrap();
    assert!(line("/v1/own").contains(&format!("| token {SECRET} |")), "{heard}");
    assert!(
        line("/v1/other").contains("| b.test:") && line("/v1/other").contains("Bearer ghp_ringfence"),
        "{heard}"
    );
    assert!(line("/up/x").contains("Bearer ghp_ringfence"), "{heard}");
    assert!(line("/keys/x").ends_with("|  | another-one-that-is-secret"), "{heard}");
    assert!(line("/v1/keyless").contains("| ringfence"), "{heard}");
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

fn the_authority_is_for_inspected_hosts_alone(launcher: Launcher) {
    let site = Site::new();
    let room = site.room(launcher, &site.rules());
    if !site.is_reached(&room) {
        return;
    }
    let issuer = |host: &str| {
        let line = format!(
            "openssl s_client -connect {host}:{} -servername {host} -verify_return_error </dev/null 2>&1 | grep -i issuer=",
            site.port
        );
        let ran = room.fenced(&line);
        ran.stdout
    };
    assert!(issuer("a.test").contains("Ringfence, for one sandbox"), "{}", issuer("a.test"));
    assert!(issuer("b.test").contains("authority-of-the-test"), "{}", issuer("b.test"));
    // Its certificate is there; its key is not, and neither is anybody who could sign with it.
    let ran = room.fenced(
        "grep -c BEGIN.CERT $SSL_CERT_FILE; grep -l 'PRIVATE KEY' -r /run /tmp \"$HOME\" 2>/dev/null; \
         echo x >> $SSL_CERT_FILE || rm -f $SSL_CERT_FILE || echo fixed",
    );
    assert_eq!(ran.stdout, "2\nfixed\n", "{ran:?}");
    let one = room.fenced("tail -n 8 $SSL_CERT_FILE | sha256sum").stdout;
    assert_ne!(one, room.fenced("tail -n 8 $SSL_CERT_FILE | sha256sum").stdout, "each sandbox has its own");
    // Where nothing is inspected there is none.
    room.configure(&json!({ "allowedHosts": [format!("b.test:{}", site.port), "127.0.0.1:1"] }).to_string());
    let ran = room.fenced("echo ${SSL_CERT_FILE-none} $(ls /run)");
    assert_eq!(ran.stdout, "none\n", "{ran:?}");
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
