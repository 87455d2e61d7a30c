//! `ringfence explain HOST`: whether a host is reached from inside, and by which rule.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use ringfence::model::{AddressKind, Host, HostDecision, HostRule, NetworkPolicy, Result};
use ringfence::model::{Error, ErrorKind};
use ringfence::setup::Setup;
use serde::Serialize;

use crate::args::Explain;
use crate::output::{self, Palette, Tone, one_line};

/// The usual one.
const PORT: u16 = 443;

/// The host that is meant, and its port: named as such, or by a word that is no path.
pub(super) fn meant(args: &Explain) -> Option<String> {
    if let Some(host) = &args.host {
        return Some(host.clone());
    }
    let text = args.path.as_ref()?.to_str()?;
    let is_path = args.write || args.execute || text.contains('/') || text.starts_with(['.', '~']);
    let is_there = Path::new(text).symlink_metadata().is_ok();
    let is_host = text.contains(['.', ':']) || text == "localhost";
    (!is_path && !is_there && is_host && parse(text).is_some()).then(|| text.to_owned())
}

fn parse(text: &str) -> Option<(Host, u16)> {
    if let Some(host) = Host::parse(text) {
        return Some((host, PORT));
    }
    let (host, port) = text.rsplit_once(':')?;
    Some((Host::parse(host)?, port.parse().ok().filter(|port| *port != 0)?))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum Verdict {
    Allowed,
    /// In no list, and a person is asked.
    Asked,
    Denied,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Explained<'a> {
    host: String,
    port: u16,
    verdict: Verdict,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a HostRule>,
    why: String,
    /// Which requests pass, where they are looked into.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    requests: Vec<String>,
    /// Changes that would give another answer.
    change: Vec<String>,
}

pub(super) fn explain(text: &str, args: &Explain) -> Result<ExitCode> {
    let setup = super::load(&args.sandbox)?;
    let Some((host, port)) = parse(text) else {
        let message = format!("`{}` is not a host", text.escape_debug());
        return Err(
            Error::new(ErrorKind::Validation, message).hint("write it like example.com or example.com:443")
        );
    };
    let network = setup.policy().network;
    let explained = judged(&network, &host, port, &setup);
    if args.json {
        output::print_json(&explained)?;
    } else {
        let name = args.path.as_ref().map(|_| text).filter(|text| !text.contains(':'));
        output::print(&explained.text(name))?;
    }
    Ok(ExitCode::from(u8::from(explained.verdict != Verdict::Allowed)))
}

fn judged<'a>(network: &'a NetworkPolicy, host: &Host, port: u16, setup: &Setup) -> Explained<'a> {
    let is_own = match host {
        Host::Name(name) => name == "localhost",
        Host::Address(address) => AddressKind::of(*address) == AddressKind::Loopback,
    };
    let by = |rule: &HostRule| format!("`{rule}` ({})", rule.source);
    let (verdict, rule, why) = if is_own && network.host_ports.contains(&port) {
        let source = setup.loaded.origin("network.hostPorts");
        (Verdict::Allowed, None, format!("port {port} of this machine is allowed ({source})"))
    } else if network.allow_network {
        match network.refusal(&host.to_string(), port) {
            Some(why) => (Verdict::Denied, None, why),
            None => (Verdict::Allowed, None, "the network is there as a whole".to_owned()),
        }
    } else {
        match network.decide_host(host, port) {
            HostDecision::Allowed(rule) => (Verdict::Allowed, Some(rule), format!("allowed by {}", by(rule))),
            HostDecision::Denied(Some(rule)) => {
                (Verdict::Denied, Some(rule), format!("blocked by {}", by(rule)))
            }
            HostDecision::Ask | HostDecision::Denied(None) | HostDecision::DeniedPort if is_own => {
                (Verdict::Denied, None, "inside, the loopback is the sandbox's own".to_owned())
            }
            HostDecision::Ask => {
                (Verdict::Asked, None, "in no list; a person is asked (network.ask)".to_owned())
            }
            HostDecision::Denied(None) => (Verdict::Denied, None, "no rule allows it".to_owned()),
            HostDecision::DeniedPort => {
                (Verdict::Denied, None, format!("port {port} is blocked, and no rule names it with the host"))
            }
        }
    };
    let change = match (verdict, rule) {
        (Verdict::Allowed, _) => vec![],
        (_, Some(rule)) => super::take_out(&rule.source, Path::new(&rule.to_string()))
            .into_iter()
            .map(|change| change.replace("--deny that covers", "--block-host"))
            .collect(),
        (_, None) => {
            let written = if is_own { format!("host-port:{port}") } else { host.with_port(port) };
            let file = setup.user_file();
            vec![
                format!("--allow-host {written}"),
                format!("{}: \"allowedHosts\": [\"{written}\"]", file.display()),
            ]
        }
    };
    let is_reached = verdict == Verdict::Allowed && !network.allow_network;
    let inspected = if is_reached { network.inspected(host, port) } else { vec![] };
    let requests = inspected.iter().map(|rule| passing(rule)).collect();
    Explained { host: host.to_string(), port, verdict, rule, why, requests, change }
}

/// The requests that a rule lets pass, and the header that is put into them.
fn passing(rule: &HostRule) -> String {
    let inspect = rule.inspect.clone().unwrap_or_default();
    let credential = inspect.credential.as_ref();
    let put_in = credential.map(|credential| format!(", {} is put in outside", credential.header));
    format!("{inspect}{} (`{rule}`, {})", put_in.unwrap_or_default(), rule.source)
}

impl Explained<'_> {
    fn text(&self, name: Option<&str>) -> String {
        let palette = Palette::of_stdout();
        let (tone, word) = match self.verdict {
            Verdict::Allowed => (Tone::Good, "allowed"),
            Verdict::Asked => (Tone::Warning, "asked"),
            Verdict::Denied => (Tone::Bad, "denied"),
        };
        let host =
            Host::parse(&self.host).map_or_else(|| self.host.clone(), |host| host.with_port(self.port));
        let mut text = format!("{}: connect to {}\n", palette.paint(tone, word), one_line(&host));
        let _ = writeln!(text, "  why:    {}", one_line(&self.why));
        for passing in &self.requests {
            let _ = writeln!(text, "  looked into, passes: {}", one_line(passing));
        }
        for change in &self.change {
            let _ = writeln!(text, "  change: {}", one_line(change));
        }
        if let Some(name) = name {
            let _ = writeln!(text, "  path:   a file of that name is ./{}", one_line(name));
        }
        text
    }
}
