//! All layers together: built-in < profile < user's file < agent's section < project's file (tighter only)
//! < objects a program hands in < the call.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use ringfence_model::config::{
    ConfigFile, Entry, HostWord, Mode, Profile, SandboxConfig, Setting, Strictness, aliases,
};
use ringfence_model::environment::holds_secret;
use ringfence_model::{Error, ErrorKind, Result, RuleLayer, RuleSource};
use serde_json::Value;

use super::builtin::{self, Platform};
use super::diagnostic::{Diagnostic, DiagnosticKind};
use super::expand::{EnvMap, Expander};
use super::kits::{self, Needs};
use super::merge::{Merge, Origin};
use super::profile;
use super::runs_later::RUNS_LATER;
use super::sets::{self, Machine};
use super::source::{self, Found, Parsed, Positions};

/// The variable that moves ringfence's home.
pub const HOME_VARIABLE: &str = "RINGFENCE_HOME";
const HOME_DIRECTORY: &str = ".ringfence";

/// The directory of ringfence's own files: `$RINGFENCE_HOME`, else `.ringfence` in the home directory.
pub fn ringfence_home(env: &EnvMap) -> Result<PathBuf> {
    let variable = |name: &str| env.get(OsStr::new(name)).filter(|value| !value.is_empty()).map(Path::new);
    let (name, path) = match variable(HOME_VARIABLE) {
        Some(path) => (HOME_VARIABLE, path.to_path_buf()),
        None => match variable("HOME") {
            Some(home) => ("HOME", home.join(HOME_DIRECTORY)),
            None => {
                return Err(Error::new(ErrorKind::InvalidConfig, "there is no home directory")
                    .hint(format!("set HOME or {HOME_VARIABLE}")));
            }
        },
    };
    if path.is_absolute() {
        return Ok(path);
    }
    // A relative one would depend on where the command was started, which a project could choose.
    Err(Error::new(ErrorKind::InvalidConfig, format!("{name} is not an absolute path: {}", path.display())))
}

/// The treatment of a file that is not a valid configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BadFile {
    /// Leave it out as a whole, with a warning; defaults and the built-in deny list hold.
    #[default]
    Warn,
    /// Refuse to go on: what the file denied would be missing.
    Refuse,
}

/// Everything a load depends on. Nothing is read from the process itself.
#[derive(Debug, Clone)]
pub struct LoadOptions<'a> {
    /// Absolute.
    pub project: &'a Path,
    /// The user's home directory, absolute.
    pub home: &'a Path,
    /// See [`ringfence_home`].
    pub ringfence_home: &'a Path,
    pub env: &'a EnvMap,
    /// Whose section of the user's file applies.
    pub agent: Option<&'a str>,
    /// Objects that a program hands in, in order; each is checked, and left out as a whole when it is wrong.
    pub objects: Vec<Value>,
    /// The settings of the call itself.
    pub call: ConfigFile,
    pub bad_file: BadFile,
}

impl<'a> LoadOptions<'a> {
    #[must_use]
    pub fn new(project: &'a Path, home: &'a Path, ringfence_home: &'a Path, env: &'a EnvMap) -> Self {
        Self {
            project,
            home,
            ringfence_home,
            env,
            agent: None,
            objects: vec![],
            call: ConfigFile::default(),
            bad_file: BadFile::Warn,
        }
    }
}

/// The merged configuration, and how it came about.
#[derive(Debug, Clone)]
pub struct Loaded {
    pub config: SandboxConfig,
    pub warnings: Vec<Diagnostic>,
    /// The files that had a part in it.
    pub files: Vec<PathBuf>,
    /// What the kits in use need to be there before anything runs.
    pub(crate) kits: Needs,
    pub(super) origins: BTreeMap<&'static str, RuleSource>,
}

/// A file layer: what it says and where everything stands.
struct FileLayer {
    path: PathBuf,
    config: ConfigFile,
    positions: Positions,
}

/// Loads and merges all layers. Fails on an unknown profile, and on a bad file when told so; anything else
/// that is wrong is a warning.
pub fn load(options: &LoadOptions<'_>) -> Result<Loaded> {
    let mut merge = Merge::default();
    let refuse = options.bad_file == BadFile::Refuse;
    let user =
        file_layer(source::read_user(options.ringfence_home), &mut merge.warnings, refuse, Owner::User)?;
    let mut left_out = vec![];
    let owner = Owner::Project { left_out: &mut left_out };
    let project = file_layer(source::read_project(options.project), &mut merge.warnings, refuse, owner)?;
    let (user, project) = (user.as_ref(), project.as_ref());
    let objects = objects(&options.objects, &mut merge.warnings)?;

    let agent_section = |layer: Option<&FileLayer>| {
        let section = layer?.config.agents.as_ref()?.get(options.agent?)?;
        Some((*section.0).clone())
    };
    let agent = agent_section(user);
    let project_agent = agent_section(project);

    // From the closest layer to the farthest; the project's counts only where it is stricter.
    let mut choosers = vec![&options.call];
    choosers.extend(objects.iter().rev());
    choosers.extend(agent.as_ref());
    choosers.extend(user.map(|layer| &layer.config));
    let projects: Vec<&ConfigFile> =
        project.map(|layer| &layer.config).into_iter().chain(&project_agent).collect();
    let profile = choose_profile(&choosers, &projects);
    let mode = choose_mode(&choosers, &projects);
    // A repository must not be able to make itself unusable; where everything is to be strict, it is refused.
    let strict = |layer: &&ConfigFile| layer.validation_strictness == Setting::Value(Strictness::Strict);
    if (profile == Profile::Prod || choosers.iter().any(strict))
        && refuse
        && let Some(problem) = left_out.first()
    {
        return Err(invalid(problem));
    }
    merge.warnings.extend(left_out.into_iter().map(|problem| Diagnostic {
        message: match problem.message.strip_prefix("unknown field ").and_then(|rest| rest.split(',').next())
        {
            Some(name) => format!("{name} is not a key that ringfence knows"),
            None => problem.message.clone(),
        },
        kind: DiagnosticKind::LayerDropped,
        severity: super::diagnostic::Severity::Warning,
        ..problem.suggest("left out, and the rest of the file holds; see `ringfence config check`")
    }));

    merge.built_in(options);
    let preset = Origin::code(RuleLayer::Profile);
    merge.apply(profile::profile(profile), &preset);
    merge.apply(profile::mode(mode), &preset);
    merge.config.profile = profile;

    let below = options.agent.map(|name| format!("agents/{}", aliases::canonical(name))).unwrap_or_default();
    let mut files = Vec::new();
    if let Some(layer) = user {
        let origin = layer.origin(RuleLayer::User, "");
        merge.apply(layer.config.clone(), &origin);
        if let Some(agent) = agent.clone() {
            merge.apply(agent, &layer.origin(RuleLayer::Agent, &below));
        }
        files.push(layer.path.clone());
    }
    let kits = merge.kits(&kits::in_use(&choosers)?, options)?;
    if let Some(layer) = project {
        let origin = layer.origin(RuleLayer::Project, "");
        let laxer = layer.config.profile.is_some_and(|wanted| wanted < profile);
        merge.tighten(layer.config.clone(), &origin);
        if laxer {
            merge.widens(&origin, "profile");
        }
        if let Some(agent) = project_agent {
            merge.tighten(agent, &layer.origin(RuleLayer::Project, &below));
        }
        files.push(layer.path.clone());
    }
    for object in objects {
        merge.apply(object, &Origin::code(RuleLayer::Call));
    }
    merge.apply(options.call.clone(), &Origin::code(RuleLayer::Call));
    // A layer that names a laxer profile than the one chosen has not chosen it.
    merge.config.profile = profile;
    merge.no_raw_network();
    if options.project == options.home {
        let message = "the project is the whole home directory: what is in it can be read and written, but for secrets and what runs later";
        merge.warnings.push(
            Diagnostic::warning(DiagnosticKind::WholeHome, message)
                .suggest("start in the project's own directory, or name it with --project"),
        );
    }
    merge.unset_variables(options);
    merge.sets(options)?;

    let Merge { config, origins, warnings, is_of_everything: _ } = merge;
    Ok(Loaded { config, warnings, files, kits, origins })
}

impl FileLayer {
    fn origin<'a>(&'a self, layer: RuleLayer, below: &'a str) -> Origin<'a> {
        Origin { layer, file: Some(&self.path), positions: Some(&self.positions), below, kit: None }
    }
}

/// Whose file it is.
enum Owner<'a> {
    User,
    /// Whoever wrote the repository. Keys of it that are wrong are left out, since all it can do is to tighten.
    Project {
        left_out: &'a mut Vec<Diagnostic>,
    },
}

fn invalid(problem: &Diagnostic) -> Error {
    Error::new(ErrorKind::InvalidConfig, problem.to_string())
        .hint("ringfence config check shows everything that is wrong")
}

/// A layer from what was found, or a warning instead of it. An unknown profile in the user's own file is
/// an error whatever happens: taking another one could be laxer than what was meant.
fn file_layer(
    found: Found,
    warnings: &mut Vec<Diagnostic>,
    refuse: bool,
    mut owner: Owner<'_>,
) -> Result<Option<FileLayer>> {
    let own = matches!(owner, Owner::User);
    let parsed = found.and_then(|source| {
        let Some(source) = source else { return Ok(None) };
        if source.open_to_others && own {
            warnings.push(
                Diagnostic::warning(DiagnosticKind::Permissions, "other users can change this file")
                    .in_file(Some(&source.path))
                    .suggest(format!("chmod o-w {}", source.path.display())),
            );
        }
        let Parsed { config, positions } = match &mut owner {
            Owner::User => source::parse(&source.path, &source.text)?,
            Owner::Project { left_out } => source::parse_what_is_right(&source.path, &source.text, left_out)?,
        };
        Ok(Some(FileLayer { path: source.path, config, positions }))
    });
    let problem = match parsed {
        Ok(layer) => return Ok(layer),
        Err(problem) => problem,
    };
    let names_profile =
        |key: &str| key == "profile" || (key.starts_with("agents.") && key.ends_with(".profile"));
    if refuse || (own && problem.key.as_deref().is_some_and(names_profile)) {
        return Err(invalid(&problem));
    }
    let suggestion = "the whole file is left out until it is right; see `ringfence config check`";
    let message = problem.message.clone();
    warnings.push(Diagnostic {
        kind: DiagnosticKind::LayerDropped,
        severity: super::diagnostic::Severity::Warning,
        message,
        ..problem.suggest(suggestion)
    });
    Ok(None)
}

fn objects(values: &[Value], warnings: &mut Vec<Diagnostic>) -> Result<Vec<ConfigFile>> {
    let mut layers = Vec::new();
    for value in values {
        match source::from_value(value.clone()) {
            Ok(layer) => layers.push(layer),
            Err(misfit) => {
                let problem = misfit.problem;
                if problem.key.as_deref() == Some("profile") {
                    return Err(Error::new(ErrorKind::InvalidConfig, problem.to_string()));
                }
                let message = format!("the object is left out: {}", problem.message);
                let key = problem.key.unwrap_or_default();
                warnings.push(Diagnostic::warning(DiagnosticKind::LayerDropped, message).key(key));
            }
        }
    }
    Ok(layers)
}

fn choose_profile(choosers: &[&ConfigFile], projects: &[&ConfigFile]) -> Profile {
    let chosen = choosers.iter().find_map(|layer| layer.profile).unwrap_or_default();
    projects.iter().filter_map(|layer| layer.profile).fold(chosen, Profile::max)
}

fn choose_mode(choosers: &[&ConfigFile], projects: &[&ConfigFile]) -> Mode {
    let of = |layer: &&ConfigFile| match layer.mode {
        Setting::Unset => None,
        Setting::Null => Some(Mode::default()),
        Setting::Value(word) => word.mode(),
    };
    let chosen = choosers.iter().find_map(of).unwrap_or_default();
    projects.iter().filter_map(of).fold(chosen, Mode::max)
}

impl Merge {
    /// The lists that every configuration begins with.
    fn built_in(&mut self, options: &LoadOptions<'_>) {
        add_built_in(&mut self.config, Platform::current(), options.home, options.ringfence_home);
    }

    /// The local fence has no raw network, whoever asks for one.
    fn no_raw_network(&mut self) {
        if self.config.provider != "local" {
            return;
        }
        let message = "has no effect: the local fence never has a raw network";
        let suggestion = "leave it out; name hosts in `allowedHosts`, or set `network.ask`";
        let mut deny = |key: &str| {
            let source = self.origins.get(key);
            let warning = Diagnostic::warning(DiagnosticKind::NoRawNetwork, message)
                .in_file(source.and_then(|source| source.file.as_deref()))
                .on_line(source.and_then(|source| source.line))
                .key(key)
                .suggest(suggestion);
            self.warnings.push(warning);
        };
        if std::mem::take(&mut self.config.allow_network) {
            deny("allowNetwork");
        }
        if !std::mem::replace(&mut self.config.os.bubblewrap.unshare_net, true) {
            deny("os.bubblewrap.unshareNet");
        }
        self.nobody_is_nobody();
    }

    /// A set that finds nothing here is an error: what it should allow or block would be missing.
    fn sets(&mut self, options: &LoadOptions<'_>) -> Result<()> {
        let machine = Machine::new(options.home, options.project, options.env);
        let allowed = self.config.allowed_hosts.iter().map(|entry| (&entry.text, &entry.source));
        let blocked = self.config.blocked_hosts.iter().map(|entry| (&entry.text, &entry.source));
        for (text, source) in allowed.chain(blocked) {
            let Ok(HostWord::Set(name)) = HostWord::of(text) else { continue };
            if !sets::find(name, &machine).is_empty() {
                continue;
            }
            let problem = Diagnostic::error(DiagnosticKind::EmptySet, sets::nothing_found(name))
                .in_file(source.file.as_deref())
                .on_line(source.line)
                .key(source.key.clone().unwrap_or_default())
                .suggest(sets::instead(name));
            if options.bad_file == BadFile::Refuse {
                return Err(invalid(&problem));
            }
            self.warnings.push(problem);
        }
        Ok(())
    }

    fn unset_variables(&mut self, options: &LoadOptions<'_>) {
        let expander = Expander { home: options.home, project: options.project, env: options.env };
        let c = &self.config;
        let lists = [&c.allow_read, &c.allow_write, &c.deny, &c.protect, &c.allowed_tmp_paths];
        let sensitive = c.additional_sensitive_files.iter();
        let written = lists.into_iter().flatten().chain(sensitive).filter(|entry| entry.text.contains('$'));
        for entry in written {
            for name in expander.of(entry.source.layer).pattern(&entry.text).unset {
                let why = if entry.source.layer == RuleLayer::Project {
                    "is not expanded in a project's file"
                } else if holds_secret(&name) {
                    "is named like a secret, which no rule may show"
                } else {
                    "is not set"
                };
                self.warnings.push(
                    Diagnostic::warning(
                        DiagnosticKind::UnsetVariable,
                        format!("${name} {why}; `{}` stays as written", entry.text),
                    )
                    .in_file(entry.source.file.as_deref())
                    .on_line(entry.source.line)
                    .key(entry.source.key.clone().unwrap_or_default()),
                );
            }
        }
    }
}

/// Puts the built-in lists at the beginning of the configuration's own.
pub(super) fn add_built_in(
    config: &mut SandboxConfig,
    platform: Platform,
    home: &Path,
    ringfence_home: &Path,
) {
    let entry = |text: &str, key: &str| {
        Entry::new(text, RuleSource { key: Some(key.to_owned()), ..RuleSource::layer(RuleLayer::BuiltIn) })
    };
    let mut deny: Vec<Entry> =
        platform.deny().iter().copied().flatten().map(|row| entry(row.path, "deny")).collect();
    deny.push(entry("~/.ringfence", "deny"));
    if ringfence_home != home.join(HOME_DIRECTORY) {
        deny.push(entry(&super::expand::written(ringfence_home), "deny"));
    }
    let mut protect: Vec<Entry> = builtin::PROTECT.iter().map(|row| entry(row.path, "protect")).collect();
    protect.extend(RUNS_LATER.iter().map(|row| entry(row.path, &row.key())));
    for (list, own) in [(&mut config.deny, &mut deny), (&mut config.protect, &mut protect)] {
        let given = std::mem::take(list);
        own.extend(given.into_iter().filter(|entry| entry.source.layer != RuleLayer::BuiltIn));
        *list = std::mem::take(own);
    }
}
