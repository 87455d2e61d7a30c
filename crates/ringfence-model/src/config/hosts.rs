//! Hosts as a configuration names them: a rule, a set, a port of this machine, or an object with more to say.

use std::borrow::Cow;
use std::num::NonZeroU16;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::resolved::Entry;
use crate::inspect::{Credential, Inspect};
use crate::{HostRule, RuleLayer, RuleSource, closest};

/// The sets of hosts that are found on this machine, each with what it is.
pub const HOST_SETS: &[(&str, &str)] = &[
    ("npm", "the registries of npm"),
    ("pypi", "the indexes of pip, and where their files are"),
    ("crates", "the registries of cargo, and where their files are"),
    ("debian", "the sources of apt"),
    ("go", "the proxies and the checksum database of go"),
    ("github", "GitHub, and the servers that gh knows"),
    ("gitlab", "GitLab, and the servers that glab knows"),
    ("maven", "the repositories and mirrors of maven"),
    ("rubygems", "the sources of gem"),
    ("huggingface", "the hub of Hugging Face's tools"),
];

/// What an entry without more to say is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostWord {
    /// A rule of its own.
    Rule,
    /// The set of that name.
    Set(&'static str),
    /// A port of this machine's loopback.
    HostPort(NonZeroU16),
}

impl HostWord {
    /// Of what is written; or why it is nothing.
    pub fn of(text: &str) -> Result<Self, String> {
        if let Some(port) = text.strip_prefix("host-port:") {
            return match port.parse() {
                Ok(port) => Ok(Self::HostPort(port)),
                Err(_) => Err(format!("`{}`: write a port, such as `host-port:5432`", text.escape_debug())),
            };
        }
        let names = || HOST_SETS.iter().map(|(name, _)| *name);
        let (word, port) = text.split_once(':').map_or((text, None), |(word, port)| (word, Some(port)));
        match (names().find(|name| *name == word), port) {
            (Some(name), None) => return Ok(Self::Set(name)),
            (Some(name), Some(port)) => {
                return Err(format!("`{name}` is a set, which has no port; a host is `{name}.:{port}`"));
            }
            (None, _) => {}
        }
        // A name without a dot is rarely a host, and often a set that was mistyped.
        if !text.contains(['.', ':', '*', '/'])
            && let Some(name) = closest(text, names())
        {
            return Err(format!(
                "`{text}` is not a set of hosts; did you mean `{name}`? (a host of that name is `{text}.`)"
            ));
        }
        HostRule::parse(text, RuleSource::layer(RuleLayer::User)).map(|_| Self::Rule)
    }
}

/// An entry of `allowedHosts`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostSetting {
    text: String,
    pub inspect: Option<Inspect>,
}

impl HostSetting {
    /// From text alone.
    pub fn parse(text: &str) -> Result<Self, String> {
        HostWord::of(text).map(|_| Self { text: text.to_owned(), inspect: None })
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    #[must_use]
    pub fn word(&self) -> HostWord {
        HostWord::of(&self.text).unwrap_or(HostWord::Rule)
    }
}

/// An entry of `allowedHosts` that says more than which host.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WrittenHost {
    /// As an entry that is text.
    #[schemars(length(min = 1))]
    host: String,
    /// The only port.
    #[serde(default)]
    port: Option<NonZeroU16>,
    /// The only methods, such as `GET`.
    #[serde(default)]
    methods: Vec<String>,
    /// The only paths: `/repos/**`.
    #[serde(default)]
    paths: Vec<String>,
    /// A header that is put in outside.
    #[serde(default)]
    credential: Option<Credential>,
}

impl TryFrom<WrittenHost> for HostSetting {
    type Error = String;

    fn try_from(written: WrittenHost) -> Result<Self, String> {
        let WrittenHost { host, port, methods, paths, credential } = written;
        let inspect = Inspect::checked(methods, paths, credential)?;
        let is_rule = HostWord::of(&host)? == HostWord::Rule;
        if !is_rule && (inspect.is_some() || port.is_some()) {
            return Err(format!(
                "`{host}` is no single host; only one has a port, methods, paths or a credential"
            ));
        }
        if inspect.is_some() && host.trim().ends_with("/udp") {
            return Err(format!("`{host}`: datagrams are not looked into; leave `/udp` out"));
        }
        let Some(port) = port else { return Ok(Self { text: host, inspect }) };
        let mut rule = HostRule::parse(&host, RuleSource::layer(RuleLayer::User))?;
        if rule.port.replace(port.get()).is_some() {
            return Err(format!("`{host}` has a port already"));
        }
        Ok(Self { text: rule.to_string(), inspect })
    }
}

impl<'de> Deserialize<'de> for HostSetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SettingVisitor;
        impl<'de> Visitor<'de> for SettingVisitor {
            type Value = HostSetting;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a host, a set, or an object with `host`")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<HostSetting, E> {
                HostSetting::parse(text).map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<HostSetting, A::Error> {
                let written = WrittenHost::deserialize(MapAccessDeserializer::new(entries))?;
                written.try_into().map_err(A::Error::custom)
            }
        }
        deserializer.deserialize_any(SettingVisitor)
    }
}

impl Serialize for HostSetting {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize(&self.text, self.inspect.as_ref(), serializer)
    }
}

impl JsonSchema for HostSetting {
    fn schema_name() -> Cow<'static, str> {
        "HostSetting".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let object = generator.subschema_for::<WrittenHost>();
        json_schema!({
            "description": "A host, `*.below`, `.domain`, a range of addresses, each perhaps with a port; a set; \
                            or `host-port:N`",
            "anyOf": [{ "type": "string", "minLength": 1 }, object]
        })
    }
}

/// An entry of `blockedHosts`: a rule or a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockedHost(String);

impl BlockedHost {
    pub fn parse(text: &str) -> Result<Self, String> {
        match HostWord::of(text)? {
            HostWord::Rule | HostWord::Set(_) => Ok(Self(text.to_owned())),
            HostWord::HostPort(_) => {
                Err("ports of this machine are blocked unless they are allowed".to_owned())
            }
        }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for BlockedHost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl JsonSchema for BlockedHost {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "BlockedHost".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "minLength": 1 })
    }
}

/// An allowed host as it was written, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostEntry {
    pub text: String,
    pub inspect: Option<Inspect>,
    pub source: RuleSource,
}

impl HostEntry {
    /// The rule that it is; none of a set.
    #[must_use]
    pub fn rule(&self) -> Option<HostRule> {
        let rule = HostRule::parse(&self.text, self.source.clone()).ok();
        let is_rule = HostWord::of(&self.text) == Ok(HostWord::Rule);
        rule.filter(|_| is_rule).map(|rule| HostRule { inspect: self.inspect.clone(), ..rule })
    }
}

impl From<Entry> for HostEntry {
    fn from(entry: Entry) -> Self {
        Self { text: entry.text, inspect: None, source: entry.source }
    }
}

impl Serialize for HostEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize(&self.text, self.inspect.as_ref(), serializer)
    }
}

/// As it is written in a file.
fn serialize<S: Serializer>(text: &str, inspect: Option<&Inspect>, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Written<'a> {
        host: &'a str,
        #[serde(skip_serializing_if = "<[String]>::is_empty")]
        methods: &'a [String],
        #[serde(skip_serializing_if = "<[String]>::is_empty")]
        paths: &'a [String],
        #[serde(skip_serializing_if = "Option::is_none")]
        credential: Option<&'a Credential>,
    }
    match inspect {
        None => serializer.serialize_str(text),
        Some(Inspect { methods, paths, credential }) => {
            Written { host: text, methods, paths, credential: credential.as_ref() }.serialize(serializer)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(value: Value) -> Result<HostSetting, String> {
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    #[test]
    fn an_entry_is_a_rule_a_set_a_port_or_an_object() {
        let word = |text: &str| read(json!(text)).map(|setting| setting.word());
        assert_eq!(word("a.example:443"), Ok(HostWord::Rule));
        assert_eq!(word("db"), Ok(HostWord::Rule));
        assert_eq!(word("npm"), Ok(HostWord::Set("npm")));
        assert_eq!(word("npm."), Ok(HostWord::Rule));
        assert_eq!(word("host-port:5432"), Ok(HostWord::HostPort(NonZeroU16::new(5432).unwrap())));
        let object =
            json!({ "host": "api.example.com", "port": 443, "methods": ["get"], "paths": ["/repos/**"] });
        let setting = read(object).unwrap();
        assert_eq!(setting.as_str(), "api.example.com:443");
        assert_eq!(setting.inspect.unwrap().methods, ["GET"]);
    }

    #[test]
    fn what_is_no_entry_says_why() {
        for (value, why) in [
            (json!("nmp"), "did you mean `npm`?"),
            (json!("githbu"), "did you mean `github`?"),
            (json!("npm:443"), "has no port"),
            (json!("*"), "every host"),
            (json!("host-port:0"), "host-port:5432"),
            (json!("a.example:0"), "port 0"),
            (json!(7), "a host, a set"),
            (json!({ "port": 1 }), "missing field `host`"),
            (json!({ "host": "npm", "methods": ["GET"] }), "no single host"),
            (json!({ "host": "a.example:1", "port": 2 }), "a port already"),
            (json!({ "host": "a.example", "path": ["/"] }), "unknown field"),
            (json!({ "host": "a.example", "methods": ["G T"] }), "not a method"),
        ] {
            let error = read(value.clone()).unwrap_err();
            assert!(error.contains(why), "{value}: {error}");
        }
        assert!(serde_json::from_value::<BlockedHost>(json!("host-port:1")).is_err());
    }
}
