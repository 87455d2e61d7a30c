//! The command as `execve` wants it.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ringfence_linux::plan::Exec;
use ringfence_linux::sys::CStringArray;
use ringfence_model::{Command, Error, ErrorKind, ExecRequest, Result};

use crate::view::c_path;

/// Prepares the request's command, with every place that PATH lets it be.
pub(crate) fn prepare(request: &ExecRequest, env: &BTreeMap<OsString, OsString>, cwd: &Path) -> Result<Exec> {
    let argv: Vec<OsString> = match &request.command {
        Command::Argv(argv) => argv.clone(),
        Command::Shell(text) => vec!["bash".into(), "-c".into(), text.into()],
    };
    let Some(program) = argv.first().filter(|program| !program.is_empty()) else {
        return Err(Error::new(ErrorKind::Validation, "no command given"));
    };
    let candidates = if program.as_bytes().contains(&b'/') {
        vec![c(program)?]
    } else {
        let path = env.get(OsStr::new("PATH")).cloned().unwrap_or_default();
        std::env::split_paths(&path).map(|dir| c(dir.join(program).as_os_str())).collect::<Result<_>>()?
    };
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
    Ok(Exec { candidates, argv: CStringArray::new(argv), env: CStringArray::new(env), cwd: c_path(cwd)? })
}

fn c(text: &OsStr) -> Result<CString> {
    CString::new(text.as_bytes())
        .map_err(|_| Error::new(ErrorKind::Validation, format!("argument {text:?} contains a NUL byte")))
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
    if errno == libc::ENOENT {
        Error::new(ErrorKind::NotFound, format!("cannot run {program}: {reason}"))
            .hint("is it installed where the sandbox can see it? --allow-read shows a directory")
    } else {
        Error::new(ErrorKind::SpawnFailed, format!("cannot run {program}: {reason}"))
    }
}
