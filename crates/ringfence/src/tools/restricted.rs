//! Restrictions of a sub-agent. They look at text before the sandbox; the sandbox stays what it is.

use ringfence_gate::{Gate, Request};
use ringfence_model::{Error, ErrorKind, Result};

use super::catalogue::{Effect, ToolSpec};
use super::policy::canonical;

/// A list of what is refused. A pattern that ends in a colon refuses commands that begin with it, any other the
/// command, or tool, of that name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Restriction {
    /// The refused commands.
    pub deny: Vec<String>,
    /// No tool that changes files is offered.
    pub read_only: bool,
    /// No tool at all is offered.
    pub no_tools: bool,
}

impl Restriction {
    /// Refuses these, and nothing else.
    #[must_use]
    pub fn new<S: Into<String>>(deny: impl IntoIterator<Item = S>) -> Self {
        Self { deny: deny.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// The restriction of a kind of sub-agent: `explore` only looks, `general` and `skill-enhance` start no more agents,
    /// `skill-search` has no tools.
    #[must_use]
    pub fn of_kind(kind: &str) -> Option<Self> {
        match kind {
            "explore" => Some(Self { read_only: true, ..Self::new(["task:", "edit", "write"]) }),
            "general" | "skill-enhance" => Some(Self::new(["task:"])),
            "skill-search" => Some(Self { no_tools: true, ..Self::new(["task:"]) }),
            _ => None,
        }
    }

    pub(crate) fn offers(&self, spec: &ToolSpec) -> bool {
        let named = self.deny.iter().any(|entry| canonical(entry) == canonical(spec.name));
        !(self.no_tools || named || (self.read_only && spec.effect == Effect::Writes))
    }

    /// Refuses a text that has a denied command anywhere: after `;`, in a pipe, in a substitution, behind `env` and
    /// `sh -c`, by whatever path. A text that cannot be read is refused too.
    pub fn check(&self, text: &str, gate: &Gate, home: &str, cwd: &str) -> Result<()> {
        if self.no_tools {
            return Err(refused("no command at all is allowed here"));
        }
        let first = text.split_whitespace().next().unwrap_or_default().trim_start_matches('/');
        self.check_name(first)?;
        let script = ringfence_bash::parse(text).map_err(|error| {
            refused("the command cannot be read, and a restricted agent runs only what can be")
                .caused_by(error)
        })?;
        if let Some((_, construct)) = script.unsupported().first() {
            return Err(refused(&format!("the command has something that cannot be judged: {construct}")));
        }
        for command in script.simple_commands() {
            if let Some(name) = command.name() {
                self.check_name(&name)?;
            }
        }
        for seen in gate.commands(&Request::shell(text, home, cwd)) {
            if seen.name.is_empty() && !seen.args.is_empty() {
                return Err(refused("the name of a command is known only when it runs"));
            }
            self.check_name(&seen.name)?;
        }
        Ok(())
    }

    fn check_name(&self, name: &str) -> Result<()> {
        let base = name.rsplit('/').next().unwrap_or(name);
        let hit = self.deny.iter().find(|pattern| match pattern.strip_suffix(':') {
            Some(_) => name.starts_with(pattern.as_str()) || base.starts_with(pattern.as_str()),
            None => base == *pattern,
        });
        match hit {
            Some(pattern) => {
                Err(refused(&format!("`{base}` is not allowed here: `{pattern}` is on the deny list")))
            }
            None => Ok(()),
        }
    }
}

fn refused(message: &str) -> Error {
    Error::new(ErrorKind::CommandNotAllowed, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_gate::Options;

    fn allowed(kind: &str, text: &str) -> bool {
        let gate = Gate::new(Options::default());
        Restriction::of_kind(kind).unwrap().check(text, &gate, "/home/dev", "/home/dev/p").is_ok()
    }

    #[test]
    fn every_command_of_a_line_is_looked_at() {
        for text in [
            "write a b",
            "edit a b c",
            "task:x",
            "ls; write a b",
            "ls && /usr/bin/write x",
            "ls | edit",
            "echo $(edit a)",
            "echo `write`",
            "env A=1 write x",
            "bash -c 'ls; write a b'",
            "f() { edit a; }; f",
            "cat <(write x)",
            "if true; then edit a; fi",
            "timeout 5 write x",
            "w\\rite x",
            "'write' x",
            "/task:x",
            "./task:x",
            "X=write; $X a",
            "$UNKNOWN a",
            "ls; (",
        ] {
            assert!(!allowed("explore", text), "{text}");
        }
        for text in
            ["ls -l | grep write", "echo edit", "cat write", "git log --oneline", "read a.txt", "rewrite x"]
        {
            assert!(allowed("explore", text), "{text}");
        }
    }

    #[test]
    fn kinds_have_their_lists() {
        assert!(allowed("general", "write a b") && !allowed("general", "ls; task:more work"));
        assert!(!allowed("skill-enhance", "task:x") && allowed("skill-enhance", "edit a b c"));
        assert!(!allowed("skill-search", "ls"));
        assert_eq!(Restriction::of_kind("other"), None);
    }

    #[test]
    fn tools_follow_the_same_list() {
        let offered = |kind: &str| -> Vec<&str> {
            let restriction = Restriction::of_kind(kind).unwrap();
            super::super::catalogue::all()
                .iter()
                .filter(|spec| restriction.offers(spec))
                .map(|spec| spec.name)
                .collect()
        };
        assert_eq!(offered("explore"), ["bash", "run_code", "jobs", "read", "list", "search", "exit"]);
        assert_eq!(offered("general").len(), 10);
        assert!(offered("skill-search").is_empty());
    }
}
