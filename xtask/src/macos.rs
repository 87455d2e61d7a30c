//! Type-checks and lints for macOS from any machine.
//!
//! Crates of pure Rust need nothing but the standard library of that target. Crates that compile C need
//! a compiler for it: zig, which PyPI has as a package, with cargo-zigbuild in front.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::packages;
use crate::report::Done;
use crate::{shell, workspace};

/// One is enough: no crate that macOS uses has code for one kind of processor.
const TARGETS: [&str; 1] = ["aarch64-apple-darwin"];

/// Crates that macOS does not use, and why.
const LINUX_ONLY: &[(&str, &str)] = &[("ringfence-linux", "is the interface to the Linux kernel")];

const ZIG_PACKAGES: &[&str] = &["ziglang==0.17.0", "cargo-zigbuild==0.24.0"];

/// The crates of the workspace that macOS uses, by what checking them takes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Plan {
    pure: BTreeSet<String>,
    /// The crate, and the packages with C code that it builds.
    with_c: BTreeMap<String, BTreeSet<String>>,
}

pub(crate) fn check() -> Result<Done> {
    if !packages::on_path("rustup") {
        return Ok(Done::skipped("rustup is not here, so the standard library for macOS cannot be added"));
    }
    let installed = shell::output(shell::program("rustup").args(["target", "list", "--installed"]))?;
    for target in TARGETS.iter().filter(|target| !installed.lines().any(|line| line == **target)) {
        shell::run(shell::program("rustup").args(["target", "add", target]))?;
    }
    let mut metadata = shell::cargo();
    metadata.args(["metadata", "--format-version=1"]);
    for target in TARGETS {
        metadata.args(["--filter-platform", target]);
    }
    let metadata = shell::output(&mut metadata)?;
    let plan = plan(&serde_json::from_str(&metadata).context("reading cargo metadata")?)?;
    for (name, why) in LINUX_ONLY {
        println!("not for macOS: {name} {why}");
    }
    clippy(&mut shell::cargo(), plan.pure.iter())?;
    if plan.with_c.is_empty() {
        return Ok(Done::passed());
    }
    for (name, packages) in &plan.with_c {
        let packages: Vec<&str> = packages.iter().map(String::as_str).collect();
        println!("needs a C compiler for macOS: {name} ({})", packages.join(", "));
    }
    match zigbuild() {
        Ok(mut command) => {
            clippy(&mut command, plan.with_c.keys())?;
            Ok(Done::passed())
        }
        Err(error) => {
            let names: Vec<&str> = plan.with_c.keys().map(String::as_str).collect();
            Ok(Done::skipped(format!(
                "checked all but {}: no C compiler for macOS ({error:#})",
                names.join(", ")
            )))
        }
    }
}

fn clippy<'a>(cargo: &mut Command, crates: impl Iterator<Item = &'a String>) -> Result<()> {
    cargo.arg("clippy");
    for target in TARGETS {
        cargo.args(["--target", target]);
    }
    for name in crates {
        cargo.args(["-p", name]);
    }
    shell::run(cargo.args(["--", "-D", "warnings"]))
}

/// cargo-zigbuild, installed into the target directory when it is not there.
fn zigbuild() -> Result<Command> {
    let tools = workspace::target_directory()?.join("xtask").join("zig");
    let program = tools.join("bin").join("cargo-zigbuild");
    let stamp = tools.join("installed");
    let wanted = ZIG_PACKAGES.join("\n");
    if std::fs::read_to_string(&stamp).ok().as_deref() != Some(wanted.as_str()) {
        shell::run(shell::program("python3").args(["-m", "venv", "--clear"]).arg(&tools))?;
        shell::run(
            shell::program(tools.join("bin").join("pip")).args(["install", "--quiet"]).args(ZIG_PACKAGES),
        )?;
        std::fs::write(&stamp, &wanted).context("writing the stamp of the zig tools")?;
    }
    let mut command = shell::program(program);
    // The packages bring `python-zig`; cargo-zigbuild finds it through the python of the same directory.
    let mut path = tools.join("bin").into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    command.env("PATH", path);
    Ok(command)
}

/// Sorts the members of the workspace by whether a package with a `links` key, which is one that brings
/// C code, is among what they build.
fn plan(metadata: &Value) -> Result<Plan> {
    let mut names = BTreeMap::new();
    let mut brings_c = BTreeSet::new();
    for package in array(&metadata["packages"])? {
        let id = text(&package["id"])?;
        names.insert(id, text(&package["name"])?);
        if package["links"].is_string() && has_build_script(package) && depends_on_cc(package) {
            brings_c.insert(id);
        }
    }
    let mut edges: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for node in array(&metadata["resolve"]["nodes"])? {
        let mut targets = Vec::new();
        for dependency in array(&node["deps"])? {
            let dev_only = array(&dependency["dep_kinds"])?.iter().all(|kind| kind["kind"] == "dev");
            if !dev_only {
                targets.push(text(&dependency["pkg"])?);
            }
        }
        edges.insert(text(&node["id"])?, targets);
    }
    let mut plan = Plan::default();
    for member in array(&metadata["workspace_members"])? {
        let id = text(member)?;
        let name = *names.get(id).context("a member of the workspace is not among the packages")?;
        if LINUX_ONLY.iter().any(|(only, _)| *only == name) {
            continue;
        }
        let c: BTreeSet<String> = reachable(id, &edges)
            .into_iter()
            .filter(|id| brings_c.contains(id))
            .filter_map(|id| names.get(id).map(|name| (*name).to_owned()))
            .collect();
        if c.is_empty() {
            plan.pure.insert(name.to_owned());
        } else {
            plan.with_c.insert(name.to_owned(), c);
        }
    }
    Ok(plan)
}

fn has_build_script(package: &Value) -> bool {
    package["targets"].as_array().is_some_and(|targets| {
        targets
            .iter()
            .any(|target| target["kind"].as_array().is_some_and(|k| k.contains(&"custom-build".into())))
    })
}

fn depends_on_cc(package: &Value) -> bool {
    package["dependencies"].as_array().is_some_and(|dependencies| {
        dependencies.iter().any(|d| d["kind"] == "build" && (d["name"] == "cc" || d["name"] == "cmake"))
    })
}

fn reachable<'a>(from: &'a str, edges: &BTreeMap<&'a str, Vec<&'a str>>) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::from([from]);
    let mut open = vec![from];
    while let Some(id) = open.pop() {
        for next in edges.get(id).into_iter().flatten() {
            if seen.insert(next) {
                open.push(next);
            }
        }
    }
    seen
}

fn text(value: &Value) -> Result<&str> {
    value.as_str().with_context(|| format!("cargo metadata: expected a string, found {value}"))
}

fn array(value: &Value) -> Result<&Vec<Value>> {
    value.as_array().context("cargo metadata: expected a list")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn package(name: &str, links: bool) -> Value {
        json!({
            "id": name,
            "name": name,
            "links": if links { json!(name) } else { Value::Null },
            "targets": [{ "kind": if links { json!(["custom-build"]) } else { json!(["lib"]) } }],
            "dependencies": if links { json!([{ "name": "cc", "kind": "build" }]) } else { json!([]) },
        })
    }

    fn node(id: &str, deps: &[(&str, Option<&str>)]) -> Value {
        let deps: Vec<Value> =
            deps.iter().map(|(id, kind)| json!({ "pkg": id, "dep_kinds": [{ "kind": kind }] })).collect();
        json!({ "id": id, "deps": deps })
    }

    #[test]
    fn a_crate_needs_c_when_something_it_builds_does() {
        let metadata = json!({
            "packages": [
                package("model", false), package("ledger", false), package("cli", false),
                package("ringfence-linux", false), package("sqlite-sys", true), package("rusqlite", false),
            ],
            "workspace_members": ["model", "ledger", "cli", "ringfence-linux"],
            "resolve": { "nodes": [
                node("model", &[("rusqlite", Some("dev"))]),
                node("ledger", &[("rusqlite", None)]),
                node("rusqlite", &[("sqlite-sys", None)]),
                node("cli", &[("ledger", None), ("model", None)]),
            ] },
        });
        let plan = plan(&metadata).unwrap();
        assert_eq!(plan.pure, BTreeSet::from(["model".to_owned()]));
        let c = BTreeSet::from(["sqlite-sys".to_owned()]);
        assert_eq!(plan.with_c, BTreeMap::from([("cli".to_owned(), c.clone()), ("ledger".to_owned(), c)]));
    }
}
