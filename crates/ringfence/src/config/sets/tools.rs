//! What each tool is configured to reach.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::ask::ask;
use super::read::{apt_lines, apt_paragraphs, host_of, text, values, xml_urls, yaml_items, yaml_names};
use super::{FoundHost, Machine};

/// GitHub's own: the site, its interface, archives, and what users put there.
const GITHUB: &[&str] =
    &["github.com:443", "api.github.com:443", "codeload.github.com:443", ".githubusercontent.com:443"];
const GITLAB: &[&str] = &["gitlab.com:443"];

/// Prints pip's default index, and the host of its files.
const PIP_DEFAULT: &str = "from pip._internal.models.index import PyPI; print(PyPI.url); print('https://' + PyPI.file_storage_domain)";
const HUB_DEFAULT: &str = "from huggingface_hub import constants; print(constants.ENDPOINT)";

pub(super) fn find(set: &str, machine: &Machine<'_>) -> Vec<FoundHost> {
    let mut found = Finding { machine, hosts: Vec::new() };
    match set {
        "npm" => found.npm(),
        "pypi" => found.pypi(),
        "crates" => found.crates(),
        "debian" => found.debian(),
        "go" => found.go(),
        "github" => found.forge("github", GITHUB, ".config/gh/hosts.yml", None),
        "gitlab" => found.forge("gitlab", GITLAB, ".config/glab-cli/config.yml", Some("hosts")),
        "maven" => found.maven(),
        "rubygems" => found.rubygems(),
        "huggingface" => found.huggingface(),
        _ => {}
    }
    found.hosts
}

struct Finding<'a> {
    machine: &'a Machine<'a>,
    hosts: Vec<FoundHost>,
}

impl Finding<'_> {
    fn add(&mut self, host: Option<String>, from: &str) {
        let Some(host) = host else { return };
        if !self.hosts.iter().any(|known| known.host == host) {
            self.hosts.push(FoundHost { host, from: from.to_owned() });
        }
    }

    /// Adds the hosts of these addresses; whether there were any.
    fn urls(&mut self, urls: &[String], from: &str) -> bool {
        urls.iter().for_each(|url| self.add(host_of(url), from));
        urls.iter().any(|url| host_of(url).is_some())
    }

    /// A variable of the caller.
    fn variable(&self, name: &str) -> Option<&str> {
        self.machine.env.get(OsStr::new(name))?.to_str().filter(|value| !value.is_empty())
    }

    fn home(&self, below: &str) -> PathBuf {
        self.machine.home.join(below)
    }

    fn configuration(&self, below: &str) -> PathBuf {
        let moved = self.variable("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        moved.unwrap_or_else(|| self.home(".config")).join(below)
    }

    /// A path as a person writes it.
    fn shown(&self, path: &Path) -> String {
        match path.strip_prefix(self.machine.home) {
            Ok(below) => format!("~/{}", below.display()),
            Err(_) => path.display().to_string(),
        }
    }

    /// Texts of those files that are there, each with its name; none of the project.
    fn files(&self, paths: &[PathBuf]) -> Vec<(String, String)> {
        let outside = paths.iter().filter(|path| !path.starts_with(self.machine.project) || self.is_home());
        outside.filter_map(|path| Some((text(path)?, self.shown(path)))).collect()
    }

    /// Whoever works in the whole home directory has their own files there.
    fn is_home(&self) -> bool {
        self.machine.project == self.machine.home
    }

    fn npm(&mut self) {
        let mut is_set = false;
        for (name, value) in self.machine.env {
            if name.to_str().is_some_and(|name| name.eq_ignore_ascii_case("npm_config_registry")) {
                is_set |= self.urls(&[value.to_string_lossy().into_owned()], "npm_config_registry");
            }
        }
        let user = self.variable("NPM_CONFIG_USERCONFIG").or(self.variable("npm_config_userconfig"));
        let user = user.map_or_else(|| self.home(".npmrc"), PathBuf::from);
        for (text, from) in self.files(&[user, self.machine.etc.join("npmrc")]) {
            is_set |= self.urls(&values(&text, |key| key == "registry"), &from);
            self.urls(&values(&text, |key| key.starts_with('@') && key.ends_with(":registry")), &from);
        }
        if !is_set && let Some(answer) = ask(self.machine, "npm", &["config", "get", "registry"]) {
            self.urls(&[answer], "npm config get registry");
        }
    }

    fn pypi(&mut self) {
        let words = |value: &str| value.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let mut is_set = false;
        for (name, is_index) in [
            ("PIP_INDEX_URL", true),
            ("UV_DEFAULT_INDEX", true),
            ("UV_INDEX_URL", true),
            ("PIP_EXTRA_INDEX_URL", false),
        ] {
            if let Some(value) = self.variable(name).map(words) {
                is_set |= self.urls(&value, name) && is_index;
            }
        }
        let mut files = vec![self.configuration("pip/pip.conf"), self.home(".pip/pip.conf")];
        files.extend(self.variable("PIP_CONFIG_FILE").map(PathBuf::from));
        files.push(self.machine.etc.join("pip.conf"));
        for (text, from) in self.files(&files) {
            let key = |wanted: &'static str| move |key: &str| key.replace('_', "-") == wanted;
            is_set |= self.urls(&values(&text, key("index-url")), &from);
            self.urls(&values(&text, key("extra-index-url")), &from);
        }
        let Some(answer) = ask(self.machine, "python3", &["-E", "-c", PIP_DEFAULT]) else { return };
        let default: Vec<String> = answer.lines().map(str::to_owned).collect();
        let index = default.first().and_then(|url| host_of(url));
        // Its files are elsewhere also when somebody wrote the default down.
        if !is_set || self.hosts.iter().any(|known| Some(&known.host) == index.as_ref()) {
            self.urls(&default, "pip's default");
        }
    }

    fn crates(&mut self) {
        let home = self.variable("CARGO_HOME").map_or_else(|| self.home(".cargo"), PathBuf::from);
        let mut is_replaced = false;
        for (text, from) in self.files(&[home.join("config.toml"), home.join("config")]) {
            is_replaced |= text.contains("replace-with");
            self.urls(&values(&text, |key| matches!(key, "index" | "registry")), &from);
        }
        let configured: Vec<String> = self.hosts.iter().map(|known| known.host.clone()).collect();
        let index = home.join("registry/index");
        let mut names: Vec<_> = std::fs::read_dir(&index).into_iter().flatten().flatten().collect();
        names.sort_by_key(std::fs::DirEntry::file_name);
        for entry in names {
            // The host and a sum of the address.
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some((host, sum)) = name.rsplit_once('-') else { continue };
            let host = host_of(&format!("https://{host}"));
            let is_meant = !is_replaced || configured.iter().any(|known| Some(known) == host.as_ref());
            if sum.len() != 16 || !sum.bytes().all(|b| b.is_ascii_hexdigit()) || !is_meant {
                continue;
            }
            let from = self.shown(&entry.path());
            self.add(host, &from);
            let more = text(&entry.path().join("config.json"));
            let more = more.and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok());
            if let Some(files) = more.as_ref().and_then(|more| more.get("dl")?.as_str()) {
                self.add(host_of(files), &format!("{from}/config.json"));
            }
        }
    }

    fn debian(&mut self) {
        let apt = self.machine.etc.join("apt");
        let mut files = vec![apt.join("sources.list")];
        let below = std::fs::read_dir(apt.join("sources.list.d")).into_iter().flatten().flatten();
        let mut below: Vec<PathBuf> = below.map(|entry| entry.path()).collect();
        below.sort();
        files.append(&mut below);
        for path in files {
            let is_paragraphs = path.extension().is_some_and(|extension| extension == "sources");
            if !is_paragraphs && path.extension().is_none_or(|extension| extension != "list") {
                continue;
            }
            for (text, from) in self.files(&[path]) {
                let urls = if is_paragraphs { apt_paragraphs(&text) } else { apt_lines(&text) };
                self.urls(&urls, &from);
            }
        }
    }

    fn go(&mut self) {
        let file = self.variable("GOENV").map_or_else(|| self.configuration("go/env"), PathBuf::from);
        let written = self.files(&[file]);
        let known = |finding: &Self, name: &'static str| {
            let variable = finding.variable(name).map(|value| (value.to_owned(), name.to_owned()));
            variable.or_else(|| {
                let (text, from) = written.first()?;
                values(text, |key| key == name).first().map(|value| (value.clone(), from.clone()))
            })
        };
        let (proxy, sums) = (known(self, "GOPROXY"), known(self, "GOSUMDB"));
        let answer = if proxy.is_none() || sums.is_none() {
            ask(self.machine, "go", &["env", "GOPROXY", "GOSUMDB"]).unwrap_or_default()
        } else {
            String::new()
        };
        let asked =
            |line: usize| answer.lines().nth(line).map(|value| (value.to_owned(), "go env".to_owned()));
        if let Some((proxies, from)) = proxy.or_else(|| asked(0)) {
            let proxies: Vec<String> = proxies.split([',', '|']).map(str::to_owned).collect();
            self.urls(&proxies, &from);
        }
        if let Some((sums, from)) = sums.or_else(|| asked(1)) {
            // A name, perhaps with its key, and perhaps an address.
            let mut words = sums.split_whitespace();
            let name = words.next().and_then(|name| name.split('+').next()).filter(|name| *name != "off");
            match (words.next(), name) {
                (Some(address), _) => self.add(host_of(address), &from),
                (None, Some(name)) => self.add(host_of(&format!("https://{name}")), &from),
                (None, None) => {}
            }
        }
    }

    /// A forge's own, and servers of the same kind that the user's tools know.
    fn forge(&mut self, name: &str, own: &[&str], file: &str, key: Option<&str>) {
        own.iter().for_each(|host| self.add(Some((*host).to_owned()), "built in"));
        let file = self.configuration(file.trim_start_matches(".config/"));
        for (text, from) in self.files(&[file]) {
            for host in yaml_names(&text, key) {
                self.add(host_of(&format!("https://{host}")), &from);
            }
        }
        for (text, from) in self.files(&[self.home(".gitconfig"), self.configuration("git/config")]) {
            let sections = text.lines().filter_map(|line| line.trim().strip_prefix('[')?.split('"').nth(1));
            for host in sections.filter_map(host_of).filter(|host| host.contains(name)) {
                self.add(Some(host), &from);
            }
        }
    }

    fn maven(&mut self) {
        for (text, from) in self.files(&[self.home(".m2/settings.xml")]) {
            self.urls(&xml_urls(&text), &from);
        }
    }

    fn rubygems(&mut self) {
        for (text, from) in self.files(&[self.home(".gemrc"), self.machine.etc.join("gemrc")]) {
            self.urls(&yaml_items(&text, "sources"), &from);
        }
        if self.hosts.is_empty()
            && let Some(answer) = ask(self.machine, "gem", &["sources", "--list"])
        {
            let lines: Vec<String> = answer.lines().map(str::to_owned).collect();
            self.urls(&lines, "gem sources");
        }
    }

    fn huggingface(&mut self) {
        if let Some(endpoint) = self.variable("HF_ENDPOINT").map(str::to_owned) {
            self.urls(&[endpoint], "HF_ENDPOINT");
        } else if let Some(answer) = ask(self.machine, "python3", &["-E", "-c", HUB_DEFAULT]) {
            self.urls(&[answer], "huggingface_hub's default");
        }
    }
}
