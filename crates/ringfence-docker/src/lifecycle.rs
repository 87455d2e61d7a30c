//! From a specification to a container that runs: what is there is used again while it is the same, made anew when nobody
//! needs it, and left alone with a hint when somebody does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ringfence_fence::Progress;
use ringfence_model::config::Scope;
use ringfence_model::{Error, ErrorKind, Result};

use crate::engine::Engine;
use crate::engine::attached::{Attached, Program};
use crate::engine::containers::{Extras, Found};
use crate::guest;
use crate::images::{Images, LABEL_BUILD};
use crate::options::ContainerSpec;
use crate::options::identity::{LABEL_CONFIG_HASH, scope_of};

/// A container that was used more recently is somebody's.
pub const HOT_MS: u64 = 5 * 60 * 1000;

/// The directory of the host that a container's workspace is.
pub const LABEL_WORKSPACE: &str = "ringfence.workspace";

/// Which files of the workspace a container without a guest hides and protects.
pub const LABEL_MASKS: &str = "ringfence.masks";

/// A set-up command installs things; it may take its time.
const SETUP: Duration = Duration::from_secs(30 * 60);

/// Two processes may make the same container at once; one of them waits until it is made.
const SOON: Duration = Duration::from_millis(200);
const ATTEMPTS: usize = 3000;

/// What is remembered about containers beyond what the engine knows.
pub trait Records: Send + Sync + std::fmt::Debug {
    /// When it was last used, in milliseconds since 1970; none when nothing is remembered.
    fn last_used_ms(&self, container: &str) -> Result<Option<u64>>;

    /// The hash it was made with, for a container that lacks the label.
    fn config_hash(&self, container: &str) -> Result<Option<String>>;

    /// It is not there and is about to be made.
    fn reserve(&self, spec: &ContainerSpec, scope_key: &str) -> Result<Making>;

    /// It runs and is used now. `hash` is what it was made with, which for one that was kept is an old one.
    fn ready(&self, spec: &ContainerSpec, scope_key: &str, hash: &str) -> Result<()>;

    /// It is gone.
    fn removed(&self, container: &str) -> Result<()>;

    /// Whoever began to make it has not finished and never will: what is there may lack its set-up.
    fn is_half_made(&self, _container: &str) -> Result<bool> {
        Ok(false)
    }

    /// Its making is given up in the middle.
    fn abandoned(&self, _container: &str) {}
}

/// Who makes a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Making {
    Ours,
    /// Another process is at it; it is there soon.
    Anothers,
}

/// Remembers nothing: every container that runs is taken for one in use.
#[derive(Debug, Clone, Copy, Default)]
pub struct Forgetful;

impl Records for Forgetful {
    fn last_used_ms(&self, _: &str) -> Result<Option<u64>> {
        Ok(None)
    }

    fn config_hash(&self, _: &str) -> Result<Option<String>> {
        Ok(None)
    }

    fn reserve(&self, _: &ContainerSpec, _: &str) -> Result<Making> {
        Ok(Making::Ours)
    }

    fn ready(&self, _: &ContainerSpec, _: &str, _: &str) -> Result<()> {
        Ok(())
    }

    fn removed(&self, _: &str) -> Result<()> {
        Ok(())
    }
}

/// A container that is being made; one that is not finished is told to be so.
struct Begun<'a> {
    records: &'a dyn Records,
    name: &'a str,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.records.abandoned(self.name);
    }
}

/// What was done to have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Created,
    /// It was there; it may have had to be started.
    Reused,
    /// It was there with another configuration, and nobody had used it lately.
    Recreated,
    /// It has another configuration and is in use; what to do about it.
    Outdated {
        hint: String,
    },
}

/// Everything that goes into having a container.
pub struct Wanted<'a> {
    pub spec: &'a ContainerSpec,
    pub extras: &'a Extras,
    /// How its image comes here.
    pub images: &'a Images,
    pub scope_key: &'a str,
    pub records: &'a dyn Records,
    pub progress: Option<&'a Progress>,
    pub now_ms: u64,
    /// One of these must be in the image, or nothing is made and the error is of the kind `Unsupported`. Empty: nothing has to.
    pub needs: &'a [&'a str],
    /// What [`LABEL_MASKS`] of a container without a guest must say: nobody else there knows of the policy's rules.
    pub masks: &'a str,
}

impl std::fmt::Debug for Wanted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wanted").field("name", &self.spec.name).finish_non_exhaustive()
    }
}

/// What to do about a container that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Use,
    Keep,
    Replace,
}

impl Wanted<'_> {
    /// Makes sure that the container runs.
    pub async fn ensure(&self, engine: &Engine) -> Result<Outcome> {
        let mut replaced = false;
        for _ in 0..ATTEMPTS {
            let Some(found) = engine.inspect(&self.spec.name).await? else {
                if self.records.reserve(self.spec, self.scope_key)? == Making::Anothers {
                    engine.pause(SOON).await;
                    continue;
                }
                let begun = Begun { records: self.records, name: &self.spec.name };
                let created = self.create(engine).await;
                std::mem::forget(begun);
                match created {
                    Err(error) if is_taken(&error) => continue,
                    Err(error) => return Err(error),
                    Ok(()) => {
                        self.records.ready(self.spec, self.scope_key, &self.spec.config_hash)?;
                        return Ok(if replaced { Outcome::Recreated } else { Outcome::Created });
                    }
                }
            };
            if self.records.is_half_made(&self.spec.name)? {
                self.tell(&format!("the container {} was never finished: making it anew", self.spec.name));
                self.remove(engine).await?;
                replaced = true;
                continue;
            }
            match self.judge(&found)? {
                Verdict::Use => {
                    if !self.use_now(engine, &self.spec.config_hash).await? {
                        continue;
                    }
                    if !found.running {
                        engine.start(&self.spec.name).await?;
                    }
                    return Ok(Outcome::Reused);
                }
                Verdict::Keep => {
                    self.refuse_another_workspace(&found)?;
                    let hash = self.hash_of(&found)?.unwrap_or_default();
                    if !self.use_now(engine, &hash).await? {
                        continue;
                    }
                    return Ok(Outcome::Outdated { hint: self.hint() });
                }
                Verdict::Replace => {
                    self.tell(&format!(
                        "the container {} has another configuration: making it anew",
                        self.spec.name
                    ));
                    self.remove(engine).await?;
                    replaced = true;
                }
            }
        }
        let message = format!("others keep making and removing the container {}", self.spec.name);
        Err(Error::new(ErrorKind::ConcurrentAccess, message))
    }

    async fn remove(&self, engine: &Engine) -> Result<()> {
        engine.remove(&self.spec.name).await?;
        self.records.removed(&self.spec.name)
    }

    /// Notes the use of what is there. False, a moment later, when another process is still making it, set-up included, or removing it.
    async fn use_now(&self, engine: &Engine, hash: &str) -> Result<bool> {
        match self.records.ready(self.spec, self.scope_key, hash) {
            Err(error) if is_taken(&error) => {
                engine.pause(SOON).await;
                Ok(false)
            }
            noted => noted.map(|()| true),
        }
    }

    fn hash_of(&self, found: &Found) -> Result<Option<String>> {
        hash_of(&found.labels, || self.records.config_hash(&self.spec.name))
    }

    fn judge(&self, found: &Found) -> Result<Verdict> {
        let (its, wanted) = (found.labels.get(guest::LABEL), self.extras.labels.get(guest::LABEL));
        let same_guest = its == wanted
            || wanted.is_some_and(|wanted| its.is_some_and(|its| *its == guest::without(wanted)));
        // What the hash does not know of.
        let same_build = found.labels.get(LABEL_BUILD) == self.extras.labels.get(LABEL_BUILD);
        let without = its.is_some_and(|its| its.starts_with(guest::WITHOUT));
        let same_masks = !without || found.labels.get(LABEL_MASKS).is_some_and(|masks| masks == self.masks);
        if same_guest
            && same_build
            && same_masks
            && self.hash_of(found)?.as_ref() == Some(&self.spec.config_hash)
        {
            return Ok(Verdict::Use);
        }
        let used = self.records.last_used_ms(&self.spec.name)?;
        let hot = found.running && used.is_none_or(|used| self.now_ms.saturating_sub(used) < HOT_MS);
        Ok(if hot { Verdict::Keep } else { Verdict::Replace })
    }

    /// Whoever works elsewhere must not end up in somebody else's directory, however recently it was used.
    fn refuse_another_workspace(&self, found: &Found) -> Result<()> {
        let (Some(its), Some(wanted)) =
            (found.labels.get(LABEL_WORKSPACE), self.extras.labels.get(LABEL_WORKSPACE))
        else {
            return Ok(());
        };
        if its == wanted {
            return Ok(());
        }
        let message = format!("the container {} is in use for another directory: {its}", self.spec.name);
        Err(Error::new(ErrorKind::ConcurrentAccess, message)
            .hint("use another session or scope: session, or wait until it is not used any more")
            .hint(self.hint()))
    }

    fn hint(&self) -> String {
        format!(
            "the container {} was made with another configuration and is in use; to have the new one: ringfence recreate {}",
            self.spec.name,
            whom(self.scope_key)
        )
    }

    async fn create(&self, engine: &Engine) -> Result<()> {
        let made = async {
            self.images.ensure(engine, &self.spec.image, self.progress).await?;
            engine.create(self.spec, self.extras).await?;
            self.check_needs(engine).await
        };
        if let Err(error) = made.await {
            // Nothing of it is there, or it is another's.
            if !is_taken(&error) {
                self.records.removed(&self.spec.name)?;
            }
            return Err(error);
        }
        let begun = async {
            engine.start(&self.spec.name).await?;
            self.set_up(engine).await
        };
        if let Err(error) = begun.await {
            // What is not set up is not used again. That the engine fails twice is less interesting than why.
            let _ = engine.remove(&self.spec.name).await;
            let _ = self.records.removed(&self.spec.name);
            return Err(error);
        }
        Ok(())
    }

    /// Makes a container that ends and is removed with the connection given here: whatever becomes of this process.
    pub(crate) async fn make_tied(&self, engine: &Engine) -> Result<Attached> {
        self.images.ensure(engine, &self.spec.image, self.progress).await?;
        engine.create(self.spec, self.extras).await?;
        let begun = async {
            self.check_needs(engine).await?;
            let tie = engine.tie(&self.spec.name).await?;
            engine.start(&self.spec.name).await?;
            self.set_up(engine).await.map(|()| tie)
        };
        match begun.await {
            Ok(tie) => Ok(tie),
            Err(error) => {
                let _ = engine.remove(&self.spec.name).await;
                Err(error)
            }
        }
    }

    async fn check_needs(&self, engine: &Engine) -> Result<()> {
        if self.needs.is_empty() || engine.has_one_of(&self.spec.name, self.needs).await? {
            return Ok(());
        }
        engine.remove(&self.spec.name).await?;
        let message = format!("the image {} has no {}", self.spec.image, self.needs[0]);
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    async fn set_up(&self, engine: &Engine) -> Result<()> {
        let Some(command) = &self.spec.setup_command else { return Ok(()) };
        self.tell("running the set-up command");
        let said = engine.run(&self.spec.name, Program::new(["sh", "-lc", command]), vec![], SETUP).await?;
        if said.code == 0 {
            return Ok(());
        }
        let output = [said.stdout, said.stderr].concat();
        let output = String::from_utf8_lossy(&output).trim().to_owned();
        let message =
            format!("the set-up command of the container failed with exit code {}: {output}", said.code);
        Err(Error::new(ErrorKind::InitializationFailed, message).hint("correct docker.setupCommand"))
    }

    fn tell(&self, line: &str) {
        if let Some(progress) = self.progress {
            progress(line);
        }
    }
}

/// What a container was made with: its label, or else what is remembered; none counts as something else.
fn hash_of(
    labels: &BTreeMap<String, String>,
    remembered: impl FnOnce() -> Result<Option<String>>,
) -> Result<Option<String>> {
    labels.get(LABEL_CONFIG_HASH).cloned().map_or_else(remembered, |hash| Ok(Some(hash)))
}

/// The option of `ringfence recreate` that means a scope.
fn whom(scope_key: &str) -> String {
    match scope_of(scope_key) {
        Scope::Session => format!("--session {scope_key}"),
        Scope::Agent => format!("--agent {}", scope_key.trim_start_matches("agent:")),
        Scope::Shared => "--all".to_owned(),
    }
}

fn is_taken(error: &Error) -> bool {
    error.kind == ErrorKind::ConcurrentAccess
}

/// Shared by those who hand it on.
pub type SharedRecords = Arc<dyn Records>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_label_of_a_container_comes_before_what_is_remembered() {
        let labelled = BTreeMap::from([(LABEL_CONFIG_HASH.to_owned(), "label".to_owned())]);
        let bare = BTreeMap::new();
        for (labels, remembered, want) in [
            (&labelled, Some("memory"), Some("label")),
            (&labelled, None, Some("label")),
            (&bare, Some("memory"), Some("memory")),
            (&bare, None, None),
        ] {
            let remembered = || Ok(remembered.map(str::to_owned));
            assert_eq!(hash_of(labels, remembered).unwrap().as_deref(), want);
        }
    }

    #[test]
    fn the_hint_names_the_scope_as_the_command_line_does() {
        assert_eq!(whom("agent:work:chat"), "--session agent:work:chat");
        assert_eq!(whom("agent:work"), "--agent work");
        assert_eq!(whom("shared"), "--all");
    }
}
