//! Names for things that belong to a session, made from whatever the session is called.
//!
//! The documented form is 32 safe characters, a dash and eight digits of SHA-1, and other tools look for
//! containers by it, so it is SHA-1 here. It is not a lock: eight digits of any hash can be collided with.
//! That two sessions never share a workspace is checked against the full key, see [`crate::sessions`].

use sha1::{Digest, Sha1};

/// The longest name a container may have.
const LONGEST_NAME: usize = 63;
/// The part of the key that stays readable.
const READABLE: usize = 32;
/// What a session without a usable name is called.
const UNNAMED: &str = "session";
/// The name of what all sessions share; it has no hash.
pub const SHARED: &str = "shared";

/// A directory or container name for a session key: `[a-z0-9._-]` only, never empty, never `.` or `..`,
/// different keys almost always different.
#[must_use]
pub fn session_slug(key: &str) -> String {
    let key = canonical_key(key);
    let mut safe = String::new();
    for c in key.to_lowercase().chars() {
        if c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-') {
            safe.push(c);
        } else if !safe.ends_with('\u{0}') {
            safe.push('\u{0}');
        }
    }
    let safe = safe.replace('\u{0}', "-");
    let readable: String = safe.trim_matches('-').chars().take(READABLE).collect();
    let readable = if readable.is_empty() { UNNAMED } else { &readable };
    let digest = Sha1::digest(key.as_bytes());
    let hash: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("{readable}-{hash}")
}

/// The key without what does not count: blanks around it, and the lack of any.
pub(crate) fn canonical_key(key: &str) -> &str {
    match key.trim() {
        "" => UNNAMED,
        key => key,
    }
}

/// `prefix` and the slug, cut at the length a container's name may have.
#[must_use]
pub fn container_name(prefix: &str, slug: &str) -> String {
    format!("{prefix}{slug}").chars().take(LONGEST_NAME).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_documented_form() {
        for (key, want) in [
            ("agent:main:main", "agent-main-main-20ceb99b"),
            ("  agent:main:main  ", "agent-main-main-20ceb99b"),
            ("Weird!!!Key///x", "weird-key-x-"),
            ("", "session-"),
            ("!!!", "session-"),
            ("../../etc/passwd", "..-..-etc-passwd-"),
        ] {
            let slug = session_slug(key);
            assert!(slug.starts_with(want), "{key:?} became {slug}");
            assert_eq!(slug.len() - slug.rfind('-').unwrap(), 9);
        }
        let long = session_slug(&"x".repeat(100));
        assert_eq!(long.len(), 32 + 1 + 8);
    }

    #[test]
    fn a_container_name_is_cut() {
        assert_eq!(container_name("ringfence-sbx-", SHARED), "ringfence-sbx-shared");
        assert_eq!(container_name(&"p".repeat(60), "abcdef").len(), 63);
    }

    proptest! {
        #[test]
        fn a_slug_is_always_one_safe_name(key in ".{0,60}") {
            let slug = session_slug(&key);
            prop_assert!(slug.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c)));
            prop_assert!(slug.len() <= 41 && slug.len() >= 10);
        }
    }
}
