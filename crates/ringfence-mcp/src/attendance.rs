//! Which sessions somebody still attends, so that those of clients that vanished end.
//!
//! A client that leaves politely says so. One that is killed says nothing; what can be seen is that no connection of
//! its session is open and no call of it runs. Then a clock starts, and whatever is heard of the session stops it.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Response;
use http_body_util::BodyExt as _;
use http_body_util::combinators::BoxBody;
use hyper::body::{Body, Frame, SizeHint};

/// A client that listened for messages and hangs up comes back at once, or never.
const HUNG_UP: Duration = Duration::from_secs(60);

/// Why somebody counts as present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum As {
    /// A request whose reply is not all sent, or a call that runs.
    Busy,
    /// A stream of messages for the client, open as long as the client is there.
    Listening,
}

/// The sessions, by the protocol's id.
#[derive(Debug)]
pub(crate) struct Attendance {
    /// How long nobody need be there.
    idle: Duration,
    sessions: Mutex<HashMap<String, Attended>>,
}

#[derive(Debug)]
struct Attended {
    present: usize,
    /// It has had a stream of messages: once that is gone, so is the client.
    listened: bool,
    /// When somebody came or went last.
    since: Instant,
}

impl Attendance {
    pub(crate) fn new(idle: Duration) -> Self {
        Self { idle, sessions: Mutex::default() }
    }

    /// Somebody is there until the value is dropped.
    pub(crate) fn enter(self: &Arc<Self>, session: &str, how: As) -> Presence {
        let mut sessions = self.lock();
        let attended = sessions.entry(session.to_owned()).or_insert_with(|| Attended {
            present: 0,
            listened: false,
            since: Instant::now(),
        });
        attended.present += 1;
        attended.listened |= how == As::Listening;
        Presence { attendance: Arc::clone(self), session: session.to_owned() }
    }

    /// Forgets and gives the sessions in which nobody was present for too long.
    pub(crate) fn take_deserted(&self, now: Instant) -> Vec<String> {
        let is_deserted = |attended: &Attended| {
            let limit = if attended.listened { self.idle.min(HUNG_UP) } else { self.idle };
            attended.present == 0 && now.saturating_duration_since(attended.since) >= limit
        };
        self.lock().extract_if(|_, attended| is_deserted(attended)).map(|(session, _)| session).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Attended>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody is there.
#[derive(Debug)]
pub(crate) struct Presence {
    attendance: Arc<Attendance>,
    session: String,
}

impl Presence {
    /// For as long as the reply is being sent.
    pub(crate) fn with(
        self,
        reply: Response<BoxBody<Bytes, Infallible>>,
    ) -> Response<BoxBody<Bytes, Infallible>> {
        reply.map(|body| AttendedBody { body, _presence: self }.boxed())
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        if let Some(attended) = self.attendance.lock().get_mut(&self.session) {
            attended.present = attended.present.saturating_sub(1);
            attended.since = Instant::now();
        }
    }
}

/// A body that is dropped when it was sent, or when its reader is gone.
struct AttendedBody {
    body: BoxBody<Bytes, Infallible>,
    _presence: Presence,
}

impl Body for AttendedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_secs(300);

    fn later(seconds: u64) -> Instant {
        Instant::now() + Duration::from_secs(seconds)
    }

    #[test]
    fn a_session_is_deserted_when_the_last_one_left_long_ago() {
        let attendance = Arc::new(Attendance::new(IDLE));
        let (request, call) = (attendance.enter("a", As::Busy), attendance.enter("a", As::Busy));
        drop(request);
        assert!(attendance.take_deserted(later(3600)).is_empty(), "a call runs");
        drop(call);
        assert!(attendance.take_deserted(later(200)).is_empty(), "too early");
        assert_eq!(attendance.take_deserted(later(301)), ["a"]);
        assert!(attendance.take_deserted(later(3600)).is_empty(), "it is forgotten");
    }

    #[test]
    fn a_client_that_listened_and_hung_up_is_gone_sooner() {
        let attendance = Arc::new(Attendance::new(IDLE));
        let stream = attendance.enter("a", As::Listening);
        drop(attendance.enter("a", As::Busy));
        drop(attendance.enter("b", As::Busy));
        assert_eq!(attendance.take_deserted(later(3600)), ["b"], "the stream is open");
        drop(stream);
        assert!(attendance.take_deserted(later(30)).is_empty());
        assert_eq!(attendance.take_deserted(later(61)), ["a"]);
        let brief = Arc::new(Attendance::new(Duration::from_secs(5)));
        drop(brief.enter("a", As::Listening));
        assert_eq!(brief.take_deserted(later(6)), ["a"], "never later than the limit");
    }
}
