//! The files of tools, as far as they name hosts. What cannot be understood names none.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use ringfence_model::{HostRule, RuleLayer, RuleSource};

/// More than any of these files has.
const MOST: u64 = 1 << 20;

/// The text of a regular file.
pub(super) fn text(path: &Path) -> Option<String> {
    let file = File::open(path).ok().filter(|file| file.metadata().is_ok_and(|found| found.is_file()))?;
    let mut text = String::new();
    file.take(MOST).read_to_string(&mut text).ok()?;
    Some(text)
}

/// The host of an address, with its port, as a rule. Who logs in there is left out.
pub(super) fn host_of(url: &str) -> Option<String> {
    let url = url.trim().trim_matches(['"', '\'']);
    let (scheme, rest) = url.split_once("://")?;
    let scheme = scheme.rsplit('+').next()?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    let has_port =
        host.rsplit_once(':').is_some_and(|(before, _)| !before.contains(':') || before.ends_with(']'));
    let text = match scheme {
        _ if has_port => host.to_owned(),
        "https" => format!("{host}:443"),
        "http" => format!("{host}:80"),
        "ftp" => format!("{host}:21"),
        _ => return None,
    };
    let is_one = !host.starts_with('.') && !host.contains(['*', '/']);
    let rule = HostRule::parse(&text, RuleSource::layer(RuleLayer::Detected)).ok().filter(|_| is_one)?;
    Some(rule.to_string())
}

/// Values of `key = value` lines whose key is meant; indented lines go on with the one before.
pub(super) fn values(text: &str, is_meant: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_within = false;
    for line in text.lines() {
        let bare = line.trim();
        if bare.is_empty() || bare.starts_with(['#', ';', '[']) {
            continue;
        }
        let is_more = line.starts_with([' ', '\t']) && is_within && !bare.contains('=');
        let value = match bare.split_once('=') {
            _ if is_more => bare,
            Some((key, value)) => {
                is_within = is_meant(key.trim());
                value
            }
            None => {
                is_within = false;
                continue;
            }
        };
        if is_within {
            found.extend(value.split_whitespace().map(|value| value.trim_matches(['"', '\'']).to_owned()));
        }
    }
    found
}

/// Addresses in one-line sources of apt.
pub(super) fn apt_lines(text: &str) -> Vec<String> {
    let source = |line: &str| {
        let line = line.trim().strip_prefix("deb-src").or_else(|| line.trim().strip_prefix("deb"))?;
        let line = line.starts_with([' ', '\t', '[']).then(|| line.trim_start())?;
        let line = match line.strip_prefix('[') {
            Some(options) => options.split_once(']')?.1,
            None => line,
        };
        line.split_whitespace().next().map(str::to_owned)
    };
    text.lines().filter_map(source).collect()
}

/// Addresses in sources of apt that are paragraphs.
pub(super) fn apt_paragraphs(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for paragraph in text.split("\n\n") {
        let mut addresses: Vec<String> = Vec::new();
        let (mut is_within, mut is_enabled) = (false, true);
        for line in paragraph.lines().filter(|line| !line.starts_with('#')) {
            let value = match line.split_once(':') {
                _ if line.starts_with([' ', '\t']) => line,
                Some((key, value)) => {
                    is_within = key.eq_ignore_ascii_case("uris");
                    let is_no = matches!(value.trim().to_ascii_lowercase().as_str(), "no" | "false" | "0");
                    is_enabled &= !(key.eq_ignore_ascii_case("enabled") && is_no);
                    value
                }
                None => continue,
            };
            if is_within {
                addresses.extend(value.split_whitespace().map(str::to_owned));
            }
        }
        if is_enabled {
            found.append(&mut addresses);
        }
    }
    found
}

/// Contents of `<url>` elements, comments left out.
pub(super) fn xml_urls(text: &str) -> Vec<String> {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("<!--") {
        plain.push_str(before);
        rest = after.split_once("-->").map_or("", |(_, after)| after);
    }
    plain.push_str(rest);
    let urls = plain.split("<url>").skip(1).filter_map(|rest| rest.split_once("</url>"));
    urls.map(|(url, _)| url.trim().to_owned()).collect()
}

/// Names of the mappings directly below `key`, or at the top.
pub(super) fn yaml_names(text: &str, key: Option<&str>) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_within = key.is_none();
    let mut indent = key.is_none().then_some(0);
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#')) {
        let depth = line.len() - line.trim_start().len();
        if key.is_some() && depth == 0 {
            is_within = line.trim_end().strip_suffix(':') == key;
            indent = None;
            continue;
        }
        if is_within && *indent.get_or_insert(depth) == depth {
            found.extend(line.trim().strip_suffix(':').map(|name| name.trim_matches('"').to_owned()));
        }
    }
    found
}

/// Items of the list below `key`.
pub(super) fn yaml_items(text: &str, key: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_within = false;
    for line in text.lines() {
        match line.trim().strip_prefix("- ") {
            Some(item) if is_within => found.push(item.trim().to_owned()),
            _ => is_within = line.trim().trim_start_matches(':').trim_end_matches(':') == key,
        }
    }
    found
}
