//! HTTP/2 inside of TLS that ends at the relay.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::inspect::{PLACEHOLDER, SECRET, client_config, get_only, secret, site};
use super::rig::accept;

/// Says back which credential it got, and how much.
async fn echo(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let got = request.headers().get("authorization").map(|value| value.to_str().unwrap().to_owned());
    assert_eq!(got.as_deref(), Some(SECRET));
    let authority = request.uri().authority().unwrap().to_string();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let text = format!("{authority} {} {}", got.unwrap(), body.len());
    Ok(Response::builder().header("x-echo", SECRET).body(Full::from(text)).unwrap())
}

#[test]
fn requests_of_http2_are_judged_and_completed() {
    let site = site(get_only(&["/v1/**"], secret()), &[b"h2", b"http/1.1"]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let program = site.rig.tcp("a.example", &site.listener);
    let server = accept(&site.listener);
    let config = client_config(&site.rig, &[b"h2", b"http/1.1"]);
    runtime.block_on(async {
        for socket in [&program, &server] {
            socket.set_nonblocking(true).unwrap();
        }
        let server = tokio::net::TcpStream::from_std(server).unwrap();
        let acceptor = TlsAcceptor::from(Arc::clone(&site.config));
        tokio::spawn(async move {
            let server = acceptor.accept(server).await.unwrap();
            hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(server), service_fn(echo))
                .await
        });
        let program = tokio::net::TcpStream::from_std(program).unwrap();
        let name = ServerName::try_from("a.example").unwrap();
        let program = TlsConnector::from(config).connect(name, program).await.unwrap();
        assert_eq!(program.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let (sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(program)).await.unwrap();
        tokio::spawn(connection);
        let send = |method: &'static str, uri: &'static str, length: usize| {
            let mut sender = sender.clone();
            async move {
                let body: Full<Bytes> = Full::from(vec![b'x'; length]);
                let request = Request::builder().method(method).uri(uri).body(body).unwrap();
                let response = sender.send_request(request).await.unwrap();
                let (head, body) = response.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                (head, String::from_utf8(body.to_vec()).unwrap())
            }
        };
        let (head, body) = send("PUT", "https://a.example/v1/x", 300_000).await;
        assert_eq!(head.status, StatusCode::OK);
        assert_eq!(head.headers["x-echo"], PLACEHOLDER);
        assert_eq!(body, format!("a.example {PLACEHOLDER} 300000"));
        for (method, uri, why) in [
            ("GET", "https://a.example/v2/x", "GET https://a.example"),
            ("DELETE", "https://a.example/v1/x", "DELETE https://a.example"),
            ("GET", "https://b.example/v1/x", "meant for b.example"),
            ("GET", "http://a.example/v1/x", "another scheme"),
        ] {
            let (head, body) = send(method, uri, 0).await;
            assert_eq!(head.status, StatusCode::FORBIDDEN, "{method} {uri}");
            assert!(body.contains(why), "{method} {uri}: {body}");
        }
        // One refusal ends no other request.
        let (one, two) =
            tokio::join!(send("GET", "https://a.example/v1/1", 0), send("GET", "https://a.example/v1/2", 0));
        assert!(one.0.status.is_success() && two.0.status.is_success());
    });
    assert!(site.rig.told.refused().why.contains("/v2/x"));
}
