//! Whether a session is sandboxed.

use ringfence_model::config::SessionMode;

/// Names that a program gives to its sessions, and which of them work in sandboxes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRules {
    pub mode: SessionMode,
    /// The last part of an agent's main session key.
    pub main_key: String,
    /// Whose a session is whose key names no agent.
    pub default_agent: String,
    /// All sessions are one, called `global`.
    pub one_for_all: bool,
}

impl Default for SessionRules {
    /// Every session is sandboxed.
    fn default() -> Self {
        Self {
            mode: SessionMode::All,
            main_key: "main".to_owned(),
            default_agent: "main".to_owned(),
            one_for_all: false,
        }
    }
}

/// The decision about a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeStatus {
    pub session_key: String,
    pub agent_id: String,
    pub main_session_key: String,
    pub mode: SessionMode,
    pub sandboxed: bool,
}

impl SessionRules {
    #[must_use]
    pub fn status(&self, session_key: &str) -> RuntimeStatus {
        let key = session_key.trim();
        let agent_id = self.agent_of(key);
        let main_session_key = if self.one_for_all {
            "global".to_owned()
        } else {
            format!("agent:{agent_id}:{}", self.main_key)
        };
        let is_main = key == main_session_key || self.is_alias_of_main(key, &agent_id);
        let sandboxed = match self.mode {
            _ if key.is_empty() => false,
            SessionMode::Off => false,
            SessionMode::NonMain => !is_main,
            SessionMode::All => true,
        };
        let session_key = if is_main { main_session_key.clone() } else { key.to_owned() };
        RuntimeStatus { session_key, agent_id, main_session_key, mode: self.mode, sandboxed }
    }

    fn agent_of(&self, key: &str) -> String {
        let mut parts = key.split(':');
        match (parts.next(), parts.next()) {
            (Some("agent"), Some(id)) if !id.trim().is_empty() => id.trim().to_lowercase(),
            _ => self.default_agent.clone(),
        }
    }

    fn is_alias_of_main(&self, key: &str, agent: &str) -> bool {
        let own = key.strip_prefix("agent:").and_then(|rest| rest.split_once(':'));
        let name = match own {
            Some((id, name)) if id.trim().to_lowercase() == agent => name,
            Some(_) => return false,
            None => key,
        };
        name == "main" || name == self.main_key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(mode: SessionMode) -> SessionRules {
        SessionRules { mode, main_key: "home".to_owned(), ..SessionRules::default() }
    }

    #[test]
    fn the_mode_decides() {
        for (mode, main, other) in [
            (SessionMode::Off, false, false),
            (SessionMode::NonMain, false, true),
            (SessionMode::All, true, true),
        ] {
            assert_eq!(rules(mode).status("agent:main:home").sandboxed, main, "{mode:?}");
            assert_eq!(rules(mode).status("agent:main:chat-7").sandboxed, other, "{mode:?}");
            assert!(!rules(mode).status("  ").sandboxed, "a session without a key is not sandboxed");
        }
    }

    #[test]
    fn the_main_session_has_several_names() {
        let rules = rules(SessionMode::NonMain);
        for key in ["main", "home", "agent:main:main", "agent:main:home", " agent:MAIN:home "] {
            let status = rules.status(key);
            assert!(!status.sandboxed, "{key}");
            assert_eq!(status.session_key, "agent:main:home", "{key}");
        }
        assert_eq!(rules.status("agent:work:main").session_key, "agent:work:home");
        assert!(!rules.status("agent:work:main").sandboxed, "each agent has a main session");
        for key in ["mainly", "agent:main:homes", "agent:main:x:main", "chat"] {
            assert!(rules.status(key).sandboxed, "{key}");
        }
    }

    #[test]
    fn one_session_for_all_is_called_global() {
        let rules = SessionRules { one_for_all: true, ..rules(SessionMode::NonMain) };
        for key in ["global", "main", "agent:main:main"] {
            assert_eq!(rules.status(key).session_key, "global");
            assert!(!rules.status(key).sandboxed);
        }
        assert!(rules.status("agent:main:chat").sandboxed);
    }

    #[test]
    fn the_agent_is_named_by_the_key_or_is_the_default_one() {
        let rules = SessionRules { default_agent: "helper".to_owned(), ..rules(SessionMode::All) };
        assert_eq!(rules.status("agent:Work:chat").agent_id, "work");
        assert_eq!(rules.status("chat").agent_id, "helper");
        assert_eq!(rules.status("agent::chat").agent_id, "helper");
    }
}
