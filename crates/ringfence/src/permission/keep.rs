//! What a person allowed for good.

use std::path::PathBuf;

use ringfence_model::config::PermanentGrant;
use ringfence_model::{Error, ErrorKind, Grant, Result};

use crate::config::{add_permanent_grant, add_rule};
use crate::gate::List;

/// Keeps answers beyond the end of the program.
pub trait Keeper: Send + Sync + std::fmt::Debug {
    fn keep_grant(&self, grant: &Grant) -> Result<()>;

    /// Whether commands can be allowed for good, too.
    fn keeps_rules(&self) -> bool {
        false
    }

    /// Lets a command pass from now on.
    fn keep_rule(&self, rule: &str) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, format!("the rule `{rule}` cannot be kept here")))
    }
}

/// Writes to the user's own configuration file, never to a project's.
#[derive(Debug, Clone)]
pub struct ConfigFileKeeper(pub PathBuf);

impl Keeper for ConfigFileKeeper {
    fn keep_grant(&self, grant: &Grant) -> Result<()> {
        let Some(path) = grant.path.to_str() else {
            let message = format!("{} is not UTF-8 and cannot be granted for good", grant.path.display());
            return Err(Error::new(ErrorKind::Validation, message));
        };
        let permanent =
            PermanentGrant { path: path.to_owned(), access: grant.access, recursive: grant.recursive };
        add_permanent_grant(&self.0, &permanent).map(drop)
    }

    fn keeps_rules(&self) -> bool {
        true
    }

    fn keep_rule(&self, rule: &str) -> Result<()> {
        add_rule(&self.0, List::Allow, rule).map(drop)
    }
}
