//! Providers by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use ringfence_model::{Error, ErrorKind, Result};

use crate::Provider;

/// Makes a provider.
pub type ProviderFactory = Arc<dyn Fn() -> Result<Arc<dyn Provider>> + Send + Sync>;

/// Knows how to make a provider of each kind. A value, not a global: each manager has its own.
#[derive(Clone, Default)]
pub struct Registry {
    factories: BTreeMap<String, ProviderFactory>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.factories.keys()).finish()
    }
}

impl Registry {
    /// Without any provider.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers (or replaces) the provider of that kind.
    pub fn register(
        &mut self,
        kind: &str,
        factory: impl Fn() -> Result<Arc<dyn Provider>> + Send + Sync + 'static,
    ) -> Result<()> {
        if kind.trim().is_empty() {
            return Err(Error::new(ErrorKind::Validation, "a provider needs a name that is not blank"));
        }
        self.factories.insert(kind.to_owned(), Arc::new(factory));
        Ok(())
    }

    /// Makes the provider of that kind.
    pub fn get(&self, kind: &str) -> Result<Arc<dyn Provider>> {
        match self.factories.get(kind) {
            Some(factory) => factory(),
            None => {
                let known: Vec<&str> = self.kinds().collect();
                Err(Error::new(
                    ErrorKind::NotFound,
                    format!("unknown sandbox provider \"{kind}\"; known providers: {}", known.join(", ")),
                ))
            }
        }
    }

    /// The names that are registered, sorted.
    pub fn kinds(&self) -> impl Iterator<Item = &str> {
        self.factories.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing() -> Result<Arc<dyn Provider>> {
        Err(Error::new(ErrorKind::SandboxNotAvailable, "none here"))
    }

    #[test]
    fn an_unknown_kind_is_named_with_the_known_ones() {
        let mut registry = Registry::new();
        registry.register("local", nothing).unwrap();
        registry.register("docker", nothing).unwrap();
        let error = registry.get("dokcer").unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound);
        assert_eq!(error.message, "unknown sandbox provider \"dokcer\"; known providers: docker, local");
    }

    #[test]
    fn a_blank_kind_is_refused() {
        assert_eq!(Registry::new().register("  ", nothing).unwrap_err().kind, ErrorKind::Validation);
    }
}
