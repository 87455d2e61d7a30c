//! Each profile proven by running commands under it: offline, on this machine, in a directory of its own.

use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::Path;

use ringfence::config::{EnvMap, LoadOptions, PolicyInputs, load};
use ringfence::local::{Fence, Streams};
use ringfence::model::config::ConfigFile;
use ringfence::model::{Error, ErrorKind, ExecRequest, ExecResult, Result};
use serde::Serialize;
use serde_json::{Value, json};

use crate::output::{Palette, Tone, one_line};

const PROFILES: [&str; 3] = ["dev", "balanced", "prod"];

/// The proof of a profile on this machine.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Proof {
    profile: &'static str,
    platform: &'static str,
    policy: Value,
    os_mode: Value,
    /// Provider and launcher; none when no fence started.
    adapter: Option<String>,
    explicit_wins: Evidence,
    checks: Vec<Checked>,
}

/// The proof that an explicit setting beats the profile's.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Evidence {
    key: &'static str,
    preset: Value,
    explicit: Value,
    effective: Value,
    wins: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum Outcome {
    Passed,
    Failed,
    Skipped,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Checked {
    name: &'static str,
    result: Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl Proof {
    /// Nothing failed; what was skipped says why.
    pub(super) fn holds(&self) -> bool {
        self.explicit_wins.wins && self.checks.iter().all(|check| check.result != Outcome::Failed)
    }
}

pub(super) fn prove(project: &Path, home: &Path, env: &EnvMap) -> Result<Vec<Proof>> {
    let secret = project.join("denied.txt");
    std::fs::write(&secret, "canary\n").map_err(|error| {
        Error::new(ErrorKind::Internal, format!("cannot write {}", secret.display())).caused_by(error)
    })?;
    PROFILES.into_iter().map(|profile| prove_one(profile, &Place { project, home, env })).collect()
}

struct Place<'a> {
    project: &'a Path,
    home: &'a Path,
    env: &'a EnvMap,
}

fn prove_one(profile: &'static str, place: &Place<'_>) -> Result<Proof> {
    let Place { project, home, env } = *place;
    // Nobody's own configuration takes part: the home is empty.
    let ringfence_home = home.join(".ringfence");
    let loaded = |call: Value| {
        let mut options = LoadOptions::new(project, home, &ringfence_home, env);
        options.call = serde_json::from_value::<ConfigFile>(call).map_err(|error| {
            Error::new(ErrorKind::Internal, "a built-in setting is wrong").caused_by(error)
        })?;
        load(&options)
    };
    let deny = project.join("denied.txt");
    let config = loaded(json!({ "profile": profile, "deny": [deny] }))?;
    let merged = config.to_json();

    let most = |value: &Value| value.pointer("/limits/maxProcesses").cloned().unwrap_or_default();
    let explicit = json!(777);
    let effective =
        most(&loaded(json!({ "profile": profile, "limits": { "maxProcesses": explicit } }))?.to_json());
    let explicit_wins = Evidence {
        key: "limits.maxProcesses",
        preset: most(&merged),
        wins: effective == explicit && most(&merged) != explicit,
        explicit,
        effective,
    };

    let inputs = PolicyInputs::new(project, home, &ringfence_home, env);
    let fence = Fence::prepare(super::options(project, config.policy(&inputs), env));
    let run = |command: &str| -> Result<ExecResult, String> {
        let fence = fence.as_ref().map_err(Error::chain)?;
        fence.run(&ExecRequest::shell(command), Streams::Capture, &|_| ()).map_err(|error| error.chain())
    };
    let work = run("echo made > made.txt && cat made.txt");
    let adapter = work.as_ref().ok().map(|result| result.sandbox.adapter.clone());
    let checks = vec![
        judge("ordinaryWork", work, |result| result.exit_code == 0 && result.stdout == b"made\n"),
        judge("deniedFile", run("cat denied.txt"), |result| {
            result.exit_code != 0 && result.stdout.is_empty()
        }),
        host_loopback(run),
    ];
    Ok(Proof {
        profile,
        platform: std::env::consts::OS,
        policy: merged.get("defaultPolicy").cloned().unwrap_or_default(),
        os_mode: merged.pointer("/os/mode").cloned().unwrap_or_default(),
        adapter,
        explicit_wins,
        checks,
    })
}

/// A listener of the host's that nothing inside may reach.
fn host_loopback(run: impl Fn(&str) -> Result<ExecResult, String>) -> Checked {
    const NAME: &str = "hostLoopback";
    let listener = TcpListener::bind(("127.0.0.1", 0))
        .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
        .and_then(|listener| Ok((listener.local_addr()?.port(), listener)));
    let (port, listener) = match listener {
        Ok(listening) => listening,
        Err(error) => return skipped(NAME, format!("nothing can listen on the host: {error}")),
    };
    let outcome = run(&format!("exec 3<>/dev/tcp/127.0.0.1/{port}"));
    judge(NAME, outcome, |result| result.exit_code != 0 && listener.accept().is_err())
}

fn judge(
    name: &'static str,
    outcome: Result<ExecResult, String>,
    held: impl Fn(&ExecResult) -> bool,
) -> Checked {
    match outcome {
        Err(why) => skipped(name, why),
        Ok(result) if held(&result) => Checked { name, result: Outcome::Passed, reason: None },
        Ok(result) => {
            let said = String::from_utf8_lossy(&result.stderr);
            let reason = format!("exit code {}: {}", result.exit_code, said.trim());
            Checked { name, result: Outcome::Failed, reason: Some(reason) }
        }
    }
}

fn skipped(name: &'static str, why: String) -> Checked {
    Checked { name, result: Outcome::Skipped, reason: Some(why) }
}

pub(super) fn text(proofs: &[Proof], palette: Palette) -> String {
    let mut text = String::new();
    for proof in proofs {
        let word = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let _ = writeln!(
            text,
            "\nprofile {}: policy {}, os mode {}, adapter {}",
            palette.paint(Tone::Strong, proof.profile),
            word(&proof.policy),
            word(&proof.os_mode),
            proof.adapter.as_deref().unwrap_or("none")
        );
        if proof.policy == "none" {
            let _ = writeln!(
                text,
                "  {}  this profile is no fence: commands run with all your rights; the checks below try the local \
                 fence with its settings",
                palette.paint(Tone::Bad, "warning")
            );
        }
        let Evidence { key, preset, explicit, effective, wins } = &proof.explicit_wins;
        let (tone, result) = if *wins { (Tone::Good, "passed") } else { (Tone::Bad, "failed") };
        let _ = writeln!(
            text,
            "  {}  explicitWins: {key} is {preset}, written {explicit}, then {effective}",
            palette.paint(tone, result)
        );
        for Checked { name, result, reason } in &proof.checks {
            let (tone, word) = match result {
                Outcome::Passed => (Tone::Good, "passed"),
                Outcome::Failed => (Tone::Bad, "failed"),
                Outcome::Skipped => (Tone::Warning, "skipped"),
            };
            let reason = reason.as_ref().map_or_else(String::new, |why| format!(": {}", one_line(why)));
            let _ = writeln!(text, "  {}  {name}{reason}", palette.paint(tone, word));
        }
    }
    text
}
