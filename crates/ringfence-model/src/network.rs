//! May this host be reached? The one answer for whoever asks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::inspect::Inspect;
use crate::policy::{NetworkPolicy, RuleLayer, RuleSource};

/// A host in the one spelling that is compared: plain labels in small letters without a dot at the end, or an address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    Name(String),
    Address(IpAddr),
}

impl Host {
    /// None when it is not the name of a host.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Some(Self::Address(address.to_canonical()));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let label = |label: &str| {
            !label.is_empty()
                && label.len() <= 63
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        // A last label of digits would be read as an address in some other notation.
        let numeric =
            name.rsplit('.').next().is_some_and(|last| last.starts_with(|c: char| c.is_ascii_digit()));
        (name.len() <= 253 && name.split('.').all(label) && !numeric).then_some(Self::Name(name))
    }

    /// With a port, as it is written in a rule and shown to a person.
    #[must_use]
    pub fn with_port(&self, port: u16) -> String {
        match self {
            Self::Address(IpAddr::V6(address)) => format!("[{address}]:{port}"),
            Self::Address(IpAddr::V4(address)) => format!("{address}:{port}"),
            Self::Name(name) => format!("{name}:{port}"),
        }
    }
}

impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(address) => address.fmt(f),
        }
    }
}

/// Which hosts a rule is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum HostPattern {
    /// `example.com`.
    Name(String),
    /// `*.example.com`: everything below it.
    Below(String),
    /// `.example.com`: it, and everything below it.
    Domain(String),
    /// `192.0.2.7`, `192.0.2.0/24`: addresses that are written as such.
    Addresses(IpAddr, u8),
}

impl HostPattern {
    fn covers(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Name(own), Host::Name(name)) => own == name,
            (Self::Below(domain), Host::Name(name)) => is_below(name, domain),
            (Self::Domain(domain), Host::Name(name)) => name == domain || is_below(name, domain),
            (Self::Addresses(network, bits), Host::Address(address)) => {
                same_network(*network, *address, *bits)
            }
            _ => false,
        }
    }

    fn includes(&self, other: &Self) -> bool {
        match (self, other) {
            (_, Self::Name(name)) => self.covers(&Host::Name(name.clone())),
            (Self::Below(own), Self::Below(other)) => own == other || is_below(other, own),
            (Self::Below(own), Self::Domain(other)) => is_below(other, own),
            (Self::Domain(own), Self::Below(other) | Self::Domain(other)) => {
                own == other || is_below(other, own)
            }
            (Self::Addresses(network, bits), Self::Addresses(other, narrower)) => {
                bits <= narrower && same_network(*network, *other, *bits)
            }
            _ => false,
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        let name = |text: &str| match Host::parse(text) {
            Some(Host::Name(name)) => Ok(name),
            _ => Err(format!("`{}` is not the name of a host", text.escape_debug())),
        };
        if text == "*" {
            return Err("`*` would be every host; name them, or set `network.ask` to be asked".to_owned());
        }
        if let Some(domain) = text.strip_prefix("*.") {
            return name(domain).map(Self::Below);
        }
        if let Some(domain) = text.strip_prefix('.') {
            return name(domain).map(Self::Domain);
        }
        if text.contains('*') {
            return Err(format!(
                "`{text}` has a `*` within; only a whole first label can be one: `*.example.com`"
            ));
        }
        if let Some((network, bits)) = text.split_once('/') {
            let network: IpAddr =
                network.parse().map_err(|_| format!("`{text}` is not a range of addresses"))?;
            let most = if network.is_ipv4() { 32 } else { 128 };
            let bits = bits.parse().ok().filter(|bits| *bits <= most);
            let bits = bits.ok_or_else(|| format!("`{text}` has more bits than an address"))?;
            return Ok(Self::Addresses(network, bits));
        }
        match Host::parse(text) {
            Some(Host::Name(name)) => Ok(Self::Name(name)),
            Some(Host::Address(address)) => {
                Ok(Self::Addresses(address, if address.is_ipv4() { 32 } else { 128 }))
            }
            None => name(text).map(Self::Name),
        }
    }
}

impl std::fmt::Display for HostPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Below(domain) => write!(f, "*.{domain}"),
            Self::Domain(domain) => write!(f, ".{domain}"),
            Self::Addresses(address, bits) => match (address, bits) {
                (IpAddr::V4(_), 32) | (IpAddr::V6(_), 128) => address.fmt(f),
                _ => write!(f, "{address}/{bits}"),
            },
        }
    }
}

/// A host or many, perhaps with one port only, and where that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostRule {
    /// `example.com`, `*.example.com`, `.example.com`, `192.0.2.0/24`.
    #[serde(with = "as_text")]
    #[schemars(with = "String")]
    pub host: HostPattern,
    /// Any that is not blocked, when none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Datagrams too.
    #[serde(default)]
    pub udp: bool,
    /// Requests are looked into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inspect: Option<Inspect>,
    pub source: RuleSource,
}

impl HostRule {
    /// `example.com`, `example.com:8443`, `example.com:443/udp`, `[2001:db8::1]:80`, `192.0.2.0/24`.
    pub fn parse(text: &str, source: RuleSource) -> Result<Self, String> {
        let text = text.trim();
        let (rest, udp) = text.strip_suffix("/udp").map_or((text, false), |rest| (rest, true));
        let (host, port) = match rest.rsplit_once(':') {
            // An address of the newer kind has colons of its own; with a port it is in brackets.
            Some((host, _)) if host.contains(':') && !host.ends_with(']') => (rest, None),
            Some((host, port)) => (host, Some(port)),
            None => (rest, None),
        };
        let port = match port {
            None => None,
            Some(port) => match port.parse::<u16>() {
                Ok(0) => return Err(format!("`{text}`: port 0 is none")),
                Ok(port) => Some(port),
                Err(_) => return Err(format!("`{text}`: `{port}` is not a port")),
            },
        };
        Ok(Self { host: HostPattern::parse(host)?, port, udp, inspect: None, source })
    }

    /// Whether the other rule covers nothing that this one does not.
    #[must_use]
    pub fn includes(&self, other: &Self) -> bool {
        self.host.includes(&other.host)
            && (self.port.is_none() || self.port == other.port)
            && (self.udp || !other.udp)
    }

    /// Whether it is about that port of that host.
    #[must_use]
    pub fn covers(&self, host: &Host, port: u16) -> bool {
        self.host.covers(host) && self.port.is_none_or(|own| own == port)
    }
}

impl std::fmt::Display for HostRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.host, self.port) {
            (HostPattern::Addresses(IpAddr::V6(_), _), Some(port)) => write!(f, "[{}]:{port}", self.host)?,
            (host, Some(port)) => write!(f, "{host}:{port}")?,
            (host, None) => host.fmt(f)?,
        }
        f.write_str(if self.udp { "/udp" } else { "" })
    }
}

mod as_text {
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    use super::HostPattern;

    pub(super) fn serialize<S: Serializer>(pattern: &HostPattern, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(pattern)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<HostPattern, D::Error> {
        let text = String::deserialize(from)?;
        HostPattern::parse(&text).map_err(D::Error::custom)
    }
}

/// What the policy says of a host and port, before anybody looks the name up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostDecision<'a> {
    /// By this rule.
    Allowed(&'a HostRule),
    /// In no list, and a person may be asked.
    Ask,
    /// By this rule, or because nothing allows it.
    Denied(Option<&'a HostRule>),
    /// The port is blocked for every host.
    DeniedPort,
}

/// What an address is that nobody reaches without being told to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressKind {
    Public,
    /// 10/8, 172.16/12, 192.168/16, fc00::/7: reached by an exact name only.
    Private,
    Loopback,
    LinkLocal,
    /// 100.64/10.
    CarrierGrade,
    /// Where clouds tell their machines who they are.
    Metadata,
    /// Unspecified, multicast, broadcast, reserved.
    Special,
}

impl AddressKind {
    /// Of an address in any spelling: within IPv6 as mapped, compatible, translated (NAT64) or tunnelled (6to4, Teredo).
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::of_v4(address),
            IpAddr::V6(address) => Self::of_v6(address),
        }
    }

    fn of_v4(address: Ipv4Addr) -> Self {
        const METADATA: [Ipv4Addr; 4] = [
            Ipv4Addr::new(169, 254, 169, 254),
            Ipv4Addr::new(169, 254, 170, 2),
            Ipv4Addr::new(100, 100, 100, 200),
            Ipv4Addr::new(168, 63, 129, 16),
        ];
        let octets = address.octets();
        match octets {
            _ if METADATA.contains(&address) => Self::Metadata,
            [127, ..] => Self::Loopback,
            [169, 254, ..] => Self::LinkLocal,
            [100, second, ..] if second & 0xc0 == 64 => Self::CarrierGrade,
            _ if address.is_private() => Self::Private,
            [0, ..] | [224..=255, ..] => Self::Special,
            _ => Self::Public,
        }
    }

    fn of_v6(address: Ipv6Addr) -> Self {
        const METADATA: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);
        let within = |high: u16, low: u16| {
            let [a, b] = high.to_be_bytes();
            let [c, d] = low.to_be_bytes();
            Self::of_v4(Ipv4Addr::new(a, b, c, d))
        };
        match address.segments() {
            _ if address == METADATA => Self::Metadata,
            [0, 0, 0, 0, 0, 0, 0, 1] => Self::Loopback,
            [0, 0, 0, 0, 0, 0, 0, 0] => Self::Special,
            // Mapped, compatible, translated by SIIT, by NAT64, by NAT64 in its local range.
            [0, 0, 0, 0, 0, 0xffff, high, low]
            | [0, 0, 0, 0, 0, 0, high, low]
            | [0, 0, 0, 0, 0xffff, 0, high, low]
            | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
            | [0x64, 0xff9b, 1, _, _, _, high, low] => within(high, low),
            [0x2002, high, low, ..] => within(high, low),
            [0x2001, 0, _, _, _, _, high, low] => within(!high, !low),
            [first, ..] if first & 0xffc0 == 0xfe80 => Self::LinkLocal,
            [first, ..] if first & 0xffc0 == 0xfec0 => Self::Private,
            [first, ..] if first & 0xfe00 == 0xfc00 => Self::Private,
            [first, ..] if first & 0xff00 == 0xff00 => Self::Special,
            _ => Self::Public,
        }
    }

    fn what(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Private => "private",
            Self::Loopback => "the machine itself",
            Self::LinkLocal => "of the link only",
            Self::CarrierGrade => "of the provider's own network",
            Self::Metadata => "a cloud's metadata service",
            Self::Special => "nobody's",
        }
    }
}

impl NetworkPolicy {
    /// Whether hosts are reached by name at all.
    #[must_use]
    pub fn is_by_name(&self) -> bool {
        !self.allowed_hosts.is_empty() || self.ask || !self.host_ports.is_empty()
    }

    /// What is said of that port of that host. Blocked hosts first, then ports, unless the rule that allows the host
    /// names the port; then allowed hosts.
    #[must_use]
    pub fn decide_host(&self, host: &Host, port: u16) -> HostDecision<'_> {
        self.decide_by(host, port, |_| true)
    }

    /// The same of datagrams, which only rules that say so allow. Nobody is asked about them.
    #[must_use]
    pub fn decide_datagrams(&self, host: &Host, port: u16) -> HostDecision<'_> {
        // What is inspected goes by TCP alone: nobody looks into datagrams.
        let mut about = self.allowed_hosts.iter().filter(|rule| rule.covers(host, port));
        if let Some(rule) = about.clone().find(|rule| rule.inspect.is_some()) {
            return HostDecision::Denied(Some(rule));
        }
        if !about.any(|rule| rule.udp) {
            return HostDecision::Denied(self.blocked_hosts.iter().find(|rule| rule.covers(host, port)));
        }
        self.decide_by(host, port, |rule| rule.udp)
    }

    /// Whether any rule allows datagrams.
    #[must_use]
    pub fn has_datagrams(&self) -> bool {
        self.allowed_hosts.iter().any(|rule| rule.udp)
    }

    fn decide_by(&self, host: &Host, port: u16, counts: impl Fn(&HostRule) -> bool) -> HostDecision<'_> {
        if let Some(rule) = self.blocked_hosts.iter().find(|rule| rule.covers(host, port)) {
            return HostDecision::Denied(Some(rule));
        }
        let allowed = self.allowed_hosts.iter().filter(|rule| rule.covers(host, port) && counts(rule));
        // One that names the port says most.
        let rule = allowed.max_by_key(|rule| rule.port.is_some());
        if let Some(rule) = rule
            && rule.port.is_some()
        {
            return HostDecision::Allowed(rule);
        }
        let is_listed = self.allowed_ports.is_empty() || self.allowed_ports.contains(&port);
        if self.blocked_ports.contains(&port) || !is_listed {
            return HostDecision::DeniedPort;
        }
        match rule {
            Some(rule) => HostDecision::Allowed(rule),
            None if self.ask => HostDecision::Ask,
            None => HostDecision::Denied(None),
        }
    }

    /// The rules by which requests to that port of that host are looked into: each that is about it, also when a wider
    /// one that is not inspected allows it too.
    #[must_use]
    pub fn inspected(&self, host: &Host, port: u16) -> Vec<&HostRule> {
        let is_inspected = |rule: &&HostRule| rule.inspect.is_some() && rule.covers(host, port);
        self.allowed_hosts.iter().filter(is_inspected).collect()
    }

    /// Why an address that `host` led to may not be connected to, if so. `rule` allowed the host; none when a person
    /// said yes to exactly this name.
    #[must_use]
    pub fn refusal_of_address(
        &self,
        host: &Host,
        rule: Option<&HostRule>,
        address: IpAddr,
    ) -> Option<String> {
        let address = address.to_canonical();
        if let Some(rule) = self.blocked_hosts.iter().find(|rule| rule.host.covers(&Host::Address(address))) {
            return Some(format!("{address} is blocked by `{rule}`"));
        }
        let kind = AddressKind::of(address);
        let is_named = |rule: &HostRule| rule.host.covers(&Host::Address(address));
        match kind {
            AddressKind::Public => None,
            _ if self.allowed_hosts.iter().any(is_named) => None,
            // A person said yes to this very address.
            _ if *host == Host::Address(address) && rule.is_none() => None,
            AddressKind::Private if rule.is_none_or(is_exact) => None,
            AddressKind::Private => Some(format!(
                "{host} is at {address}, a private address, which is reached by an exact name only"
            )),
            _ => Some(format!(
                "{host} is at {address}, which is {}; a rule must name that address",
                kind.what()
            )),
        }
    }

    /// Why a port of a host may not be reached, if so. By name as [`decide_host`](Self::decide_host) says. Of a network
    /// that is there as a whole: blocked hosts, allowed ones, of which an empty list names nobody in particular, blocked
    /// ports, allowed ones, in this order.
    #[must_use]
    pub fn refusal(&self, host: &str, port: u16) -> Option<String> {
        if !self.allow_network && !self.is_by_name() {
            return Some("there is no network".to_owned());
        }
        let Some(host) = Host::parse(host) else {
            return Some(format!("`{}` is not the name of a host", host.escape_debug()));
        };
        if let Some(rule) = self.blocked_hosts.iter().find(|rule| rule.covers(&host, port)) {
            return Some(format!("{host} is blocked by `{rule}`"));
        }
        let mut rules = self.allowed_hosts.iter().filter(|rule| rule.covers(&host, port)).peekable();
        if rules.peek().is_none() && !(self.allow_network && self.allowed_hosts.is_empty()) {
            let asked = if self.ask { "; a person is asked first" } else { "" };
            return Some(format!("{host} is not on the list of allowed hosts{asked}"));
        }
        if rules.any(|rule| rule.port.is_some()) {
            return None;
        }
        if self.blocked_ports.contains(&port) {
            return Some(format!("port {port} is blocked"));
        }
        let allowed = self.allowed_ports.is_empty() || self.allowed_ports.contains(&port);
        (!allowed).then(|| format!("port {port} is not on the list of allowed ports"))
    }
}

/// Whether it names one host, and is the person's own or of this machine's configuration.
fn is_exact(rule: &HostRule) -> bool {
    matches!(rule.host, HostPattern::Name(_)) && rule.source.layer != RuleLayer::Project
}

fn is_below(name: &str, domain: &str) -> bool {
    name.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.') && rest.len() > 1)
}

fn same_network(network: IpAddr, address: IpAddr, bits: u8) -> bool {
    let same = |one: u128, other: u128, width: u8| bits == 0 || (one ^ other) >> (width - bits) == 0;
    match (network, address) {
        (IpAddr::V4(one), IpAddr::V4(other)) => same(one.to_bits().into(), other.to_bits().into(), 32),
        (IpAddr::V6(one), IpAddr::V6(other)) => same(one.to_bits(), other.to_bits(), 128),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(texts: &[&str]) -> Vec<HostRule> {
        let source = RuleSource::layer(RuleLayer::User);
        texts.iter().map(|text| HostRule::parse(text, source.clone()).unwrap()).collect()
    }

    fn policy(allowed: &[&str], blocked: &[&str]) -> NetworkPolicy {
        NetworkPolicy {
            allowed_hosts: rules(allowed),
            blocked_hosts: rules(blocked),
            blocked_ports: vec![22],
            ..NetworkPolicy::default()
        }
    }

    fn is_allowed(policy: &NetworkPolicy, host: &str, port: u16) -> bool {
        matches!(policy.decide_host(&Host::parse(host).unwrap(), port), HostDecision::Allowed(_))
    }

    #[test]
    fn rules_cover_what_they_name() {
        for (rule, host, port, want) in [
            ("example.com", "Example.COM.", 443, true),
            ("example.com", "www.example.com", 443, false),
            ("example.com", "badexample.com", 443, false),
            ("*.example.com", "example.com", 443, false),
            ("*.example.com", "a.b.example.com", 443, true),
            ("*.example.com", "badexample.com", 443, false),
            (".example.com", "example.com", 443, true),
            (".example.com", "a.example.com", 443, true),
            ("example.com:8443", "example.com", 443, false),
            ("example.com:22", "example.com", 22, true),
            ("example.com", "example.com", 22, false),
            ("192.0.2.0/24", "192.0.2.200", 80, true),
            ("192.0.2.0/24", "192.0.3.1", 80, false),
            ("192.0.2.0/24", "::ffff:192.0.2.9", 80, true),
            ("[2001:db8::1]:80", "2001:db8::1", 80, true),
            ("0.0.0.0/0", "8.8.8.8", 80, true),
            ("0.0.0.0/0", "example.com", 80, false),
        ] {
            assert_eq!(is_allowed(&policy(&[rule], &[]), host, port), want, "{host}:{port} by {rule}");
        }
    }

    #[test]
    fn a_blocked_host_stays_blocked_and_what_nobody_names_is_asked_about_only_when_wanted() {
        let mut policy = policy(&[".example.com"], &["evil.example.com"]);
        assert!(!is_allowed(&policy, "evil.example.com", 443));
        let other = Host::parse("other.example").unwrap();
        assert_eq!(policy.decide_host(&other, 443), HostDecision::Denied(None));
        policy.ask = true;
        assert_eq!(policy.decide_host(&other, 443), HostDecision::Ask);
        assert_eq!(policy.decide_host(&other, 22), HostDecision::DeniedPort);
    }

    #[test]
    fn a_rule_includes_what_is_narrower() {
        let includes = |wide: &str, narrow: &str| rules(&[wide])[0].includes(&rules(&[narrow])[0]);
        for (wide, narrow) in [
            ("a.example", "a.example:443"),
            (".example", "*.example"),
            (".example", "a.example"),
            ("*.example", ".a.example"),
            ("*.example", "*.a.example"),
            ("10.0.0.0/8", "10.1.0.0/16"),
            ("a.example/udp", "a.example"),
        ] {
            assert!(includes(wide, narrow) && includes(wide, wide), "{wide} {narrow}");
            assert!(!includes(narrow, wide), "{narrow} {wide}");
        }
        assert!(!includes("*.example", "example") && !includes("a.example:80", "a.example:81"));
    }

    #[test]
    fn a_port_that_is_named_is_the_only_one() {
        let policy = policy(&["a.example:8443", "b.example"], &[]);
        assert_eq!(policy.refusal("a.example", 8443), None);
        assert!(policy.refusal("a.example", 443).unwrap().contains("list of allowed hosts"));
        assert_eq!(policy.refusal("b.example", 22).as_deref(), Some("port 22 is blocked"));
        assert_eq!(NetworkPolicy::default().refusal("b.example", 1).as_deref(), Some("there is no network"));
    }

    #[test]
    fn what_is_no_rule_says_why() {
        for (text, why) in [
            ("*", "every host"),
            ("a.*.example", "`*` within"),
            ("example.com:0", "port 0"),
            ("example.com:http", "not a port"),
            ("exa mple.com", "not the name of a host"),
            ("10.0.0.0/33", "more bits"),
            ("", "not the name of a host"),
            ("127.1", "not the name of a host"),
        ] {
            let error = HostRule::parse(text, RuleSource::layer(RuleLayer::User)).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn rules_are_shown_as_they_are_written() {
        for text in [
            "example.com",
            "*.example.com",
            ".example.com:80",
            "192.0.2.0/24",
            "[2001:db8::1]:80",
            "a.example:443/udp",
        ] {
            assert_eq!(rules(&[text])[0].to_string(), text);
        }
    }

    #[test]
    fn addresses_that_nobody_reaches_are_known_in_every_spelling() {
        use AddressKind::{CarrierGrade, LinkLocal, Loopback, Metadata, Private, Public, Special};
        for (text, want) in [
            ("127.0.0.1", Loopback),
            ("127.9.9.9", Loopback),
            ("::1", Loopback),
            ("::ffff:127.0.0.1", Loopback),
            ("::127.0.0.1", Loopback),
            ("64:ff9b::127.0.0.1", Loopback),
            ("64:ff9b:1::10.0.0.1", Private),
            ("2002:7f00:1::", Loopback),
            ("2001:0:0:0:0:0:80ff:fffe", Loopback),
            ("169.254.169.254", Metadata),
            ("::ffff:169.254.169.254", Metadata),
            ("fd00:ec2::254", Metadata),
            ("169.254.1.1", LinkLocal),
            ("fe80::1", LinkLocal),
            ("100.64.0.1", CarrierGrade),
            ("100.128.0.1", Public),
            ("10.1.2.3", Private),
            ("172.16.0.1", Private),
            ("192.168.1.1", Private),
            ("fd00::1", Private),
            ("0.0.0.0", Special),
            ("::", Special),
            ("224.0.0.1", Special),
            ("255.255.255.255", Special),
            ("ff02::1", Special),
            ("8.8.8.8", Public),
            ("2606:4700::1", Public),
        ] {
            assert_eq!(AddressKind::of(text.parse().unwrap()), want, "{text}");
        }
    }

    #[test]
    fn datagrams_are_allowed_by_rules_that_say_so() {
        let mut policy = policy(
            &["a.example:443/udp", "b.example/udp", "c.example", ".inner.example/udp"],
            &["x.inner.example"],
        );
        policy.ask = true;
        policy.blocked_ports = vec![22];
        let mut inspected = HostRule::parse("api.inner.example", RuleSource::layer(RuleLayer::User)).unwrap();
        inspected.inspect = Inspect::checked(vec!["GET".to_owned()], vec![], None).unwrap();
        policy.allowed_hosts.push(inspected);
        let decided = |host: &str, port| match policy.decide_datagrams(&Host::parse(host).unwrap(), port) {
            HostDecision::Allowed(_) => "allowed",
            HostDecision::Ask => "ask",
            HostDecision::Denied(Some(_)) => "by a rule",
            HostDecision::Denied(None) => "denied",
            HostDecision::DeniedPort => "port",
        };
        for (host, port, want) in [
            ("a.example", 443, "allowed"),
            ("a.example", 80, "denied"),
            ("b.example", 80, "allowed"),
            ("b.example", 22, "port"),
            ("c.example", 443, "denied"),
            ("d.example", 443, "denied"),
            ("y.inner.example", 443, "allowed"),
            ("x.inner.example", 443, "by a rule"),
            ("api.inner.example", 443, "by a rule"),
        ] {
            assert_eq!(decided(host, port), want, "{host}:{port}");
        }
        assert!(policy.has_datagrams() && !super::super::NetworkPolicy::default().has_datagrams());
    }

    #[test]
    fn an_allowed_name_leads_nowhere_but_out() {
        let policy = policy(&["a.example", "*.b.example", "127.0.0.1:80", "10.0.0.7"], &["192.0.2.66"]);
        let refusal = |host: &str, address: &str| {
            let host = Host::parse(host).unwrap();
            let HostDecision::Allowed(rule) = policy.decide_host(&host, 80) else { panic!("{host}") };
            policy.refusal_of_address(&host, Some(rule), address.parse().unwrap())
        };
        assert_eq!(refusal("a.example", "8.8.8.8"), None);
        assert_eq!(refusal("a.example", "10.1.1.1"), None);
        assert_eq!(refusal("a.example", "127.0.0.1"), None, "named by another rule");
        assert!(refusal("x.b.example", "10.1.1.1").unwrap().contains("exact name"));
        assert_eq!(refusal("x.b.example", "10.0.0.7"), None);
        assert!(refusal("a.example", "127.0.0.2").unwrap().contains("machine itself"));
        assert!(refusal("a.example", "::ffff:169.254.169.254").unwrap().contains("metadata"));
        assert!(refusal("a.example", "192.0.2.66").unwrap().contains("blocked"));
        let unnamed = Host::parse("c.example").unwrap();
        assert_eq!(policy.refusal_of_address(&unnamed, None, "10.1.1.1".parse().unwrap()), None);
        assert!(policy.refusal_of_address(&unnamed, None, "::1".parse().unwrap()).is_some());
    }
}
