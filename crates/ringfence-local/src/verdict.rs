//! What a run's refusals come to.

use ringfence_model::{DenyReason, Violation};

/// The violation that makes the result a blocked one: of a resource on the deny list always, of anything
/// else when the command failed. The last such is the likeliest cause.
pub(crate) fn blocking(violations: &[Violation], exit_code: i32) -> Option<&Violation> {
    let mut stopped = violations.iter().rev().filter(|violation| violation.blocked);
    let listed = stopped.clone().find(|violation| violation.reason == Some(DenyReason::Denied));
    listed.or_else(|| stopped.next().filter(|_| exit_code != 0))
}
