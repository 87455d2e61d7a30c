//! Seccomp and AppArmor: the engine's own profiles, or others, but never none.

use std::path::Path;

use ringfence_model::config::DockerSection;

use super::refusal::Findings;

/// The engine's API takes a profile in the request; larger is a mistake.
const LARGEST_PROFILE: u64 = 1 << 20;
/// What a profile may do to the calls it does not name: refuse them.
const REFUSING: &[&str] =
    &["SCMP_ACT_ERRNO", "SCMP_ACT_KILL", "SCMP_ACT_KILL_PROCESS", "SCMP_ACT_KILL_THREAD", "SCMP_ACT_TRAP"];

#[derive(Debug, Default)]
pub(super) struct Profiles {
    /// The profile itself; none is the engine's own.
    pub(super) seccomp: Option<String>,
    apparmor: Option<String>,
}

impl Profiles {
    pub(super) fn security_opt(&self) -> Vec<String> {
        let mut options = vec!["no-new-privileges".to_owned()];
        options.extend(self.seccomp.iter().map(|profile| format!("seccomp={profile}")));
        options.extend(self.apparmor.iter().map(|name| format!("apparmor={name}")));
        options
    }
}

pub(super) fn check(docker: &DockerSection, findings: &mut Findings) -> Profiles {
    let text = |setting: &Option<ringfence_model::config::Text>| {
        setting.as_ref().map(|text| text.as_str().trim().to_owned()).filter(|text| !text.is_empty())
    };
    Profiles {
        seccomp: text(&docker.seccomp_profile).and_then(|written| seccomp(&written, findings)),
        apparmor: text(&docker.apparmor_profile).and_then(|written| apparmor(written, findings)),
    }
}

fn is_unconfined(text: &str) -> bool {
    text.eq_ignore_ascii_case("unconfined")
}

fn seccomp(written: &str, findings: &mut Findings) -> Option<String> {
    const KEY: &str = "seccompProfile";
    const REMEDY: &str =
        "leave it out for the engine's own profile, or name a file with one that refuses by default";
    let mut refuse = |rule: String| {
        findings.refuse(KEY, written, rule, REMEDY);
        None
    };
    if is_unconfined(written) {
        return refuse("a container without a seccomp profile is not made".to_owned());
    }
    if written.eq_ignore_ascii_case("builtin") || written.eq_ignore_ascii_case("default") {
        return None;
    }
    let path = Path::new(written);
    if !path.is_absolute() {
        return refuse("it is no absolute path of a file".to_owned());
    }
    let profile = match read_profile(path) {
        Ok(profile) => profile,
        Err(why) => return refuse(format!("the file cannot be used: {why}")),
    };
    let action = profile.get("defaultAction").and_then(serde_json::Value::as_str).unwrap_or("nothing");
    if !REFUSING.contains(&action) {
        return refuse(format!(
            "its defaultAction is {action}: calls that it does not name would be let through"
        ));
    }
    Some(profile.to_string())
}

fn read_profile(path: &Path) -> Result<serde_json::Value, String> {
    use std::io::Read as _;
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    let found = file.metadata().map_err(|error| error.to_string())?;
    if !found.is_file() || found.len() > LARGEST_PROFILE {
        return Err(format!("it is no ordinary file of at most {LARGEST_PROFILE} bytes"));
    }
    let mut text = String::new();
    file.take(LARGEST_PROFILE).read_to_string(&mut text).map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

fn apparmor(written: String, findings: &mut Findings) -> Option<String> {
    const KEY: &str = "apparmorProfile";
    let safe = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-' | b'/');
    let rule = if is_unconfined(&written) {
        "a container without an AppArmor profile is not asked for"
    } else if !written.bytes().all(safe) {
        "it is no name of a profile"
    } else {
        return Some(written);
    };
    let remedy =
        "leave it out for the engine's own profile, or name one that is loaded (aa-status lists them)";
    findings.refuse(KEY, &written, rule, remedy);
    None
}
