//! Images: is it here, pull, build, tag.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use bollard::query_parameters::{
    BuildImageOptionsBuilder, CreateImageOptionsBuilder, TagImageOptionsBuilder,
};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use ringfence_fence::Progress;
use ringfence_model::{Error, ErrorKind, Result};

use super::{Engine, QUICK};

/// A registry that says nothing for so long is given up.
const SILENCE: Duration = Duration::from_secs(120);

/// A command that installs things may say nothing for long.
const LONG_SILENCE: Duration = Duration::from_secs(30 * 60);

/// As many are told again with an error.
const LAST_LINES: usize = 10;

impl Engine {
    /// The labels of the image; none when it is not here.
    pub async fn image_labels(&self, image: &str) -> Result<Option<HashMap<String, String>>> {
        let (docker, wanted) = (self.docker().clone(), image.to_owned());
        let what = format!("inspect the image {image}");
        match self.call(&what, QUICK, async move { docker.inspect_image(&wanted).await }).await {
            Ok(found) => Ok(Some(found.config.and_then(|config| config.labels).unwrap_or_default())),
            Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
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
            let steps = docker.create_image(Some(options), None, None).map(|step| {
                step.map(|step| {
                    // The error of a step comes as the stream's.
                    Said { id: step.id, status: step.status, ..Said::default() }
                })
            });
            listen(steps, told, SILENCE).await
        });
        self.heard(&format!("pull the image {image}"), SILENCE, pulling.await).map(drop)
    }

    /// Builds an image; `progress` hears each line that the builder and its commands say.
    pub async fn build(&self, build: Build<'_>, progress: Option<&Progress>) -> Result<()> {
        let labels = HashMap::from([build.label]);
        let options =
            BuildImageOptionsBuilder::default().t(build.image).labels(&labels).rm(true).forcerm(true).build();
        let context = bollard::body_full(Bytes::from(archive(build.dockerfile)));
        let (docker, told) = (self.docker().clone(), progress.cloned());
        let building = self.spawn(async move {
            let steps = docker.build_image(options, None, Some(context)).map(|step| {
                step.map(|step| Said {
                    id: step.id,
                    status: step.status,
                    text: step.stream,
                    error: step.error_detail.and_then(|detail| detail.message),
                })
            });
            listen(steps, told, LONG_SILENCE).await
        });
        let what = format!("build the image {}", build.image);
        let last = self.heard(&what, LONG_SILENCE, building.await)?;
        if self.image_labels(build.image).await?.is_none() {
            let message = format!("cannot {what}: the engine made none; it said: {}", last.join("; "));
            return Err(Error::new(ErrorKind::InitializationFailed, message));
        }
        Ok(())
    }

    fn heard(
        &self,
        what: &str,
        silence: Duration,
        outcome: std::result::Result<std::result::Result<Vec<String>, Trouble>, tokio::task::JoinError>,
    ) -> Result<Vec<String>> {
        match outcome {
            Ok(Ok(last)) => Ok(last),
            Ok(Err(Trouble::OfTheEngine(error))) => Err(self.trouble(what, error)),
            Ok(Err(Trouble::Said { error, last })) => {
                let before = if last.is_empty() {
                    String::new()
                } else {
                    format!("; before that: {}", last.join("; "))
                };
                let message = format!("cannot {what}: {}{before}", error.trim());
                Err(Error::new(ErrorKind::InitializationFailed, message))
            }
            Ok(Err(Trouble::Silence)) => Err(Error::new(
                ErrorKind::Timeout,
                format!("cannot {what}: nothing was heard for {} s", silence.as_secs()),
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

/// What is built.
#[derive(Debug, Clone, Copy)]
pub struct Build<'a> {
    /// The name it gets.
    pub image: &'a str,
    /// The text of a Dockerfile.
    pub dockerfile: &'a str,
    pub label: (&'a str, &'a str),
}

/// A step of something that takes long.
#[derive(Debug, Default)]
struct Said {
    id: Option<String>,
    status: Option<String>,
    text: Option<String>,
    error: Option<String>,
}

/// Why it did not come to its end.
#[derive(Debug)]
enum Trouble {
    OfTheEngine(bollard::errors::Error),
    /// With the lines before.
    Said {
        error: String,
        last: Vec<String>,
    },
    Silence,
}

/// Tells each new line; gives the last ones.
async fn listen(
    steps: impl Stream<Item = std::result::Result<Said, bollard::errors::Error>>,
    told: Option<Progress>,
    silence: Duration,
) -> std::result::Result<Vec<String>, Trouble> {
    let mut steps = std::pin::pin!(steps);
    let mut last: VecDeque<String> = VecDeque::new();
    loop {
        let said = match tokio::time::timeout(silence, steps.next()).await {
            Err(_) => return Err(Trouble::Silence),
            Ok(None) => return Ok(last.into()),
            Ok(Some(Err(bollard::errors::Error::DockerStreamError { error }))) => {
                return Err(Trouble::Said { error, last: last.into() });
            }
            Ok(Some(said)) => said.map_err(Trouble::OfTheEngine)?,
        };
        if let Some(error) = said.error {
            return Err(Trouble::Said { error, last: last.into() });
        }
        let lines = match (said.id, said.status) {
            (Some(id), Some(status)) => format!("{id}: {status}"),
            (None, Some(status)) => status,
            (_, None) => said.text.unwrap_or_default(),
        };
        for line in lines.lines().map(str::trim_end).filter(|line| !line.is_empty()) {
            if last.back().is_some_and(|last| last == line) {
                continue;
            }
            if let Some(told) = &told {
                told(line);
            }
            if last.len() == LAST_LINES {
                last.pop_front();
            }
            last.push_back(line.to_owned());
        }
    }
}

/// An archive with one file, `Dockerfile`, as `tar` would make it.
fn archive(dockerfile: &str) -> Vec<u8> {
    const BLOCK: usize = 512;
    let mut header = [0_u8; BLOCK];
    let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, "Dockerfile");
    put(100, "0000644\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{:011o}\0", dockerfile.len()));
    put(136, "00000000000\0");
    // The sum is made as if it were blank.
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut archive = header.to_vec();
    archive.extend_from_slice(dockerfile.as_bytes());
    archive.resize(archive.len().next_multiple_of(BLOCK) + 2 * BLOCK, 0);
    archive
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
    use super::{archive, split};

    /// What `tar` makes of it.
    #[test]
    fn the_archive_holds_the_dockerfile_and_nothing_else() {
        use std::io::Write as _;
        let text = "FROM a\n".repeat(100);
        let mut tar = std::process::Command::new("tar")
            .args(["-xvOf", "-"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        tar.stdin.take().unwrap().write_all(&archive(&text)).unwrap();
        let output = tar.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), text);
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "Dockerfile\n");
    }

    #[test]
    fn a_port_is_no_tag() {
        assert_eq!(split("debian:bookworm-slim"), ("debian", "bookworm-slim"));
        assert_eq!(split("localhost:5000/a/b"), ("localhost:5000/a/b", "latest"));
        assert_eq!(split("localhost:5000/a/b:c"), ("localhost:5000/a/b", "c"));
    }
}
