//! A file of tests that nobody lists never runs; each must be a module of a test binary, and each binary a target.

use std::collections::BTreeMap;

use super::{File, Problem, source};

/// Looks at every Rust file below `crates/*/tests`.
pub(crate) fn check(manifests: &[File], sources: &[File], problems: &mut Vec<Problem>) {
    let code: BTreeMap<&str, String> = sources
        .iter()
        .filter(|file| tests_of(&file.path).is_some())
        .map(|file| (file.path.as_str(), source::code_only(&file.text)))
        .collect();
    for path in code.keys() {
        let Some((package, below)) = tests_of(path) else { continue };
        let text = if is_root(below) {
            let manifest = manifests.iter().find(|file| file.path == format!("{package}/Cargo.toml"));
            is_target(manifest, below).err()
        } else {
            listed(path, &code).err()
        };
        if let Some(text) = text {
            problems.push(Problem { file: (*path).to_owned(), line: 1, text });
        }
    }
}

/// The package's directory, and the path below its `tests`.
fn tests_of(path: &str) -> Option<(&str, &str)> {
    let name = path.strip_prefix("crates/")?.split('/').next()?;
    let package = &path[..("crates/".len() + name.len())];
    Some((package, path.strip_prefix(package)?.strip_prefix("/tests/")?))
}

/// Whether cargo takes it for a test binary of its own.
fn is_root(below: &str) -> bool {
    !below.contains('/') || below.split_once('/').is_some_and(|(_, rest)| rest == "main.rs")
}

fn is_target(manifest: Option<&File>, below: &str) -> Result<(), String> {
    let text = manifest.map(|file| file.text.as_str()).unwrap_or_default();
    let by_itself = !text.lines().any(|line| line.replace(' ', "") == "autotests=false");
    if by_itself || text.contains(&format!("\"tests/{below}\"")) {
        return Ok(());
    }
    Err("no [[test]] of Cargo.toml has this path, and autotests is off: it never runs".to_owned())
}

fn listed(path: &str, code: &BTreeMap<&str, String>) -> Result<(), String> {
    let (directory, file) = path.rsplit_once('/').unwrap_or(("", path));
    let (directory, module) = match file.strip_suffix(".rs").unwrap_or(file) {
        "mod" => directory.rsplit_once('/').unwrap_or(("", directory)),
        module => (directory, module),
    };
    let declaration = format!("mod {module};");
    let (above, name) = directory.rsplit_once('/').unwrap_or(("", directory));
    let parents = [
        format!("{directory}/main.rs"),
        format!("{directory}/mod.rs"),
        format!("{directory}.rs"),
        format!("{above}/all.rs"),
    ];
    let lists = parents.iter().filter_map(|parent| Some((parent, code.get(parent.as_str())?)));
    for (parent, code) in lists {
        let inside = if parent.ends_with("/all.rs") { block(code, name) } else { Some(code.as_str()) };
        if inside.is_some_and(|code| source::has_word(code, &declaration)) {
            return Ok(());
        }
    }
    Err(format!("no test binary has `{declaration}` for it: it never runs"))
}

/// What is between the braces of `mod NAME { … }`, which holds no braces of its own.
fn block<'t>(code: &'t str, name: &str) -> Option<&'t str> {
    let start = code.find(&format!("mod {name} {{"))?;
    let rest = &code[start..];
    Some(&rest[..rest.find('}')?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_file_must_be_a_module_of_a_binary_that_cargo_builds() {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let manifests = [
            file("crates/a/Cargo.toml", ""),
            file("crates/b/Cargo.toml", "autotests = false\n[[test]]\npath = \"tests/all/main.rs\"\n"),
        ];
        let sources = [
            file("crates/a/src/unlisted.rs", ""),
            file(
                "crates/a/tests/all.rs",
                "mod suite {\n    mod one;\n    #[cfg(x)]\n    pub(crate) mod two;\n    // mod three;\n}\nmod four;\n",
            ),
            file("crates/a/tests/suite/one.rs", ""),
            file("crates/a/tests/suite/two.rs", "mod deep;"),
            file("crates/a/tests/suite/two/deep.rs", ""),
            file("crates/a/tests/suite/three.rs", ""),
            file("crates/a/tests/suite/four.rs", ""),
            file("crates/b/tests/all/main.rs", "mod here;\nmod folder;\n"),
            file("crates/b/tests/all/here.rs", ""),
            file("crates/b/tests/all/gone.rs", ""),
            file("crates/b/tests/all/folder/mod.rs", "mod inner;"),
            file("crates/b/tests/all/folder/inner.rs", ""),
            file("crates/b/tests/all/folder/other.rs", ""),
            file("crates/b/tests/alone.rs", ""),
        ];
        let mut problems = Vec::new();
        check(&manifests, &sources, &mut problems);
        let files: Vec<&str> = problems.iter().map(|problem| problem.file.as_str()).collect();
        assert_eq!(
            files,
            [
                "crates/a/tests/suite/four.rs",
                "crates/a/tests/suite/three.rs",
                "crates/b/tests/all/folder/other.rs",
                "crates/b/tests/all/gone.rs",
                "crates/b/tests/alone.rs",
            ]
        );
    }
}
