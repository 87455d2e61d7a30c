//! What went wrong, in words.

use bollard::errors::Error as Wire;
use ringfence_model::{Error, ErrorKind};

use super::Endpoint;

/// Turns an error of the client into one for people.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trouble<'a> {
    /// What the engine was to do: `create the container x`.
    pub(crate) what: &'a str,
    pub(crate) endpoint: &'a Endpoint,
}

impl Trouble<'_> {
    pub(crate) fn of(self, error: Wire) -> Error {
        let Self { what, endpoint } = self;
        match error {
            Wire::DockerResponseServerError { status_code, message } => {
                let kind = match status_code {
                    404 => ErrorKind::NotFound,
                    409 => ErrorKind::ConcurrentAccess,
                    400 => ErrorKind::InvalidConfig,
                    _ => ErrorKind::InitializationFailed,
                };
                Error::new(kind, format!("cannot {what}: the engine said {status_code}: {}", message.trim()))
            }
            Wire::DockerStreamError { error } => {
                Error::new(ErrorKind::InitializationFailed, format!("cannot {what}: {}", error.trim()))
            }
            Wire::RequestTimeoutError => {
                Error::new(ErrorKind::Timeout, format!("the container engine did not {what} in time"))
            }
            error => Error::new(
                ErrorKind::SandboxNotAvailable,
                format!("cannot {what}: the connection to the container engine at {endpoint} failed"),
            )
            .hint("look after the engine: does `docker ps` answer?")
            .caused_by(error),
        }
    }
}

pub(super) fn no_engine(
    endpoint: &Endpoint,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Error {
    Error::new(
        ErrorKind::SandboxNotAvailable,
        format!("what listens at {endpoint} does not answer as a container engine"),
    )
    .hint("Docker and Podman's API service do; correct DOCKER_HOST, or restart the engine")
    .caused_by(error)
}
