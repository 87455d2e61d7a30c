//! Streamable HTTP behind a token.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use ringfence::model::{Error, ErrorKind, Result};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use sha2::{Digest as _, Sha256};

use crate::options::Options;
use crate::serve::runtime;
use crate::server::Server;
use crate::session::Session;

/// The one path that is served.
pub const PATH: &str = "/mcp";

/// A session in which nothing was said for so long is over, and what runs in it: long enough for a silent build,
/// short enough for a client that vanished.
const IDLE: Duration = Duration::from_secs(30 * 60);

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

/// Serves whoever has the token, each client in a session of its own, until the process ends. Requests that a
/// browser sends from a page are refused: no page has a reason to.
pub fn http(options: Options, listener: TcpListener, token: &str) -> Result<()> {
    let broken = |error: std::io::Error| Error::new(ErrorKind::Internal, "cannot serve").caused_by(error);
    let address = listener.local_addr().map_err(broken)?;
    listener.set_nonblocking(true).map_err(broken)?;
    let door = Arc::new(Door::new(token));
    runtime()?.block_on(async move {
        let config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(hosts(address))
            .enforce_origin_validation();
        let make = move || Ok(Server(Arc::new(Session::new(options.clone()))));
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.keep_alive = Some(IDLE);
        let service = StreamableHttpService::new(make, Arc::new(sessions), config);
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
            let (service, door) = (service.clone(), Arc::clone(&door));
            tokio::spawn(async move {
                let answer = service_fn(move |request: Request<Incoming>| {
                    let (service, door) = (service.clone(), Arc::clone(&door));
                    async move {
                        Ok::<Reply, Infallible>(match refusal(&door, &request) {
                            Some((status, why)) => refused(status, why),
                            None => service.handle(request).await,
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
    (request.uri().path() != PATH).then_some((StatusCode::NOT_FOUND, "only /mcp is served\n"))
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
