//! Connections of the fence inside, made outside: a container has no network, and the host looks names up, connects, and
//! looks at what is said.

use std::collections::BTreeMap;
use std::ffi::OsString;

use ringfence_fence::CreateOptions;
use ringfence_local::guest::out_wire::OutWord;
use ringfence_model::{GrantScope, Policy, Result};
use tokio::sync::mpsc;

use crate::options::ContainerSpec;

/// What connections are made by: the host's own words.
#[derive(Debug)]
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux makes them"))]
pub(crate) struct Outside {
    policy: Policy,
    environment: BTreeMap<OsString, OsString>,
}

impl Outside {
    /// None where nobody is let out, or the container has a network of its own, or this system cannot.
    pub(crate) fn of(options: &CreateOptions, spec: &ContainerSpec) -> Option<Self> {
        let is_wanted = options.policy.network.is_by_name() || options.hooks.approval.is_some();
        (is_wanted && spec.has_no_network() && cfg!(target_os = "linux"))
            .then(|| Self { policy: options.policy.clone(), environment: options.environment.clone() })
    }
}

#[cfg(target_os = "linux")]
type Made = std::sync::Arc<ringfence_local::guest::for_guest::ForGuest>;
#[cfg(not(target_os = "linux"))]
type Made = std::convert::Infallible;

/// Those of one guest; none where none are made.
#[derive(Debug, Clone, Default)]
pub(super) struct Connections(Option<Made>);

impl Connections {
    pub(super) fn are_made(&self) -> bool {
        self.0.is_some()
    }
}

#[cfg(target_os = "linux")]
impl Connections {
    pub(super) fn new(outside: Option<Outside>, orders: mpsc::UnboundedSender<Vec<u8>>) -> Result<Self> {
        use ringfence_local::guest::for_guest::ForGuest;
        use ringfence_local::guest::wire::Order;
        use ringfence_model::{Error, ErrorKind};
        let Some(Outside { policy, environment }) = outside else { return Ok(Self(None)) };
        let tell = move |order| {
            // A guest that is gone has no connections.
            let _ = super::link::send(&orders, &Order::Out { order });
        };
        let made = ForGuest::new(policy, environment, tell).map_err(|error| {
            Error::new(ErrorKind::InitializationFailed, "cannot make connections for the container")
                .caused_by(error)
        })?;
        Ok(Self(Some(made)))
    }

    pub(super) fn hear(&self, word: OutWord) {
        if let Some(made) = &self.0 {
            made.hear(word);
        }
    }

    /// A person said yes to this host and port.
    pub(super) fn says_yes(&self, place: &str, scope: GrantScope) {
        if let Some(made) = &self.0 {
            made.says_yes(place, scope == GrantScope::Once);
        }
    }

    /// Nothing runs, and something is about to.
    pub(super) fn next_command(&self) {
        if let Some(made) = &self.0 {
            made.next_command();
        }
    }

    /// The guest is gone.
    pub(super) async fn end(&self) {
        if let Some(made) = self.0.clone() {
            let _ = ringfence_local::offload::offload(move || made.end()).await;
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl Connections {
    pub(super) fn new(_: Option<Outside>, _: mpsc::UnboundedSender<Vec<u8>>) -> Result<Self> {
        Ok(Self(None))
    }

    pub(super) fn hear(&self, _: OutWord) {}

    pub(super) fn says_yes(&self, _: &str, _: GrantScope) {}

    pub(super) fn next_command(&self) {}

    pub(super) async fn end(&self) {}
}
