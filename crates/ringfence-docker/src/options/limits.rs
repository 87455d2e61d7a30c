//! What a container may use. Each of processes, memory and processors is limited, also when nobody says so.

use ringfence_model::config::DockerSection;
use serde_json::Value;

use super::refusal::Findings;
use super::spec::Ulimit;

/// The least memory that engines accept.
const LEAST_MEMORY: u64 = 6 << 20;
/// The least share of a processor that engines accept.
const LEAST_CPUS: f64 = 0.01;
const BILLION: f64 = 1e9;
/// More processors than any machine has.
const MOST_CPUS: f64 = 100_000.0;

const ULIMITS: &[&str] = &[
    "core",
    "cpu",
    "data",
    "fsize",
    "locks",
    "memlock",
    "msgqueue",
    "nice",
    "nofile",
    "nproc",
    "rss",
    "rtprio",
    "rttime",
    "sigpending",
    "stack",
];

#[derive(Debug)]
pub(super) struct Limits {
    pub(super) pids: u32,
    pub(super) memory: u64,
    pub(super) memory_swap: u64,
    pub(super) nano_cpus: u64,
    pub(super) ulimits: Vec<Ulimit>,
}

/// Zero and nothing mean the default, never "no limit".
pub(super) fn check(docker: &DockerSection, findings: &mut Findings) -> Limits {
    let usual = DockerSection::built_in();
    let bytes = |section: &DockerSection| section.memory.map_or(0, |size| size.0);
    let memory = Some(bytes(docker)).filter(|bytes| *bytes > 0).unwrap_or(bytes(&usual));
    if memory < LEAST_MEMORY {
        let rule = "a container needs at least 6 MiB";
        findings.refuse("memory", &memory.to_string(), rule, "write 512M, for example");
    }
    // Without a word about swap there is none: the limit is the limit.
    let memory_swap = docker.memory_swap.map(|size| size.0).filter(|bytes| *bytes > 0).unwrap_or(memory);
    if memory_swap < memory {
        let rule = format!("it counts memory and swap together, and memory alone is {memory}");
        let remedy = "write at least as much as memory, or leave it out";
        findings.refuse("memorySwap", &memory_swap.to_string(), rule, remedy);
    }
    let cpus = docker.cpus.or(usual.cpus).map_or(1.0, |cpus| cpus.0);
    if !(LEAST_CPUS..=MOST_CPUS).contains(&cpus) {
        let rule = "a container needs at least a hundredth of a processor, and no machine has that many";
        findings.refuse("cpus", &cpus.to_string(), rule, "write 0.5 or 2, for example");
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between the bounds above")]
    let nano_cpus = (cpus.clamp(LEAST_CPUS, MOST_CPUS) * BILLION).round() as u64;
    Limits {
        pids: docker.pids_limit.or(usual.pids_limit).map_or(1, u32::from),
        memory,
        memory_swap,
        nano_cpus,
        ulimits: ulimits(docker, findings),
    }
}

fn ulimits(docker: &DockerSection, findings: &mut Findings) -> Vec<Ulimit> {
    let mut checked = Vec::new();
    for (name, value) in docker.ulimits.iter().flatten() {
        let key = format!("ulimits.{name}");
        if !ULIMITS.contains(&name.as_str()) {
            findings.refuse(&key, &value.to_string(), "there is no limit of that name", ULIMITS.join(", "));
            continue;
        }
        match read(value) {
            Ok(None) => {}
            Ok(Some((soft, hard))) if exceeds(soft, hard) => {
                let rule = "the soft limit is above the hard one";
                findings.refuse(&key, &value.to_string(), rule, "write the lower number first");
            }
            Ok(Some((soft, hard))) => checked.push(Ulimit { name: name.clone(), soft, hard }),
            Err(()) => {
                let rule = "it is neither a number, nor soft:hard, nor an object with soft and hard";
                findings.refuse(
                    &key,
                    &value.to_string(),
                    rule,
                    "write 1024, \"1024:2048\" or { \"soft\": 1024 }",
                );
            }
        }
    }
    checked
}

fn exceeds(soft: Option<u64>, hard: Option<u64>) -> bool {
    match (soft, hard) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(soft), Some(hard)) => soft > hard,
    }
}

/// A limit; `Some(None)` is "unlimited".
type Bound = Option<u64>;

/// None when nothing is written in it.
fn read(value: &Value) -> Result<Option<(Bound, Bound)>, ()> {
    match value {
        Value::Null => Ok(None),
        Value::Number(_) => number(value).map(|both| Some((both, both))),
        Value::String(text) if text.trim().is_empty() => Ok(None),
        Value::String(text) => {
            let mut parts = text.trim().split(':').map(bound);
            match (parts.next(), parts.next(), parts.next()) {
                (Some(both), None, None) => both.map(|both| Some((both, both))),
                (Some(soft), Some(hard), None) => Ok(Some((soft?, hard?))),
                _ => Err(()),
            }
        }
        Value::Object(parts) => {
            if parts.keys().any(|key| !matches!(key.as_str(), "soft" | "hard")) {
                return Err(());
            }
            let part = |name: &str| parts.get(name).filter(|v| !v.is_null()).map(number).transpose();
            Ok(match (part("soft")?, part("hard")?) {
                (None, None) => None,
                (Some(one), None) | (None, Some(one)) => Some((one, one)),
                (Some(soft), Some(hard)) => Some((soft, hard)),
            })
        }
        Value::Bool(_) | Value::Array(_) => Err(()),
    }
}

fn number(value: &Value) -> Result<Bound, ()> {
    match (value.as_u64(), value.as_i64()) {
        (Some(number), _) => Ok(Some(number)),
        (None, Some(-1)) => Ok(None),
        (None, _) => Err(()),
    }
}

fn bound(text: &str) -> Result<Bound, ()> {
    match text.trim() {
        "-1" | "unlimited" => Ok(None),
        digits => digits.parse().map(Some).map_err(|_| ()),
    }
}
