//! Images: is it here, pull, tag.

use std::time::Duration;

use bollard::query_parameters::{CreateImageOptionsBuilder, TagImageOptionsBuilder};
use futures_util::StreamExt as _;
use ringfence_fence::Progress;
use ringfence_model::{Error, ErrorKind, Result};

use super::{Engine, QUICK};

/// A registry that says nothing for so long is given up.
const SILENCE: Duration = Duration::from_secs(120);

impl Engine {
    /// Whether the image is here.
    pub async fn has_image(&self, image: &str) -> Result<bool> {
        let (docker, wanted) = (self.docker().clone(), image.to_owned());
        let what = format!("inspect the image {image}");
        match self.call(&what, QUICK, async move { docker.inspect_image(&wanted).await }).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Fetches an image from its registry; `progress` hears each step.
    pub async fn pull(&self, image: &str, progress: Option<&Progress>) -> Result<()> {
        let (docker, name) = (self.docker().clone(), image.to_owned());
        let (repository, tag) = split(&name);
        let options = CreateImageOptionsBuilder::default().from_image(repository).tag(tag).build();
        let told = progress.cloned();
        let pulling = self.spawn(async move {
            let mut steps = std::pin::pin!(docker.create_image(Some(options), None, None));
            let mut last = String::new();
            loop {
                let step = match tokio::time::timeout(SILENCE, steps.next()).await {
                    Err(_) => return Err(None),
                    Ok(None) => return Ok(()),
                    Ok(Some(step)) => step.map_err(Some)?,
                };
                let line = match (&step.id, &step.status) {
                    (Some(id), Some(status)) => format!("{id}: {status}"),
                    (None, Some(status)) => status.clone(),
                    _ => continue,
                };
                if let Some(told) = &told
                    && line != last
                {
                    told(&line);
                    last = line;
                }
            }
        });
        let what = format!("pull the image {image}");
        match pulling.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(Some(error))) => Err(self.trouble(&what, error)),
            Ok(Err(None)) => Err(Error::new(
                ErrorKind::Timeout,
                format!("cannot {what}: nothing was heard for {} s", SILENCE.as_secs()),
            )),
            Err(_) => Err(Error::new(ErrorKind::Internal, format!("cannot {what}: a task failed"))),
        }
    }

    /// Gives an image that is here another name.
    pub async fn tag(&self, image: &str, name: &str) -> Result<()> {
        let (repository, tag) = split(name);
        let options = TagImageOptionsBuilder::default().repo(repository).tag(tag).build();
        let (docker, its) = (self.docker().clone(), image.to_owned());
        let what = format!("name the image {image} {name}");
        self.call(&what, QUICK, async move { docker.tag_image(&its, Some(options)).await }).await
    }
}

/// Name and tag; a colon before the last slash belongs to the registry's port.
fn split(image: &str) -> (&str, &str) {
    match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        _ => (image, "latest"),
    }
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn a_port_is_no_tag() {
        assert_eq!(split("debian:bookworm-slim"), ("debian", "bookworm-slim"));
        assert_eq!(split("localhost:5000/a/b"), ("localhost:5000/a/b", "latest"));
        assert_eq!(split("localhost:5000/a/b:c"), ("localhost:5000/a/b", "c"));
    }
}
