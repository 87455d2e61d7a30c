//! From a refusal to a question, and to a mask that holds again.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use ringfence_model::{DenyReason, Violation};

use super::Supervisor;
use super::ask::{Way, Wish};
use super::call::Call;
use super::describe::{self, Denial, Resource};
use super::mount_grant::{self, Namespaces};
use super::notif::Notification;
use super::settings::Asked;

impl Supervisor<'_> {
    /// Makes a question of the refusal. What is not asked about comes back.
    pub(super) fn ask_about(
        &mut self,
        listener: BorrowedFd<'_>,
        notification: &Notification,
        denial: Denial,
    ) -> Option<Violation> {
        match self.ask_about_settings(listener, notification, denial) {
            Asked::Waits => None,
            Asked::Refused(denial) => Some(describe::violation(notification.tid, denial)),
            Asked::No(denial) => self.ask(listener, notification, denial),
        }
    }

    fn ask(
        &mut self,
        listener: BorrowedFd<'_>,
        notification: &Notification,
        denial: Denial,
    ) -> Option<Violation> {
        let access = denial.access;
        let wish = self.wish(notification, &denial);
        let violation = describe::violation(notification.tid, denial);
        let listener = self.desk.as_ref().and(wish.as_ref()).and_then(|_| self.shared_listener(listener));
        let (Some(desk), Some(wish), Some(listener), Some(root)) = (&self.desk, wish, listener, &self.root)
        else {
            return Some(violation);
        };
        desk.has_root(root);
        desk.take(&listener, notification.id, violation, access, wish)
    }

    /// How the call could be carried out for its caller, if it can.
    fn wish(&self, notification: &Notification, denial: &Denial) -> Option<Wish> {
        self.desk.as_ref()?;
        let call = Call::decode(notification);
        let path = match &denial.resource {
            Resource::Path(path) => path,
            // Nobody is asked about what cannot be granted.
            Resource::Address(address) => {
                let way = Way::Out(self.outgoing.clone()?);
                let path = address.into();
                return Some(Wish { path, tid: notification.tid, way, refusal: denial.errno() });
            }
            Resource::Host(host, port) => {
                let (path, way) = (host.with_port(*port).into(), Way::Out(self.outgoing.clone()?));
                return Some(Wish { path, tid: notification.tid, way, refusal: denial.errno() });
            }
        };
        let way = match call {
            Call::Open { flags, mode, .. } => Way::Open { flags, mode },
            Call::Execute { .. } => Way::Show,
            _ => return None,
        };
        Some(Wish { path: path.clone(), tid: notification.tid, way, refusal: denial.errno() })
    }

    /// A mask comes off when somebody outside replaces the file below it, as editors do. The call is refused
    /// by this verdict; covering the new file makes the refusal the kernel's again.
    pub(super) fn cover_again(&self, tid: i32, violation: &Violation) {
        let path = Path::new(&violation.resource);
        let Some(root) = &self.root else { return };
        if violation.reason == Some(DenyReason::Denied)
            && path.is_absolute()
            && !mount_grant::is_covered(root.as_fd(), path)
            && let Some(namespaces) = Namespaces::of(tid)
        {
            // Where it cannot be covered, this verdict stays the only one.
            let _ = namespaces.cover(path);
        }
    }
}
