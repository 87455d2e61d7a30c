//! Names and the addresses that stand for them inside.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use ringfence_model::Host;

/// The range for benchmarks of networks (RFC 2544), which nobody has on the internet.
const FIRST: u32 = Ipv4Addr::new(198, 18, 0, 0).to_bits();
/// The sandbox's own address there, with the bits of the range.
pub(in super::super) const OWN: Ipv4Addr = Ipv4Addr::from_bits(FIRST + 1);
pub(in super::super) const RANGE_BITS: u8 = 15;
/// As many names get an address; who asks for more is up to something.
const MOST: usize = 100_000;

/// Each name that was asked for has an address of its own, as long as the sandbox lives.
#[derive(Debug, Default)]
pub(in super::super) struct Names {
    addresses: HashMap<String, Ipv4Addr>,
    names: Vec<String>,
    /// Domains that resolvers add to a name.
    search: Vec<String>,
}

impl Names {
    /// With the domains that this machine's resolver adds.
    pub(super) fn new() -> Self {
        let configured = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        let domains = |line: &str| {
            let rest = line.strip_prefix("search").or_else(|| line.strip_prefix("domain"))?;
            Some(rest.split_whitespace().map(|domain| format!(".{}", domain.to_ascii_lowercase())).collect())
        };
        let search = configured.lines().filter_map(domains).next_back().unwrap_or_default();
        Self { search, ..Self::default() }
    }

    /// The address that stands for a name; none when it is no name, or when there are too many.
    pub(in super::super) fn address(&mut self, name: &str) -> Option<Ipv4Addr> {
        let Some(Host::Name(name)) = Host::parse(name) else { return None };
        if name == "localhost" || name.ends_with(".localhost") {
            return Some(Ipv4Addr::LOCALHOST);
        }
        // A whole name with such a domain behind it is a try of the resolver's, and nobody's wish.
        if self.search.iter().any(|domain| name.strip_suffix(domain).is_some_and(|rest| rest.contains('.'))) {
            return None;
        }
        if let Some(address) = self.addresses.get(&name) {
            return Some(*address);
        }
        let index = self.names.len();
        if index == MOST {
            return None;
        }
        // The first two are the range itself and our own.
        let address = Ipv4Addr::from_bits(FIRST + 2 + u32::try_from(index).ok()?);
        self.names.push(name.clone());
        self.addresses.insert(name, address);
        Some(address)
    }

    /// The name that an address stands for.
    pub(super) fn name(&self, address: Ipv4Addr) -> Option<&str> {
        let index = address.to_bits().checked_sub(FIRST + 2)?;
        self.names.get(usize::try_from(index).ok()?).map(String::as_str)
    }
}

/// Whether it stands for a name, or could.
pub(in super::super) fn is_in_range(address: Ipv4Addr) -> bool {
    (address.to_bits() ^ FIRST) >> (32 - RANGE_BITS) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_one_address_and_back() {
        let mut names = Names::default();
        let one = names.address("a.example").unwrap();
        assert_eq!(names.address("A.Example."), Some(one));
        let other = names.address("b.example").unwrap();
        assert_ne!(one, other);
        assert!(is_in_range(one) && is_in_range(OWN) && !is_in_range(Ipv4Addr::new(198, 20, 0, 0)));
        assert_eq!((names.name(one), names.name(other)), (Some("a.example"), Some("b.example")));
        assert_eq!((names.name(OWN), names.name(Ipv4Addr::new(8, 8, 8, 8))), (None, None));
        assert_eq!(names.address("localhost"), Some(Ipv4Addr::LOCALHOST));
        assert_eq!(names.address("not a name"), None);
        assert_eq!(names.address("10.0.0.1"), None);
    }

    #[test]
    fn what_a_resolver_adds_is_nobodys_wish() {
        let mut names = Names { search: vec![".corp.example".to_owned()], ..Names::default() };
        assert_eq!(names.address("www.a.example.corp.example"), None);
        assert!(names.address("wiki.corp.example").is_some());
    }

    #[test]
    fn names_do_not_fill_the_memory() {
        let mut names = Names::default();
        for number in 0..MOST {
            assert!(names.address(&format!("n{number}.example")).is_some());
        }
        assert_eq!(names.address("one-more.example"), None);
        assert!(names.address("n7.example").is_some());
    }
}
