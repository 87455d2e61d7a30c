//! Network modes, name servers and host names.

use std::net::IpAddr;

use ringfence_model::config::DockerSection;

use super::is_blank;
use super::refusal::Findings;

pub(super) const JOIN: &str = "dangerouslyAllowContainerNamespaceJoin";
/// What the engine puts the host's own address in the place of.
const HOST_GATEWAY: &str = "host-gateway";

/// `none`, a network of the engine, or, by break-glass, another container's.
pub(super) fn mode(docker: &DockerSection, findings: &mut Findings) -> String {
    let written = docker.network.as_ref().map_or("none", |text| text.as_str());
    let mode = written.trim();
    let lower = mode.to_ascii_lowercase();
    let remedy = "use none, or the name of a network made for sandboxes";
    match lower.split_once(':').map_or(lower.as_str(), |(kind, _)| kind) {
        "" | "none" if !lower.contains(':') => return "none".to_owned(),
        "host" => {
            findings.refuse("network", written, "the host's network is not the sandbox's", remedy);
        }
        "container" => return join(written, mode, docker, findings),
        _ if !is_name(mode) => {
            findings.refuse("network", written, "it is neither none nor the name of a network", remedy);
        }
        _ => {
            findings
                .warn("network", format!("the container can reach whatever the network {mode:?} reaches"));
        }
    }
    mode.to_owned()
}

fn join(written: &str, mode: &str, docker: &DockerSection, findings: &mut Findings) -> String {
    let other = mode.split_once(':').map_or("", |(_, other)| other);
    if !is_name(other) {
        let rule = "container: is followed by no container's name";
        findings.refuse("network", written, rule, "write it like container:proxy, or use none");
    } else if docker.dangerously_allow_container_namespace_join == Some(true) {
        findings.break_glass(JOIN, format!("the container shares the network of the container {other:?}"));
    } else {
        let rule = "a sandbox does not share another container's network";
        let remedy = format!("use none or the name of a network, or set docker.{JOIN} to true");
        findings.refuse("network", written, rule, remedy);
    }
    // The engine knows the word in lower case only.
    format!("container:{other}")
}

/// Names of networks and containers: what the engines accept, which leaves out `:` and `/` and with them every way to name a
/// namespace of the host.
fn is_name(text: &str) -> bool {
    let safe = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    text.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric)
        && text.bytes().all(safe)
        && text.len() <= 128
}

pub(super) fn name_servers(docker: &DockerSection, findings: &mut Findings) -> Vec<String> {
    let mut servers = Vec::new();
    for text in written(docker.dns.as_deref()) {
        match text.parse::<IpAddr>() {
            Ok(address) => servers.push(address.to_string()),
            Err(_) => findings.refuse("dns", text, "it is no IP address", "write an address such as 9.9.9.9"),
        }
    }
    servers
}

/// `name:address`.
pub(super) fn host_names(docker: &DockerSection, findings: &mut Findings) -> Vec<String> {
    let mut hosts = Vec::new();
    for text in written(docker.extra_hosts.as_deref()) {
        let Some((name, address)) = text.split_once(':') else {
            findings.refuse("extraHosts", text, "there is no colon in it", "write it like db:10.0.0.5");
            continue;
        };
        let bare = address.strip_prefix('[').and_then(|a| a.strip_suffix(']')).unwrap_or(address);
        if !is_host(name) {
            let rule = format!("{name:?} is no host name");
            findings.refuse("extraHosts", text, rule, "use letters, digits, dashes and dots");
        } else if address == HOST_GATEWAY {
            findings.warn("extraHosts", format!("{name} is the host itself, where the network leads there"));
            hosts.push(text.to_owned());
        } else if bare.parse::<IpAddr>().is_ok() {
            hosts.push(format!("{name}:{bare}"));
        } else {
            let rule = format!("{address:?} is no IP address");
            findings.refuse("extraHosts", text, rule, "write an address such as 10.0.0.5");
        }
    }
    hosts
}

fn is_host(name: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    };
    name.len() <= 253 && name.split('.').all(label)
}

/// The entries that say something.
fn written(list: Option<&[ringfence_model::config::Text]>) -> impl Iterator<Item = &str> {
    list.into_iter().flatten().map(|text| text.as_str().trim()).filter(|text| !is_blank(text))
}
