//! The profile's file, the command line, the start.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use ringfence_model::{Error, ErrorKind, Policy, Result};

use crate::env::MacEnv;
use crate::mode::Mode;
use crate::render::{self, Profile};

/// The one program that is trusted to apply a profile; a second one on PATH is not.
pub const SANDBOX_EXEC: &str = "/usr/bin/sandbox-exec";

/// What is run when nothing else is asked for.
pub const SHELL: &str = "/bin/bash";

/// Puts commands behind a profile.
#[derive(Debug, Clone)]
pub struct Adapter {
    env: MacEnv,
    tool: PathBuf,
    directory: PathBuf,
}

impl Adapter {
    /// Profiles are written below `directory`, each into a directory of its own.
    #[must_use]
    pub fn new(env: MacEnv, directory: impl Into<PathBuf>) -> Self {
        Self { env, tool: PathBuf::from(SANDBOX_EXEC), directory: directory.into() }
    }

    /// Another program in place of `sandbox-exec`, for tests.
    #[must_use]
    pub fn with_tool(mut self, tool: impl Into<PathBuf>) -> Self {
        self.tool = tool.into();
        self
    }

    /// Whether the program that applies profiles is there.
    pub fn probe(&self) -> Result<()> {
        if self.tool.is_file() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::SandboxDenied, format!("{} is missing", self.tool.display()))
            .hint("Seatbelt exists on macOS only; a Linux container has none, also on a Mac")
            .hint("on Linux use the native, bwrap or landlock launcher"))
    }

    /// Renders the profile of `policy`, writes it to a file and gives the command line that runs
    /// `command` behind it; an empty command means the shell.
    pub fn wrap_command(&self, policy: &Policy, command: &[OsString]) -> Result<Wrapped> {
        let shell = [OsString::from(SHELL)];
        let command = if command.is_empty() { &shell } else { command };
        if self.env.mode == Mode::Disabled {
            return Ok(Wrapped { argv: command.to_vec(), profile: None, file: None });
        }
        self.probe()?;
        let profile = render::render(policy, &self.env)?;
        let file = ProfileFile::create(&profile, &self.directory)?;
        let mut argv = vec![self.tool.clone().into_os_string(), OsString::from("-f")];
        argv.push(file.path().as_os_str().to_owned());
        argv.extend_from_slice(command);
        Ok(Wrapped { argv, profile: Some(profile), file: Some(file) })
    }
}

/// A command behind a profile, not started yet. Dropping it removes the profile's file.
#[derive(Debug)]
pub struct Wrapped {
    argv: Vec<OsString>,
    profile: Option<Profile>,
    file: Option<ProfileFile>,
}

impl Wrapped {
    /// Program and arguments, one by one: nothing is ever joined into a shell line.
    #[must_use]
    pub fn argv(&self) -> &[OsString] {
        &self.argv
    }

    /// The profile; none when the fence is disabled.
    #[must_use]
    pub fn profile(&self) -> Option<&Profile> {
        self.profile.as_ref()
    }

    #[must_use]
    pub fn file(&self) -> Option<&ProfileFile> {
        self.file.as_ref()
    }

    /// Starts it by `start`. When that fails the file is removed at once; otherwise it lives as long as
    /// the returned value, which the caller keeps until the command has ended.
    pub fn start_with<T>(self, start: impl FnOnce(&[OsString]) -> std::io::Result<T>) -> Result<Started<T>> {
        match start(&self.argv) {
            Ok(process) => Ok(Started { process, file: self.file }),
            Err(error) => Err(Error::new(
                ErrorKind::SandboxDenied,
                format!("cannot start {}", Path::new(&self.argv[0]).display()),
            )
            .caused_by(error)),
        }
    }

    /// Starts it as a child process.
    #[cfg(target_os = "macos")]
    pub fn spawn(
        self,
        configure: impl FnOnce(&mut std::process::Command),
    ) -> Result<Started<std::process::Child>> {
        self.start_with(|argv| {
            let mut command = std::process::Command::new(&argv[0]);
            command.args(&argv[1..]);
            configure(&mut command);
            command.spawn()
        })
    }

    /// Removes the profile's file without starting anything.
    pub fn dispose(self) {
        drop(self);
    }
}

/// A started command and the profile that holds it.
#[derive(Debug)]
pub struct Started<T> {
    pub process: T,
    file: Option<ProfileFile>,
}

impl<T> Started<T> {
    #[must_use]
    pub fn file(&self) -> Option<&ProfileFile> {
        self.file.as_ref()
    }

    /// Removes the profile's file and gives the process back.
    pub fn dispose(self) -> T {
        self.process
    }
}

/// A profile on disk: mode 0600, in a directory of mode 0700 with a name that cannot be guessed. It is
/// removed when the value is dropped; that it is already gone is no error.
#[derive(Debug)]
pub struct ProfileFile {
    path: PathBuf,
    _directory: tempfile::TempDir,
}

impl ProfileFile {
    /// Writes the profile below `directory`.
    pub fn create(profile: &Profile, directory: &Path) -> Result<Self> {
        let failed = |what: &str, error: std::io::Error| {
            Error::new(ErrorKind::SandboxDenied, format!("cannot {what} for the seatbelt profile"))
                .caused_by(error)
        };
        let own = tempfile::Builder::new()
            .prefix("ringfence-seatbelt-")
            .rand_bytes(16)
            .permissions(std::fs::Permissions::from_mode(0o700))
            .tempdir_in(directory)
            .map_err(|error| failed("make a directory", error))?;
        let path = own.path().join("profile.sb");
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(|error| failed("make a file", error))?;
        file.write_all(profile.text().as_bytes()).map_err(|error| failed("write the file", error))?;
        Ok(Self { path, _directory: own })
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}
