//! Code of a language in a container of that language, made for it and always removed.

use std::collections::BTreeMap;
use std::time::Duration;

use ringfence_fence::{CreateOptions, EventSink, Provider as _};
use ringfence_model::{Error, ErrorKind, ExecRequest, ExecResult, Result, Stdin};
use serde::Deserialize;
use serde_json::json;

use crate::DockerProvider;

/// An image, and what runs code in it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CodeImage {
    pub image: String,
    /// The program and its arguments. The code comes on standard input.
    pub command: Vec<String>,
}

/// Images by the name of a language. The default knows Python, JavaScript and the shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeImages(BTreeMap<String, CodeImage>);

impl Default for CodeImages {
    fn default() -> Self {
        let known = |language: &str, image: &str, command: [&str; 2]| {
            let command = command.map(str::to_owned).to_vec();
            (language.to_owned(), CodeImage { image: image.to_owned(), command })
        };
        Self(BTreeMap::from([
            known("python", "python:3.11-slim", ["python3", "-"]),
            known("javascript", "node:20-slim", ["node", "-"]),
            known("shell", "alpine:latest", ["sh", "-s"]),
        ]))
    }
}

impl CodeImages {
    /// Adds a language, or gives it another image.
    pub fn set(&mut self, language: &str, image: CodeImage) -> Result<()> {
        if language.trim().is_empty() || image.command.first().is_none_or(String::is_empty) {
            return Err(Error::new(ErrorKind::InvalidConfig, "a language needs a name and a command"));
        }
        self.0.insert(language.trim().to_lowercase(), image);
        Ok(())
    }

    pub fn get(&self, language: &str) -> Result<&CodeImage> {
        self.0.get(&language.trim().to_lowercase()).ok_or_else(|| {
            let known: Vec<&str> = self.0.keys().map(String::as_str).collect();
            let message =
                format!("there is no image for `{language}`; there are some for {}", known.join(", "));
            Error::new(ErrorKind::Validation, message)
        })
    }
}

impl DockerProvider {
    /// Runs code in a container of its language's image. Whatever comes of it, the container is removed; it ends with the time, and with
    /// whoever waits for this.
    pub async fn run_code(
        &self,
        mut options: CreateOptions,
        image: &CodeImage,
        code: &str,
        timeout: Duration,
        events: EventSink<'_>,
    ) -> Result<ExecResult> {
        let mut docker = options.provider_options.custom()?["docker"].clone();
        docker["image"] = json!(image.image);
        options.provider_options.set("docker", docker);
        // One that belongs to no scope goes with the connection to it.
        options.hooks.scope_key = None;
        let request = ExecRequest {
            stdin: Stdin::Bytes(code.as_bytes().to_vec()),
            timeout_ms: Some(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
            ..ExecRequest::argv(image.command.iter().cloned())
        };
        let sandbox = self.create(options).await?;
        let outcome = sandbox.execute(request, events).await;
        let removed = self.destroy(sandbox.id()).await;
        let result = outcome?;
        removed.map(|()| result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_have_images_and_more_can_be_added() {
        let mut images = CodeImages::default();
        assert_eq!(images.get(" Python ").unwrap().image, "python:3.11-slim");
        assert!(images.get("cobol").unwrap_err().message.contains("javascript, python, shell"));
        let ruby = CodeImage { image: "ruby:3".to_owned(), command: vec!["ruby".to_owned(), "-".to_owned()] };
        images.set("Ruby", ruby.clone()).unwrap();
        assert_eq!(images.get("ruby").unwrap(), &ruby);
        assert!(images.set("x", CodeImage { command: vec![], ..ruby }).is_err());
    }
}
