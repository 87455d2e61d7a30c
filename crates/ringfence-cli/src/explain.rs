//! `ringfence explain`: what the fence would do about one path or host, and why.

mod host;
mod links;
mod session;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ringfence::config::builtin;
use ringfence::config::runs_later::RUNS_LATER;
use ringfence::model::{
    Access, DenyReason, Filesystem, Grant, PathDecision, PathOutcome, PathRule, Policy, Result, RuleLayer,
    RuleSource,
};
use ringfence::setup::Setup;
use serde::Serialize;
use serde_json::{Value, json};

use crate::args::{Explain, Sandbox};
use crate::output::{self, Palette, Tone, one_line};
use crate::places::Places;
use crate::{report, settings};
use links::Link;

pub(crate) fn explain(args: &Explain) -> Result<ExitCode> {
    if let Some(key) = &args.session {
        return session::explain(key, &args.sandbox, args.json);
    }
    if let Some(host) = host::meant(args) {
        return host::explain(&host, args);
    }
    let setup = load(&args.sandbox)?;
    let places = Places::find(args.sandbox.project.as_deref())?;
    let access = match (args.write, args.execute) {
        (true, _) => Access::Write,
        (_, true) => Access::Execute,
        (false, false) => Access::Read,
    };
    let policy = enforced(&setup);
    let asked = places.absolute(args.path.as_deref().unwrap_or(Path::new(".")));
    let answer = Answer::find(&policy.filesystem, &asked, access);
    let explained = Explained::new(&answer, &policy.filesystem, &setup);
    if args.json {
        output::print_json(&explained)?;
    } else {
        output::print(&explained.text(Palette::of_stdout()))?;
    }
    Ok(ExitCode::from(u8::from(answer.verdict() != Verdict::Allowed)))
}

fn load(sandbox: &Sandbox) -> Result<Setup> {
    let setup = settings::load(sandbox, serde_json::Map::new())?;
    settings::say_warnings(&setup, sandbox);
    settings::unfenced(&setup).iter().for_each(|warning| report::say(&format!("warning: {warning}")));
    Ok(setup)
}

/// The policy with everything the local fence adds to it.
fn enforced(setup: &Setup) -> Policy {
    let policy = setup.policy();
    let host = ringfence::local::host::Host::from_environment(setup.env.clone());
    ringfence::local::complete::complete(policy, &setup.project, &host).policy
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum Verdict {
    Allowed,
    Denied,
    /// The name exists inside, in a directory of the sandbox's own; the host's file does not.
    Private,
}

impl Verdict {
    fn of(outcome: PathOutcome) -> Self {
        match outcome {
            PathOutcome::Allowed => Self::Allowed,
            PathOutcome::Private => Self::Private,
            PathOutcome::Denied(_) => Self::Denied,
        }
    }
}

/// The policy's answer, and the path it is about: the asked one, or one that it leads through.
#[derive(Debug)]
struct Answer<'a> {
    asked: PathBuf,
    resolved: PathBuf,
    links: Vec<Link>,
    access: Access,
    /// The path that decided: the resolved one, or a link on the way that cannot be followed inside.
    decisive: PathBuf,
    decision: PathDecision<'a>,
}

impl<'a> Answer<'a> {
    fn find(fs: &'a Filesystem, asked: &Path, access: Access) -> Self {
        let (resolved, links) = links::resolve(asked);
        let mut decisive = resolved.clone();
        let mut decision = fs.decide(&resolved, access);
        // A link has to be seen to be followed: the first one that is not decides.
        for link in &links {
            let on_the_way = fs.decide(&link.path, Access::Read);
            if on_the_way.outcome != PathOutcome::Allowed {
                (decisive, decision) = (link.path.clone(), on_the_way);
                break;
            }
        }
        Self { asked: asked.to_owned(), resolved, links, access, decisive, decision }
    }

    fn verdict(&self) -> Verdict {
        Verdict::of(self.decision.outcome)
    }
}

/// The answer in words and for programs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Explained {
    path: PathBuf,
    resolved: PathBuf,
    links: Vec<Link>,
    access: Access,
    verdict: Verdict,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<DenyReason>,
    /// The link that decided, when it was not the path at its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    decided_by_link: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    grant: Option<Grant>,
    why: String,
    /// There is none, and a command may make one by writing it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    may_be_made: bool,
    /// Changes that would give another answer.
    change: Vec<String>,
}

impl Explained {
    fn new(answer: &Answer<'_>, fs: &Filesystem, setup: &Setup) -> Self {
        let decision = &answer.decision;
        let built_in = decision.rule.and_then(|rule| built_in_reason(rule, &setup.home));
        let rule = decision.rule.map(|rule| {
            json!({
                "path": rule.path.to_syntax(),
                "source": rule.source,
                "reason": built_in,
            })
        });
        Self {
            path: answer.asked.clone(),
            resolved: answer.resolved.clone(),
            links: answer.links.clone(),
            access: answer.access,
            verdict: answer.verdict(),
            reason: match decision.outcome {
                PathOutcome::Denied(reason) => Some(reason),
                PathOutcome::Allowed | PathOutcome::Private => None,
            },
            decided_by_link: (answer.decisive != answer.resolved).then(|| answer.decisive.clone()),
            rule,
            grant: decision.grant.cloned(),
            why: why(answer, built_in),
            may_be_made: answer.access == Access::Write
                && std::fs::symlink_metadata(&answer.resolved).is_err()
                && fs.may_be_made(&answer.resolved),
            change: change(answer, fs, setup),
        }
    }

    fn text(&self, palette: Palette) -> String {
        let (tone, word) = match self.verdict {
            Verdict::Allowed => (Tone::Good, "allowed"),
            Verdict::Denied => (Tone::Bad, "denied"),
            Verdict::Private => (Tone::Warning, "private"),
        };
        let shown = |path: &Path| one_line(&path.to_string_lossy());
        let mut text = format!("{}: {} {}\n", palette.paint(tone, word), self.access, shown(&self.path));
        for link in &self.links {
            let _ = writeln!(text, "  link:   {} -> {}", shown(&link.path), shown(&link.target));
        }
        if self.resolved != self.path {
            let _ = writeln!(text, "  path:   {}", shown(&self.resolved));
        }
        let _ = writeln!(text, "  why:    {}", one_line(&self.why));
        if self.may_be_made {
            text.push_str(
                "  but:    a command may make a new one; it is not read again, and file tools make none\n",
            );
        }
        for change in &self.change {
            let _ = writeln!(text, "  change: {}", one_line(change));
        }
        text
    }
}

fn why(answer: &Answer<'_>, built_in: Option<&str>) -> String {
    let Answer { decision, .. } = answer;
    let by = match (decision.grant, decision.rule) {
        (Some(grant), _) => {
            let scope = if grant.recursive { " and everything below it" } else { "" };
            return format!("a person granted {} of {}{scope}", grant.access, grant.path.display());
        }
        (None, Some(rule)) => {
            // Rules about what runs later say it themselves.
            let reason = built_in.filter(|_| !rule.runs_later());
            let reason = reason.map_or_else(String::new, |reason| format!(", {reason}"));
            format!("{} ({}{reason})", rule.path, rule.source)
        }
        (None, None) => String::new(),
    };
    let what = match decision.outcome {
        PathOutcome::Allowed => format!("allowed by {by}"),
        PathOutcome::Private => match decision.rule {
            Some(rule) if rule.path.covers(&answer.decisive) => {
                format!("{by} is a directory of the sandbox's own; the host's file is not there")
            }
            _ => format!("it only leads to {by}; nothing else of it is there"),
        },
        PathOutcome::Denied(DenyReason::Denied) => format!("on the deny list: {by}"),
        PathOutcome::Denied(DenyReason::Protected) => {
            let unless = decision.rule.map_or("", |rule| unless(rule, &answer.resolved));
            format!("readable, but protected from being changed: {by}{unless}")
        }
        PathOutcome::Denied(DenyReason::ReadOnly) => format!("readable only: {by}"),
        PathOutcome::Denied(DenyReason::Unlisted) => "no rule allows it".to_owned(),
    };
    if answer.decisive == answer.resolved {
        what
    } else {
        format!("the link {} cannot be followed inside: {what}", answer.decisive.display())
    }
}

/// When what is protected may be changed all the same.
fn unless(rule: &PathRule, path: &Path) -> &'static str {
    let is_gits = rule.is_about_names() && path.iter().any(|part| part == ".git");
    let name = path.file_name().unwrap_or_default();
    if rule.runs_later() {
        "; a person is asked, and in a tree that was made inside it is made and named at the end"
    } else if is_gits && (name == "config" || name == "config.worktree") {
        "; git itself may change it by keys that run and fetch nothing, and takes nothing else away"
    } else if is_gits && name == "hooks" {
        "; an empty one may be made"
    } else {
        ""
    }
}

/// Steps by which a person gets another answer; none where it is allowed.
fn change(answer: &Answer<'_>, fs: &Filesystem, setup: &Setup) -> Vec<String> {
    if answer.decisive == answer.resolved {
        return change_about(&answer.resolved, &answer.decision, answer.access, setup);
    }
    // A link that is not there inside need not be there: what it leads to has a name of its own.
    let target = fs.decide(&answer.resolved, answer.access);
    let mut changes = vec![format!("use the path itself: {}", answer.resolved.display())];
    changes.extend(change_about(&answer.resolved, &target, answer.access, setup));
    changes
}

fn change_about(path: &Path, decision: &PathDecision<'_>, access: Access, setup: &Setup) -> Vec<String> {
    let file = setup.ringfence_home.join("sandbox.json");
    let file = file.display();
    let quoted = Value::String(path.to_string_lossy().into_owned());
    let (flag, key) = match access {
        Access::Write => ("--allow-write", "allowWrite"),
        Access::Read | Access::Execute => ("--allow-read", "allowRead"),
        Access::Connect => ("--allow-host", "allowedHosts"),
    };
    let allow = || vec![format!("{flag} {}", shell_word(path)), format!("{file}: \"{key}\": [{quoted}]")];
    match decision.outcome {
        PathOutcome::Allowed => vec![],
        // A directory on the way to something shown: all that is in it would have to be allowed.
        PathOutcome::Private if decision.rule.is_some_and(|rule| !rule.path.covers(path)) => vec![],
        PathOutcome::Private | PathOutcome::Denied(DenyReason::ReadOnly | DenyReason::Unlisted) => allow(),
        PathOutcome::Denied(DenyReason::Denied | DenyReason::Protected) => {
            let mut changes: Vec<String> =
                decision.rule.and_then(|rule| take_out(&rule.source, path)).into_iter().collect();
            let recursive = path.is_dir();
            changes.push(format!(
                "{file}: \"grants\": [{{ \"path\": {quoted}, \"access\": \"{access}\", \"recursive\": {recursive} }}]"
            ));
            changes
        }
    }
}

/// How to take a rule out again that somebody wrote.
fn take_out(source: &RuleSource, path: &Path) -> Option<String> {
    match (source.layer, &source.file) {
        (RuleLayer::Call, _) => Some(format!("leave out the --deny that covers {}", path.display())),
        (_, Some(file)) => {
            let line = source.line.map_or_else(String::new, |line| format!(":{line}"));
            Some(format!("remove the rule from {}{line}", file.display()))
        }
        (RuleLayer::Profile, None) => Some("use a laxer --profile".to_owned()),
        // A built-in rule cannot be taken out, only granted against.
        (_, None) => None,
    }
}

/// Why the program itself has this rule.
fn built_in_reason(rule: &PathRule, home: &Path) -> Option<&'static str> {
    if rule.source.layer != RuleLayer::BuiltIn {
        return None;
    }
    let platform = builtin::Platform::current();
    let rows = platform.deny().iter().copied().flatten().chain(builtin::PROTECT).chain(platform.private());
    let rows = rows.map(|row| (row.path, row.reason));
    let later = RUNS_LATER.iter().map(|row| (row.path, row.reason));
    let syntax = rule.path.to_syntax();
    let is = |(path, _): &(&str, &str)| match path.strip_prefix("~/") {
        Some(below) => home.join(below).to_str() == Some(&syntax),
        // A rule for every depth is anchored in each tree of the user.
        None if path.starts_with("**/") => syntax.ends_with(path),
        None => *path == syntax,
    };
    rows.chain(later).find(is).map(|(_, reason)| reason)
}

/// The path as it can be typed into a shell.
fn shell_word(path: &Path) -> String {
    let text = path.to_string_lossy();
    let plain =
        |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | '+' | ',' | ':' | '@' | '%');
    if text.chars().all(plain) { text.into_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_can_be_typed_again() {
        for (path, want) in
            [("/a/b-c.d", "/a/b-c.d"), ("/a b", "'/a b'"), ("/it's", r"'/it'\''s'"), ("/$x", "'/$x'")]
        {
            assert_eq!(shell_word(Path::new(path)), want);
        }
    }

    #[test]
    fn a_link_that_cannot_be_seen_decides() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        for dir in ["open", "secret"] {
            std::fs::create_dir(root.join(dir)).unwrap();
        }
        std::fs::write(root.join("open/file"), "").unwrap();
        std::os::unix::fs::symlink(root.join("open/file"), root.join("secret/link")).unwrap();
        let fs = Filesystem {
            allow_read: vec![PathRule::built_in(root.as_path())],
            deny: vec![PathRule::built_in(root.join("secret"))],
            ..Filesystem::default()
        };
        let verdict = |name: &str| Answer::find(&fs, &root.join(name), Access::Read).verdict();
        assert_eq!(verdict("open/file"), Verdict::Allowed);
        assert_eq!(verdict("secret/link"), Verdict::Denied);
    }
}
