//! HTTP/1 on the same two connections that it came by.
//!
//! Both sides are hyper's: what reaches the host is written anew from what was judged, so that nobody reads it
//! differently.

use std::sync::{Arc, Mutex};

use http::{Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use ringfence_model::LockExt as _;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::events::{End, Outcome};
use crate::requests::{Body, Failure, Requests, hear_out};

/// Both ends after a request that asked for another protocol and got it.
type Switched = Arc<Mutex<Option<(OnUpgrade, OnUpgrade)>>>;

pub(crate) async fn serve<P, H>(requests: Arc<Requests>, program: P, host: H) -> Outcome
where
    P: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let connection = &requests.connection;
    let mut client = hyper::client::conn::http1::Builder::new();
    client.preserve_header_case(true);
    let (sender, host) = match client.handshake(TokioIo::new(host)).await {
        Ok(both) => both,
        Err(error) => return Outcome::Failed(error.to_string()),
    };
    let sender = Arc::new(tokio::sync::Mutex::new(sender));
    let switched = Switched::default();
    let service = service_fn(|request| {
        answer(Arc::clone(&requests), Arc::clone(&sender), Arc::clone(&switched), request)
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
    requests: Arc<Requests>,
    sender: Arc<tokio::sync::Mutex<SendRequest<Incoming>>>,
    switched: Switched,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, Failure> {
    if let Some(refused) = requests.refuse(&request) {
        hear_out(request).await;
        return Ok(refused);
    }
    match &requests.connection.proxy {
        Some(proxy) => proxy.address(&mut request, &requests.connection.wanted.host)?,
        None => *request.uri_mut() = within_host(request.uri()),
    }
    requests.complete(&mut request)?;
    let method = request.method().clone();
    let program = hyper::upgrade::on(&mut request);
    let mut sender = sender.lock().await;
    sender.ready().await?;
    let mut response = sender.send_request(request).await?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        *switched.locked() = Some((program, hyper::upgrade::on(&mut response)));
    }
    Ok(requests.pass(response, &method))
}

/// Without scheme and host, as requests to a host itself are written.
fn within_host(uri: &Uri) -> Uri {
    match uri.path_and_query() {
        Some(path) => Uri::from(path.clone()),
        None => Uri::from_static("/"),
    }
}
