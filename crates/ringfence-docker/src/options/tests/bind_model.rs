//! The rules of binds against a slow and obvious model: what would really be seen.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use ringfence_model::config::WorkspaceAccess;
use serde_json::json;

use super::super::binds::{BindRules, check_target};
use super::super::forbidden::{Forbidden, ForbiddenPlaces};
use super::super::refusal::Findings;
use super::super::{ContainerRequest, Surroundings, build};
use super::section;

const DIRECTORIES: &[&str] = &["w", "w/a", "w/a/b", "w/c", "s", "s/k", "s/k/d", "o"];

/// Everything that a mount of `directory` shows: the real tree below it. Links in it lead to the container's files.
fn shown(directory: &Path) -> BTreeSet<PathBuf> {
    let mut seen = BTreeSet::from([directory.to_owned()]);
    let Ok(entries) = std::fs::read_dir(directory) else { return seen };
    for entry in entries.map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            seen.extend(shown(&entry.path()));
        } else if !entry.file_type().unwrap().is_symlink() {
            seen.insert(entry.path());
        }
    }
    seen
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// A bind is accepted exactly when it is really inside of a root and shows nothing of what is forbidden.
    #[test]
    fn a_bind_shows_nothing_that_is_forbidden(
        links in prop::collection::vec(0..DIRECTORIES.len(), 0..4),
        forbidden in prop::collection::vec(0..DIRECTORIES.len(), 0..3),
        source in prop_oneof![
            (0..DIRECTORIES.len()).prop_map(|at| DIRECTORIES[at].to_owned()),
            (0..4usize, prop::option::of(0..3usize)).prop_map(|(link, below)| {
                let below = below.map(|at| ["/a", "/k", "/b"][at]).unwrap_or_default();
                format!("w/link{link}{below}")
            }),
        ],
        external in any::<bool>(),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for name in DIRECTORIES {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        std::fs::create_dir(root.join("workspace")).unwrap();
        for (at, to) in links.iter().enumerate() {
            symlink(root.join(DIRECTORIES[*to]), root.join(format!("w/link{at}"))).unwrap();
        }
        // Forbidden places are named through a link, too.
        symlink(root.join("s"), root.join("alias")).unwrap();
        let forbidden: Vec<PathBuf> = forbidden
            .iter()
            .map(|at| DIRECTORIES[*at])
            .map(|name| name.strip_prefix("s/").map_or(root.join(name), |rest| root.join("alias").join(rest)))
            .collect();

        let text = format!("{}:/data", root.join(&source).display());
        let docker = section(json!({ "binds": [text], "dangerouslyAllowExternalBindSources": external }));
        let workspace = root.join("workspace");
        let request = ContainerRequest {
            access: WorkspaceAccess::None,
            surroundings: Surroundings {
                home: None,
                bind_roots: vec![root.join("w")],
                forbidden: forbidden.iter().map(|path| Forbidden::new(path, "a secret")).collect(),
            },
            ..ContainerRequest::new(&docker, "k", &workspace)
        };
        let accepted = build(&request);

        let real = root.join(&source).canonicalize().ok();
        let secret: BTreeSet<PathBuf> =
            forbidden.iter().flat_map(|path| shown(&path.canonicalize().unwrap())).collect();
        let shows_secret = real.iter().any(|real| !shown(real).is_disjoint(&secret));
        let inside = real.iter().any(|real| real.starts_with(root.join("w")));
        // A name inside of a forbidden place is refused although it may lead elsewhere.
        let named_there = forbidden.iter().any(|path| root.join(&source).starts_with(path) || path.starts_with(root.join(&source)));
        let expected = real.is_some() && !shows_secret && (inside || external) && !named_there;
        prop_assert_eq!(accepted.is_ok(), expected, "{:?}", accepted);
        if let Ok(spec) = accepted {
            prop_assert_eq!(Some(&spec.mounts[1].source), real.as_ref(), "mounted is what was judged");
        }
    }

    /// A target is accepted exactly when no component-wise prefix relation to a reserved or system place holds.
    #[test]
    fn a_target_touches_no_reserved_place(
        parts in prop::collection::vec(prop_oneof![
            Just("workspace"), Just("agent"), Just("work"), Just("a"), Just("."), Just(""), Just(".."), Just("proc"),
            Just("workspacex"), Just("sys"), Just("dev"),
        ], 0..5),
        absolute in any::<bool>(),
    ) {
        let text = format!("{}{}", if absolute { "/" } else { "" }, parts.join("/"));
        let nothing = ForbiddenPlaces::new(None, &[]);
        let rules = BindRules {
            forbidden: &nothing,
            roots: vec![],
            reserved: vec![PathBuf::from("/work/a"), PathBuf::from("/agent")],
            allow_external: false,
            allow_reserved: false,
        };
        let mut findings = Findings::default();
        let accepted = check_target("binds", &text, &text, &rules, &mut findings);

        let names: Vec<&str> = text.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        let touches = |place: &[&str]| names.iter().zip(place).all(|(one, other)| one == other);
        let inside = |place: &str| names.first() == Some(&place);
        let expected = text.starts_with('/')
            && !names.contains(&"..")
            && !touches(&["work", "a"])
            && !touches(&["agent"])
            && !["proc", "sys", "dev"].into_iter().any(inside);
        prop_assert_eq!(accepted.is_some(), expected, "{}", text);
        prop_assert_eq!(accepted.is_some(), findings.refusals.is_empty());
        if let Some(path) = accepted {
            prop_assert_eq!(path, Path::new("/").join(names.join("/")));
        }
    }
}
