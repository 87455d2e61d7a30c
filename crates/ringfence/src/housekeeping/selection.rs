//! Which sandboxes a person means.

/// Which ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    All,
    /// The one that this session works in, by the key of its scope.
    Session(String),
    /// Those of an agent and of all its sessions.
    Agent(String),
}

impl Selection {
    /// Whether a sandbox for that key is meant.
    #[must_use]
    pub fn covers(&self, scope_key: &str) -> bool {
        match self {
            Self::All => true,
            Self::Session(key) => scope_key == key.trim(),
            Self::Agent(agent) => {
                let key = format!("agent:{}", agent.trim().to_lowercase());
                scope_key.strip_prefix(&key).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_has_its_own_sandbox_and_those_of_its_sessions() {
        let agent = Selection::Agent("Work".to_owned());
        for (key, meant) in [
            ("agent:work", true),
            ("agent:work:main", true),
            ("agent:work:chat:7", true),
            ("agent:worker", false),
            ("agent:worker:main", false),
            ("work", false),
            ("shared", false),
        ] {
            assert_eq!(agent.covers(key), meant, "{key}");
        }
        let session = Selection::Session("agent:work:main".to_owned());
        assert!(session.covers("agent:work:main") && !session.covers("agent:work:main:x"));
        assert!(Selection::All.covers("shared"));
    }
}
