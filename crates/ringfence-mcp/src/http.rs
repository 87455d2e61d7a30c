//! Streamable HTTP behind a token.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use ringfence::model::{Error, ErrorKind, Result};
use rmcp::transport::streamable_http_server::session::SessionManager as _;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use sha2::{Digest as _, Sha256};

use crate::attendance::{As, Attendance};
use crate::options::Options;
use crate::serve::runtime;
use crate::server::Server;
use crate::session::Session;

/// The one path that is served.
pub const PATH: &str = "/mcp";

/// How long a session lasts in which nobody is there: long enough for somebody who reads what the agent wrote.
pub const IDLE: Duration = Duration::from_secs(5 * 60);

/// Between two looks at who is gone.
const LOOK: Duration = Duration::from_secs(1);

/// The protocol's name for a session.
const SESSION_ID: &str = "mcp-session-id";

type Reply = Response<BoxBody<Bytes, Infallible>>;

/// Who is let in. What is compared are hashes, so that the time it takes says nothing about the token.
struct Door([u8; 32]);

impl Door {
    fn new(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    fn admits(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = given.and_then(|value| value.split_once(' '));
        given.is_some_and(|(scheme, token)| {
            let hash: [u8; 32] = Sha256::digest(token.trim().as_bytes()).into();
            scheme.eq_ignore_ascii_case("bearer") && hash == self.0
        })
    }
}

/// Serves whoever has the token, each client in a session of its own, until the process ends. A session in which no
/// connection is open and no call runs for `idle` is over. Requests that a browser sends from somebody's page are
/// refused: no page has a reason to.
pub fn http(options: Options, listener: TcpListener, token: &str, idle: Duration) -> Result<()> {
    let broken = |error: std::io::Error| Error::new(ErrorKind::Internal, "cannot serve").caused_by(error);
    let address = listener.local_addr().map_err(broken)?;
    listener.set_nonblocking(true).map_err(broken)?;
    let door = Arc::new(Door::new(token));
    runtime()?.block_on(async move {
        let config = StreamableHttpServerConfig::default().with_allowed_hosts(hosts(address));
        let attendance = Arc::new(Attendance::new(idle));
        let attended = Arc::clone(&attendance);
        let make = move || Ok(Server(Arc::new(Session::attended(options.clone(), Arc::clone(&attended)))));
        let mut sessions = LocalSessionManager::default();
        // Its clock hears messages only: it would end a session in the middle of a silent build.
        sessions.session_config.keep_alive = None;
        let sessions = Arc::new(sessions);
        let service = StreamableHttpService::new(make, Arc::clone(&sessions), config);
        tokio::spawn(end_deserted(sessions, Arc::clone(&attendance)));
        let listener = tokio::net::TcpListener::from_std(listener).map_err(broken)?;
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                // Too many open files, or a peer that is gone already: the next one may do better.
                Err(_) => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let (service, door, attendance) = (service.clone(), Arc::clone(&door), Arc::clone(&attendance));
            tokio::spawn(async move {
                let answer = service_fn(move |request: Request<Incoming>| {
                    let (service, door, attendance) =
                        (service.clone(), Arc::clone(&door), Arc::clone(&attendance));
                    async move {
                        Ok::<Reply, Infallible>(match refusal(&door, &request) {
                            Some((status, why)) => refused(status, why),
                            None => attend(&attendance, &service, request).await,
                        })
                    }
                });
                // A connection that breaks off is its client's business; the session has its own clock.
                let _ = hyper::server::conn::http1::Builder::new()
                    .timer(TokioTimer::new())
                    .serve_connection(TokioIo::new(stream), answer)
                    .await;
            });
        }
    })
}

/// Serves a request; whoever sent it is there until the reply is sent.
async fn attend(
    attendance: &Arc<Attendance>,
    service: &StreamableHttpService<Server, LocalSessionManager>,
    request: Request<Incoming>,
) -> Reply {
    let how = if request.method() == Method::GET { As::Listening } else { As::Busy };
    let known = session_of(request.headers()).map(|session| attendance.enter(&session, how));
    let reply = service.handle(request).await;
    // The first request of a session has no id yet; its reply does.
    match known.or_else(|| session_of(reply.headers()).map(|session| attendance.enter(&session, how))) {
        Some(presence) => presence.with(reply),
        None => reply,
    }
}

pub(crate) fn session_of(headers: &HeaderMap) -> Option<String> {
    Some(headers.get(SESSION_ID)?.to_str().ok()?.to_owned())
}

async fn end_deserted(sessions: Arc<LocalSessionManager>, attendance: Arc<Attendance>) {
    loop {
        tokio::time::sleep(LOOK).await;
        for session in attendance.take_deserted(Instant::now()) {
            // One that is over already is what we want.
            let _ = sessions.close_session(&session.into()).await;
        }
    }
}

/// Under which names the server is addressed.
fn hosts(address: SocketAddr) -> Vec<String> {
    let mut hosts = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    hosts.push(address.ip().to_string());
    hosts
}

fn refusal(door: &Door, request: &Request<Incoming>) -> Option<(StatusCode, &'static str)> {
    if !door.admits(request.headers()) {
        return Some((StatusCode::UNAUTHORIZED, "a bearer token is required\n"));
    }
    if request.uri().path() != PATH {
        return Some((StatusCode::NOT_FOUND, "only /mcp is served\n"));
    }
    (!is_from_here(request.headers())).then_some((StatusCode::FORBIDDEN, "the origin is another site\n"))
}

/// Whether no page sent it, or one that this server would have to have served. Which hosts are ours is looked at
/// by whoever handles the request.
fn is_from_here(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else { return true };
    let authority = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, rest)| rest);
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    authority.is_some_and(|authority| host.is_some_and(|host| host.eq_ignore_ascii_case(authority)))
}

fn refused(status: StatusCode, why: &'static str) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::from_static(why.as_bytes())).boxed());
    *reply.status_mut() = status;
    if status == StatusCode::UNAUTHORIZED {
        reply.headers_mut().insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_other_sites_are_refused() {
        let from = |origin: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, header::HeaderValue::from_static("localhost:8800"));
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, header::HeaderValue::from_static(origin));
            }
            is_from_here(&headers)
        };
        assert!(from(None) && from(Some("http://localhost:8800")));
        for no in ["null", "http://localhost", "http://localhost:8801", "http://evil.example:8800", ""] {
            assert!(!from(Some(no)), "{no}");
        }
    }

    #[test]
    fn only_the_token_opens() {
        let door = Door::new("abc");
        let admits = |value: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            if let Some(value) = value {
                headers.insert(header::AUTHORIZATION, header::HeaderValue::from_static(value));
            }
            door.admits(&headers)
        };
        assert!(admits(Some("Bearer abc")) && admits(Some("bearer abc")));
        for no in [
            None,
            Some(""),
            Some("abc"),
            Some("Bearer"),
            Some("Bearer "),
            Some("Bearer abcd"),
            Some("Basic abc"),
        ] {
            assert!(!admits(no), "{no:?}");
        }
    }
}
