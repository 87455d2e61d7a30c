//! Nothing that a path says becomes a rule.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use ringfence_model::{
    Access, ErrorKind, Grant, GrantScope, PathPattern, PathRule, Policy, RuleLayer, RuleSource,
};
use ringfence_seatbelt::{Case, MacEnv, render};

use crate::sbpl::{Node, Profile, read};

const ATTACKS: &[&str] = &[
    "/p\") (allow default) (deny file-read* (subpath \"/x",
    "/p\"))(allow file-write* (subpath \"/",
    "/p\\\") (allow network*) (\"",
    "/p\\",
    "/p;comment",
    "/p #| block |#",
    "/p (param \"HOME\")",
    "/p*\") (allow default) (\"",
    "/p[\"]*) (allow default)",
];

fn env() -> MacEnv {
    MacEnv::new("/Users/u", "/private/var/rf/own").with_case(Case::Exact)
}

fn policies(rule: &PathRule) -> Vec<Policy> {
    (0..5)
        .map(|place| {
            let mut policy = Policy::default();
            let filesystem = &mut policy.filesystem;
            let list = match place {
                0 => &mut filesystem.allow_read,
                1 => &mut filesystem.allow_write,
                2 => &mut filesystem.deny,
                3 => &mut filesystem.protect,
                _ => &mut filesystem.private,
            };
            list.push(rule.clone());
            policy
        })
        .collect()
}

/// A path of the same depth with nothing special in it.
fn harmless(attack: &str) -> String {
    attack.chars().map(|c| if c == '/' { '/' } else { 'h' }).collect()
}

/// The heads of all forms: what a profile consists of, without the texts.
fn shape(text: &str) -> Vec<Vec<String>> {
    read(text)
        .unwrap()
        .into_iter()
        .map(|node| match node {
            Node::List(parts) => parts
                .into_iter()
                .filter_map(|part| match part {
                    Node::Symbol(name) => Some(name),
                    _ => None,
                })
                .collect(),
            other => panic!("not a form: {other:?}"),
        })
        .collect()
}

#[test]
fn a_path_cannot_add_a_rule() {
    for attack in ATTACKS {
        for (attacked, harmless) in policies(&PathRule::built_in(Path::new(attack)))
            .iter()
            .zip(policies(&PathRule::built_in(Path::new(&harmless(attack)))))
        {
            let got = render(attacked, &env()).unwrap();
            let want = render(&harmless, &env()).unwrap();
            assert_eq!(shape(got.text()), shape(want.text()), "{attack:?}");
            let profile = Profile::parse(got.text()).unwrap();
            assert!(!profile.allows_path("file-read-data", "/somewhere/else"), "{attack:?}");
        }
    }
}

#[test]
fn a_glob_cannot_add_a_rule() {
    for attack in ATTACKS {
        for policy in policies(&PathRule::built_in(format!("{attack}*").as_str())) {
            match render(&policy, &env()) {
                Ok(profile) => {
                    let profile = Profile::parse(profile.text()).unwrap();
                    assert!(!profile.allows_path("file-read-data", "/somewhere/else"), "{attack:?}");
                }
                Err(error) => assert_eq!(error.kind, ErrorKind::Unsupported),
            }
        }
    }
}

#[test]
fn a_quoted_path_still_means_itself() {
    let path = "/p/say \"hi\" \\ (now)";
    let mut policy = Policy::default();
    policy.filesystem.allow_write.push(PathRule::built_in(Path::new(path)));
    let rendered = render(&policy, &env()).unwrap();
    assert!(rendered.text().contains(r#"(subpath "/p/say \"hi\" \\ (now)")"#), "{}", rendered.text());
    let profile = Profile::parse(rendered.text()).unwrap();
    assert!(profile.allows_path("file-write-data", &format!("{path}/x")));
    assert!(!profile.allows_path("file-write-data", "/p/say"));
}

#[test]
fn control_characters_and_bytes_that_are_no_text_are_refused_by_name() {
    for bytes in
        [&b"/p/a\nb"[..], b"/p/a\rb", b"/p/a\tb", b"/p/a\x1bb", b"/p/a\x7fb", b"/p/a\xffb", b"/p/\xc2\x85"]
    {
        let path = Path::new(OsStr::from_bytes(bytes));
        let source = RuleSource::layer(RuleLayer::User).with_key("deny");
        for policy in policies(&PathRule::new(PathPattern::literal(path), source.clone())) {
            let error = render(&policy, &env()).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Unsupported);
            assert!(error.message.contains(&format!("({source})")), "{}", error.message);
            assert!(!error.message.contains('\n'), "{}", error.message);
        }
    }
}

#[test]
fn a_glob_that_is_no_text_is_refused_too() {
    for bytes in [&b"/p/\xff*"[..], b"/tmp/\xff*", b"/*/\xff", b"**/\xff"] {
        for policy in policies(&PathRule::built_in(PathPattern::parse_bytes(bytes))) {
            assert_eq!(render(&policy, &env()).unwrap_err().kind, ErrorKind::Unsupported, "{bytes:?}");
        }
    }
}

#[test]
fn a_grant_cannot_add_a_rule_either() {
    let granted = |path: &str| {
        let mut policy = Policy::default();
        policy.filesystem.grants.push(Grant {
            path: PathBuf::from(path),
            access: Access::Read,
            scope: GrantScope::Session,
            recursive: false,
        });
        render(&policy, &env())
    };
    for attack in ATTACKS {
        let want = shape(granted(&harmless(attack)).unwrap().text());
        assert_eq!(shape(granted(attack).unwrap().text()), want, "{attack:?}");
    }
    for path in ["/a\nb", "relative", "/a/../b"] {
        assert_eq!(granted(path).unwrap_err().kind, ErrorKind::Unsupported, "{path:?}");
    }
}

#[test]
fn the_place_of_the_sandbox_cannot_add_a_rule() {
    let at = |root: String| {
        let env = MacEnv::new("/Users/u", root).with_case(Case::Exact);
        shape(render(&Policy::default(), &env).unwrap().text())
    };
    for attack in ATTACKS {
        let want = at(format!("{}own", harmless(attack)));
        assert_eq!(at(format!("{attack}own")), want, "{attack:?}");
    }
    for root in ["/", "relative"] {
        let env = MacEnv::new("/Users/u", root);
        assert_eq!(render(&Policy::default(), &env).unwrap_err().kind, ErrorKind::Validation);
    }
}

proptest! {
    #[test]
    fn any_text_is_quoted_or_refused(text in "\\PC{0,30}|[\"\\\\()*?;\\[\\] #|a-c/\\n]{0,30}") {
        for policy in policies(&PathRule::built_in(format!("/p/{text}").as_str())) {
            if let Ok(profile) = render(&policy, &env()) {
                let profile = Profile::parse(profile.text()).map_err(TestCaseError::fail)?;
                prop_assert!(!profile.allows_path("file-write-data", "/elsewhere"));
            }
        }
    }
}
