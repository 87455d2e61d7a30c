//! Questions of the fence inside, answered outside.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ringfence_fence::approval::Settled;
use ringfence_fence::approve::ask_within;
use ringfence_fence::{Approval, Question};
use ringfence_local::guest::wire::{Order, answered};
use ringfence_model::{Decision, Grant, Violation, ViolationKind};
use ringfence_workspace::PathMap;
use tokio::sync::mpsc;

use super::connections::Connections;
use super::inside;
use super::link::send;

type Open = BTreeMap<u64, (Question, Option<Decision>)>;

/// Asks whoever is there, in paths of the host.
#[derive(Debug)]
pub(super) struct Asking {
    approval: Approval,
    map: PathMap,
    orders: mpsc::UnboundedSender<Vec<u8>>,
    connections: Connections,
    /// What was asked, and what was answered. It is this that is told to others, not what the guest makes of it.
    open: Arc<Mutex<Open>>,
}

impl Asking {
    pub(super) fn new(
        approval: Approval,
        map: PathMap,
        orders: mpsc::UnboundedSender<Vec<u8>>,
        connections: Connections,
    ) -> Self {
        Self { approval, map, orders, connections, open: Arc::default() }
    }

    pub(super) fn ask(&self, number: u64, violation: Violation, command: String, grant: Grant) {
        // What a person reads and what a yes would give must be one thing; the guest is inside, and may be anybody's.
        let same = Path::new(&violation.resource) == grant.path && violation.access == Some(grant.access);
        if !same || !violation.message.contains(&violation.resource) {
            let _ = send(&self.orders, &Order::Answer { question: number, decision: Decision::Deny });
            return;
        }
        // Hosts have the same names everywhere.
        let place = (violation.kind == ViolationKind::NetworkViolation).then(|| violation.resource.clone());
        let is_of_the_host = place.is_some() || self.map.to_host(&grant.path).is_some();
        let violation = inside::told_outside(violation, &self.map);
        let question = Question { violation, command, grant: inside::outside(grant, &self.map), call: None };
        self.open().insert(number, (question.clone(), None));
        let (approval, orders, open) = (self.approval.clone(), self.orders.clone(), Arc::clone(&self.open));
        let connections = self.connections.clone();
        // Asking blocks; nothing else may wait for it.
        let asked = ringfence_local::offload::spawn(move || {
            let (decision, _) = ask_within(&*approval.approver, &question, approval.timeout);
            let decision = match decision {
                // A file of the container's own image has no place in the host's configuration.
                Decision::AllowPermanent if !is_of_the_host => Decision::AllowSession,
                decision => decision,
            };
            if let Some((_, answer)) = open.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&number) {
                *answer = Some(decision);
            }
            if let Some(place) = place.filter(|_| decision.allows()) {
                connections.says_yes(&place, decision.scope());
            }
            let _ = send(&orders, &Order::Answer { question: number, decision });
        });
        if asked.is_err() {
            let _ = send(&self.orders, &Order::Answer { question: number, decision: Decision::Deny });
        }
    }

    /// The guest has done what was decided, or could not.
    pub(super) fn settled(&self, number: u64, problem: Option<String>) {
        let Some((question, answer)) = self.open().remove(&number) else { return };
        let decision = answer.unwrap_or(Decision::Deny);
        (self.approval.on_settled)(&Settled {
            question,
            decision,
            answered: answered(answer.is_none()),
            problem,
        });
    }

    fn open(&self) -> std::sync::MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ringfence_fence::approval::AskAbout;
    use ringfence_fence::approve::Callback;
    use ringfence_model::{Access, GrantScope, Operation};

    use super::*;

    fn answer(resource: &str, message: &str, granted: &str, access: Access) -> Decision {
        let (orders, mut sent) = mpsc::unbounded_channel();
        let approval = Approval {
            approver: Arc::new(Callback(|_: &Question| Decision::AllowOnce)),
            about: AskAbout::All,
            timeout: Duration::from_secs(60),
            on_settled: Arc::new(|_| ()),
        };
        let asking =
            Asking::new(approval, PathMap::new(vec![], Path::new("/w")), orders, Connections::default());
        let violation = Violation {
            access: Some(Access::Read),
            message: message.to_owned(),
            ..Violation::new(ViolationKind::PathAccessDenied, Operation::Open, resource.to_owned())
        };
        let grant = Grant { path: granted.into(), access, scope: GrantScope::Once, recursive: false };
        asking.ask(7, violation, "cat".to_owned(), grant);
        let line = sent.blocking_recv().unwrap();
        match serde_json::from_slice(&line).unwrap() {
            Order::Answer { question: 7, decision } => decision,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_guest_is_given_what_the_question_is_about_and_nothing_else() {
        assert_eq!(answer("/a", "read /a: no rule", "/a", Access::Read), Decision::AllowOnce);
        for (message, granted, access) in [
            ("read /a: no rule", "/etc", Access::Read),
            ("read /a: no rule", "/a", Access::Write),
            ("read /harmless: no rule", "/a", Access::Read),
        ] {
            assert_eq!(answer("/a", message, granted, access), Decision::Deny, "{message} {granted}");
        }
    }
}
