//! What Podman wants to be told differently.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

use bollard::models::ContainerCreateBody;
use ringfence_model::{Error, ErrorKind, Result};

/// Where files are that an engine of this machine reads, for a moment.
const PLACE: &str = "/tmp";

/// A filter of system calls in a file, until this is dropped.
#[derive(Debug)]
pub(super) struct Profile(PathBuf);

impl Drop for Profile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Docker is told the filter itself, Podman the name of a file, which it reads when it makes the container.
pub(super) fn adapt(body: &mut ContainerCreateBody) -> Result<Option<Profile>> {
    let options = body.host_config.as_mut().and_then(|host| host.security_opt.as_mut());
    let given = options.into_iter().flatten().find_map(|option| {
        let text =
            option.strip_prefix("seccomp=").filter(|text| text.trim_start().starts_with('{'))?.to_owned();
        Some((option, text))
    });
    let Some((option, text)) = given else { return Ok(None) };
    let path = PathBuf::from(format!("{PLACE}/ringfence-{}.json", uuid::Uuid::now_v7().simple()));
    let failed = |error: std::io::Error| {
        let message = format!("cannot write the container's filter of system calls to {}", path.display());
        Error::new(ErrorKind::InitializationFailed, message).caused_by(error)
    };
    // Nothing that is there, by whichever name, is written to.
    let mut file = File::create_new(&path).map_err(failed)?;
    let profile = Profile(path.clone());
    file.write_all(text.as_bytes()).map_err(failed)?;
    *option = format!("seccomp={}", path.display());
    Ok(Some(profile))
}
