//! The same server by streamable HTTP: who is let in, and that sessions do not hear each other.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rmcp::service::RunningService;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{RoleClient, ServiceExt as _};
use serde_json::{Value, json};

use super::mcp::{Agent, call, mark, says, wait_for_process};
use super::support::Room;

pub(crate) const TOKEN: &str = "0123456789abcdef-of-the-tests";

/// A server that ends with its test.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) address: String,
}

impl Server {
    pub(crate) fn start(room: &Room) -> Self {
        Self::with(room, &[])
    }

    fn with(room: &Room, more: &[&str]) -> Self {
        let file = room.write(room.home.join("token"), TOKEN);
        let mut arguments = vec!["mcp", "--http", "127.0.0.1:0", "--token-file", file.to_str().unwrap()];
        arguments.extend(more);
        let mut child = room.command(&arguments).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = lines.find_map(|line| line.ok().filter(|line| line.contains("listening"))).unwrap();
        // Whatever else it says is read, so that it never waits.
        std::thread::spawn(move || lines.for_each(drop));
        let address = line.rsplit_once("http://").unwrap().1.trim_end_matches("/mcp").to_owned();
        Self { child, address }
    }

    async fn connect(&self, agent: &Agent) -> RunningService<RoleClient, Agent> {
        let uri = format!("http://{}/mcp", self.address);
        let config = StreamableHttpClientTransportConfig::with_uri(uri).auth_header(TOKEN);
        agent.clone().serve(StreamableHttpClientTransport::from_config(config)).await.unwrap()
    }

    /// Sends a request and waits for nothing.
    fn post(&self, path: &str, headers: &[&str], body: &Value) -> TcpStream {
        let body = body.to_string();
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let mut request = format!(
            "POST {path} HTTP/1.1\r\nContent-Type: application/json\r\nConnection: close\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n",
            body.len()
        );
        if !headers.iter().any(|header| header.starts_with("Host:")) {
            request.push_str(&format!("Host: {}\r\n", self.address));
        }
        for header in headers {
            request.push_str(&format!("{header}\r\n"));
        }
        stream.write_all(format!("{request}\r\n{body}").as_bytes()).unwrap();
        stream
    }

    /// The status line of the reply to a first request with these headers.
    fn knock(&self, path: &str, headers: &[&str]) -> String {
        let mut reply = [0; 12];
        self.post(path, headers, &hello()).read_exact(&mut reply).unwrap();
        String::from_utf8_lossy(&reply[9..]).into_owned()
    }
}

fn hello() -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } })
}

/// A client that holds no connection but for its requests, and says nothing when it goes.
pub(crate) struct Careless<'a> {
    server: &'a Server,
    headers: [String; 2],
}

impl<'a> Careless<'a> {
    pub(crate) fn new(server: &'a Server) -> Self {
        let token = format!("Authorization: Bearer {TOKEN}");
        let mut reply = String::new();
        server.post("/mcp", &[&token], &hello()).read_to_string(&mut reply).unwrap();
        let session = reply.lines().find(|line| line.to_ascii_lowercase().starts_with("mcp-session-id:"));
        let headers = [token, session.unwrap().to_owned()];
        let client = Self { server, headers };
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        client.post(&ready).read_to_string(&mut reply).unwrap();
        client
    }

    fn post(&self, body: &Value) -> TcpStream {
        self.server.post("/mcp", &[&self.headers[0], &self.headers[1]], body)
    }

    /// Lets a command run, and does not wait for it.
    pub(crate) fn bash(&self, command: &str) -> TcpStream {
        self.post(&json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
            "name": "bash", "arguments": { "command": command } } }))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn only_the_token_opens_and_no_page_of_a_browser_gets_in() {
    let room = Room::new();
    let server = Server::start(&room);
    let token = format!("Authorization: Bearer {TOKEN}");
    assert_eq!(server.knock("/mcp", &[&token]), "200");
    assert_eq!(server.knock("/mcp", &[]), "401");
    assert_eq!(server.knock("/mcp", &["Authorization: Bearer wrong"]), "401");
    assert_eq!(server.knock("/other", &[&token]), "404");
    assert_eq!(server.knock("/mcp", &[&token, "Origin: http://evil.example"]), "403");
    assert_eq!(server.knock("/mcp", &[&token, "Host: evil.example"]), "403");
    let both = ["Host: evil.example", "Origin: http://evil.example"];
    assert_eq!(server.knock("/mcp", &[&token, both[0], both[1]]), "403");
    let own = format!("Origin: http://{}", server.address);
    assert_eq!(server.knock("/mcp", &[&token, &own]), "200");
    let weak = room.write(room.home.join("weak"), "short");
    room.run(&["mcp", "--http", "127.0.0.1:0", "--token-file", weak.to_str().unwrap()]).expect(2);
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_sessions_have_fifty_shells() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    let server = std::sync::Arc::new(Server::start(&room));
    let mut sessions = tokio::task::JoinSet::new();
    for number in 0..50 {
        let server = std::sync::Arc::clone(&server);
        sessions.spawn(async move {
            let client = server.connect(&Agent::default()).await;
            let set = format!("NAME={number}; mkdir -p d{number}; cd d{number}");
            call(&client, "bash", json!({ "command": set })).await;
            let said = call(&client, "bash", json!({ "command": "echo $NAME ${PWD##*/}" })).await;
            (number, said["stdout"].clone(), client)
        });
    }
    let mut clients = vec![];
    while let Some(done) = sessions.join_next().await {
        let (number, said, client) = done.unwrap();
        assert_eq!(said, format!("{number} d{number}\n"));
        clients.push((number, client));
    }
    assert_eq!(clients.len(), 50);
    // All at once are still who they were.
    for (number, client) in &clients {
        let said = call(client, "bash", json!({ "command": "echo $NAME" })).await;
        assert_eq!(said["stdout"], format!("{number}\n"));
    }
    let mark = mark(&room.home);
    for (_, client) in &clients {
        call(client, "bash", json!({ "command": format!("sleep {mark} &") })).await;
    }
    for (_, client) in clients {
        client.cancel().await.unwrap();
    }
    // The server stays, and holds nothing of those who left.
    tokio::task::spawn_blocking(move || wait_for_process(&mark, false)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_reach_the_session_that_asked() {
    let room = Room::new();
    room.write(room.home.join(".ssh/config"), "Host treasure\n");
    if !room.has_fence() {
        return;
    }
    let server = Server::start(&room);
    let (yes, no) =
        (Agent::with_person(vec![says("once")]), Agent::with_person(vec![says("never heard of")]));
    let (first, second) = (server.connect(&yes).await, server.connect(&no).await);
    let look = || json!({ "command": "cat ~/.ssh/config" });
    let (allowed, refused) = tokio::join!(call(&first, "bash", look()), call(&second, "bash", look()));
    assert_eq!(allowed["stdout"], "Host treasure\n", "{allowed}");
    assert_eq!(refused["errorKind"], "approval_denied", "{refused}");
    first.cancel().await.unwrap();
    second.cancel().await.unwrap();
}

/// A command that leaves a process behind, and is over when that is there.
fn lasting(mark: &str) -> String {
    format!("sleep {mark} & until grep -qa {mark} /proc/$!/cmdline; do sleep 0.01; done")
}

#[test]
fn a_client_that_vanished_leaves_nothing_behind() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    let server = Server::with(&room, &["--idle", "1"]);
    let mark = mark(&room.home);
    let client = Careless::new(&server);
    let mut reply = String::new();
    client.bash(&format!("{}; echo started", lasting(&mark))).read_to_string(&mut reply).unwrap();
    assert!(reply.contains("started"), "{reply}");
    wait_for_process(&mark, false);
    // Who comes back is told to begin anew.
    let mut reply = String::new();
    client.bash("true").read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 404"), "{reply}");
}

#[test]
fn a_command_that_runs_keeps_its_session_and_no_longer() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    let server = Server::with(&room, &["--idle", "1"]);
    let mark = mark(&room.home);
    let client = Careless::new(&server);
    let work = format!("{}; touch begun.txt; sleep 10; echo all of it > kept.txt", lasting(&mark));
    let gone = client.bash(&work);
    let deadline = Instant::now() + Duration::from_secs(30);
    while !room.project.join("begun.txt").exists() {
        assert!(Instant::now() < deadline, "it did not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(gone);
    wait_for_process(&mark, false);
    let kept = std::fs::read_to_string(room.project.join("kept.txt"));
    assert_eq!(kept.expect("the command was let come to its end"), "all of it\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_listens_may_be_silent() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    let server = Server::with(&room, &["--idle", "1"]);
    let client = server.connect(&Agent::default()).await;
    call(&client, "bash", json!({ "command": "NAME=ada" })).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    let said = call(&client, "bash", json!({ "command": "echo $NAME" })).await;
    assert_eq!(said["stdout"], "ada\n");
    client.cancel().await.unwrap();
}
