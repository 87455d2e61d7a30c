//! The host's own proxy, where the host has one and the name is not excepted: a tunnel through it (`CONNECT`), or for
//! port 80 requests to it.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Instant;

use base64::Engine as _;
use http::header::PROXY_AUTHORIZATION;
use http::{HeaderValue, Request, Uri};
use ringfence_model::Host;

use crate::settings::HostProxy;

const LONGEST_ANSWER: usize = 16 * 1024;

/// A proxy to go through.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Proxy {
    pub(crate) host: Host,
    pub(crate) port: u16,
    /// `user:password`, encoded.
    credentials: Option<String>,
}

impl Proxy {
    /// Makes a request to a host one to the proxy.
    pub(crate) fn address<B>(&self, request: &mut Request<B>, host: &Host) -> Result<(), http::Error> {
        // No port: it is the usual one.
        let authority = match host {
            Host::Address(IpAddr::V6(address)) => format!("[{address}]"),
            Host::Address(IpAddr::V4(_)) | Host::Name(_) => host.to_string(),
        };
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let path = if path.starts_with('/') { path } else { "/" };
        *request.uri_mut() =
            Uri::builder().scheme("http").authority(authority).path_and_query(path).build()?;
        if let Some(credentials) = &self.credentials {
            let mut value = HeaderValue::try_from(format!("Basic {credentials}"))?;
            value.set_sensitive(true);
            request.headers_mut().insert(PROXY_AUTHORIZATION, value);
        }
        Ok(())
    }
}

impl HostProxy {
    /// None when it is reached without one. A proxy that cannot be used is never left out in silence.
    pub(crate) fn way_to(&self, host: &Host, port: u16) -> Result<Option<Proxy>, String> {
        let own = if port == 80 { &self.http } else { &self.https };
        let Some(text) = [own, &self.all].into_iter().flatten().find(|text| !text.trim().is_empty()) else {
            return Ok(None);
        };
        if self.none_for.as_ref().is_some_and(|list| is_excepted(list, host, port)) {
            return Ok(None);
        }
        parse(text.trim()).map(Some)
    }
}

fn parse(text: &str) -> Result<Proxy, String> {
    // It may hold a password, so that the text itself is never shown.
    let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
    if !scheme.eq_ignore_ascii_case("http") {
        return Err(format!("a proxy by `{}` is not supported, only by `http`", scheme.escape_debug()));
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (user, place) = match authority.rsplit_once('@') {
        Some((user, place)) => (Some(user), place),
        None => (None, authority),
    };
    let (host, port) = split_port(place).ok_or("its address cannot be read")?;
    let credentials = user.map(|user| base64::engine::general_purpose::STANDARD.encode(decoded(user)));
    Ok(Proxy { host, port: port.unwrap_or(80), credentials })
}

/// `name`, `name:port`, `[address]:port`, as an authority says it.
pub(crate) fn split_port(text: &str) -> Option<(Host, Option<u16>)> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, _)) if host.contains(':') && !host.ends_with(']') => (text, None),
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    };
    let port = match port {
        Some("") | None => None,
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => Some(port.parse().ok()?),
        Some(_) => return None,
    };
    Some((Host::parse(host)?, port))
}

/// `%40` and the like.
fn decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

/// `NO_PROXY`: names with everything below them, with a dot or `*.` before or without, addresses, ranges, `*`; perhaps
/// with a port.
fn is_excepted(list: &str, host: &Host, port: u16) -> bool {
    list.split([',', ' ', '\t']).map(str::trim).filter(|entry| !entry.is_empty()).any(|entry| {
        if entry == "*" {
            return true;
        }
        if let Some((network, bits)) = entry.split_once('/') {
            let (Ok(network), Ok(bits), Host::Address(address)) = (network.parse(), bits.parse(), host)
            else {
                return false;
            };
            return is_within(network, bits, *address);
        }
        let entry = entry.trim_start_matches('*').trim_start_matches('.');
        let Some((own, own_port)) = split_port(entry) else { return false };
        if own_port.is_some_and(|own| own != port) {
            return false;
        }
        match (&own, host) {
            (Host::Name(own), Host::Name(name)) => {
                name == own || name.strip_suffix(own.as_str()).is_some_and(|rest| rest.ends_with('.'))
            }
            _ => own == *host,
        }
    })
}

fn is_within(network: IpAddr, bits: u32, address: IpAddr) -> bool {
    match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            let differ = network.to_bits() ^ address.to_bits();
            bits <= 32 && differ.leading_zeros() >= bits
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            let differ = network.to_bits() ^ address.to_bits();
            bits <= 128 && differ.leading_zeros() >= bits
        }
        _ => false,
    }
}

/// Asks for a tunnel; the socket is connected to the proxy, and after this to the host.
pub(crate) fn tunnel(
    socket: OwnedFd,
    proxy: &Proxy,
    host: &Host,
    port: u16,
    deadline: Instant,
) -> Result<OwnedFd, String> {
    let mut stream = TcpStream::from(socket);
    let place = host.with_port(port);
    let mut request = format!("CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n");
    if let Some(credentials) = &proxy.credentials {
        request.push_str("Proxy-Authorization: Basic ");
        request.push_str(credentials);
        request.push_str("\r\n");
    }
    request.push_str("\r\n");
    let broken = |error: std::io::Error| format!("{error} while asking for {place}");
    stream.set_nonblocking(false).map_err(broken)?;
    stream.set_write_timeout(Some(left_until(deadline)?)).map_err(broken)?;
    stream.write_all(request.as_bytes()).map_err(broken)?;
    let mut answer = Vec::new();
    // One by one: what follows is the host's.
    while !answer.ends_with(b"\r\n\r\n") {
        stream.set_read_timeout(Some(left_until(deadline)?)).map_err(broken)?;
        let mut byte = [0];
        match stream.read(&mut byte) {
            Ok(0) => return Err("it ended the connection".to_owned()),
            Ok(_) => answer.push(byte[0]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                return Err("it took too long".to_owned());
            }
            Err(error) => return Err(broken(error)),
        }
        if answer.len() > LONGEST_ANSWER {
            return Err("its answer is too long".to_owned());
        }
    }
    let line = String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned();
    let mut words = line.split(' ');
    let is_http = words.next().is_some_and(|word| word.starts_with("HTTP/1."));
    let status = words.next().and_then(|word| word.parse::<u16>().ok());
    match status {
        Some(200..=299) if is_http => Ok(stream.into()),
        Some(status) if is_http => Err(format!("it refused {place} with status {status}")),
        _ => Err("it does not speak HTTP".to_owned()),
    }
}

fn left_until(deadline: Instant) -> Result<std::time::Duration, String> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err("it took too long".to_owned()) } else { Ok(left) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> Host {
        Host::parse(text).unwrap()
    }

    #[test]
    fn a_proxy_is_read_as_its_variable_says_it() {
        let proxy = parse("http://ada:p%40ss@proxy.example:3128/").unwrap();
        assert_eq!((proxy.host, proxy.port), (host("proxy.example"), 3128));
        assert_eq!(proxy.credentials.unwrap(), "YWRhOnBAc3M=");
        assert_eq!(parse("10.0.0.1:8080").unwrap().port, 8080);
        assert_eq!(parse("http://[::1]:8080").unwrap().host, host("::1"));
        for wrong in ["socks5://x.example:1", "https://x.example", "http://", "http://a b", "http://x:port"] {
            let error = parse(wrong).err().unwrap();
            assert!(!error.contains("x.example"), "{error}");
        }
    }

    #[test]
    fn which_proxy_is_gone_through() {
        let proxy = HostProxy {
            https: Some("http://s.example:1".to_owned()),
            http: Some(String::new()),
            all: Some("http://all.example:2".to_owned()),
            none_for: Some("internal.example, .corp, *.net.example,10.0.0.0/8,x.example:99".to_owned()),
        };
        let way = |text: &str, port| proxy.way_to(&host(text), port).unwrap().map(|proxy| proxy.port);
        assert_eq!(way("a.example", 443), Some(1));
        assert_eq!(way("a.example", 80), Some(2));
        for direct in ["internal.example", "a.internal.example", "a.corp", "b.net.example", "10.9.9.9"] {
            assert_eq!(way(direct, 443), None, "{direct}");
        }
        for proxied in ["notinternal.example", "acorp", "11.0.0.1", "x.example"] {
            assert_eq!(way(proxied, 443), Some(1), "{proxied}");
        }
        assert_eq!(way("x.example", 99), None);
        let all = HostProxy { none_for: Some("*".to_owned()), ..proxy };
        assert!(all.way_to(&host("a.example"), 443).unwrap().is_none());
    }
}
