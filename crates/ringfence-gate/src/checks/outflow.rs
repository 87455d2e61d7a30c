//! Data that leaves this machine: in a pipe, in an address, in a name that is looked up, to a remote of one's own.

use ringfence_bash::{
    Command, Context, Part, PartKind, Script, Simple, SimpleRef, Span, Visitor, Word, walk,
};
use ringfence_model::ViolationKind;

use super::{Check, Report};
use crate::finding::Rule;
use crate::path::base_name;
use crate::shell::Cmd;
use crate::shell_internals::is_loopback;
use crate::value::Seg;

const SENT: Rule = Rule::ask("data-sent", "let a person send it, or name what is needed and why");
const METADATA: Rule = Rule::ask("cloud-metadata", "leave the keys of the machine to a person");

/// Programs that send what they read.
const SENDERS: &[&str] =
    &["nc", "ncat", "netcat", "nc.traditional", "nc.openbsd", "socat", "telnet", "openssl", "busybox"];

/// Programs that fetch from addresses.
const FETCHERS: &[&str] =
    &["curl", "wget", "wget2", "http", "https", "xh", "xhs", "aria2c", "lynx", "w3m", "links", "httpie"];

/// Programs that look names up, which somebody's server then hears.
const RESOLVERS: &[&str] = &[
    "dig",
    "drill",
    "nslookup",
    "host",
    "ping",
    "ping6",
    "getent",
    "traceroute",
    "tracepath",
    "kdig",
    "doggo",
    "dog",
    "resolvectl",
    "mtr",
];

/// Commands whose output is data, in an address.
const DATA: &[&str] = &[
    "env", "printenv", "export", "declare", "set", "base64", "base32", "xxd", "od", "hexdump", "tar", "gzip",
    "zip", "gpg", "whoami", "hostname", "history", "ifconfig", "crontab", "ps", "openssl",
];

/// Where clouds keep the keys of a machine.
pub(crate) const METADATA_HOSTS: &[&str] = &[
    "169.254.169.254",
    "169.254.170.2",
    "metadata.google.internal",
    "100.100.100.200",
    "[fd00:ec2::254]",
    "metadata.azure.internal",
    "0xa9fea9fe",
    "2852039166",
    "169.254.43518",
    "0251.0376.0251.0376",
];

/// Data on its way to another machine.
#[derive(Debug)]
pub(super) struct Outflow;

impl Check for Outflow {
    fn name(&self) -> &'static str {
        "outflow"
    }

    fn kind(&self) -> ViolationKind {
        ViolationKind::DangerousPattern
    }

    fn script(&self, script: &Script, report: &mut Report<'_>) {
        let mut sending = Sending::default();
        walk(script, &mut sending);
        for (span, message) in sending.found {
            report.add(SENT, span, message);
        }
    }

    fn command(&self, cmd: &Cmd<'_>, report: &mut Report<'_>) {
        let networks = FETCHERS.contains(&cmd.name)
            || SENDERS.contains(&cmd.name)
            || cmd.is(&["ssh", "scp", "rsync", "nmap", "ping", "git", "ftp"]);
        if networks {
            for arg in cmd.rest() {
                let word = arg.val.lossy("").to_ascii_lowercase();
                if METADATA_HOSTS.iter().any(|host| word.contains(host)) {
                    report.add(
                        METADATA,
                        arg.span,
                        "the keys that a cloud gives to this machine are asked for",
                    );
                }
            }
        }
        if RESOLVERS.contains(&cmd.name) {
            for arg in cmd.rest() {
                let gap_and_domain = |pair: &[Seg]| matches!(pair, [Seg::Unknown, Seg::Text(text)] if text.starts_with('.') && text.len() > 2);
                if arg.val.segs().windows(2).any(gap_and_domain) {
                    report.add(
                        SENT,
                        arg.span,
                        format!("`{}` looks up a name that is made of data", cmd.name),
                    );
                }
            }
        }
        if SENDERS.contains(&cmd.name) && connects(cmd) && reads_data(cmd) {
            report.add(SENT, cmd.span, format!("`{}` sends what it reads to another machine", cmd.name));
        }
    }
}

/// Whether a sender connects to somebody else.
fn connects(cmd: &Cmd<'_>) -> bool {
    let words = || cmd.rest().iter().map(|arg| arg.val.prefix());
    let listens = words().any(|word| {
        word == "-l"
            || word == "--listen"
            || word.starts_with("-l") && word.len() < 6 && !word.starts_with("--")
    });
    let local =
        words().any(|word| is_loopback(word) || word.contains(":localhost:") || word.contains(":127.0.0.1:"));
    let unix = words().any(|word| word == "-U" || word.to_ascii_uppercase().starts_with("UNIX"));
    match cmd.name {
        "openssl" => cmd.has("s_client") && !local,
        "busybox" => cmd.sub() == Some("nc") && !local,
        _ => !listens && !local && !unix,
    }
}

/// Whether it reads something that is not written in the text itself.
fn reads_data(cmd: &Cmd<'_>) -> bool {
    let input = cmd.input;
    let file = input.file.as_ref().is_some_and(|file| !file.is("/dev/null"));
    let piped = !input.upstream.is_empty() && input.text.as_ref().is_none_or(|text| text.known().is_none());
    let is_variable = input.text.as_ref().is_some_and(|text| text.has_unknown());
    // `echo -e "GET / HTTP/1.0"`, and an interactive end of a question.
    let written =
        input.upstream.iter().all(|brief| matches!(brief.name.as_str(), "echo" | "printf" | "sleep" | "yes"));
    file || piped && (!written || is_variable)
}

/// Whether a word holds a substitution that puts data into an address, or anything at all before a domain.
fn carries(parts: &[Part], resolves: bool, asks: bool) -> bool {
    let mut parts = parts.iter().peekable();
    let header = |part: &Part| matches!(&part.kind, PartKind::Lit(text) if text.to_ascii_lowercase().starts_with("authorization"));
    if parts.peek().is_some_and(|part| header(part)) {
        return false;
    }
    while let Some(part) = parts.next() {
        match &part.kind {
            PartKind::DoubleQ(inner) if carries(inner, resolves, asks) => return true,
            PartKind::CmdSub(sub) => {
                let dotted = parts
                    .peek()
                    .is_some_and(|next| matches!(&next.kind, PartKind::Lit(text) if text.starts_with('.')));
                let names: Vec<String> =
                    sub.script.simple_commands().iter().filter_map(SimpleRef::name).collect();
                let data = names.iter().any(|name| DATA.contains(&base_name(name)));
                if asks || resolves && dotted || data && !resolves {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}

fn first_text(word: &Word) -> Option<&str> {
    let mut parts = word.parts.as_slice();
    loop {
        match &parts.first()?.kind {
            PartKind::Lit(text) | PartKind::SingleQ(text) => return Some(text),
            PartKind::DoubleQ(inner) => parts = inner,
            _ => return None,
        }
    }
}

/// What the tree alone tells: words that are made of data, and remotes that the text sets.
#[derive(Default)]
struct Sending {
    remotes: Vec<String>,
    found: Vec<(Span, String)>,
}

impl<'t> Visitor<'t> for Sending {
    fn simple(&mut self, _: &Context<'t>, command: &'t Command, simple: &'t Simple) {
        let words = &simple.words;
        let Some(name) = words.first().and_then(Word::as_literal) else { return };
        let name = base_name(&name);
        if name == "git" {
            self.pushed(command.span, words);
        }
        let resolves = RESOLVERS.contains(&name);
        let asks = matches!(name, "whois" | "finger");
        if !resolves && !asks && !FETCHERS.contains(&name) {
            return;
        }
        let is_local =
            words.iter().filter_map(first_text).any(|text| is_loopback(text.trim_start_matches('"')));
        for word in words.iter().skip(1) {
            if !is_local && carries(&word.parts, resolves, asks) {
                let message = format!("`{name}` is given a name or an address that is made of data");
                self.found.push((word.span, message));
            }
        }
    }
}

impl Sending {
    /// `git remote add x URL` and then `git push x`: the text sends what is here to a place of its own choice.
    fn pushed(&mut self, span: Span, words: &[Word]) {
        let words: Vec<String> = words.iter().map(|word| word.as_literal().unwrap_or_default()).collect();
        let at = |word: &str| words.iter().position(|known| known == word);
        if at("remote").is_some() {
            for verb in ["add", "set-url"] {
                let names = at(verb).map(|at| words[at + 1..].iter().filter(|word| !word.starts_with('-')));
                self.remotes.extend(names.into_iter().flatten().next().cloned());
            }
        } else if let Some(at) = at("push") {
            let to = words[at + 1..].iter().find(|word| !word.starts_with('-'));
            let default = to.is_none() && self.remotes.iter().any(|name| name == "origin");
            if default || to.is_some_and(|to| self.remotes.contains(to)) {
                let message = "git sends this repository to a remote that is set here".to_owned();
                self.found.push((span, message));
            }
        }
    }
}

/// Whether a value names a place where clouds keep keys.
pub(crate) fn names_metadata(arg: &str) -> bool {
    METADATA_HOSTS.iter().any(|host| arg.contains(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_are_told_apart() {
        assert!(is_loopback("http://localhost:3000/x"));
        assert!(is_loopback("127.0.0.1:80"));
        assert!(!is_loopback("http://localhost.evil.example/"));
        assert!(!is_loopback("https://evil.example/localhost"));
        assert!(names_metadata("http://169.254.169.254/latest"));
    }
}
