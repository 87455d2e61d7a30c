//! The providers that are there from the start.

use std::sync::Arc;

use ringfence_fence::{Provider, Registry};
use ringfence_model::Result;

use super::unfenced::{self, Unfenced};

/// `local`, `none` and, where it is built in, `docker`. Others are added with [`Registry::register`], under any name.
pub fn built_in() -> Result<Registry> {
    let mut registry = Registry::new();
    registry.register("local", local)?;
    registry.register(unfenced::KIND, || Ok(Arc::new(Unfenced) as Arc<dyn Provider>))?;
    #[cfg(feature = "docker")]
    registry.register(crate::containers::KIND, || {
        Ok(Arc::new(ringfence_docker::DockerProvider::default()) as Arc<dyn Provider>)
    })?;
    Ok(registry)
}

#[cfg(target_os = "linux")]
fn local() -> Result<Arc<dyn Provider>> {
    Ok(Arc::new(ringfence_local::provider::LocalProvider::new()))
}

#[cfg(not(target_os = "linux"))]
fn local() -> Result<Arc<dyn Provider>> {
    let message = "sandboxes that remember are not made on this system yet; `ringfence run` works";
    Err(ringfence_model::Error::new(ringfence_model::ErrorKind::SandboxNotAvailable, message))
}
