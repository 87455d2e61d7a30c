//! For generated policies and paths, profile and policy give the same verdict.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use ringfence_model::{Access, Filesystem, Grant, GrantScope, PathOutcome, PathPattern, PathRule, Policy};
use ringfence_seatbelt::{Case, MacEnv, Mode, effective, render};

use crate::sbpl::Profile;

/// Words that paths and patterns are made of, few enough that they meet.
const NAMES: &[&str] = &[
    "a",
    "b",
    "ab",
    ".env",
    ".git",
    "hooks",
    "a b",
    "q\"q",
    "back\\slash",
    "par(en",
    "x$y",
    "[br]",
    "c+d",
    "é",
    "-",
    "tmp",
    "etc",
    "private",
];

fn component() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => proptest::sample::select(NAMES).prop_map(escape),
        1 => Just("*".to_owned()),
        2 => Just("**".to_owned()),
        1 => Just("a*".to_owned()),
        1 => Just("?".to_owned()),
        1 => Just("?b".to_owned()),
        1 => Just("[ab]*".to_owned()),
        1 => Just("[!a]*".to_owned()),
        1 => Just("*[!]a-]*".to_owned()),
        1 => Just("[a-c+]?[d-x\"]".to_owned()),
        1 => Just(".e*v".to_owned()),
    ]
}

fn escape(name: &str) -> String {
    PathPattern::literal(Path::new(name)).to_syntax().into_owned()
}

fn pattern() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => proptest::collection::vec(component(), 1..5).prop_map(|parts| format!("/{}", parts.join("/"))),
        2 => proptest::collection::vec(component(), 1..3).prop_map(|parts| format!("**/{}", parts.join("/"))),
        1 => Just("/".to_owned()),
        1 => Just("$UNSET/a".to_owned()),
    ]
}

fn path() -> impl Strategy<Value = String> {
    let name = prop_oneof![5 => proptest::sample::select(NAMES), 1 => Just("unknown")];
    proptest::collection::vec(name, 0..6).prop_map(|parts| format!("/{}", parts.join("/")))
}

fn rules(most: usize) -> impl Strategy<Value = Vec<PathRule>> {
    proptest::collection::vec(pattern().prop_map(PathRule::built_in), 0..most)
}

fn grant() -> impl Strategy<Value = Grant> {
    let access = proptest::sample::select(&[Access::Read, Access::Execute, Access::Write][..]);
    let scope = proptest::sample::select(&[GrantScope::Once, GrantScope::Session, GrantScope::Permanent][..]);
    (path(), access, scope, any::<bool>()).prop_map(|(path, access, scope, recursive)| Grant {
        path: PathBuf::from(path),
        access,
        scope,
        recursive,
    })
}

fn policy() -> impl Strategy<Value = Policy> {
    (rules(5), rules(5), rules(4), rules(4), rules(4), proptest::collection::vec(grant(), 0..3)).prop_map(
        |(allow_write, allow_read, deny, protect, private, grants)| Policy {
            filesystem: Filesystem { allow_write, allow_read, deny, protect, private, grants },
            ..Policy::default()
        },
    )
}

fn mode() -> impl Strategy<Value = Mode> {
    proptest::sample::select(&[Mode::Strict, Mode::NoNetwork, Mode::ReadOnly][..])
}

fn operations(access: Access) -> &'static [&'static str] {
    match access {
        Access::Read => &["file-read-data", "file-read-xattr"],
        Access::Execute => &["process-exec", "file-map-executable"],
        Access::Write => &["file-write-data", "file-write-create", "file-write-mode"],
        Access::Connect => &[],
    }
}

/// What the profile must say: a private place is not the host's file, so its host path is refused.
fn verdict(filesystem: &Filesystem, path: &str, access: Access) -> bool {
    filesystem.decide(Path::new(path), access).outcome == PathOutcome::Allowed
}

fn agree(policy: &Policy, env: &MacEnv, paths: &[String]) -> Result<(), TestCaseError> {
    let profile = render(policy, env).map_err(|error| TestCaseError::fail(error.to_string()))?;
    let profile = Profile::parse(profile.text()).map_err(TestCaseError::fail)?;
    let filesystem = effective(policy, env);
    // The root directory itself is readable to every program, or none would start.
    for path in paths.iter().filter(|path| *path != "/") {
        for access in [Access::Read, Access::Execute, Access::Write] {
            let want = verdict(&filesystem, path, access);
            for operation in operations(access) {
                prop_assert_eq!(profile.allows_path(operation, path), want, "{} {}", operation, path);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(800))]

    #[test]
    fn profile_and_policy_give_the_same_verdict(
        policy in policy(),
        mode in mode(),
        paths in proptest::collection::vec(path(), 1..24),
    ) {
        let env = MacEnv::new("/Users/u", "/private/var/rf/own").with_mode(mode).with_case(Case::Exact);
        agree(&policy, &env, &paths)?;
    }

    /// The rules' own paths and their neighbours, which random paths seldom hit.
    #[test]
    fn verdicts_agree_at_and_around_each_rule(policy in policy(), mode in mode(), names in (0..NAMES.len(), 0..NAMES.len())) {
        let env = MacEnv::new("/Users/u", "/private/var/rf/own").with_mode(mode).with_case(Case::Exact);
        let filesystem = &policy.filesystem;
        let lists = [&filesystem.allow_write, &filesystem.allow_read, &filesystem.deny, &filesystem.protect, &filesystem.private];
        let mut paths = vec!["/private/var/rf/own/tmp/x".to_owned(), "/usr/lib/a".to_owned()];
        for rule in lists.into_iter().flatten() {
            let text = rule.path.to_string().replace("**", NAMES[names.0]).replace(['*', '?', '\\'], "");
            if let Some(path) = text.strip_prefix('/') {
                for root in ["", "/private"] {
                    paths.push(format!("{root}/{path}"));
                    paths.push(format!("{root}/{path}/{}", NAMES[names.1]));
                    paths.push(format!("{root}/{path}x"));
                }
            }
        }
        paths.retain(|path| path == "/" || path[1..].split('/').all(|part| !part.is_empty()));
        agree(&policy, &env, &paths)?;
    }

    /// On a volume that does not tell case apart, refusals hold for every spelling, and what is allowed
    /// is never more.
    #[test]
    fn folding_only_refuses_more(policy in policy(), path in path()) {
        let exact = MacEnv::new("/Users/u", "/private/var/rf/own").with_case(Case::Exact);
        let fold = exact.clone().with_case(Case::Fold);
        prop_assume!(path != "/");
        let profile = Profile::parse(render(&policy, &fold).unwrap().text()).unwrap();
        for access in [Access::Read, Access::Execute, Access::Write] {
            let allowed = profile.allows_path(operations(access)[0], &path);
            prop_assert!(!allowed || verdict(&effective(&policy, &fold), &path, access), "{} {}", access, path);
        }
        let ungranted = Policy {
            filesystem: Filesystem { grants: vec![], ..policy.filesystem.clone() },
            ..policy.clone()
        };
        let filesystem = effective(&ungranted, &fold);
        let shouted = path.to_ascii_uppercase();
        for access in [Access::Read, Access::Write] {
            let decision = filesystem.decide(Path::new(&path), access);
            let by_deny = matches!(decision.outcome, PathOutcome::Denied(reason) if reason <= ringfence_model::DenyReason::Protected);
            if by_deny && effective(&policy, &fold).grants.iter().all(|grant| !Path::new(&shouted).starts_with(&grant.path)) {
                prop_assert!(!profile.allows_path(operations(access)[0], &shouted), "{} {}", access, shouted);
            }
        }
    }

    /// Whoever cannot write a protected or denied path cannot move it away by a directory above it.
    #[test]
    fn an_ancestor_of_a_refused_path_stays(policy in policy(), path in path()) {
        let policy = Policy {
            filesystem: Filesystem { grants: vec![], ..policy.filesystem },
            ..policy
        };
        let env = MacEnv::new("/Users/u", "/private/var/rf/own").with_case(Case::Exact);
        let profile = Profile::parse(render(&policy, &env).unwrap().text()).unwrap();
        let filesystem = effective(&policy, &env);
        for rule in filesystem.deny.iter().chain(&filesystem.protect) {
            if rule.path.as_literal().is_some() && rule.path.matches_exactly(Path::new(&path)) {
                for above in Path::new(&path).ancestors().skip(1).filter(|above| above.parent().is_some()) {
                    prop_assert!(!profile.allows_path("file-write-unlink", above.to_str().unwrap()), "{:?}", above);
                }
            }
        }
    }
}
