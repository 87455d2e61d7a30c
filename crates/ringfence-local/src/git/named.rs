//! What git's configs name.

use std::path::{Path, PathBuf};

use ringfence_git::config;
use ringfence_model::policy::Filesystem;
use ringfence_model::{PathRule, RuleLayer, RuleSource};

use crate::scan::Found;

/// Protects what the host's git configs name: hooks, includes and programs that lie where the sandbox can write.
pub(crate) fn protect_named(fs: &mut Filesystem, found: &Found, home: &Path) {
    let writable: Vec<PathBuf> =
        fs.allow_write.iter().filter_map(|rule| rule.path.as_literal()).map(Path::to_owned).collect();
    let is_config = |path: &&PathBuf| path.file_name().is_some_and(|name| name == "config");
    let own = found.protected.iter().filter(is_config).cloned();
    let bare = found.git_directories.iter().map(|directory| directory.join("config"));
    let mut files: Vec<(PathBuf, Vec<PathBuf>)> =
        own.chain(bare).map(|config| (config.clone(), files_of(&config))).collect();
    // Those of the person hold in every repository.
    let trees: Vec<PathBuf> =
        files.iter().flat_map(|(_, files)| files.clone()).chain(writable.iter().cloned()).collect();
    for global in [home.join(".gitconfig"), home.join(".config/git/config"), PathBuf::from("/etc/gitconfig")]
    {
        files.push((global, trees.clone()));
    }
    for (config, trees) in files {
        let Ok(text) = std::fs::read_to_string(&config) else { continue };
        for named in config::named_files(&text) {
            let bases: Vec<&Path> = match named.from {
                config::From::Config => config.parent().into_iter().collect(),
                config::From::Files => trees.iter().map(PathBuf::as_path).collect(),
            };
            let written = match named.path.strip_prefix("~/") {
                Some(below) => home.join(below),
                None => PathBuf::from(&named.path),
            };
            for path in bases.iter().map(|base| without_dots(&base.join(&written))) {
                let is_there = !named.must_exist || path.exists();
                // A whole tree is nobody's hook.
                let is_inside = writable.iter().any(|tree| path.starts_with(tree) && path != *tree);
                if is_there && is_inside {
                    let source = RuleSource::layer(RuleLayer::Detected)
                        .with_key(format!("named by git's {}", named.key));
                    fs.protect.push(PathRule::new(path, source));
                }
            }
        }
    }
}

/// The directory of the files that a repository's config is about.
fn files_of(config: &Path) -> Vec<PathBuf> {
    let Some(directory) = config.parent() else { return vec![] };
    let is_dot_git = directory.file_name().is_some_and(|name| name == ".git");
    let files = if is_dot_git { directory.parent() } else { Some(directory) };
    files.map(Path::to_owned).into_iter().collect()
}

fn without_dots(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut path, part| {
        match part {
            std::path::Component::ParentDir => drop(path.pop()),
            std::path::Component::CurDir => {}
            part => path.push(part),
        }
        path
    })
}
