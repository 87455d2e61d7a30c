//! The part of a sandbox's options that is the provider's own.

use ringfence_model::config::LocalOptions;
use ringfence_model::{Error, ErrorKind, Result};
use serde_json::Value;

/// What a provider is told besides the policy.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum ProviderOptions {
    /// The provider's defaults.
    #[default]
    None,
    /// For the provider `local`.
    Local(LocalOptions),
    /// For every other provider, which reads it itself.
    Custom(Value),
}

impl ProviderOptions {
    /// For the provider `local`, which also takes [`Custom`](Self::Custom) from callers that have only that.
    pub fn local(self) -> Result<LocalOptions> {
        match self {
            Self::None | Self::Custom(Value::Null) => Ok(LocalOptions::default()),
            Self::Local(options) => Ok(options),
            Self::Custom(value) => serde_json::from_value(value).map_err(|error| {
                Error::new(ErrorKind::InvalidConfig, format!("options of the provider local: {error}"))
            }),
        }
    }

    /// For every other provider; null where there are none.
    pub fn custom(&self) -> Result<&Value> {
        match self {
            Self::None => Ok(&Value::Null),
            Self::Custom(value) => Ok(value),
            Self::Local(_) => {
                Err(Error::new(ErrorKind::InvalidConfig, "these options are for the provider local"))
            }
        }
    }

    /// Sets one of them for a provider that is not `local`.
    pub fn set(&mut self, key: &str, value: Value) {
        let mut options = match std::mem::take(self) {
            Self::Custom(Value::Object(options)) => options,
            Self::None | Self::Local(_) | Self::Custom(_) => serde_json::Map::new(),
        };
        options.insert(key.to_owned(), value);
        *self = Self::Custom(Value::Object(options));
    }
}

impl From<LocalOptions> for ProviderOptions {
    fn from(options: LocalOptions) -> Self {
        Self::Local(options)
    }
}

impl From<Value> for ProviderOptions {
    fn from(options: Value) -> Self {
        Self::Custom(options)
    }
}

#[cfg(test)]
mod tests {
    use ringfence_model::config::{Launcher, Precision};
    use serde_json::json;

    use super::*;

    #[test]
    fn each_provider_gets_its_own() {
        assert_eq!(ProviderOptions::None.local().unwrap(), LocalOptions::default());
        let json = ProviderOptions::from(json!({ "launcher": "network-only", "precision": "off" }));
        let local = json.clone().local().unwrap();
        assert_eq!((local.launcher, local.precision), (Launcher::NetworkOnly, Precision::Off));
        assert_eq!(json.custom().unwrap()["precision"], "off");
        assert_eq!(ProviderOptions::from(local).custom().unwrap_err().kind, ErrorKind::InvalidConfig);
        for wrong in [json!({ "launcher": "docker" }), json!({ "precison": "off" }), json!([1])] {
            let error = ProviderOptions::from(wrong).local().unwrap_err();
            assert_eq!(error.kind, ErrorKind::InvalidConfig);
        }
    }

    #[test]
    fn options_are_set_one_by_one() {
        let mut options = ProviderOptions::None;
        options.set("guest", json!("off"));
        options.set("life", json!("simple"));
        assert_eq!(options.custom().unwrap(), &json!({ "guest": "off", "life": "simple" }));
    }
}
