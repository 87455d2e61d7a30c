//! What a run's refusals come to, and why a run cannot be.

use std::path::Path;

use ringfence_model::{Access, DenyReason, Error, ErrorKind, Filesystem, Violation};

/// The violation that makes the result a blocked one: of a resource on the deny list always, of anything
/// else when the command failed. The last such is the likeliest cause.
#[must_use]
pub fn blocking(violations: &[Violation], exit_code: i32) -> Option<&Violation> {
    let mut stopped = violations.iter().rev().filter(|violation| violation.blocked);
    let listed = stopped.clone().find(|violation| violation.reason == Some(DenyReason::Denied));
    listed.or_else(|| stopped.next().filter(|_| exit_code != 0))
}

/// A command cannot start where it may not look.
pub(crate) fn invisible(fs: &Filesystem, cwd: &Path) -> Error {
    let why = match fs.decide(cwd, Access::Read).rule {
        Some(rule) => format!("denied by {} ({})", rule.path, rule.source),
        None => "not inside any allowed path".to_owned(),
    };
    Error::new(
        ErrorKind::Permission,
        format!("the working directory {} is not visible: {why}", cwd.display()),
    )
    .hint("start in the project, or allow the directory with --allow-read or --allow-write")
}
