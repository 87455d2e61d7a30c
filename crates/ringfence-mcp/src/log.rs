//! What the client is told besides results.
#![expect(deprecated, reason = "logging is part of every version of the protocol that has sessions")]

use std::sync::atomic::{AtomicU8, Ordering};

use ringfence::session::SessionEvent;
use rmcp::RoleServer;
use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam};
use rmcp::service::Peer;

/// From where on the client wants to hear.
#[derive(Debug)]
pub(crate) struct Level(AtomicU8);

impl Default for Level {
    fn default() -> Self {
        Self(AtomicU8::new(rank(LoggingLevel::Info)))
    }
}

impl Level {
    pub(crate) fn set(&self, level: LoggingLevel) {
        self.0.store(rank(level), Ordering::Relaxed);
    }
}

fn rank(level: LoggingLevel) -> u8 {
    match level {
        LoggingLevel::Debug => 0,
        LoggingLevel::Info => 1,
        LoggingLevel::Notice => 2,
        LoggingLevel::Warning => 3,
        LoggingLevel::Error => 4,
        LoggingLevel::Critical => 5,
        LoggingLevel::Alert => 6,
        LoggingLevel::Emergency => 7,
    }
}

pub(crate) async fn send(peer: &Peer<RoleServer>, from: &Level, event: &SessionEvent) {
    let level = match event {
        SessionEvent::Warning { .. } | SessionEvent::RunCancelled { .. } => LoggingLevel::Warning,
        SessionEvent::RunFailed { .. } => LoggingLevel::Error,
        // The steps of every call, which the client sees the ends of anyway.
        SessionEvent::ToolCallRequested { .. }
        | SessionEvent::ToolCallStarted { .. }
        | SessionEvent::ToolCallFinished { .. } => LoggingLevel::Debug,
        _ => LoggingLevel::Info,
    };
    if rank(level) < from.0.load(Ordering::Relaxed) {
        return;
    }
    let Some(data) = event.without_output() else { return };
    let message = LoggingMessageNotificationParam::new(level, data).with_logger("ringfence");
    // A client that is gone is noticed elsewhere.
    let _ = peer.notify_logging_message(message).await;
}
