//! HTTP/2 inside of TLS that ends at the relay.

use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::events::{End, Outcome};
use crate::requests::{Body, Failure, Requests, hear_out};

/// How much of a body is on its way before it is asked for more.
const WINDOW: u32 = 1024 * 1024;

pub(crate) async fn serve<P, H>(requests: Arc<Requests>, program: P, host: H) -> Outcome
where
    P: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut client = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    client.initial_stream_window_size(WINDOW).initial_connection_window_size(4 * WINDOW);
    let (sender, host) = match client.handshake::<_, Incoming>(TokioIo::new(host)).await {
        Ok(both) => both,
        Err(error) => return Outcome::Failed(error.to_string()),
    };
    let service = service_fn(|request| answer(Arc::clone(&requests), sender.clone(), request));
    let mut server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    server
        .auto_date_header(false)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(4 * WINDOW);
    let mut program = std::pin::pin!(server.serve_connection(TokioIo::new(program), service));
    let mut host = std::pin::pin!(host);
    let mut is_gone = false;
    let served = loop {
        tokio::select! {
            served = &mut program => break served,
            _ = &mut host, if !is_gone => {
                is_gone = true;
                program.as_mut().graceful_shutdown();
            }
        }
    };
    match served {
        Ok(()) => Outcome::Finished,
        Err(_) if requests.connection.out.is_full() => Outcome::TooManyBytes,
        Err(_) if is_gone => Outcome::Reset(End::Host),
        Err(_) => Outcome::Reset(End::Sandbox),
    }
}

async fn answer(
    requests: Arc<Requests>,
    mut sender: SendRequest<Incoming>,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, Failure> {
    if let Some(refused) = requests.refuse(&request) {
        hear_out(request).await;
        return Ok(refused);
    }
    requests.complete(&mut request)?;
    let method = request.method().clone();
    sender.ready().await?;
    let response = sender.send_request(request).await?;
    Ok(requests.pass(response, &method))
}
