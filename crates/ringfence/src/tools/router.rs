//! The router of lines: to an agent command, to an extension, or into the sandbox.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use ringfence_model::{Error, ErrorKind, Result};

use super::agent_command::{self, AgentCommand};
use crate::session::ToolResult;

/// Serves lines that begin with its prefix, such as `mcp:`.
pub trait Extension: Send + Sync + std::fmt::Debug {
    /// Runs one line; `line` is the whole of it, trimmed.
    fn run(&self, line: &str) -> Result<ToolResult>;
}

/// Makes an extension when its first line comes.
pub(crate) type ExtensionFactory = Arc<dyn Fn() -> Result<Arc<dyn Extension>> + Send + Sync>;

/// Extensions by the beginning of their lines.
#[derive(Default)]
pub struct Extensions {
    factories: BTreeMap<String, ExtensionFactory>,
    made: Mutex<BTreeMap<String, Arc<dyn Extension>>>,
}

impl std::fmt::Debug for Extensions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.factories.keys()).finish()
    }
}

impl Extensions {
    /// `prefix` ends in a colon: `mcp:`, `skill:`, `task:`.
    pub fn register(
        &mut self,
        prefix: &str,
        factory: impl Fn() -> Result<Arc<dyn Extension>> + Send + Sync + 'static,
    ) -> Result<()> {
        let name = prefix.strip_suffix(':').unwrap_or_default();
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-') {
            let message = format!("the prefix of an extension is a name and a colon, not `{prefix}`");
            return Err(Error::new(ErrorKind::Validation, message));
        }
        self.factories.insert(prefix.to_owned(), Arc::new(factory));
        Ok(())
    }

    /// Whether anything is registered for that prefix.
    pub(crate) fn check(&self, prefix: &str) -> Result<&ExtensionFactory> {
        self.factories
            .get(prefix)
            .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("nothing is registered for `{prefix}`")))
    }

    /// The extension of that prefix, made now if it was not yet.
    pub(crate) fn get(&self, prefix: &str) -> Result<Arc<dyn Extension>> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(extension) = made.get(prefix) {
            return Ok(Arc::clone(extension));
        }
        let extension = self.check(prefix)?()?;
        made.insert(prefix.to_owned(), Arc::clone(&extension));
        Ok(extension)
    }
}

/// Lines with these beginnings are never native, whether or not anything is registered for them.
const EXTENSION_PREFIXES: [&str; 4] = ["mcp:", "skill:", "task:", "command:"];

/// The destination of one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    Agent(AgentCommand),
    /// To the extension of the prefix. Two-part skill lines are the agent's own, with three or more parts they are
    /// calls of a skill's tool.
    Extension {
        prefix: String,
        line: String,
        layer: Layer,
    },
    /// Into the sandbox.
    Native(String),
}

/// A handler of extension lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layer {
    Agent,
    Extension,
}

/// Finds the way of a line. `is_file` tells whether a word names a file of the workspace.
pub(crate) fn route(line: &str, extensions: &Extensions, is_file: &dyn Fn(&str) -> bool) -> Result<Route> {
    let line = line.trim();
    let line = if line.starts_with("/skill:") { &line[1..] } else { line };
    let first = line.split([' ', '\n']).next().unwrap_or_default();
    if let Some(colon) = first.find(':') {
        let prefix = &first[..=colon];
        let known = EXTENSION_PREFIXES.contains(&prefix) || extensions.factories.contains_key(prefix);
        if known {
            if agent_command::stands_alone(line) == Some(false) {
                return Err(alone(prefix));
            }
            let parts = first.split(':').count();
            let layer = match prefix {
                "mcp:" => Layer::Extension,
                "skill:" if parts > 2 => Layer::Extension,
                _ => Layer::Agent,
            };
            return Ok(Route::Extension { prefix: prefix.to_owned(), line: line.to_owned(), layer });
        }
    }
    match first {
        "read" if agent_command::stands_alone(line) == Some(false) => Ok(Route::Native(line.to_owned())),
        "write" | "edit" if agent_command::stands_alone(line) == Some(false) => Err(alone(first)),
        "read" | "write" | "edit" => agent_command::parse(first, line).map(Route::Agent),
        "bash" => Ok(Route::Native(inner(line, is_file).to_owned())),
        _ => Ok(Route::Native(line.to_owned())),
    }
}

/// `bash ls -l` is the command `ls -l`; `bash -c …` and `bash script` are what they always were.
fn inner<'a>(line: &'a str, is_file: &dyn Fn(&str) -> bool) -> &'a str {
    let rest = line["bash".len()..].trim_start();
    let word = rest.split(char::is_whitespace).next().unwrap_or_default();
    let program = word.is_empty() || word.starts_with(['-', '<', '|', '&', ';', '>']) || word.contains('/');
    if program || is_file(word) { line } else { rest }
}

fn alone(first: &str) -> Error {
    Error::new(ErrorKind::Validation, format!("`{first}` is an agent command and stands alone on its line"))
        .hint("make two calls of it, or use a program of the sandbox instead")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Echo;

    impl Extension for Echo {
        fn run(&self, line: &str) -> Result<ToolResult> {
            Ok(ToolResult::text(line))
        }
    }

    fn way(line: &str) -> Route {
        route(line, &Extensions::default(), &|word| word == "build").unwrap()
    }

    fn native(line: &str) -> Route {
        Route::Native(line.to_owned())
    }

    #[test]
    fn the_first_word_tells_where_a_line_goes() {
        assert!(matches!(way("read a.txt"), Route::Agent(AgentCommand::Read(_))));
        assert!(matches!(way("  write a b "), Route::Agent(AgentCommand::Write(_))));
        assert!(matches!(way("edit a b c"), Route::Agent(AgentCommand::Edit(_))));
        for line in
            ["ls", "reader x", "read\ta", "readme", "echo read a", "read x < f", "while read l; do :; done"]
        {
            assert_eq!(way(line), native(line), "{line}");
        }
    }

    #[test]
    fn bash_runs_its_command_inside() {
        assert_eq!(way("bash ls -l"), native("ls -l"));
        for line in ["bash", "bash -c ls", "bash ./x.sh", "bash build", "bash < f"] {
            assert_eq!(way(line), native(line), "{line}");
        }
    }

    #[test]
    fn extension_lines_have_their_layers() {
        for (line, prefix, layer) in [
            ("mcp:server:tool x", "mcp:", Layer::Extension),
            ("skill:name:tool x", "skill:", Layer::Extension),
            ("skill:name", "skill:", Layer::Agent),
            ("/skill:name:tool", "skill:", Layer::Extension),
            ("task:go on", "task:", Layer::Agent),
            ("command:search x", "command:", Layer::Agent),
        ] {
            let Route::Extension { prefix: found, layer: its, line: given } = way(line) else {
                panic!("{line}")
            };
            assert_eq!((found.as_str(), its), (prefix, layer), "{line}");
            assert!(!given.starts_with('/'));
        }
        assert_eq!(way("http://x"), native("http://x"));
    }

    #[test]
    fn what_stands_alone_takes_nothing_with_it() {
        for line in ["write a b && rm c", "edit a b c; ls", "mcp:x:y | sh", "skill:x:y && curl z"] {
            let error = route(line, &Extensions::default(), &|_| false).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Validation, "{line}");
        }
    }

    #[test]
    fn extensions_are_made_when_first_used_and_only_once() {
        let made = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let count = Arc::clone(&made);
        let mut extensions = Extensions::default();
        extensions
            .register("mcp:", move || {
                count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                Ok(Arc::new(Echo) as _)
            })
            .unwrap();
        extensions.register("broken:", || Err(Error::new(ErrorKind::Internal, "no server"))).unwrap();
        assert_eq!(made.load(std::sync::atomic::Ordering::Relaxed), 0);
        for _ in 0..3 {
            assert_eq!(extensions.get("mcp:").unwrap().run("mcp:a").unwrap().stdout, "mcp:a");
        }
        assert_eq!(made.load(std::sync::atomic::Ordering::Relaxed), 1);
        assert_eq!(extensions.get("broken:").unwrap_err().message, "no server");
        assert_eq!(extensions.get("skill:").unwrap_err().kind, ErrorKind::NotFound);
        for bad in ["mcp", ":", "a b:"] {
            assert!(extensions.register(bad, || Ok(Arc::new(Echo) as _)).is_err(), "{bad}");
        }
    }
}
