//! Options of the provider `docker` besides the policy.

use std::path::Path;
#[cfg(feature = "docker")]
use std::sync::Arc;

use ringfence_model::config::{Mode, WorkspaceAccess};
use serde_json::{Map, Value, json};

use crate::config::EnvMap;
use crate::housekeeping::Housekeeper;
use crate::setup::Setup;

/// The provider whose sandboxes are containers.
pub const KIND: &str = "docker";

/// The section `docker` and what follows from where a sandbox works. `guest` is a program that can be one inside: this program
/// itself, mostly. Keys that a person wrote in `providerOptions` are added; the provider refuses those it does not know.
#[must_use]
pub fn options(setup: &Setup, access: WorkspaceAccess, guest: Option<&Path>) -> Value {
    let config = &setup.loaded.config;
    let mut options = Map::new();
    options.extend(config.provider_options.clone());
    let mut set = |key: &str, value: Value| options.insert(key.to_owned(), value);
    set("docker", json!(config.docker));
    set("workspaceAccess", json!(access));
    set("agentWorkspace", json!(setup.project));
    set("precision", json!(config.precision));
    if config.mode == Mode::Strict {
        set("envRules", json!("strict"));
    }
    set("home", json!(setup.home));
    set("ledger", json!(setup.ledger_path()));
    if let Some(guest) = guest {
        set("guestProgram", json!(guest));
    }
    Value::Object(options)
}

/// The housekeeper of that ledger, who looks after containers too where there is an engine: the one that `providerOptions` name, or
/// that of the caller's environment.
#[must_use]
pub fn looked_after(
    keeper: Housekeeper,
    ledger: &Path,
    environment: &EnvMap,
    provider_options: &Map<String, Value>,
) -> Housekeeper {
    #[cfg(feature = "docker")]
    {
        use ringfence_docker::engine::Endpoint;
        let endpoint = match provider_options.get("engine").and_then(Value::as_str) {
            Some(named) => Endpoint::parse(named),
            None => Endpoint::find(environment),
        };
        if let Ok(endpoint) = endpoint {
            return keeper.with(Arc::new(ringfence_docker::register::Containers::of(endpoint, ledger)));
        }
    }
    let _ = (ledger, environment, provider_options);
    keeper
}
