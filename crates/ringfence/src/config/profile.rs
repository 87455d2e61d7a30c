//! The presets: what a profile, and a mode, mean when nothing explicit says otherwise.

use std::num::NonZeroU64;

use ringfence_model::PolicyMode;
use ringfence_model::config::{
    BubblewrapSection, ConfigFile, LimitsPreset, LimitsSection, LimitsSetting, Mode, OsMode, OsSection,
    Profile, Setting, Size, Strictness,
};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The profile as a layer.
///
/// | | dev | balanced | prod |
/// |---|---|---|---|
/// | `defaultPolicy` | none | restricted | restricted |
/// | `os.mode`, `os.bubblewrap.unshareNet` | auto, true | auto, true | auto, true |
/// | limits | development | development | 4 GiB, 512 processes, 10 minutes, 10 MiB of output, files up to 2 GiB, 1024 open files |
/// | `strictSensitiveFiles` | false | false | true |
/// | `validationStrictness` | standard | standard | strict |
pub(super) fn profile(profile: Profile) -> ConfigFile {
    let restricted = match profile {
        Profile::Dev => PolicyMode::None,
        Profile::Balanced | Profile::Prod => PolicyMode::Restricted,
    };
    let base = ConfigFile {
        default_policy: restricted.into(),
        os: Some(OsSection {
            mode: OsMode::Auto.into(),
            seatbelt: None,
            bubblewrap: Some(BubblewrapSection { bwrap_path: Setting::Unset, unshare_net: true.into() }),
        }),
        limits: LimitsSetting::Preset(LimitsPreset::Development).into(),
        ..ConfigFile::default()
    };
    match profile {
        Profile::Dev | Profile::Balanced => base,
        Profile::Prod => ConfigFile {
            limits: LimitsSetting::Values(Box::new(prod_limits())).into(),
            strict_sensitive_files: true.into(),
            validation_strictness: Strictness::Strict.into(),
            ..base
        },
    }
}

fn prod_limits() -> LimitsSection {
    let count = |number| NonZeroU64::new(number).map_or(Setting::Null, Setting::Value);
    LimitsSection {
        preset: Some(LimitsPreset::Unlimited),
        max_memory_bytes: Size(4 * GIB).into(),
        max_output_bytes: Size(10 * MIB).into(),
        max_file_size_bytes: Size(2 * GIB).into(),
        max_processes: count(512),
        max_open_files: count(1024),
        timeout_ms: count(600_000),
        ..LimitsSection::default()
    }
}

/// A mode as a layer. The policy itself lets everything be read in `permissive`, and no host be reached in
/// `strict`.
pub(super) fn mode(mode: Mode) -> ConfigFile {
    match mode {
        Mode::Permissive => {
            ConfigFile { validation_strictness: Strictness::Minimal.into(), ..ConfigFile::default() }
        }
        Mode::Custom | Mode::Restricted => ConfigFile::default(),
        Mode::Strict => ConfigFile {
            validation_strictness: Strictness::Strict.into(),
            strict_sensitive_files: true.into(),
            ..ConfigFile::default()
        },
    }
}
