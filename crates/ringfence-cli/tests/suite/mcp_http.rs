//! The same server by streamable HTTP: who is let in, and that sessions do not hear each other.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use rmcp::service::RunningService;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{RoleClient, ServiceExt as _};
use serde_json::json;

use super::mcp::{Agent, call, mark, says, wait_for_process};
use super::support::Room;

const TOKEN: &str = "0123456789abcdef-of-the-tests";

/// A server that ends with its test.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(room: &Room) -> Self {
        let file = room.write(room.home.join("token"), TOKEN);
        let arguments = ["mcp", "--http", "127.0.0.1:0", "--token-file", file.to_str().unwrap()];
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

    /// The status line of the reply to a first request with these headers.
    fn knock(&self, path: &str, headers: &[&str]) -> String {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } })
        .to_string();
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
        let mut reply = [0; 12];
        stream.read_exact(&mut reply).unwrap();
        String::from_utf8_lossy(&reply[9..]).into_owned()
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
