//! Variables of the container.

use ringfence_model::config::DockerSection;
use ringfence_model::environment::is_withheld;
use serde::Deserialize;

use super::refusal::Findings;

/// A value longer than this is hardly a setting.
const LONGEST_USUAL: usize = 32 * 1024;
/// Base64 of this length may be a key.
const LOOKS_ENCODED: usize = 80;

/// Which variables a container may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EnvRules {
    /// All that do not look like secrets.
    #[default]
    Usual,
    /// Only those that say who, where and in which language.
    Strict,
}

/// What passes in strict mode; `*` at the end is a wildcard.
const STRICT: &[&str] =
    &["LANG", "LANGUAGE", "LC_*", "PATH", "HOME", "USER", "SHELL", "TERM", "TZ", "NODE_ENV"];

pub(super) fn check(
    docker: &DockerSection,
    rules: EnvRules,
    findings: &mut Findings,
) -> Vec<(String, String)> {
    let mut kept = Vec::new();
    for (name, value) in docker.env.iter().flatten() {
        if !is_name(name) {
            let remedy = "use letters, digits and underscores, and no digit first";
            findings.refuse("env", name, "it is no name of a variable", remedy);
        } else if value.contains('\0') {
            // The value is not shown: it may be what must not be seen.
            findings.refuse("env", name, "its value has a NUL byte", "take the byte out");
        } else if is_withheld(name) {
            let text = format!(
                "{name} is left out: by its name it is a secret, leads out of the fence or loads code"
            );
            findings.warn("env", text);
        } else if rules == EnvRules::Strict && !is_usual(name) {
            findings.warn("env", format!("{name} is left out: mode strict knows only {}", STRICT.join(", ")));
        } else {
            if let Some(odd) = oddity(value) {
                findings.warn("env", format!("the value of {name} {odd}"));
            }
            kept.push((name.clone(), value.clone()));
        }
    }
    kept
}

fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.first().is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_')
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_')
}

fn is_usual(name: &str) -> bool {
    STRICT.iter().any(|usual| match usual.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => *usual == name,
    })
}

fn oddity(value: &str) -> Option<&'static str> {
    let encoded = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=');
    if value.len() > LONGEST_USUAL {
        Some("is longer than 32 KiB")
    } else if value.len() >= LOOKS_ENCODED && value.bytes().all(encoded) {
        Some("looks like an encoded key")
    } else {
        None
    }
}
