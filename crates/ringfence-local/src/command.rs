//! The command as the system wants it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use ringfence_model::{Command, Error, ErrorKind, ExecRequest, Result};
use rustix::io::Errno;

#[cfg(target_os = "linux")]
pub(crate) use with_exec::prepare;

/// The words of the request's command, of which there is at least one.
pub(crate) fn words(request: &ExecRequest) -> Result<Vec<OsString>> {
    let argv: Vec<OsString> = match &request.command {
        Command::Argv(argv) => argv.clone(),
        Command::Shell(text) => vec!["bash".into(), "-c".into(), text.into()],
    };
    if argv.first().is_none_or(|program| program.is_empty()) {
        return Err(Error::new(ErrorKind::Validation, "no command given"));
    }
    for word in &argv {
        if word.as_bytes().contains(&0) {
            return Err(Error::new(ErrorKind::Validation, format!("argument {word:?} contains a NUL byte")));
        }
    }
    Ok(argv)
}

/// Every place that PATH lets a program be.
pub(crate) fn places(program: &OsStr, env: &BTreeMap<OsString, OsString>) -> Vec<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return vec![program.into()];
    }
    let path = env.get(OsStr::new("PATH")).cloned().unwrap_or_default();
    std::env::split_paths(&path).map(|dir| dir.join(program)).collect()
}

#[cfg(target_os = "linux")]
mod with_exec {
    use std::ffi::CString;
    use std::path::Path;

    use ringfence_linux::plan::Exec;
    use ringfence_linux::sys::CStringArray;

    use super::*;
    use crate::view::c_path;

    /// Prepares the request's command, with every place that PATH lets it be.
    pub(crate) fn prepare(
        request: &ExecRequest,
        env: &BTreeMap<OsString, OsString>,
        cwd: &Path,
    ) -> Result<Exec> {
        let argv = words(request)?;
        let program = argv.first().map(OsString::as_os_str).unwrap_or_default();
        let mut places = places(program, env);
        // What the host does not have is not inside either, and each attempt there is one to ask about.
        let is_there = |place: &PathBuf| place.is_relative() || place.symlink_metadata().is_ok();
        if places.iter().any(is_there) {
            places.retain(is_there);
        }
        let candidates = places.iter().map(|place| c(place.as_os_str())).collect::<Result<_>>()?;
        let argv: Vec<CString> = argv.iter().map(|word| c(word)).collect::<Result<_>>()?;
        let env = env
            .iter()
            .map(|(name, value)| {
                let mut pair = name.clone();
                pair.push("=");
                pair.push(value);
                c(&pair)
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Exec {
            candidates,
            argv: CStringArray::new(argv),
            env: CStringArray::new(env),
            cwd: c_path(cwd)?,
            passed: vec![],
            held: false,
        })
    }

    fn c(text: &OsStr) -> Result<CString> {
        CString::new(text.as_bytes())
            .map_err(|_| Error::new(ErrorKind::Validation, format!("argument {text:?} contains a NUL byte")))
    }
}

/// Why the command could not be executed at all.
pub(crate) fn exec_error(request: &ExecRequest, errno: i32) -> Error {
    let program = match &request.command {
        Command::Argv(argv) => {
            argv.first().map_or_else(String::new, |program| program.to_string_lossy().into_owned())
        }
        Command::Shell(_) => "bash".to_owned(),
    };
    let reason = std::io::Error::from_raw_os_error(errno);
    if errno == Errno::NOENT.raw_os_error() {
        Error::new(ErrorKind::NotFound, format!("cannot run {program}: {reason}"))
            .hint("is it installed where the sandbox can see it? --allow-read shows a directory")
    } else {
        Error::new(ErrorKind::SpawnFailed, format!("cannot run {program}: {reason}"))
    }
}
