//! May this host be reached? The one answer for whoever asks.

use std::net::IpAddr;

use crate::policy::NetworkPolicy;

impl NetworkPolicy {
    /// Why a host may not be reached, if so: no network, not the name of a host, blocked, not among those allowed. An
    /// empty list of allowed hosts allows all that are not blocked. Hosts are compared as exact names, or as domains
    /// by an entry that begins with a dot.
    #[must_use]
    pub fn refusal_of_host(&self, host: &str) -> Option<String> {
        if !self.allow_network {
            return Some("there is no network".to_owned());
        }
        let Some(host) = clean_host(host) else {
            return Some(format!("`{}` is not the name of a host", host.escape_debug()));
        };
        if let Some(entry) = self.blocked_hosts.iter().find(|entry| host_matches(entry, &host)) {
            return Some(format!("{host} is blocked by `{entry}`"));
        }
        let allowed = self.allowed_hosts.is_empty()
            || self.allowed_hosts.iter().any(|entry| host_matches(entry, &host));
        (!allowed).then(|| format!("{host} is not on the list of allowed hosts"))
    }

    /// Why a port of a host may not be reached, if so: the host first, then blocked ports, then allowed ones.
    #[must_use]
    pub fn refusal(&self, host: &str, port: u16) -> Option<String> {
        if let Some(reason) = self.refusal_of_host(host) {
            return Some(reason);
        }
        if self.blocked_ports.contains(&port) {
            return Some(format!("port {port} is blocked"));
        }
        let allowed = self.allowed_ports.is_empty() || self.allowed_ports.contains(&port);
        (!allowed).then(|| format!("port {port} is not on the list of allowed ports"))
    }
}

/// The host in the one spelling that is compared: an address, or plain labels in small letters.
fn clean_host(host: &str) -> Option<String> {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Some(address.to_string());
    }
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // A last label of digits would be read as an address in some other notation.
    let numeric = name.rsplit('.').next().is_some_and(|last| last.starts_with(|c: char| c.is_ascii_digit()));
    (name.len() <= 253 && name.split('.').all(label) && !numeric).then_some(name)
}

fn host_matches(entry: &str, host: &str) -> bool {
    let entry = entry.trim().to_ascii_lowercase();
    match entry.strip_prefix("*.").or_else(|| entry.strip_prefix('.')) {
        Some(domain) => host == domain || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.')),
        None => entry == host || entry == "*",
    }
}
