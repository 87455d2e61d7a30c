//! How an image comes here: it is there, it is fetched, or it is built from a recipe.

use std::path::PathBuf;

use ringfence_fence::Progress;
use ringfence_model::config::DockerSection;
use ringfence_model::{Error, ErrorKind, Result};
use serde::Deserialize;
use sha1::{Digest as _, Sha1};

use crate::engine::Engine;
use crate::engine::images::Build;

/// What the default image is made from when it is not here.
pub const BASE_IMAGE: &str = "debian:bookworm-slim";

/// On images that were built here: what from. One that was built from something else is built anew.
pub const LABEL_RECIPE: &str = "ringfence.recipe";

/// The same on containers. A name of its own: containers have their image's labels too.
pub const LABEL_BUILD: &str = "ringfence.build";

/// What an image is built from: an image and commands, or a Dockerfile.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Recipe {
    /// The image to begin with; fetched when it is not here.
    pub from: Option<String>,
    /// Commands for its `sh`, each of them a layer.
    pub run: Vec<String>,
    /// A Dockerfile instead. It is sent alone: there is nothing to copy files from.
    pub dockerfile: Option<PathBuf>,
}

impl Recipe {
    /// As the engine's builder reads it.
    fn text(&self) -> Result<String> {
        let wrong = |message: String| Err(Error::new(ErrorKind::InvalidConfig, message));
        match (&self.from, &self.dockerfile) {
            (Some(from), None) => {
                if from.is_empty() || from.contains(|c: char| c.is_whitespace() || c.is_control()) {
                    return wrong(format!("build.from is no name of an image: {from:?}"));
                }
                let mut text = format!("FROM {from}\n");
                for command in &self.run {
                    // As a list in JSON, nothing in a command means anything to the builder.
                    text += &format!("RUN {}\n", serde_json::json!(["/bin/sh", "-euc", command]));
                }
                Ok(text)
            }
            (None, Some(file)) if self.run.is_empty() => std::fs::read_to_string(file).map_err(|error| {
                let message = format!("cannot read build.dockerfile {}", file.display());
                Error::new(ErrorKind::InvalidConfig, message).caused_by(error)
            }),
            (None, Some(_)) => wrong("build.run belongs to build.from, not to build.dockerfile".to_owned()),
            _ => wrong("build needs either from, the image to begin with, or dockerfile".to_owned()),
        }
    }

    fn begins_with(&self) -> String {
        match (&self.from, &self.dockerfile) {
            (Some(from), _) => from.clone(),
            (None, Some(file)) => file.display().to_string(),
            (None, None) => String::new(),
        }
    }
}

/// How images that are not here come here.
#[derive(Debug, Clone, Default)]
pub struct Images {
    pull: bool,
    build: Option<Prepared>,
}

/// A recipe that was read.
#[derive(Debug, Clone)]
struct Prepared {
    recipe: Recipe,
    text: String,
    mark: String,
}

impl Images {
    pub fn new(pull: bool, recipe: Option<Recipe>) -> Result<Self> {
        let prepare = |recipe: Recipe| {
            let text = recipe.text()?;
            let digest = Sha1::digest(text.as_bytes());
            let mark = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            Ok::<_, Error>(Prepared { recipe, text, mark })
        };
        Ok(Self { pull, build: recipe.map(prepare).transpose()? })
    }

    /// What identifies the recipe.
    #[must_use]
    pub fn mark(&self) -> Option<&str> {
        self.build.as_ref().map(|build| build.mark.as_str())
    }

    /// Sees to it that `image` is here.
    pub async fn ensure(&self, engine: &Engine, image: &str, progress: Option<&Progress>) -> Result<()> {
        let there = engine.image_labels(image).await?;
        match (&there, &self.build) {
            // One without our mark is somebody's own; it was meant.
            (Some(labels), Some(build))
                if labels.get(LABEL_RECIPE).is_none_or(|mark| *mark == build.mark) =>
            {
                Ok(())
            }
            (Some(_), None) => Ok(()),
            (_, Some(build)) => build.make(engine, image, progress).await,
            (None, None) if is_default(image) => make_default(engine, image, progress).await,
            (None, None) if self.pull => {
                tell(progress, &format!("pulling {image}"));
                engine.pull(image, progress).await.map_err(|error| {
                    let message = format!("the image {image} is not on this machine, and cannot be fetched");
                    other_ways(Error::new(ErrorKind::NotFound, message).caused_by(error))
                })
            }
            (None, None) => {
                let message = format!("the image {image} is not on this machine");
                Err(other_ways(
                    Error::new(ErrorKind::NotFound, message)
                        .hint(format!("get it: docker pull {image}, or set providerOptions.pull to true")),
                ))
            }
        }
    }
}

fn other_ways(error: Error) -> Error {
    error
        .hint("or build it: set providerOptions.build to { \"from\": IMAGE, \"run\": [COMMAND, …] }")
        .hint("or set docker.image to one that is here")
}

fn is_default(image: &str) -> bool {
    DockerSection::built_in().image.is_some_and(|default| default.as_str() == image)
}

impl Prepared {
    async fn make(&self, engine: &Engine, image: &str, progress: Option<&Progress>) -> Result<()> {
        let from = self.recipe.begins_with();
        tell(progress, &format!("building {image} from {from}"));
        let build = Build { image, dockerfile: &self.text, label: (LABEL_RECIPE, &self.mark) };
        engine.build(build, progress).await.map_err(|error| {
            let message =
                format!("the image {image} is not on this machine, and cannot be built from {from}");
            Error::new(ErrorKind::NotFound, message)
                .hint("correct providerOptions.build")
                .hint("or set docker.image to one that is here")
                .caused_by(error)
        })
    }
}

/// The default image is its base under a name of its own.
async fn make_default(engine: &Engine, image: &str, progress: Option<&Progress>) -> Result<()> {
    if engine.image_labels(BASE_IMAGE).await?.is_none() {
        tell(progress, &format!("pulling {BASE_IMAGE} for the sandbox's image"));
        engine.pull(BASE_IMAGE, progress).await.map_err(|error| {
            Error::new(
                ErrorKind::NotFound,
                format!("the image {image} is not on this machine, and {BASE_IMAGE}, which it is made from, cannot be fetched"),
            )
            .hint(format!("without a registry: import one and name it so, docker import ROOT.tar {image}"))
            .hint("or set docker.image to one that is here")
            .caused_by(error)
        })?;
    }
    engine.tag(BASE_IMAGE, image).await
}

fn tell(progress: Option<&Progress>, line: &str) {
    if let Some(progress) = progress {
        progress(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe(json: serde_json::Value) -> Recipe {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn nothing_in_a_command_means_anything_to_the_builder() {
        let json = serde_json::json!({ "from": "a/b:c", "run": ["echo \"1\"\nCOPY . /", "true \\"] });
        assert_eq!(
            recipe(json).text().unwrap(),
            "FROM a/b:c\nRUN [\"/bin/sh\",\"-euc\",\"echo \\\"1\\\"\\nCOPY . /\"]\nRUN [\"/bin/sh\",\"-euc\",\"true \\\\\"]\n"
        );
    }

    #[test]
    fn a_recipe_begins_with_one_thing() {
        for json in [
            serde_json::json!({}),
            serde_json::json!({ "from": "" }),
            serde_json::json!({ "from": "a\nRUN evil" }),
            serde_json::json!({ "from": "a", "dockerfile": "/b" }),
            serde_json::json!({ "dockerfile": "/no/such/file" }),
            serde_json::json!({ "dockerfile": "/etc/hostname", "run": ["true"] }),
        ] {
            let error = Images::new(false, Some(recipe(json.clone()))).unwrap_err();
            assert_eq!(error.kind, ErrorKind::InvalidConfig, "{json}: {error}");
            assert!(error.message.contains("build"), "{json}: {error}");
        }
    }
}
