//! Policy → profile.

use std::collections::BTreeSet;
use std::path::PathBuf;

use ringfence_model::{Access, Error, ErrorKind, Filesystem, Grant, GrantScope, PathRule, Policy, Result};

use crate::baseline;
use crate::env::{Case, MacEnv, PrivatePlaces, canonical_path, canonical_patterns};
use crate::filter::{self, Filter};
use crate::mode::Mode;
use crate::regex::Refusal;

/// What reading (and running) takes. The existence test is an operation of its own beside reading.
const READ: &str = "file-read* file-test-existence file-map-executable process-exec*";
const WRITE: &str = "file-write*";
const READ_WRITE: &str = "file-read* file-test-existence file-map-executable process-exec* file-write*";

/// A profile, ready to be written to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    text: String,
    /// Rules of the policy that cover nothing on this machine, and what macOS does differently.
    pub notes: Vec<String>,
    /// False for a profile that a person wrote: it is used as it is, and may allow everything.
    pub enforces_policy: bool,
}

impl Profile {
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// Renders the profile of `policy`, in the mode that `env` names.
///
/// Fails, naming the rule, when a rule cannot be expressed; a profile never lacks a rule silently.
/// [`Mode::Disabled`] has no profile and is refused here.
pub fn render(policy: &Policy, env: &MacEnv) -> Result<Profile> {
    match &env.mode {
        Mode::Disabled => {
            Err(Error::new(ErrorKind::SandboxNotAvailable, "seatbelt is disabled, so there is no profile"))
        }
        Mode::Custom(text) if text.trim().is_empty() => {
            Err(Error::new(ErrorKind::InvalidConfig, "the seatbelt profile is empty")
                .hint("remove os.seatbelt.profile to use the profile made from the policy"))
        }
        Mode::Custom(text) => Ok(Profile {
            text: text.clone(),
            notes: vec![
                "the profile was written by hand; nothing checks that it enforces the policy".to_owned(),
            ],
            enforces_policy: false,
        }),
        Mode::ReadOnly | Mode::NoNetwork | Mode::Strict => from_policy(policy, env),
    }
}

/// The rules that the rendered profile holds, in the paths that the kernel sees: the policy's, changed
/// as the mode says, and those that any program needs to start.
#[must_use]
pub fn effective(policy: &Policy, env: &MacEnv) -> Filesystem {
    let canonical = |rules: &[PathRule]| -> Vec<PathRule> {
        let each = |rule: &PathRule| {
            canonical_patterns(&rule.path)
                .into_iter()
                .map(|path| PathRule { path, source: rule.source.clone() })
                .collect::<Vec<_>>()
        };
        rules.iter().flat_map(each).collect()
    };
    let built_in = |table: &[(&str, &str)]| -> Vec<PathRule> {
        table.iter().map(|(path, _)| PathRule::built_in(*path)).collect()
    };
    let rules = &policy.filesystem;
    let mut filesystem = Filesystem {
        allow_write: canonical(&rules.allow_write),
        allow_read: canonical(&rules.allow_read),
        deny: canonical(&rules.deny),
        protect: canonical(&rules.protect),
        private: canonical(&rules.private),
        grants: rules
            .grants
            .iter()
            .filter(|grant| grant.scope != GrantScope::Once && grant.access != Access::Connect)
            .map(|grant| {
                // Collecting the components drops doubled and trailing slashes, as the comparison does.
                let path: PathBuf = grant.path.components().collect();
                Grant { path: canonical_path(&path), ..grant.clone() }
            })
            .collect(),
    };
    match env.mode {
        Mode::ReadOnly => filesystem.allow_read.append(&mut filesystem.allow_write),
        Mode::NoNetwork => {
            filesystem.private.clear();
            filesystem.allow_read.push(PathRule::built_in("/"));
        }
        Mode::Strict | Mode::Disabled | Mode::Custom(_) => {}
    }
    filesystem.allow_read.extend(built_in(baseline::READ));
    filesystem.allow_write.extend(built_in(baseline::WRITE));
    filesystem.allow_write.push(PathRule::built_in(canonical_path(&env.private_root)));
    filesystem.deny.extend(built_in(baseline::DENY));
    filesystem
}

fn from_policy(policy: &Policy, env: &MacEnv) -> Result<Profile> {
    if policy.network.allow_network {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "network.allowNetwork cannot be enforced by the macOS fence: it has no filtered network",
        )
        .hint("set allowNetwork to false"));
    }
    if !env.private_root.is_absolute() || env.private_root.parent().is_none() {
        return Err(Error::new(
            ErrorKind::Validation,
            "the sandbox's own directory must be an absolute path below the root",
        ));
    }
    let filesystem = effective(policy, env);
    let mut writer = Writer::new(env.checked_tag()?);
    writer.start_up();
    let mut notes = Vec::new();
    paths(&filesystem, env.case, &mut writer, &mut notes)?;
    writer.comment("No second name for a file, and no network, whatever stands above.");
    writer.rule("deny", "file-link", &[]);
    writer.rule("deny", "network*", &[]);

    for place in PrivatePlaces::of(policy, env).unmapped {
        if env.mode != Mode::NoNetwork {
            notes.push(format!("private directory {place} is refused: macOS has no private mounts"));
        }
    }
    Ok(Profile { text: writer.text, notes, enforces_policy: true })
}

/// The rules about paths, weakest first.
fn paths(filesystem: &Filesystem, case: Case, writer: &mut Writer, notes: &mut Vec<String>) -> Result<()> {
    writer.comment("Private and allowed places, the more specific later.");
    let mut rules: Vec<(&PathRule, &str, &str)> = Vec::new();
    rules.extend(filesystem.private.iter().map(|rule| (rule, "deny", READ_WRITE)));
    rules.extend(filesystem.allow_read.iter().map(|rule| (rule, "allow", READ)));
    rules.extend(filesystem.allow_write.iter().map(|rule| (rule, "allow", READ_WRITE)));
    // The sort is stable: of two equally specific rules, the allow rule stays after the private one.
    rules.sort_by_key(|(rule, ..)| rule.path.specificity());
    for (rule, action, operations) in rules {
        let filters = named(rule, filter::covering(&rule.path, Case::Exact))?;
        note_if_empty(rule, &filters, notes);
        writer.merge(action, operations, filters);
    }
    writer.flush();

    writer.comment("Directories on the way to what is allowed may be looked at, not listed.");
    writer.rule("allow", "file-read-metadata file-test-existence", &traversed(filesystem)?);

    writer.comment("Protected places.");
    for rule in &filesystem.protect {
        let filters = named(rule, filter::covering(&rule.path, case))?;
        note_if_empty(rule, &filters, notes);
        writer.merge("deny", WRITE, filters);
    }
    writer.flush();

    writer.comment("The deny list.");
    for rule in &filesystem.deny {
        let filters = named(rule, filter::covering(&rule.path, case))?;
        note_if_empty(rule, &filters, notes);
        writer.merge("deny", READ_WRITE, filters);
    }
    writer.flush();

    writer.comment("What stands above a protected or denied place cannot be renamed or removed.");
    let mut seen = BTreeSet::new();
    for rule in filesystem.protect.iter().chain(&filesystem.deny) {
        for filter in named(rule, filter::ancestors(&rule.path, case))? {
            if seen.insert(filter.render()) {
                writer.merge("deny", "file-write-unlink", vec![filter]);
            }
        }
    }
    writer.flush();

    writer.comment("What a person granted.");
    for grant in &filesystem.grants {
        let operations = match grant.access {
            Access::Read | Access::Execute => READ,
            Access::Write => READ_WRITE,
            Access::Connect => continue,
        };
        let text = filter::path_text(&grant.path)
            .and_then(|text| text.ok_or("is not an absolute path"))
            .map_err(|refusal| refused(&format!("grant {:?}", grant.path), refusal))?;
        let filter =
            if grant.recursive { Filter::Subpath(text.to_owned()) } else { Filter::Literal(text.to_owned()) };
        writer.merge("allow", operations, vec![filter]);
    }
    writer.flush();
    Ok(())
}

/// Every directory above something allowed, and the links of the root that lead to some.
fn traversed(filesystem: &Filesystem) -> Result<Vec<Filter>> {
    let mut directories: BTreeSet<String> = BTreeSet::from(["/".to_owned()]);
    directories.extend(crate::env::ALIASES.iter().map(|alias| format!("/{alias}")));
    for rule in filesystem.allow_read.iter().chain(&filesystem.allow_write) {
        if let Some(fixed) = named(rule, filter::fixed_part(&rule.path))? {
            directories.extend(filter::literal_ancestors(&fixed).map(str::to_owned));
            if rule.path.is_glob() {
                directories.insert(fixed);
            }
        }
    }
    for grant in &filesystem.grants {
        if let Some(path) = grant.path.to_str() {
            directories.extend(filter::literal_ancestors(path).map(str::to_owned));
        }
    }
    // What these hold is checked where the rules themselves are written.
    directories.retain(|directory| filter::check_text(directory).is_ok());
    Ok(directories.into_iter().map(Filter::Literal).collect())
}

fn named<T>(rule: &PathRule, result: Result<T, Refusal>) -> Result<T> {
    result.map_err(|refusal| refused(&format!("rule {:?} ({})", rule.path.to_string(), rule.source), refusal))
}

fn refused(what: &str, refusal: Refusal) -> Error {
    Error::new(ErrorKind::Unsupported, format!("{what} {refusal}"))
}

fn note_if_empty(rule: &PathRule, filters: &[Filter], notes: &mut Vec<String>) {
    if filters.is_empty() {
        notes
            .push(format!("rule {} ({}) is not an absolute path and covers nothing", rule.path, rule.source));
    }
}

/// Writes rules; neighbours with the same action and operations become one.
#[derive(Debug)]
struct Writer {
    text: String,
    /// Stands in every rule that refuses, so that the log repeats it.
    tag: Option<String>,
    pending: Option<(String, String, Vec<Filter>)>,
}

impl Writer {
    fn new(tag: Option<&str>) -> Self {
        let tag = tag.map(|tag| format!(" (with message {})", filter::quote(tag)));
        let text = format!("(version 1)\n(deny default{})\n", tag.as_deref().unwrap_or_default());
        Self { text, tag, pending: None }
    }

    fn comment(&mut self, text: &'static str) {
        self.text.push_str("\n; ");
        self.text.push_str(text);
        self.text.push('\n');
    }

    /// A rule; without filters it holds for everything.
    fn rule(&mut self, action: &str, operations: &str, filters: &[Filter]) {
        self.text.push_str(&format!("({action} {operations}"));
        for filter in filters {
            self.text.push_str("\n  ");
            self.text.push_str(&filter.render());
        }
        if let Some(tag) = self.tag.as_ref().filter(|_| action == "deny") {
            self.text.push_str(tag);
        }
        self.text.push_str(")\n");
    }

    /// Adds a rule that, unlike [`Self::rule`], never becomes one without filters.
    fn merge(&mut self, action: &str, operations: &str, mut filters: Vec<Filter>) {
        if filters.is_empty() {
            return;
        }
        match &mut self.pending {
            Some((same_action, same_operations, list))
                if same_action == action && same_operations == operations =>
            {
                list.append(&mut filters);
            }
            _ => {
                self.flush();
                self.pending = Some((action.to_owned(), operations.to_owned(), filters));
            }
        }
    }

    fn flush(&mut self) {
        if let Some((action, operations, filters)) = self.pending.take() {
            self.rule(&action, &operations, &filters);
        }
    }

    /// What any program needs beside files.
    fn start_up(&mut self) {
        self.comment("What any program needs to start.");
        self.text.push_str("(allow process-fork)\n");
        self.text.push_str("(allow process-info* (target same-sandbox))\n");
        self.text.push_str("(allow signal (target same-sandbox))\n");
        self.text.push_str("(allow sysctl-read)\n");
        self.list("deny sysctl-read", "sysctl-name", baseline::HIDDEN_SYSCTLS.iter().map(|(name, _)| *name));
        self.list("allow mach-lookup", "global-name", baseline::MACH_SERVICES.iter().map(|(name, _)| *name));
        self.text.push_str("(allow ipc-posix-shm ipc-posix-sem)\n");
        self.text.push_str("(allow pseudo-tty)\n");
        let controlled = baseline::CONTROLLED.iter().map(|path| (*path).into());
        for pattern in controlled {
            // The table is ours and has only patterns that can be written.
            let filters = filter::covering(&pattern, Case::Exact).unwrap_or_default();
            self.merge("allow", "file-ioctl", filters);
        }
        self.flush();
        let (terminals, mark) = baseline::OWN_TERMINALS;
        self.text.push_str(&format!(
            "(allow file-read* file-write*\n  (require-all (regex {}) (extension {})))\n",
            filter::quote(terminals),
            filter::quote(mark)
        ));
        // dyld opens the root directory; a program that may not ends before its first line.
        self.rule("allow", "file-read-data", &[Filter::Literal("/".to_owned())]);
    }

    fn list<'a>(&mut self, head: &str, filter: &str, names: impl Iterator<Item = &'a str>) {
        self.text.push_str(&format!("({head}"));
        for name in names {
            self.text.push_str(&format!("\n  ({filter} {})", filter::quote(name)));
        }
        self.text.push_str(")\n");
    }
}
