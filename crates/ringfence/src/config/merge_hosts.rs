//! Hosts of one layer laid over those below it: the person's layers add, a project's file takes away.

use ringfence_model::config::{BlockedHost, HostEntry, HostSetting, HostWord, HostsSection, Text};
use ringfence_model::{HostRule, Inspect, RuleLayer};

use super::diagnostic::DiagnosticKind;
use super::merge::{Merge, Origin, append, counted};
use super::tighten::fewer;

const KEY: &str = "allowedHosts";

/// A name that is no host's: where no list means everything, this one means nothing.
const NOBODY: &str = "none.invalid";

impl Merge {
    /// Allows more hosts; ports of this machine go to their own list.
    pub(super) fn allowed_hosts(&mut self, origin: &Origin<'_>, path: &str, hosts: Option<Vec<HostSetting>>) {
        for (index, host) in hosts.into_iter().flatten().enumerate() {
            if let HostWord::HostPort(port) = host.word() {
                self.note(origin, "network.hostPorts");
                append(&mut self.config.network.host_ports, [port.get()]);
                continue;
            }
            let entry = written(origin, &format!("{path}/{index}"), &host, host.inspect.clone());
            let is_same = |known: &HostEntry| known.text == entry.text && known.inspect == entry.inspect;
            // The closest layer says what is looked into; it may take several entries to say it.
            let is_beside = |known: &HostEntry| {
                (known.source.layer, &known.source.file) == (entry.source.layer, &entry.source.file)
            };
            self.config
                .allowed_hosts
                .retain(|known| known.text != entry.text || is_same(known) || is_beside(known));
            if !self.config.allowed_hosts.iter().any(is_same) {
                self.config.allowed_hosts.push(entry);
            }
        }
    }

    pub(super) fn blocked_hosts(&mut self, origin: &Origin<'_>, path: &str, hosts: Option<Vec<BlockedHost>>) {
        let texts = hosts.map(|hosts| hosts.iter().map(|host| Text::from(host.as_str())).collect());
        self.list(origin, "blockedHosts", path, texts, |c| &mut c.blocked_hosts);
    }

    pub(super) fn hosts(&mut self, o: &Origin<'_>, section: HostsSection) {
        let HostsSection { ask, host_ports, max_connections, max_connections_per_minute, max_bytes_out } =
            section;
        self.set(o, "network.ask", ask, |c| &mut c.network.ask);
        self.ports(o, "network.hostPorts", host_ports, |c| &mut c.network.host_ports);
        let most = max_connections.map(counted);
        self.set(o, "network.maxConnections", most, |c| &mut c.network.max_connections);
        let most = max_connections_per_minute.map(counted);
        self.set(o, "network.maxConnectionsPerMinute", most, |c| &mut c.network.max_connections_per_minute);
        let most = max_bytes_out.map(|size| Some(size.0));
        self.set(o, "network.maxBytesOut", most, |c| &mut c.network.max_bytes_out);
    }

    /// Takes from a project's section what tightens.
    pub(super) fn tighten_hosts(&mut self, o: &Origin<'_>, section: HostsSection) {
        let HostsSection { ask, host_ports, max_connections, max_connections_per_minute, max_bytes_out } =
            section;
        self.stricter(o, "network.ask", ask, |c| &mut c.network.ask, Ord::min);
        let most = max_connections.map(counted);
        self.stricter(o, "network.maxConnections", most, |c| &mut c.network.max_connections, fewer);
        let most = max_connections_per_minute.map(counted);
        let key = "network.maxConnectionsPerMinute";
        self.stricter(o, key, most, |c| &mut c.network.max_connections_per_minute, fewer);
        let most = max_bytes_out.map(|size| Some(size.0));
        self.stricter(o, "network.maxBytesOut", most, |c| &mut c.network.max_bytes_out, fewer);
        let Some(wanted) = host_ports else { return };
        let known = &mut self.config.network.host_ports;
        let is_more = wanted.iter().any(|port| !known.contains(&port.get()));
        known.retain(|port| wanted.iter().any(|wanted| wanted.get() == *port));
        self.note(o, "network.hostPorts");
        if is_more {
            self.widens(o, "network/hostPorts");
        }
    }

    /// Keeps of the allowed hosts what the project allows too: where one rule includes the other, the narrower.
    pub(super) fn narrow_hosts(&mut self, origin: &Origin<'_>, hosts: Option<Vec<HostSetting>>) {
        let Some(hosts) = hosts.filter(|hosts| !hosts.is_empty()) else { return };
        let mut wanted = Vec::new();
        let mut is_more = false;
        for (index, host) in hosts.iter().enumerate() {
            let path = format!("{KEY}/{index}");
            if let HostWord::HostPort(port) = host.word() {
                is_more |= !self.config.network.host_ports.contains(&port.get());
                continue;
            }
            let mut inspect = host.inspect.clone();
            if inspect.as_mut().is_some_and(|inspect| inspect.credential.take().is_some()) {
                let message = "ignored: no credential is put in by a project's file";
                self.warnings.push(origin.warn(DiagnosticKind::ProjectWidens, &path, message));
            }
            let inspect = inspect.filter(|inspect| *inspect != Inspect::default());
            wanted.push(written(origin, &path, host, inspect));
        }
        let everything = self.config.allow_network && self.config.provider != "local";
        if self.config.allowed_hosts.is_empty() && everything {
            self.config.allowed_hosts = wanted;
            self.is_of_everything = true;
            return;
        }
        let before = std::mem::take(&mut self.config.allowed_hosts);
        is_more |= wanted.iter().any(|entry| !before.iter().any(|known| includes(known, entry)));
        let mut kept: Vec<HostEntry> = Vec::new();
        for known in &before {
            for entry in &wanted {
                let both = match (includes(entry, known), includes(known, entry)) {
                    (true, _) => narrower(known, known, entry),
                    (false, true) => narrower(entry, known, entry),
                    (false, false) => continue,
                };
                if !kept.iter().any(|kept| kept.text == both.text && kept.inspect == both.inspect) {
                    kept.push(both);
                }
            }
        }
        let emptied = kept.is_empty() && !before.is_empty();
        if emptied {
            kept.push(HostEntry { text: NOBODY.to_owned(), inspect: None, source: origin.source(KEY, KEY) });
        }
        self.config.allowed_hosts = kept;
        if is_more && !emptied {
            self.widens(origin, KEY);
        }
    }

    /// Where no list of hosts means none, nobody stands for nobody, and a project's list for nothing.
    pub(super) fn nobody_is_nobody(&mut self) {
        let is_of_everything = self.is_of_everything;
        self.config.allowed_hosts.retain(|entry| {
            entry.text != NOBODY && !(is_of_everything && entry.source.layer == RuleLayer::Project)
        });
    }
}

fn written(origin: &Origin<'_>, path: &str, host: &HostSetting, inspect: Option<Inspect>) -> HostEntry {
    HostEntry { text: host.as_str().to_owned(), inspect, source: origin.source(KEY, path) }
}

fn includes(wide: &HostEntry, narrow: &HostEntry) -> bool {
    let rules: (Option<HostRule>, Option<HostRule>) = (wide.rule(), narrow.rule());
    match rules {
        (Some(wide), Some(narrow)) => wide.includes(&narrow),
        _ => wide.text == narrow.text,
    }
}

/// The narrower of two hosts, with what the person looks into, or else what the project does.
fn narrower(host: &HostEntry, persons: &HostEntry, projects: &HostEntry) -> HostEntry {
    let inspect = persons.inspect.clone().or_else(|| projects.inspect.clone());
    HostEntry { inspect, ..host.clone() }
}
