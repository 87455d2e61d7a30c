//! Blocking work on a thread of its own, for whichever runtime the caller has.

use ringfence_model::{Error, ErrorKind, Result};
use tokio::sync::oneshot;

/// Enough for everything that is done here, debug builds included; only what is used costs memory.
const STACK: usize = 2 << 20;

/// Starts a thread that nobody waits for.
pub fn spawn(work: impl FnOnce() + Send + 'static) -> Result<()> {
    let thread = std::thread::Builder::new().name("ringfence".to_owned()).stack_size(STACK);
    thread
        .spawn(work)
        .map(drop)
        .map_err(|error| Error::new(ErrorKind::SpawnFailed, "cannot start a thread").caused_by(error))
}

/// What `work` gives. When nobody waits any more, the work goes on and what it gives is dropped.
pub async fn offload<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let (tell, told) = oneshot::channel();
    spawn(move || drop(tell.send(work())))?;
    told.await.map_err(|_| Error::new(ErrorKind::Internal, "a thread of the sandbox failed"))
}
