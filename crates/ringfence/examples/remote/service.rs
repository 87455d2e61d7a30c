//! The other machine: a service with workspaces, as small as one can be. A real one puts each into a machine of its own; this one,
//! which is for trying, into a sandbox of the operating system.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ringfence::fence::{CreateOptions, Sandbox, wait_for};
use ringfence::local::provider::LocalSandbox;
use ringfence::model::{ExecRequest, PathRule, Policy, Stdin};
use serde_json::{Value, json};

const LONGEST: Duration = Duration::from_secs(3600);

/// Serves in the background, on a loopback port of its own, as long as the process lives.
pub(crate) fn start(root: PathBuf, token: String) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let service = Arc::new(Service { root, token, workspaces: Mutex::default() });
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let service = Arc::clone(&service);
            std::thread::spawn(move || service.serve(stream));
        }
    });
    Ok(address)
}

struct Service {
    root: PathBuf,
    token: String,
    workspaces: Mutex<BTreeMap<String, Arc<LocalSandbox>>>,
}

impl Service {
    /// One request; a connection that breaks is the caller's to notice.
    fn serve(&self, stream: TcpStream) {
        let Ok(writer) = stream.try_clone() else { return };
        let mut reader = BufReader::new(stream);
        let (mut first, mut length, mut allowed) = (String::new(), 0_usize, false);
        if reader.read_line(&mut first).is_err() {
            return;
        }
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).is_err() || line.trim().is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':') {
                match name.to_ascii_lowercase().as_str() {
                    "content-length" => length = value.trim().parse().unwrap_or(0),
                    "authorization" => allowed = value.trim() == format!("Bearer {}", self.token),
                    _ => (),
                }
            }
        }
        let mut body = vec![0; length.min(1 << 24)];
        let body = match reader.read_exact(&mut body) {
            Ok(()) => serde_json::from_slice(&body).unwrap_or(Value::Null),
            Err(_) => return,
        };
        let words: Vec<&str> = first.split_whitespace().collect();
        let (status, answer) = match words.as_slice() {
            _ if !allowed => (401, json!({ "error": "who are you?" })),
            [method, path, ..] => self.answer(method, path, &body),
            _ => (400, json!({ "error": "not a request" })),
        };
        let answer = answer.to_string();
        let mut writer = writer;
        let _ = write!(writer, "HTTP/1.1 {status} -\r\nContent-Length: {}\r\n\r\n{answer}", answer.len());
    }

    fn answer(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let mut workspaces = self.workspaces.lock().unwrap_or_else(PoisonError::into_inner);
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        match (method, parts.as_slice()) {
            ("POST", ["workspaces"]) => {
                let id = format!("workspace-{}", workspaces.len() + 1);
                match workspace(&self.root.join(&id)) {
                    Ok(sandbox) => {
                        workspaces.insert(id.clone(), Arc::new(sandbox));
                        (200, json!({ "id": id }))
                    }
                    Err(error) => (500, json!({ "error": error })),
                }
            }
            ("GET", ["workspaces"]) => (200, json!({ "ids": workspaces.keys().collect::<Vec<_>>() })),
            ("DELETE", ["workspaces", id]) => match workspaces.remove(*id) {
                Some(sandbox) => {
                    wait_for(sandbox.dispose(), LONGEST);
                    (200, json!({}))
                }
                None => (404, json!({})),
            },
            ("POST", ["workspaces", id, "exec"]) => {
                let Some(sandbox) = workspaces.get(*id).cloned() else { return (404, json!({})) };
                drop(workspaces);
                let text = |key: &str| body[key].as_str().unwrap_or_default().to_owned();
                let mut request = ExecRequest::shell(text("command"));
                request.stdin = Stdin::Bytes(text("input").into_bytes());
                request.timeout_ms = body["timeoutMs"].as_u64();
                request.env = serde_json::from_value(body["env"].clone()).unwrap_or_default();
                match wait_for(sandbox.execute(request, &|_| ()), LONGEST) {
                    Some(Ok(result)) => (
                        200,
                        json!({
                            "stdout": String::from_utf8_lossy(&result.stdout),
                            "stderr": String::from_utf8_lossy(&result.stderr),
                            "exitCode": result.exit_code,
                        }),
                    ),
                    Some(Err(error)) => (500, json!({ "error": error.chain() })),
                    None => (500, json!({ "error": "it did not end" })),
                }
            }
            _ => (400, json!({ "error": "no such request" })),
        }
    }
}

fn workspace(directory: &Path) -> Result<LocalSandbox, String> {
    std::fs::create_dir_all(directory).map_err(|error| error.to_string())?;
    let mut policy = Policy::default();
    policy.filesystem.allow_write.push(PathRule::built_in(directory));
    let mut options = CreateOptions::new(directory.to_owned(), policy);
    options.environment = [("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())].into();
    LocalSandbox::start(options).map_err(|error| error.chain())
}
