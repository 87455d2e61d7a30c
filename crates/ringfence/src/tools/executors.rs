//! Executors: where code runs, by how risky it is.
//!
//! Without executors, `run_code` runs in the session's own workplace, which is a fence already. With them, the level of the
//! code and the mode decide; what is not there is never replaced by something weaker.

use std::collections::BTreeMap;
use std::sync::Arc;

use ringfence_fence::Registry;
use ringfence_gate::risk::{Assessment, Sandbox, SecurityMode, required_sandbox};
use ringfence_model::config::{CodeSandbox, DockerSection, SessionMode};
use ringfence_model::{Error, ErrorKind, PolicyMode, Result};

use super::languages::{CodeImage, Languages};
use crate::containers;
use crate::manager::{Manager, ManagerOptions, Place};
use crate::session::{Managed, Workplace};
use crate::setup::Setup;

/// The session of containers for code of a session that has no name.
const CODE: &str = "code";

/// The workplaces that code can be sent to, besides the session's own.
#[derive(Debug, Clone, Default)]
pub struct Executors {
    /// Strict unless another is chosen: what is not safe goes into a container.
    pub mode: SecurityMode,
    /// Containers. None: what needs one does not run.
    pub docker: Option<Arc<dyn Workplace>>,
    /// Containers of single languages, by name; they come before the other.
    pub languages: BTreeMap<String, Arc<dyn Workplace>>,
    /// A full environment, usually [`Pooled`](crate::session::Pooled).
    pub aio: Option<Arc<dyn Workplace>>,
}

impl Executors {
    /// As `safety.codeSandbox` says; none: all code runs in the session's own sandbox. A container is made for each piece
    /// of code, works where the session does, and is of the language's image unless somebody configured another.
    pub(crate) fn configured(
        setup: &Setup,
        place: &Place,
        session: &str,
        languages: &Languages,
        (registry, options): (Registry, ManagerOptions),
    ) -> Option<Self> {
        let mode = match setup.loaded.config.safety.code_sandbox {
            CodeSandbox::Own => return None,
            CodeSandbox::Permissive => SecurityMode::Permissive,
            CodeSandbox::Strict => SecurityMode::Strict,
        };
        let mut contained = setup.clone();
        let config = &mut contained.loaded.config;
        // A container, whatever holds everything else: nothing that is not safe runs without one.
        (config.enabled, config.default_policy) = (true, PolicyMode::Restricted);
        if config.provider != containers::KIND {
            containers::KIND.clone_into(&mut config.provider);
            config.provider_options.clear();
        }
        config.provider_options.insert("life".to_owned(), "simple".into());
        (config.workspace_access, config.working_dir) = (Some(place.access), None);
        let mut options = ManagerOptions { is_ephemeral: true, ..options };
        options.sessions.mode = SessionMode::All;
        // Without a key there would be no sandbox.
        let session = if session.trim().is_empty() { CODE } else { session };
        let workplace = |setup: Setup| -> Arc<dyn Workplace> {
            let manager = Manager::new(setup, registry.clone(), options.clone());
            Arc::new(Managed::new(Arc::new(manager), session))
        };
        let is_chosen = contained.loaded.config.docker.image != DockerSection::built_in().image;
        let of_language = |(name, image): (&str, &CodeImage)| {
            let mut setup = contained.clone();
            setup.loaded.config.docker.image = Some(image.image.as_str().into());
            (name.to_owned(), workplace(setup))
        };
        let languages = languages.images().filter(|_| !is_chosen).map(of_language).collect();
        Some(Self { mode, languages, docker: Some(workplace(contained)), aio: None })
    }

    /// The workplace for code of that language and level. `own` is for what is safe; a wish counts only if it is stricter.
    pub(crate) fn choose(
        &self,
        own: &Arc<dyn Workplace>,
        language: &str,
        assessment: &Assessment,
        wish: Option<Sandbox>,
    ) -> Result<(Sandbox, Arc<dyn Workplace>)> {
        let container = self.languages.get(language).or(self.docker.as_ref());
        let docker = container.map(|place| (Sandbox::Docker, place));
        let found = match required_sandbox(assessment, self.mode, wish) {
            Sandbox::Subprocess => Some((Sandbox::Subprocess, own)),
            Sandbox::Docker => docker,
            Sandbox::Aio => self.aio.as_ref().map(|place| (Sandbox::Aio, place)).or(docker),
            Sandbox::Reject => {
                let text = format!("this code runs nowhere; {}", assessment.reason);
                return Err(Error::new(ErrorKind::ExecutionRejected, text));
            }
        };
        found.map(|(kind, place)| (kind, Arc::clone(place))).ok_or_else(|| {
            let text = format!("this code needs a container, and there is none; {}", assessment.reason);
            Error::new(ErrorKind::SandboxNotAvailable, text)
                .hint("give the tools an executor for it; nothing weaker is taken instead")
        })
    }

    /// Whether that is the container of a language, in which another command may run its code.
    pub(crate) fn is_of(&self, language: &str, place: &Arc<dyn Workplace>) -> bool {
        self.languages.get(language).is_some_and(|own| Arc::ptr_eq(own, place))
    }

    pub(crate) fn workplaces(&self) -> impl Iterator<Item = &Arc<dyn Workplace>> {
        self.docker.iter().chain(&self.aio).chain(self.languages.values())
    }
}

#[cfg(test)]
mod tests {
    use ringfence_gate::risk::assess_browser;
    use ringfence_gate::{Gate, Language, Options, Request};
    use ringfence_model::config::ConfigFile;
    use serde_json::json;

    use super::*;
    use crate::manager::{Manager, ManagerOptions, built_in};
    use crate::session::Managed;
    use crate::setup::Setup;

    /// One in which nothing has started.
    fn room() -> Arc<dyn Workplace> {
        let setup = Setup::load("/tmp".as_ref(), Default::default(), ConfigFile::default(), None).unwrap();
        let options = ManagerOptions::new(&setup, |_| ());
        Arc::new(Managed::new(Arc::new(Manager::new(setup, built_in().unwrap(), options)), "x"))
    }

    fn level_of(code: &str) -> Assessment {
        let request = Request::new(Language::Shell, code, "/home/a", "/home/a");
        Gate::new(Options::default()).judge(&request).risk
    }

    fn chosen(executors: &Executors, assessment: &Assessment, wish: Option<Sandbox>) -> Result<Sandbox> {
        executors.choose(&room(), "shell", assessment, wish).map(|(kind, _)| kind)
    }

    #[test]
    fn what_is_not_safe_goes_into_a_container_or_nowhere() {
        let none = Executors::default();
        assert_eq!(none.mode, SecurityMode::Strict);
        assert_eq!(chosen(&none, &level_of("ls"), None).unwrap(), Sandbox::Subprocess);
        let error = chosen(&none, &level_of("make"), None).unwrap_err();
        assert_eq!(error.kind, ErrorKind::SandboxNotAvailable, "never in something weaker");
        let docker = Executors { docker: Some(room()), ..Executors::default() };
        assert_eq!(chosen(&docker, &level_of("make"), None).unwrap(), Sandbox::Docker);
        let rejected = chosen(&docker, &level_of("sudo id"), None).unwrap_err();
        assert_eq!(rejected.kind, ErrorKind::ExecutionRejected);
        assert!(rejected.message.contains("found:"), "{rejected}");
    }

    #[test]
    fn a_configured_container_holds_code_whatever_holds_everything_else() {
        let configured = |config: serde_json::Value, session: &str| {
            let config = serde_json::from_value(config).unwrap();
            let setup = Setup::load("/tmp".as_ref(), Default::default(), config, None).unwrap();
            let options = ManagerOptions::new(&setup, |_| ());
            let manager = Manager::new(setup.clone(), built_in().unwrap(), options.clone());
            let (place, _) = manager.place(session).unwrap();
            let from = (built_in().unwrap(), options);
            Executors::configured(&setup, &place, session, &Languages::default(), from)
        };
        assert!(configured(json!({}), "x").is_none());
        for (more, session) in [
            (json!({}), "x"),
            (json!({}), ""),
            (json!({ "enabled": false }), "x"),
            (json!({ "defaultPolicy": "none" }), "x"),
            (json!({ "sessions": "off", "provider": "none" }), "main"),
        ] {
            let mut config = json!({ "safety": { "codeSandbox": "strict" } });
            config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let executors = configured(config, session).unwrap();
            assert_eq!(executors.workplaces().count(), 4, "one of each language, and one for all others");
            assert!(executors.workplaces().all(|place| place.is_fenced()), "{more} {session}");
        }
        let image = json!({ "safety": { "codeSandbox": "strict" }, "docker": { "image": "mine" } });
        assert!(configured(image, "x").unwrap().languages.is_empty(), "a person chose the image");
    }

    #[test]
    fn a_wish_tightens_and_loosens_nothing() {
        let docker = Executors { docker: Some(room()), ..Executors::default() };
        assert_eq!(chosen(&docker, &level_of("ls"), Some(Sandbox::Docker)).unwrap(), Sandbox::Docker);
        assert_eq!(chosen(&docker, &level_of("make"), Some(Sandbox::Subprocess)).unwrap(), Sandbox::Docker);
    }

    #[test]
    fn a_container_is_taken_where_a_full_environment_is_missing() {
        let click = assess_browser("click", "");
        let mut executors = Executors { docker: Some(room()), ..Executors::default() };
        assert_eq!(chosen(&executors, &click, None).unwrap(), Sandbox::Docker);
        executors.aio = Some(room());
        assert_eq!(chosen(&executors, &click, None).unwrap(), Sandbox::Aio);
    }
}
