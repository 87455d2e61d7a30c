//! Requests that are judged one by one, and passed on by the same two sockets.
//!
//! Both sides are hyper's: what reaches the host is written anew from what was judged, so that nobody reads it
//! differently.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use ringfence_model::{Host, LockExt as _};

use crate::carry::Connection;
use crate::events::{End, Outcome};
use crate::proxy::split_port;
use crate::socket::Socket;
use crate::stream::Stream;

type Body = Either<Incoming, Full<Bytes>>;
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Both ends after a request that asked for another protocol and got it.
type Switched = Arc<Mutex<Option<(OnUpgrade, OnUpgrade)>>>;

pub(crate) async fn serve(
    connection: &Arc<Connection>,
    inside: &Arc<Socket>,
    outside: &Arc<Socket>,
    first: Vec<u8>,
) -> Outcome {
    let program = Stream::new(Arc::clone(inside), first, connection.into.clone());
    let host = Stream::new(Arc::clone(outside), Vec::new(), connection.out.clone());
    let mut client = hyper::client::conn::http1::Builder::new();
    client.preserve_header_case(true);
    let (sender, host) = match client.handshake(TokioIo::new(host)).await {
        Ok(both) => both,
        Err(error) => return Outcome::Failed(error.to_string()),
    };
    let sender = Arc::new(tokio::sync::Mutex::new(sender));
    let switched = Switched::default();
    let service = service_fn(|request| {
        answer(Arc::clone(connection), Arc::clone(&sender), Arc::clone(&switched), request)
    });
    let mut server = hyper::server::conn::http1::Builder::new();
    server.preserve_header_case(true).auto_date_header(false).half_close(true);
    let mut program = std::pin::pin!(server.serve_connection(TokioIo::new(program), service).with_upgrades());
    let mut host = std::pin::pin!(host.with_upgrades());
    let mut is_gone = false;
    let served = loop {
        tokio::select! {
            served = &mut program => break served,
            // The host ended the connection: so does the relay, after what is being answered.
            _ = &mut host, if !is_gone => {
                is_gone = true;
                program.as_mut().graceful_shutdown();
            }
        }
    };
    let both = switched.locked().take();
    if let Some((program, upgraded)) = both {
        if !is_gone {
            // It ends when it has given its socket away.
            let _ = host.await;
        }
        return carry_on(program, upgraded).await;
    }
    match served {
        Ok(()) => Outcome::Finished,
        Err(error) if error.is_parse() || error.is_parse_too_large() => {
            let why = format!("a request to {} that cannot be read: {error}", connection.wanted.host);
            connection.refuse(None, why);
            Outcome::Finished
        }
        Err(_) if connection.out.is_full() => Outcome::TooManyBytes,
        Err(error) if error.is_user() => Outcome::Reset(End::Host),
        Err(_) => Outcome::Reset(End::Sandbox),
    }
}

/// Bytes as they are, once both agreed to another protocol.
async fn carry_on(program: OnUpgrade, host: OnUpgrade) -> Outcome {
    match (program.await, host.await) {
        (Ok(program), Ok(host)) => {
            let (mut program, mut host) = (TokioIo::new(program), TokioIo::new(host));
            match tokio::io::copy_bidirectional(&mut program, &mut host).await {
                Ok(_) => Outcome::Finished,
                Err(error) if error.kind() == std::io::ErrorKind::QuotaExceeded => Outcome::TooManyBytes,
                Err(_) => Outcome::Reset(End::Host),
            }
        }
        _ => Outcome::Reset(End::Host),
    }
}

async fn answer(
    connection: Arc<Connection>,
    sender: Arc<tokio::sync::Mutex<SendRequest<Incoming>>>,
    switched: Switched,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, Failure> {
    if let Err(refusal) = judge(&connection, &request) {
        let text = format!("ringfence: {}\n", refusal.why);
        connection.refuse(refusal.named.as_deref(), refusal.why);
        return Ok(refused(text));
    }
    *request.uri_mut() = within_host(request.uri());
    leave_out_http2(request.headers_mut());
    let program = hyper::upgrade::on(&mut request);
    let mut sender = sender.lock().await;
    sender.ready().await?;
    let mut response = sender.send_request(request).await?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        *switched.locked() = Some((program, hyper::upgrade::on(&mut response)));
    }
    Ok(response.map(Either::Left))
}

/// 403, and the end of the connection.
pub(crate) fn refused(text: String) -> Response<Body> {
    let mut response = Response::new(Either::Right(Full::from(text)));
    *response.status_mut() = StatusCode::FORBIDDEN;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

pub(crate) struct Refusal {
    pub(crate) named: Option<String>,
    pub(crate) why: String,
}

fn judge<B>(connection: &Connection, request: &Request<B>) -> Result<(), Refusal> {
    let to = &connection.wanted.host;
    let refuse = |why: String| Err(Refusal { named: None, why });
    if request.method() == Method::CONNECT {
        return refuse(format!("a request to {to} for a tunnel to somewhere else"));
    }
    if let Some(scheme) = request.uri().scheme_str()
        && scheme != "http"
    {
        return refuse(format!("a request to {to} that names another scheme than http"));
    }
    if let Some(authority) = request.uri().authority() {
        judge_name(connection, authority.as_str())?;
    }
    let mut names = request.headers().get_all(HOST).iter();
    match (names.next(), names.next()) {
        (None, _) => return refuse(format!("a request to {to} that names no host")),
        (Some(_), Some(_)) => return refuse(format!("a request to {to} that names two hosts")),
        (Some(name), None) => judge_name(connection, &String::from_utf8_lossy(name.as_bytes()))?,
    }
    let mut encodings = request.headers().get_all(TRANSFER_ENCODING).iter();
    match (encodings.next(), encodings.next()) {
        (None, _) => Ok(()),
        (Some(_), _) if request.headers().contains_key(CONTENT_LENGTH) => {
            refuse(format!("a request to {to} that says its length twice"))
        }
        (Some(encoding), None) if encoding.as_bytes().eq_ignore_ascii_case(b"chunked") => Ok(()),
        (Some(_), _) => refuse(format!("a request to {to} in an unusual encoding")),
    }
}

/// Whether that is who may be reached here; the port may be left out.
fn judge_name(connection: &Connection, named: &str) -> Result<(), Refusal> {
    let is_allowed = split_port(named).is_some_and(|(host, port): (Host, Option<u16>)| {
        connection.is_allowed(&host) && port.is_none_or(|port| port == connection.wanted.port)
    });
    if is_allowed {
        return Ok(());
    }
    let shown = ringfence_model::visible_within(named, 100);
    let why = format!("a request to {} that is meant for {shown}", connection.wanted.host);
    Err(Refusal { named: Some(named.to_owned()), why })
}

/// Without scheme and host, as requests to a host itself are written.
fn within_host(uri: &Uri) -> Uri {
    match uri.path_and_query() {
        Some(path) => Uri::from(path.clone()),
        None => Uri::from_static("/"),
    }
}

/// Nobody changes to HTTP/2 here, whose requests would not be looked at. Who asks for it does without.
fn leave_out_http2(headers: &mut HeaderMap) {
    let asks = |value: &HeaderValue| {
        let value = value.to_str().unwrap_or_default();
        value.split(',').any(|one| one.trim().to_ascii_lowercase().starts_with("h2"))
    };
    if headers.get_all(UPGRADE).iter().any(asks) {
        headers.remove(UPGRADE);
        headers.remove(CONNECTION);
        headers.remove(HeaderName::from_static("http2-settings"));
    }
}
