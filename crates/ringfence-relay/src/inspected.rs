//! A connection whose TLS ends at the relay, so that its requests can be judged.

use std::sync::Arc;

use ringfence_model::Host;
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::carry::Connection;
use crate::events::{End, Outcome};
use crate::hello::Hello;
use crate::http1;
use crate::http2;
use crate::requests::{Failure, Requests};
use crate::socket::Socket;
use crate::stream::Stream;
use crate::tls;

const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

pub(crate) async fn serve(
    connection: &Arc<Connection>,
    inside: &Arc<Socket>,
    outside: &Arc<Socket>,
    first: Vec<u8>,
    hello: Hello,
) -> Outcome {
    let program = Stream::new(Arc::clone(inside), first, connection.into.clone());
    let host = Stream::new(Arc::clone(outside), Vec::new(), connection.out.clone());
    // The name that was judged, so that a host allowed by its address is asked for by the name it was given.
    let name = hello.name.as_deref().and_then(Host::parse);
    let name = name.unwrap_or_else(|| connection.wanted.host.clone());
    let limit = connection.shared.settings.limits.connect;
    // The host first: what it wants to speak is what the program is offered.
    let host = match timeout(limit, to_host(connection, &name, &hello, host)).await {
        Ok(Ok(host)) => host,
        Ok(Err(error)) => {
            connection.refuse(None, format!("TLS to {name} cannot be begun: {error}"));
            return Outcome::Refused;
        }
        Err(_) => return Outcome::Reset(End::Host),
    };
    let protocol = host.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
    let config = match connection.shared.tls.server(&name, protocol.as_deref()) {
        Ok(config) => Arc::new(config),
        Err(error) => return Outcome::Failed(error.to_string()),
    };
    let program = match timeout(limit, TlsAcceptor::from(config).accept(program)).await {
        Ok(Ok(program)) => program,
        Ok(Err(error)) => {
            return Outcome::Failed(format!("the program did not take the relay's certificate: {error}"));
        }
        Err(_) => return Outcome::Reset(End::Sandbox),
    };
    let requests = Requests::new(connection, /* is_tls */ true);
    if protocol.as_deref() == Some(HTTP2) {
        http2::serve(requests, program, host).await
    } else {
        http1::serve(requests, program, host).await
    }
}

async fn to_host(
    connection: &Connection,
    name: &Host,
    hello: &Hello,
    host: Stream,
) -> Result<tokio_rustls::client::TlsStream<Stream>, Failure> {
    let mut protocols: Vec<_> = hello.protocols.clone();
    protocols.retain(|protocol| [HTTP2, HTTP1].contains(&protocol.as_slice()));
    let connector = TlsConnector::from(Arc::new(connection.shared.tls.client(protocols)?));
    Ok(connector.connect(tls::server_name(name)?, host).await?)
}
