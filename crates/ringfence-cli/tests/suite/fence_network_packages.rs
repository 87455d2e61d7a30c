//! Package managers by their sets: real installs from the registries that this machine is configured for.

use crate::suite::fence_network_tools_support::{TRUST, tools};
use crate::suite::fence_support::{Launcher, has};
use crate::suite::support::Room;

fn packages(set: &str, command: &str, made: &str) {
    packages_with(|_| (), set, command, made);
}

fn packages_with(prepare: impl Fn(&mut Room), set: &str, command: &str, made: &str) {
    for launcher in [Launcher::Native, Launcher::Bwrap] {
        let mut room = Room::on(launcher);
        room.env
            .extend(TRUST.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?))));
        prepare(&mut room);
        let bare = {
            let program = room.command(&[]);
            let mut shell = std::process::Command::new("sh");
            shell.args(["-c", command]).current_dir(&room.home).env_clear();
            shell.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
            shell.output().unwrap()
        };
        if !bare.status.success() {
            let said = String::from_utf8_lossy(&bare.stderr);
            ringfence_testing::lacks("registries", &format!("{command}: {said}"));
            return;
        }
        let refused = room.fenced(command);
        assert!(refused.code != 0 && !room.project.join(made).exists(), "{refused:?}");
        let ran = room.fenced_with(&["--allow-host", set], command);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(room.project.join(made).exists(), "{ran:?}");
        let connections = ran.json["connections"].as_array().unwrap();
        let is_usual = |one: &serde_json::Value| one["port"] == 443 || one["port"] == 80;
        assert!(connections.iter().all(is_usual), "{connections:?}");
        // Some are opened in case they are needed.
        assert!(connections.iter().any(|one| one["bytesIn"].as_u64() > Some(0)), "{connections:?}");
    }
}

#[test]
fn npm_installs_by_its_set() {
    packages(
        "npm",
        "npm install --no-audit --no-fund --no-update-notifier is-number@7.0.0",
        "node_modules/is-number/package.json",
    );
}

#[test]
fn pip_downloads_by_its_set() {
    packages(
        "pypi",
        "python3 -m pip download --disable-pip-version-check --no-cache-dir --no-deps -d got six==1.16.0",
        "got/six-1.16.0-py2.py3-none-any.whl",
    );
}

/// What `npm` is configured for holds for those that do not read all of its files.
const AS_NPM: &str = "export npm_config_registry=$(npm config get registry) YARN_REGISTRY=$(npm config get registry)
[ ! -e /etc/ssl/certs/ca-certificates.crt ] || export NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt\n";

fn with_tools(set: &str, command: &str, made: &str) {
    let Some(tools) = tools() else { return };
    packages_with(|room| tools.add_to(room), set, command, made);
}

#[test]
fn pnpm_installs_by_the_set_of_npm() {
    let add = "echo '{}' > package.json; pnpm add --fetch-retries 0 --store-dir store is-number@7.0.0";
    with_tools("npm", &format!("{AS_NPM}{add}"), "node_modules/is-number/package.json");
}

#[test]
fn yarn_installs_by_the_set_of_npm() {
    let add = "echo '{}' > package.json; timeout 100 yarn add --silent --no-lockfile --cache-folder cache is-number@7.0.0";
    with_tools("npm", &format!("{AS_NPM}{add}"), "node_modules/is-number/package.json");
}

#[test]
fn uv_installs_by_the_set_of_pip() {
    let index = "index=$(/usr/bin/python3 -m pip config get global.index-url 2>/dev/null)\n";
    let install = "uv pip install --native-tls --no-cache --python /usr/bin/python3 --target got ${index:+--index-url $index} six==1.16.0";
    with_tools("pypi", &format!("{index}{install}"), "got/six.py");
}

#[test]
fn apt_downloads_by_its_set() {
    // With lists of its own, as somebody who may not write those of the system.
    let own = "mkdir -p lists/partial cache/archives/partial; touch status
        options=\"-o Dir::State::Lists=$PWD/lists -o Dir::State::Status=$PWD/status -o Dir::Cache=$PWD/cache\"
        options=\"$options -o Debug::NoLocking=1 -o APT::Sandbox::User= -o Acquire::Retries=0\"\n";
    packages(
        "debian",
        &format!(
            "{own}apt-get $options -qq update && apt-get $options -qq download hostname && mv hostname_*.deb got.deb"
        ),
        "got.deb",
    );
}

#[test]
fn cargo_fetches_by_its_set() {
    if !has("cargo", &["--version"]) {
        return;
    }
    let package = "mkdir -p src && touch src/lib.rs
        printf '[package]\\nname = \"x\"\\nversion = \"0.1.0\"\\nedition = \"2021\"\\n[dependencies]\\nitoa = \"=1.0.11\"\\n' > Cargo.toml\n";
    let fetch = format!(
        "{package}export CARGO_HOME=$PWD/own; cargo fetch && ls own/registry/cache/*/itoa-1.0.11.crate && touch fetched"
    );
    // The tool chain and what this machine's cargo has used are the person's own.
    let own = |name: &str, below: &str| {
        let home = std::env::var("HOME").unwrap_or_default();
        std::env::var(name).unwrap_or_else(|_| format!("{home}/{below}"))
    };
    let variables = [("RUSTUP_HOME", ".rustup"), ("CARGO_HOME", ".cargo")]
        .map(|(name, below)| (name.to_owned(), own(name, below)));
    // The set is what cargo has used, so it has to have been used.
    let place = tempfile::tempdir().unwrap();
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &format!("{package}cargo fetch")]).current_dir(&place).envs(variables.clone());
    let used = shell.output().unwrap();
    if !used.status.success() {
        ringfence_testing::lacks("registries", &String::from_utf8_lossy(&used.stderr));
        return;
    }
    packages_with(|room| room.env.extend(variables.clone()), "crates", &fetch, "fetched");
}
