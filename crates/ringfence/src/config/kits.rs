//! Kits: whole agents inside the fence. A kit is a layer above the person's own settings and below the project's, which
//! still only tightens.
//!
//! The state of an agent inside is a directory of its own, below [`KITS_DIRECTORY`]: whatever it writes there (settings,
//! hooks, servers that are started) acts on agents inside only, never on one that the person starts without a fence.
//!
//! [`KITS_DIRECTORY`]: ringfence_model::policy::KITS_DIRECTORY

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use ringfence_model::config::{ConfigFile, HostSetting, Kit, Text};
use ringfence_model::{
    Credential, CredentialSource, Error, ErrorKind, Inspect, Result, RuleLayer, variables_in,
};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use serde::Serialize;

use super::expand::{EnvMap, Expander};
use super::load::LoadOptions;
use super::merge::{Merge, Origin};
use super::source;
use super::words::closest;

/// The built-in kits, in the form that `kits` of a configuration has.
const TABLE: &str = include_str!("kits.json");

type Kits = BTreeMap<String, Kit>;

/// A kit and who made it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listed {
    pub name: String,
    /// The file it is written in; none of a built-in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    pub kit: Kit,
}

/// The kits that can be used: built-in ones, and those of the person's own file.
pub fn all(options: &LoadOptions<'_>) -> Result<Vec<Listed>> {
    let own = match source::read_user(options.ringfence_home) {
        Ok(Some(source)) => match source::parse(&source.path, &source.text) {
            Ok(parsed) => parsed.config.kits.map(|kits| (source.path, kits)),
            Err(problem) => return Err(Error::new(ErrorKind::InvalidConfig, problem.to_string())),
        },
        Ok(None) => None,
        Err(problem) => return Err(Error::new(ErrorKind::InvalidConfig, problem.to_string())),
    };
    let listed = |file: Option<&Path>| {
        let file = file.map(Path::to_path_buf);
        move |(name, kit): (String, Kit)| (name.clone(), Listed { name, file: file.clone(), kit })
    };
    let mut all: BTreeMap<String, Listed> = built_in()?.into_iter().map(listed(None)).collect();
    if let Some((file, kits)) = own {
        all.extend(kits.into_iter().map(listed(Some(&file))));
    }
    Ok(all.into_values().collect())
}

/// The error of a name that is no kit's.
#[must_use]
pub fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Error {
    let meant = closest(name, known).map_or_else(String::new, |known| format!("; did you mean `{known}`?"));
    Error::new(ErrorKind::Validation, format!("there is no kit `{name}`{meant}"))
        .hint("`ringfence kits` lists them; one of your own is written under `kits` in your sandbox.json")
}

fn built_in() -> Result<Kits> {
    serde_json::from_str(TABLE)
        .map_err(|error| Error::new(ErrorKind::Internal, "the table of kits").caused_by(error))
}

/// The kits that these layers use, from the closest to the farthest, each once.
pub(super) fn in_use(layers: &[&ConfigFile]) -> Result<Vec<(String, Kit)>> {
    let mut names: Vec<&str> = Vec::new();
    for name in layers.iter().rev().flat_map(|layer| layer.use_kits.iter().flatten()).map(Text::as_str) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.is_empty() {
        return Ok(vec![]);
    }
    let mut known = built_in()?;
    let own = layers.iter().rev().filter_map(|layer| layer.kits.as_ref()).flatten();
    known.extend(own.map(|(name, kit)| (name.clone(), kit.clone())));
    let find = |name: &str| match known.get(name) {
        Some(kit) => Ok((name.to_owned(), kit.clone())),
        None => Err(unknown(name, known.keys().map(String::as_str))),
    };
    names.into_iter().map(find).collect()
}

/// What has to be there before anything of the kit runs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Needs {
    directories: Vec<PathBuf>,
    /// A directory of those, a name in it, and what the file begins with.
    files: Vec<(PathBuf, String, String)>,
}

impl Needs {
    /// Makes what is missing.
    pub(crate) fn make(&self) -> Result<()> {
        let failed = |path: &Path, error: std::io::Error| {
            let message = format!("cannot make {} for the kit", path.display());
            Error::new(ErrorKind::InitializationFailed, message).caused_by(error)
        };
        for directory in &self.directories {
            let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
            made.map_err(|error| failed(directory, error))?;
        }
        for (directory, name, text) in &self.files {
            begin(directory, name, text).map_err(|error| failed(&directory.join(name), error))?;
        }
        Ok(())
    }
}

/// Writes a file that is not there. What is in the directory may have been put there from inside: no link is followed.
fn begin(directory: &Path, name: &str, text: &str) -> std::io::Result<()> {
    let directory = openat(CWD, directory, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(&directory, name, new, Mode::RUSR | Mode::WUSR) {
        Ok(file) => std::fs::File::from(file).write_all(text.as_bytes()),
        Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl Merge {
    /// Lays the kits over the person's own settings.
    pub(super) fn kits(&mut self, kits: &[(String, Kit)], options: &LoadOptions<'_>) -> Result<Needs> {
        let mut needs = Needs::default();
        for (name, kit) in kits {
            needs.add(name, kit, options)?;
            let mut layer = layer(kit, options);
            // A variable that the person sets stays what they set.
            let set = &self.config.env_override;
            layer.env_override.iter_mut().for_each(|own| own.retain(|name, _| !set.contains_key(name)));
            self.apply(layer, &Origin { kit: Some(name), ..Origin::code(RuleLayer::Kit) });
        }
        Ok(needs)
    }
}

impl Needs {
    fn add(&mut self, name: &str, kit: &Kit, options: &LoadOptions<'_>) -> Result<()> {
        let expander = Expander { home: options.home, project: options.project, env: options.env };
        let wrong = |key: &str, text: &Text, why: &str| {
            let message = format!("kits.{name}.{key}: `{}` {why}", text.as_str());
            Error::new(ErrorKind::InvalidConfig, message)
        };
        let plain = |key: &str, text: &Text| {
            expander.path(text.as_str()).ok_or_else(|| wrong(key, text, "is no plain path"))
        };
        for state in &kit.state {
            self.directories.push(plain("state", &state.path)?);
        }
        for file in &kit.files {
            let path = plain("files", &file.path)?;
            let place = path.parent().zip(path.file_name().and_then(|name| name.to_str()));
            let place =
                place.filter(|(directory, _)| self.directories.iter().any(|state| state == directory));
            let (directory, name) = place
                .ok_or_else(|| wrong("files", &file.path, "is not directly in a directory of `state`"))?;
            self.files.push((directory.to_owned(), name.to_owned(), file.text.as_str().to_owned()));
        }
        Ok(())
    }
}

/// The host, without a credential that this person does not have: agents know more than one way to log in.
fn host(rule: &HostSetting, env: &EnvMap) -> HostSetting {
    let mut rule = rule.clone();
    let is_set = |name: &str| env.get(OsStr::new(name)).is_some_and(|value| !value.is_empty());
    let is_had = |credential: &Credential| match &credential.from {
        CredentialSource::Variables(text) => variables_in(text).into_iter().all(is_set),
        CredentialSource::File(_) | CredentialSource::Command(_) => true,
    };
    if let Some(inspect) = &mut rule.inspect {
        inspect.credential = inspect.credential.take().filter(is_had);
    }
    rule.inspect = rule.inspect.filter(|inspect| *inspect != Inspect::default());
    rule
}

/// The kit as a layer of configuration.
fn layer(kit: &Kit, options: &LoadOptions<'_>) -> ConfigFile {
    let Kit { about: _, state, files: _, read, deny, hosts, pass, set, sandbox: _ } = kit;
    let value = |text: &str| match text.strip_prefix("~/") {
        Some(below) => options.home.join(below).to_string_lossy().into_owned(),
        None => text.to_owned(),
    };
    ConfigFile {
        allow_write: Some(state.iter().map(|row| row.path.clone()).collect()),
        allow_read: Some(read.iter().map(|row| row.path.clone()).collect()),
        deny: Some(deny.iter().map(|row| row.path.clone()).collect()),
        allowed_hosts: Some(hosts.iter().map(|row| host(&row.rule, options.env)).collect()),
        env_passthrough: Some(pass.iter().map(|row| row.name.clone()).collect()),
        env_override: Some(set.iter().map(|row| (row.name.as_str().to_owned(), value(&row.value))).collect()),
        ..ConfigFile::default()
    }
}
