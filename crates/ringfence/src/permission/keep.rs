//! Answers of "always", written to the user's own file.

use std::path::PathBuf;

use ringfence_model::config::PermanentGrant;
use ringfence_model::{Access, Error, ErrorKind, Grant, Result};

use crate::config::{HostList, add_never_ask, add_permanent_grant, add_rule, keep_host};
use crate::gate::List;

/// Keeps answers beyond the end of the program: in the user's own configuration file, never in a project's.
#[derive(Debug, Clone)]
pub(crate) struct ConfigFileKeeper(pub(crate) PathBuf);

impl ConfigFileKeeper {
    pub(crate) fn keep_grant(&self, grant: &Grant) -> Result<()> {
        let Some(path) = grant.path.to_str() else {
            let message = format!("{} is not UTF-8 and cannot be granted permanently", grant.path.display());
            return Err(Error::new(ErrorKind::Validation, message));
        };
        if grant.access == Access::Connect {
            return keep_host(&self.0, HostList::Allowed, path).map(drop);
        }
        let permanent =
            PermanentGrant { path: path.to_owned(), access: grant.access, recursive: grant.recursive };
        add_permanent_grant(&self.0, &permanent).map(drop)
    }

    /// Nobody is asked about it again.
    pub(crate) fn keep_refusal(&self, grant: &Grant) -> Result<()> {
        let resource = grant.path.to_string_lossy();
        if grant.access == Access::Connect {
            return keep_host(&self.0, HostList::Blocked, &resource).map(drop);
        }
        add_never_ask(&self.0, &resource).map(drop)
    }

    /// Refuses such commands from now on.
    pub(crate) fn keep_denied_rule(&self, rule: &str) -> Result<()> {
        add_rule(&self.0, List::Deny, rule).map(drop)
    }

    /// Lets a command pass from now on.
    pub(crate) fn keep_rule(&self, rule: &str) -> Result<()> {
        add_rule(&self.0, List::Allow, rule).map(drop)
    }
}
