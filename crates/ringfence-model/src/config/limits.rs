//! Limits as they are written: a preset's name, or values, or both.

use std::borrow::Cow;
use std::num::NonZeroU64;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::setting::{Seconds, Setting, Size};
use super::words::LimitsPreset;
use crate::{Error, ErrorKind, Limits, Result};

/// What the key `limits` may hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LimitsSetting {
    Preset(LimitsPreset),
    Values(Box<LimitsSection>),
}

/// Limit by limit; null means no limit of that kind.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct LimitsSection {
    /// Start from this preset instead of what the layers below say.
    pub preset: Option<LimitsPreset>,
    /// Memory of the whole process tree.
    #[serde(alias = "max_memory_bytes")]
    pub max_memory_bytes: Setting<Size>,
    /// CPU time of each process.
    #[serde(alias = "max_cpu_seconds")]
    pub max_cpu_seconds: Setting<NonZeroU64>,
    /// Bytes kept of each output stream.
    #[serde(alias = "max_output_bytes")]
    pub max_output_bytes: Setting<Size>,
    /// Size of any one file written.
    #[serde(alias = "max_file_size_bytes")]
    pub max_file_size_bytes: Setting<Size>,
    /// Processes and threads alive at once.
    #[serde(alias = "max_processes")]
    pub max_processes: Setting<NonZeroU64>,
    /// Open files of each process.
    #[serde(alias = "max_open_files")]
    pub max_open_files: Setting<NonZeroU64>,
    #[serde(alias = "max_stack_bytes")]
    pub max_stack_bytes: Setting<Size>,
    /// Files opened for writing. Nobody counts them: nothing starts with it.
    #[serde(alias = "max_file_writes")]
    pub max_file_writes: Setting<u64>,
    /// Bytes written to all files together. Nobody counts them: nothing starts with it.
    #[serde(alias = "max_total_write_bytes")]
    pub max_total_write_bytes: Setting<Size>,
    /// Wall-clock time of one command, in milliseconds.
    #[serde(alias = "timeout_ms")]
    pub timeout_ms: Setting<NonZeroU64>,
}

impl LimitsPreset {
    #[must_use]
    pub fn limits(self) -> Limits {
        match self {
            Self::Development => Limits::development(),
            Self::Default | Self::Standard => Limits::standard(),
            Self::Permissive => Limits::permissive(),
            Self::Strict => Limits::strict(),
            Self::Unlimited => Limits::unlimited(),
        }
    }
}

impl Limits {
    /// Whether a use of `used` is within the limit of that name (`maxMemoryBytes`, …). As much as the limit is
    /// within it; a limit that is not set is never exceeded.
    pub fn check(&self, name: &str, used: u64) -> Result<()> {
        let limits = &mut self.clone();
        let rows = LimitsSection::default().rows();
        let limit = rows.into_iter().find(|(known, ..)| *known == name).and_then(|(.., of)| *of(limits));
        match limit {
            Some(limit) if used > limit => Err(Error::new(
                ErrorKind::ResourceLimitExceeded,
                format!("resource limit exceeded: {name} ({used}/{limit})"),
            )),
            Some(_) | None => Ok(()),
        }
    }
}

/// One limit: its name in the configuration, and where it lives in both structures.
pub type LimitRow = (&'static str, Setting<u64>, fn(&mut Limits) -> &mut Option<u64>);

impl LimitsSection {
    /// Every limit, written or not, in one table.
    #[must_use]
    pub fn rows(&self) -> [LimitRow; 10] {
        let size = |setting: Setting<Size>| setting.map(|size| size.0);
        let count = |setting: Setting<NonZeroU64>| setting.map(NonZeroU64::get);
        [
            ("maxMemoryBytes", size(self.max_memory_bytes), |l| &mut l.max_memory_bytes),
            ("maxCpuSeconds", count(self.max_cpu_seconds), |l| &mut l.max_cpu_seconds),
            ("maxOutputBytes", size(self.max_output_bytes), |l| &mut l.max_output_bytes),
            ("maxFileSizeBytes", size(self.max_file_size_bytes), |l| &mut l.max_file_size_bytes),
            ("maxProcesses", count(self.max_processes), |l| &mut l.max_processes),
            ("maxOpenFiles", count(self.max_open_files), |l| &mut l.max_open_files),
            ("maxStackBytes", size(self.max_stack_bytes), |l| &mut l.max_stack_bytes),
            ("maxFileWrites", self.max_file_writes, |l| &mut l.max_file_writes),
            ("maxTotalWriteBytes", size(self.max_total_write_bytes), |l| &mut l.max_total_write_bytes),
            ("timeoutMs", count(self.timeout_ms), |l| &mut l.timeout_ms),
        ]
    }

    /// The span of `timeout`, as a limit.
    pub fn set_timeout(&mut self, timeout: Setting<Seconds>) {
        let timeout = match timeout {
            Setting::Unset => Setting::Unset,
            Setting::Null => Setting::Null,
            Setting::Value(time) => NonZeroU64::new(time.milliseconds).map_or(Setting::Null, Setting::Value),
        };
        self.timeout_ms = timeout.or(self.timeout_ms);
    }
}

impl<'de> Deserialize<'de> for LimitsSetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LimitsVisitor;
        impl<'de> Visitor<'de> for LimitsVisitor {
            type Value = LimitsSetting;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the name of a preset, or an object of limits")
            }

            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<LimitsSetting, E> {
                LimitsPreset::deserialize(StrDeserializer::new(name)).map(LimitsSetting::Preset)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<LimitsSetting, A::Error> {
                LimitsSection::deserialize(MapAccessDeserializer::new(map))
                    .map(|section| LimitsSetting::Values(Box::new(section)))
            }
        }
        deserializer.deserialize_any(LimitsVisitor)
    }
}

impl JsonSchema for LimitsSetting {
    fn schema_name() -> Cow<'static, str> {
        "Limits".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Resource limits: a preset's name, or limit by limit",
            "anyOf": [
                generator.subschema_for::<LimitsPreset>(),
                generator.subschema_for::<LimitsSection>()
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_the_documented_ones() {
        const M: u64 = 1 << 20;
        const G: u64 = 1 << 30;
        let row = |l: Limits| {
            [
                l.max_memory_bytes,
                l.max_cpu_seconds,
                l.max_output_bytes,
                l.max_file_size_bytes,
                l.max_processes,
                l.max_open_files,
                l.max_stack_bytes,
            ]
        };
        let default = [512 * M, 60, 10 * M, 50 * M, 10, 100, 8 * M];
        let permissive = [4 * G, 300, 100 * M, G, 100, 1000, 64 * M];
        let strict = [128 * M, 10, M, 10 * M, 1, 20, 2 * M];
        assert_eq!(row(LimitsPreset::Default.limits()), default.map(Some));
        assert_eq!(row(LimitsPreset::Standard.limits()), default.map(Some));
        assert_eq!(row(LimitsPreset::Permissive.limits()), permissive.map(Some));
        assert_eq!(row(LimitsPreset::Strict.limits()), strict.map(Some));
        assert_eq!(row(LimitsPreset::Unlimited.limits()), [None; 7]);
    }

    #[test]
    fn as_much_as_the_limit_is_within_it() {
        let limits = Limits { max_memory_bytes: Some(100), ..Limits::unlimited() };
        assert!(limits.check("maxMemoryBytes", 100).is_ok());
        let error = limits.check("maxMemoryBytes", 101).unwrap_err();
        assert_eq!(error.kind, ErrorKind::ResourceLimitExceeded);
        assert_eq!(error.message, "resource limit exceeded: maxMemoryBytes (101/100)");
        assert!(limits.check("maxCpuSeconds", u64::MAX).is_ok());
    }
}
