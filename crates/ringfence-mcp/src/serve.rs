//! A server on standard input and output.

use std::sync::Arc;

use ringfence::model::{Error, ErrorKind, Result};
use rmcp::ServiceExt as _;

use crate::options::Options;
use crate::server::Server;
use crate::session::Session;

/// Serves one client until it closes standard input. Everything that it started ends with it.
pub fn stdio(options: Options) -> Result<()> {
    let runtime = runtime()?;
    let session = Arc::new(Session::new(options));
    let outcome = runtime.block_on(async {
        let started = Server(Arc::clone(&session)).serve(rmcp::transport::io::stdio_pipes()).await;
        match started {
            Ok(service) => service.waiting().await.map(drop).map_err(|error| broken(&error)),
            Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(broken(&error)),
        }
    });
    session.end();
    // What still runs on its threads has lost its shell, and nobody reads its result.
    runtime.shutdown_background();
    outcome
}

pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Error::new(ErrorKind::Internal, "cannot start the server").caused_by(error))
}

fn broken(error: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::Internal, format!("the connection broke off: {error}"))
}
