//! Commands that the user's lists mention.
//!
//! An entry is a command line, matched as words: the program by its name or by its path, sub-commands in
//! order, options in any order and spelling. Behind ` # ` an entry may carry examples that are tried when it
//! is loaded: `git push -f # match: git push --force origin | notMatch: git push`.

use ringfence_model::RuleSource;
use ringfence_model::config::Entry;

use crate::checks::Seen;
use crate::path::base_name;
use crate::shell_internals::split_words;
use crate::value::{Arg, Val};

/// Options that programs spell in two ways.
const SAME: &[(&str, &str)] = &[
    ("-r", "--recursive"),
    ("-R", "--recursive"),
    ("-f", "--force"),
    ("-v", "--verbose"),
    ("-q", "--quiet"),
    ("-n", "--dry-run"),
    ("-d", "--delete"),
    ("-a", "--all"),
    ("-h", "--help"),
    ("-i", "--interactive"),
    ("-p", "--parents"),
];

/// One entry of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandRule {
    /// The entry as written, without its examples.
    pub text: String,
    /// Where it was written.
    pub source: RuleSource,
    program: String,
    operands: Vec<String>,
    options: Vec<String>,
}

/// Why an entry was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// The entry.
    pub entry: String,
    /// What is wrong with it.
    pub message: String,
}

impl std::fmt::Display for RuleError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rule `{}`: {}", self.entry, self.message)
    }
}

impl std::error::Error for RuleError {}

/// Which list a rule is on; a refusal must not be slipped by, a permission must not be stretched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// Passes without asking.
    Allow,
    /// Is refused without asking.
    Deny,
}

impl CommandRule {
    /// Reads an entry and tries its examples.
    pub fn parse(entry: &Entry, list: List) -> Result<Self, RuleError> {
        let (text, examples) = entry.text.split_once(" # ").unwrap_or((&entry.text, ""));
        let fail = |message: String| RuleError { entry: entry.text.clone(), message };
        let words = rule_words(text.trim()).ok_or_else(|| fail("not one plain command".to_owned()))?;
        let Some((program, rest)) = words.split_first() else { return Err(fail("it is empty".to_owned())) };
        let (options, operands): (Vec<String>, Vec<String>) =
            rest.iter().cloned().partition(|word| word.starts_with('-') && word.len() > 1);
        let rule = Self {
            text: text.trim().to_owned(),
            source: entry.source.clone(),
            program: program.clone(),
            operands,
            options: options.iter().flat_map(|word| spread(word)).collect(),
        };
        rule.try_examples(examples, list).map_err(fail)?;
        Ok(rule)
    }

    fn try_examples(&self, examples: &str, list: List) -> Result<(), String> {
        for part in examples.split(" | ").map(str::trim).filter(|part| !part.is_empty()) {
            let (want, texts) = match (part.strip_prefix("match:"), part.strip_prefix("notMatch:")) {
                (Some(texts), _) => (true, texts),
                (_, Some(texts)) => (false, texts),
                (None, None) => continue,
            };
            for text in texts.split(';').map(str::trim).filter(|text| !text.is_empty()) {
                let words = split_words(text)
                    .ok_or_else(|| format!("the example `{text}` is not one plain command"))?;
                let args: Vec<Arg> =
                    words.into_iter().map(|word| Arg::new(Val::text(word), Default::default())).collect();
                if self.matches_words(&args, list) != want {
                    let should = if want { "should match and does not" } else { "should not match and does" };
                    return Err(format!("its example `{text}` {should}"));
                }
            }
        }
        Ok(())
    }

    /// Whether a command of a text is meant.
    pub fn matches(&self, seen: &Seen, list: List) -> bool {
        self.matches_words(&seen.args, list)
    }

    fn matches_words(&self, args: &[Arg], list: List) -> bool {
        let Some((first, rest)) = args.split_first() else { return false };
        let Some(name) = first.known() else { return false };
        let program = if self.program.contains('/') {
            name == self.program
        } else {
            let base = base_name(name);
            base == self.program
                || list == List::Deny
                    && base.strip_prefix(&self.program).is_some_and(|rest| rest.starts_with('.'))
        };
        if !program {
            return false;
        }
        let mut given: Vec<String> = vec![];
        let mut operands: Vec<&Arg> = vec![];
        let mut ended = false;
        for arg in rest {
            let prefix = arg.val.prefix();
            if arg.is("--") && !ended {
                ended = true;
            } else if !ended && prefix.starts_with('-') && prefix.len() > 1 {
                given.extend(spread(prefix));
            } else {
                operands.push(arg);
            }
        }
        let has = |option: &String| given.iter().any(|known| same_option(known, option, list));
        if !self.options.iter().all(has) {
            return false;
        }
        match list {
            // In order, from the first: `git push` does not vouch for `git -C push`.
            List::Allow => {
                self.operands.len() <= operands.len()
                    && self.operands.iter().zip(&operands).all(|(want, arg)| word_matches(want, arg))
            }
            // In order, anywhere: options with values cannot hide a sub-command.
            List::Deny => {
                let mut left = operands.iter();
                self.operands.iter().all(|want| left.any(|arg| word_matches(want, arg)))
            }
        }
    }
}

/// The words of an entry, with `*` as it stands.
fn rule_words(text: &str) -> Option<Vec<String>> {
    use ringfence_bash::{Glob, Segment};
    let script = ringfence_bash::parse(text).ok()?;
    let commands = script.simple_commands();
    let [only] = commands.as_slice() else { return if text.is_empty() { Some(vec![]) } else { None } };
    if !only.simple.assignments.is_empty() || !only.command.redirects.is_empty() {
        return None;
    }
    let word = |word: &ringfence_bash::Word| {
        let segments = word.segments().into_iter().map(|segment| match segment {
            Segment::Text(text) => Some(text),
            Segment::Glob(Glob::Star) => Some("*".to_owned()),
            Segment::Glob(_) | Segment::Tilde(_) | Segment::Unknown => None,
        });
        segments.collect::<Option<String>>()
    };
    only.simple.words.iter().map(word).collect()
}

/// `*` at the end stands for anything.
fn word_matches(want: &str, arg: &Arg) -> bool {
    match (want.strip_suffix('*'), arg.known()) {
        (Some(prefix), Some(word)) => word.starts_with(prefix) && !word.contains("/../"),
        (None, Some(word)) => word == want,
        (_, None) => false,
    }
}

/// `-rf` is `-r` and `-f`; `--name=value` is `--name`.
fn spread(word: &str) -> Vec<String> {
    if word.starts_with("--") {
        return vec![word.split('=').next().unwrap_or(word).to_owned()];
    }
    word.chars().skip(1).map(|letter| format!("-{letter}")).collect()
}

fn same_option(given: &str, wanted: &str, list: List) -> bool {
    given == wanted
        || SAME
            .iter()
            .any(|(short, long)| given == *short && wanted == *long || given == *long && wanted == *short)
        || (given, wanted) == ("-R", "-r")
        || (given, wanted) == ("-r", "-R")
        || list == List::Deny
            && (crate::shell::args::abbreviates(given, wanted)
                || SAME
                    .iter()
                    .any(|(short, long)| *short == wanted && crate::shell::args::abbreviates(given, long)))
}

/// Programs whose first operand says what they do.
const WITH_SUBCOMMANDS: &[&str] = &[
    "git",
    "cargo",
    "npm",
    "pnpm",
    "yarn",
    "docker",
    "podman",
    "kubectl",
    "go",
    "pip",
    "pip3",
    "uv",
    "poetry",
    "gh",
    "make",
    "just",
    "systemctl",
    "apt",
    "apt-get",
    "brew",
    "terraform",
    "helm",
    "aws",
    "gcloud",
    "az",
    "rustup",
    "conda",
    "bundle",
    "rake",
    "mvn",
    "gradle",
    "dotnet",
    "nix",
    "deno",
    "bun",
];

/// Programs for which no lasting rule is proposed: every use is to be looked at.
const NEVER: &[&str] = &[
    "rm", "dd", "chmod", "chown", "sh", "bash", "zsh", "dash", "eval", "python", "python3", "node", "perl",
    "ruby", "xargs", "find", "env", "curl", "wget", "ssh", "scp", "kill", "pkill", "killall", "mv", "source",
    ".",
];

/// The rule that "allow always" would write: neither the whole program nor one exact line. `None` if there is
/// no such rule that a person should give away.
pub fn propose(seen: &Seen) -> Option<String> {
    if seen.name.is_empty() || NEVER.contains(&seen.name.as_str()) || seen.level > 0 {
        return None;
    }
    let words: Vec<&str> = seen.args[1..].iter().filter_map(Arg::known).collect();
    let operand = words.iter().find(|word| !word.starts_with('-'));
    let option = words.iter().find(|word| word.starts_with('-') && !word.contains('='));
    let narrowed =
        if WITH_SUBCOMMANDS.contains(&seen.name.as_str()) { operand.or(option) } else { option.or(operand) }?;
    if narrowed.contains(char::is_whitespace) {
        return None;
    }
    let narrowed = match narrowed.rsplit_once('/') {
        Some((directory, _)) if !directory.is_empty() && !narrowed.starts_with('-') => {
            format!("{directory}/*")
        }
        _ => (*narrowed).to_owned(),
    };
    // One word more than the program and nothing else would be the exact line again, unless more may follow;
    // rules match beginnings, so more may.
    Some(format!("{} {narrowed}", seen.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str, list: List) -> CommandRule {
        CommandRule::parse(&Entry::by_call(text), list).unwrap()
    }

    fn args(text: &str) -> Vec<Arg> {
        split_words(text)
            .unwrap()
            .into_iter()
            .map(|word| Arg::new(Val::text(word), Default::default()))
            .collect()
    }

    #[test]
    fn denied_words_match_in_any_order_and_spelling() {
        for (entry, command, want) in [
            ("rm -rf", "rm -fr x", true),
            ("rm -rf", "rm -r -f x", true),
            ("rm -rf", "rm --recursive --force x", true),
            ("rm -rf", "rm --recurs -f x", true),
            ("rm -rf", "rm -r x", false),
            ("sudo", "/usr/bin/sudo id", true),
            ("mkfs", "mkfs.ext4 /dev/x", true),
            ("git push", "git -C dir push", true),
            ("git push", "git status", false),
            ("/usr/bin/sudo", "sudo id", false),
        ] {
            assert_eq!(
                rule(entry, List::Deny).matches_words(&args(command), List::Deny),
                want,
                "{entry} / {command}"
            );
        }
    }

    #[test]
    fn allowed_words_match_from_the_beginning() {
        for (entry, command, want) in [
            ("pytest", "pytest -x tests", true),
            ("git status", "git status -sb", true),
            ("git status", "git -c core.pager=x status", false),
            ("python -m pytest", "python -m pytest tests", true),
            ("python -m pytest", "python -c x", false),
            ("cat docs/*", "cat docs/a.md", true),
            ("cat docs/*", "cat docs/../../x", false),
        ] {
            assert_eq!(
                rule(entry, List::Allow).matches_words(&args(command), List::Allow),
                want,
                "{entry} / {command}"
            );
        }
    }

    #[test]
    fn examples_are_tried_on_load() {
        rule("git push -f # match: git push --force origin | notMatch: git push; git status", List::Deny);
        let bad = Entry::by_call("git push # match: git pull");
        let error = CommandRule::parse(&bad, List::Deny).unwrap_err();
        assert!(error.to_string().contains("should match and does not"), "{error}");
        assert!(CommandRule::parse(&Entry::by_call("a; b"), List::Allow).is_err());
        assert!(CommandRule::parse(&Entry::by_call(""), List::Allow).is_err());
    }

    #[test]
    fn a_proposal_is_neither_the_program_nor_the_line() {
        let seen = |text: &str| Seen {
            number: 1,
            name: base_name(args(text)[0].known().unwrap()).to_owned(),
            args: args(text),
            span: Default::default(),
            plain: true,
            level: 0,
        };
        assert_eq!(propose(&seen("git push origin main")).as_deref(), Some("git push"));
        assert_eq!(propose(&seen("npm install lodash")).as_deref(), Some("npm install"));
        assert_eq!(propose(&seen("cat docs/a.md")).as_deref(), Some("cat docs/*"));
        assert_eq!(propose(&seen("rm -rf x")), None);
        assert_eq!(propose(&seen("ls")), None);
    }
}
