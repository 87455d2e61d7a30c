//! What a fence does not promise although a full one would.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// One thing that is not promised: a code for programs, and a text for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Degradation {
    pub code: DegradationCode,
    pub text: String,
}

impl Degradation {
    pub fn new(code: DegradationCode, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    /// In the words of somebody who has no code for it.
    pub fn note(text: impl Into<String>) -> Self {
        Self::new(DegradationCode::Note, text)
    }
}

impl std::fmt::Display for Degradation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// Records of older versions have the text alone.
#[derive(Deserialize)]
#[serde(untagged)]
enum Told {
    Text(String),
    Data { code: DegradationCode, text: String },
}

impl<'de> Deserialize<'de> for Degradation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Told::deserialize(deserializer)? {
            Told::Text(text) => Self::note(text),
            Told::Data { code, text } => Self { code, text },
        })
    }
}

/// What sort of thing is not promised. New ones may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum DegradationCode {
    /// The command has all rights of its user.
    NoFence,
    /// The network is fenced off, files and processes are not.
    NetworkOnly,
    /// A stronger launcher is not possible on this machine.
    LauncherUnavailable,
    /// bwrap could have been the launcher, and is not installed.
    BwrapMissing,
    /// Processes of the host can be counted.
    NoNamespaces,
    /// The private directories are on the host's disk, and shared places are refused.
    DirectoriesOnHost,
    /// No loopback, System V IPC or new terminals.
    NoOwnNetwork,
    /// Allowed hosts are not reached: here is no way out by name.
    NoWayOut,
    /// Names, sizes and times of hidden files can be seen.
    NamesVisible,
    /// Some files are kept back by the supervisor alone.
    KeptBySupervisor,
    /// The bounding set of capabilities is not empty.
    BoundingSet,
    /// The precision is another one than was asked for.
    PrecisionRaised,
    /// Processes of the same user outside can be signalled.
    SignalsReachHost,
    /// The kernel has no Landlock.
    NoLandlock,
    /// Not everything that is refused is reported, by choice of the precision.
    Precision,
    /// Reads of hidden paths are not reported, because there is no tripwire.
    ReadsUnreported,
    /// Questions about denied files are not reported, because there is no tripwire.
    QuestionsUnreported,
    /// A tripwire was planned and is not there.
    NoTripwire,
    /// Each call that the supervisor looks at takes longer than on newer kernels.
    SlowSupervisor,
    /// Another supervisor above keeps ours from working.
    NoSupervisor,
    /// Not all of the project was searched for denied names.
    SearchIncomplete,
    /// Memory of all processes together is watched, not kept by the kernel, or not limited at all.
    MemoryLimit,
    /// The number of files in the sandbox's own directories is not limited.
    FileLimit,
    /// The number of processes is not limited.
    ProcessLimit,
    /// The private directories are places of the host (macOS).
    NoPrivateMounts,
    /// Processes of the host are visible (macOS).
    NoProcessNamespace,
    /// Nobody is asked while a command runs.
    NoLiveApproval,
    /// Another program than the system's own applies the profile (macOS).
    OtherProgram,
    /// The kernel's log cannot be read (macOS).
    NoLog,
    /// No guest runs in the container.
    NoGuest,
    /// Refusals are guessed from the words of a command.
    RefusalsGuessed,
    /// Files that appear later are neither hidden nor protected.
    LateFiles,
    /// A program can lie about exit codes.
    ExitCodes,
    /// Output of left-over jobs is taken for a command's.
    MixedOutput,
    /// The container was made for other options.
    ContainerOutdated,
    /// The command ran in another directory than it was to.
    OtherDirectory,
    /// Something else, which the text says.
    #[serde(other)]
    Note,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_code_and_a_text_travel() {
        let lost = Degradation::new(DegradationCode::NoLandlock, "this kernel has no Landlock");
        let wire = json!({ "code": "noLandlock", "text": "this kernel has no Landlock" });
        assert_eq!(serde_json::to_value(&lost).unwrap(), wire);
        assert_eq!(serde_json::from_value::<Degradation>(wire).unwrap(), lost);
    }

    #[test]
    fn texts_of_older_versions_and_codes_of_newer_ones_are_notes() {
        for wire in [json!("no cgroup"), json!({ "code": "somethingNew", "text": "no cgroup" })] {
            assert_eq!(serde_json::from_value::<Degradation>(wire).unwrap(), Degradation::note("no cgroup"));
        }
    }
}
