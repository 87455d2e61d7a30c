//! Credentials as the person keeps them: in a variable, in a file, or with a program that prints them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ringfence_model::{
    Credential, CredentialSource, Error, ErrorKind, Policy, Result, variables_in, with_variables,
};
use ringfence_relay::{Hidden, Secret};
use rustix::rand::{GetRandomFlags, getrandom};

use super::is_out_of_reach;
use crate::complete::expanded;
use crate::host::Host;
use crate::printed::printed;

/// Some ask a person for a passphrase first.
const PATIENCE: Duration = Duration::from_secs(30);
/// More than any header is.
const MOST: u64 = 64 << 10;
/// Less is found by chance in what a host says, and cannot be kept out of it.
const SHORTEST: usize = 8;

/// How well-known tokens begin; programs look at that before they use one.
const FORMS: [&str; 14] = [
    "sk-ant-",
    "sk-proj-",
    "sk-",
    "github_pat_",
    "ghp_",
    "gho_",
    "ghs_",
    "glpat-",
    "npm_",
    "pypi-",
    "hf_",
    "xoxb-",
    "xoxp-",
    "AIza",
];

/// The credentials of all rules, and what stands for them inside.
#[derive(Debug, Default)]
pub(super) struct Fetched {
    pub(super) secrets: Vec<Secret>,
    /// Variables inside, with the placeholder that each holds.
    pub(super) variables: BTreeMap<String, String>,
}

impl Fetched {
    pub(super) fn of(policy: &Policy, host: &Host) -> Result<Self> {
        let mut fetched = Self::default();
        for rule in &policy.network.allowed_hosts {
            let Some(credential) = rule.inspect.as_ref().and_then(|inspect| inspect.credential.as_ref())
            else {
                continue;
            };
            if fetched.secrets.iter().any(|known| known.credential == *credential) {
                continue;
            }
            fetched.fetch(credential, policy, host).map_err(|why| {
                let message = format!("the credential for `{rule}` ({}): {}", rule.source, why.what);
                Error::new(ErrorKind::InvalidConfig, message).hint(why.hint)
            })?;
        }
        Ok(fetched)
    }

    fn fetch(
        &mut self,
        credential: &Credential,
        policy: &Policy,
        host: &Host,
    ) -> std::result::Result<(), Why> {
        let mut hidden = Vec::new();
        let value = match &credential.from {
            CredentialSource::Variables(text) => {
                let mut values = BTreeMap::new();
                for name in variables_in(text) {
                    if !values.contains_key(name) {
                        let own = self.hidden(of_variable(name, host)?, &format!("the variable {name}"))?;
                        self.set(name, &own)?;
                        values.insert(name, own.value.clone());
                        hidden.push(own);
                    }
                }
                let value = with_variables(text, |name| values.get(name).cloned());
                value.map_err(|name| Why::new(format!("the variable {name} is not set"), "set it"))?
            }
            CredentialSource::File(path) => {
                let path = expanded(path, host);
                let what = format!("the first line of {}", path.display());
                hidden.push(self.hidden(of_file(&path)?, &what)?);
                hidden[0].value.clone()
            }
            CredentialSource::Command(words) => {
                let what = format!("what `{}` prints", words.join(" "));
                hidden.push(self.hidden(of_command(words, policy, host)?, &what)?);
                hidden[0].value.clone()
            }
        };
        if let Some(name) = &credential.variable {
            // Of several parts none is what is looked for under one name.
            if hidden.len() != 1 {
                hidden.insert(0, self.hidden(value.clone(), "its value")?);
            }
            self.set(name, &hidden[0])?;
        }
        self.secrets.push(Secret { credential: credential.clone(), value, hidden });
        Ok(())
    }

    /// With the placeholder that it has already, if it does.
    fn hidden(&self, value: String, what: &str) -> std::result::Result<Hidden, Why> {
        if value.len() < SHORTEST {
            let hint = "write what is no secret into `value` itself";
            return Err(Why::new(format!("{what} is shorter than {SHORTEST} characters"), hint));
        }
        if !value.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            let hint = "a header is one line of plain characters";
            return Err(Why::new(format!("{what} has characters that no header has"), hint));
        }
        let known = self.secrets.iter().flat_map(|secret| &secret.hidden).find(|known| known.value == value);
        match known {
            Some(known) => Ok(known.clone()),
            None => Ok(Hidden { placeholder: placeholder(&value)?, value }),
        }
    }

    fn set(&mut self, name: &str, hidden: &Hidden) -> std::result::Result<(), Why> {
        let before = self.variables.insert(name.to_owned(), hidden.placeholder.clone());
        match before {
            Some(before) if before != hidden.placeholder => {
                let hint = "give one of them another name";
                Err(Why::new(format!("the variable {name} stands for another credential already"), hint))
            }
            _ => Ok(()),
        }
    }
}

/// Why there is none. The secret is not in it.
struct Why {
    what: String,
    hint: String,
}

impl Why {
    fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { what: what.into(), hint: hint.into() }
    }
}

fn of_variable(name: &str, host: &Host) -> std::result::Result<String, Why> {
    let value = host.variable(name).filter(|value| !value.is_empty());
    let hint = format!("export {name} where ringfence is started");
    let value = value.ok_or_else(|| Why::new(format!("the variable {name} is not set"), hint))?;
    let text =
        value.to_str().ok_or_else(|| Why::new(format!("the variable {name} is no text"), "set it anew"))?;
    Ok(text.trim().to_owned())
}

fn of_file(path: &Path) -> std::result::Result<String, Why> {
    use std::io::Read as _;
    let wrong = |what: String| Why::new(what, "write the credential into its first line");
    let read = |path: &Path| {
        let mut text = String::new();
        std::fs::File::open(path)?.take(MOST).read_to_string(&mut text)?;
        Ok(text)
    };
    let text = read(path)
        .map_err(|error: std::io::Error| wrong(format!("{} cannot be read: {error}", path.display())))?;
    first_line(&text).ok_or_else(|| wrong(format!("the first line of {} is empty", path.display())))
}

fn of_command(words: &[String], policy: &Policy, host: &Host) -> std::result::Result<String, Why> {
    let shown = words.join(" ");
    let program = program(&words[0], policy, host).ok_or_else(|| {
        let hint = "name it by its whole path, or put it on your PATH, outside of what commands may write";
        Why::new(format!("`{}` is not found", words[0]), hint)
    })?;
    let mut command = Command::new(program);
    // Not the project: tools read what lies where they start.
    command.args(&words[1..]).env_clear().envs(&host.environment).current_dir("/");
    let text = printed(&mut command, PATIENCE, MOST)
        .map_err(|why| Why::new(format!("`{shown}`: {why}"), "run it by hand to see what it says"))?;
    let hint = "run it by hand to see what it says";
    first_line(&text).ok_or_else(|| Why::new(format!("`{shown}` printed nothing"), hint))
}

/// The one that the person's own programs would run, unless somebody inside could have made it.
fn program(name: &str, policy: &Policy, host: &Host) -> Option<PathBuf> {
    let places: Vec<PathBuf> = match name {
        _ if name.starts_with(['/', '~']) => vec![expanded(Path::new(name), host)],
        _ if name.contains('/') => vec![],
        _ => host.path.iter().map(|directory| directory.join(name)).collect(),
    };
    let found = places.into_iter().filter(|path| path.is_file());
    // By its own name: some programs look at the one they were called by.
    found.into_iter().find(|path| {
        path.canonicalize().is_ok_and(|real| {
            is_out_of_reach(&policy.filesystem, &real) && is_out_of_reach(&policy.filesystem, path)
        })
    })
}

fn first_line(text: &str) -> Option<String> {
    text.lines().next().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned)
}

/// Something of the same form and, if that is enough to tell it from everything else, of the same length.
fn placeholder(value: &str) -> std::result::Result<String, Why> {
    const DIGITS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const MARK: &str = "ringfence";
    /// Of which nobody guesses one.
    const LEAST: usize = 16;
    let form = FORMS.into_iter().find(|form| value.starts_with(form)).unwrap_or_default();
    let begins = format!("{form}{MARK}");
    let count = value.len().saturating_sub(begins.len()).max(LEAST);
    let mut random = vec![0_u8; count];
    getrandom(&mut random, GetRandomFlags::empty())
        .map_err(|errno| Why::new(format!("no random numbers: {errno}"), "try again"))?;
    let rest: String =
        random.iter().map(|byte| char::from(DIGITS[usize::from(*byte) % DIGITS.len()])).collect();
    Ok(begins + &rest)
}

#[cfg(test)]
mod tests;
