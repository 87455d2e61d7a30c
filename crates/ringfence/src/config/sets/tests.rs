//! Sets on machines that are made up.

use std::os::unix::fs::PermissionsExt as _;

use super::*;

struct Made {
    directory: tempfile::TempDir,
    env: EnvMap,
}

impl Made {
    fn new(files: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let made = Self { directory, env: EnvMap::new() };
        for below in ["home", "etc", "project", "bin"] {
            std::fs::create_dir(made.at(below)).unwrap();
        }
        for (path, text) in files {
            let path = made.at(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            if path.starts_with(made.at("bin")) || path.starts_with(made.at("project")) {
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            }
        }
        made
    }

    fn env(mut self, name: &str, value: &str) -> Self {
        let value = value.replace("ROOT", self.directory.path().to_str().unwrap());
        self.env.insert(name.into(), value.into());
        self
    }

    fn at(&self, below: &str) -> PathBuf {
        self.directory.path().join(below)
    }

    fn find(&self, set: &'static str) -> Vec<String> {
        let (home, project) = (self.at("home"), self.at("project"));
        let machine = Machine { etc: self.at("etc"), ..Machine::new(&home, &project, &self.env) };
        find(set, &machine).iter().map(|found| format!("{} {}", found.host, found.from)).collect()
    }
}

#[test]
fn registries_of_npm_are_those_of_the_user_and_never_of_the_project() {
    let made = Made::new(&[
        (
            "home/.npmrc",
            "; mine\nregistry = \"https://me:secret@npm.example:8443/x/\"\n@s:registry=http://s.example/\n\
                         //npm.example/:_authToken=abc\nother=https://other.example\n",
        ),
        ("project/.npmrc", "registry=https://evil.example/\n"),
    ]);
    assert_eq!(made.find("npm"), ["npm.example:8443 ~/.npmrc", "s.example:80 ~/.npmrc"]);
    let made = Made::new(&[("project/.npmrc", "registry=https://evil.example/\n")]);
    assert_eq!(made.find("npm"), Vec::<String>::new());
}

#[test]
fn a_tool_is_asked_for_its_default_and_none_of_the_project_is() {
    let tool = "#!/bin/sh\necho https://default.example/; pwd >&2\n";
    let made = Made::new(&[("bin/npm", tool)]).env("PATH", "ROOT/bin");
    assert_eq!(made.find("npm"), ["default.example:443 npm config get registry"]);
    let made = Made::new(&[("project/bin/npm", tool)]).env("PATH", "ROOT/project/bin:bin");
    assert_eq!(made.find("npm"), Vec::<String>::new());
    let variables = Made::new(&[("bin/npm", "#!/bin/sh\necho https://a$NODE_OPTIONS.example/$PWD\n")])
        .env("PATH", "ROOT/bin")
        .env("NODE_OPTIONS", "b");
    assert_eq!(variables.find("npm"), ["a.example:443 npm config get registry"]);
    let fails =
        Made::new(&[("bin/npm", "#!/bin/sh\necho https://a.example/; exit 1\n")]).env("PATH", "ROOT/bin");
    assert_eq!(fails.find("npm"), Vec::<String>::new());
}

#[test]
fn indexes_of_pip_bring_the_host_of_their_files() {
    let python = "#!/bin/sh\necho https://index.example/\necho https://files.example\n";
    let made = Made::new(&[("bin/python3", python)]).env("PATH", "ROOT/bin");
    assert_eq!(made.find("pypi"), ["index.example:443 pip's default", "files.example:443 pip's default"]);
    let own = "[global]\nindex-url = https://own.example/simple\nextra-index-url =\n    https://x.example/\n";
    let made =
        Made::new(&[("bin/python3", python), ("home/.config/pip/pip.conf", own)]).env("PATH", "ROOT/bin");
    assert_eq!(
        made.find("pypi"),
        ["own.example:443 ~/.config/pip/pip.conf", "x.example:443 ~/.config/pip/pip.conf"]
    );
    let made = Made::new(&[("bin/python3", python)])
        .env("PATH", "ROOT/bin")
        .env("PIP_INDEX_URL", "https://index.example/simple");
    assert_eq!(made.find("pypi"), ["index.example:443 PIP_INDEX_URL", "files.example:443 pip's default"]);
}

#[test]
fn registries_of_cargo_are_those_it_has_used_unless_they_are_replaced() {
    let index = "home/.cargo/registry/index/index.example-0123456789abcdef/config.json";
    let used = (index, r#"{ "dl": "https://files.example/crates", "api": "https://api.example" }"#);
    let made = Made::new(&[used, ("home/.cargo/registry/index/notes/x", "")]);
    let from = "~/.cargo/registry/index/index.example-0123456789abcdef";
    assert_eq!(
        made.find("crates"),
        [format!("index.example:443 {from}"), format!("files.example:443 {from}/config.json")]
    );
    let replaced = "[source.crates-io]\nreplace-with = \"mirror\"\n[source.mirror]\nregistry = \"sparse+https://m.example/i/\"\n";
    let made = Made::new(&[used, ("home/.cargo/config.toml", replaced)]);
    assert_eq!(made.find("crates"), ["m.example:443 ~/.cargo/config.toml"]);
}

#[test]
fn sources_of_apt_are_read_in_both_forms() {
    let lines = "# deb http://no.example x\ndeb [arch=amd64 signed-by=/k] https://a.example/debian stable main\n\
                 deb-src http://b.example/ x\ndeb cdrom:[x]/ y\ndebug http://no.example\n";
    let paragraphs = "Types: deb\nURIs: http://c.example/debian\n https://d.example\nSuites: x\n\n\
                      Types: deb\nEnabled: no\nURIs: http://no.example\n";
    let made = Made::new(&[
        ("etc/apt/sources.list", lines),
        ("etc/apt/sources.list.d/x.sources", paragraphs),
        ("etc/apt/sources.list.d/x.save", lines),
    ]);
    let hosts: Vec<String> =
        made.find("debian").iter().map(|found| found.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(hosts, ["a.example:443", "b.example:80", "c.example:80", "d.example:443"]);
}

#[test]
fn go_maven_gem_and_the_hub_are_found_where_they_keep_it() {
    let made = Made::new(&[
        ("home/.config/go/env", "GOPROXY=https://p.example,direct\nGOSUMDB=sum.example+abc\n"),
        ("home/.m2/settings.xml", "<!-- <url>https://no.example</url> --><url> https://m.example/x </url>"),
        ("home/.gemrc", "---\n:sources:\n- https://g.example/\n:verbose: true\n"),
    ])
    .env("HF_ENDPOINT", "https://h.example");
    assert_eq!(made.find("go"), ["p.example:443 ~/.config/go/env", "sum.example:443 ~/.config/go/env"]);
    assert_eq!(made.find("maven"), ["m.example:443 ~/.m2/settings.xml"]);
    assert_eq!(made.find("rubygems"), ["g.example:443 ~/.gemrc"]);
    assert_eq!(made.find("huggingface"), ["h.example:443 HF_ENDPOINT"]);
}

#[test]
fn forges_bring_servers_of_ones_own() {
    let made = Made::new(&[
        ("home/.config/gh/hosts.yml", "github.com:\n    user: me\ngithub.own.example:\n    oauth_token: x\n"),
        (
            "home/.config/glab-cli/config.yml",
            "git_protocol: ssh\nhosts:\n    gl.own.example:\n        token: x\n",
        ),
        (
            "home/.gitconfig",
            "[user]\n\tname = x\n[credential \"https://gitlab.other.example\"]\n\thelper = x\n",
        ),
    ]);
    let github = made.find("github");
    assert!(github.contains(&"github.own.example:443 ~/.config/gh/hosts.yml".to_owned()), "{github:?}");
    let gitlab = made.find("gitlab");
    assert!(gitlab.contains(&"gl.own.example:443 ~/.config/glab-cli/config.yml".to_owned()), "{gitlab:?}");
    assert!(gitlab.contains(&"gitlab.other.example:443 ~/.gitconfig".to_owned()), "{gitlab:?}");
}
