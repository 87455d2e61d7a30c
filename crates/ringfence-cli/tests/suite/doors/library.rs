//! The tools as a library. All that touches its interface is in this file.

use std::ffi::OsString;
use std::sync::Arc;

use ringfence::ledger::Writer;
use ringfence::model::Decision;
use ringfence::model::config::ConfigFile;
use ringfence::permission::{Answer as Said, Callback, Permission};
use ringfence::session::recorder::{Keeping, open_ledger};
use ringfence::setup::Setup;
use ringfence::tools::OpenTools;
use serde_json::Value;

use super::super::support::Room;
use super::door::Person;
use super::rule::Answer;

/// The tools of one session, and the ledger they write to.
pub(crate) struct Tools {
    tools: ringfence::tools::Tools,
    ledger: Arc<Writer>,
}

impl Tools {
    /// The tools that a program with this configuration and environment has, or why it has none.
    pub(crate) fn open(room: &Room, person: Arc<Person>) -> Result<Self, String> {
        let env = room.command(&[]).get_envs().filter_map(pair).collect();
        let setup = Setup::load(&room.project, env, ConfigFile::default(), None)
            .map_err(|error| error.chain().to_string())?;
        let setup = Arc::new(setup.in_the_project());
        let ledger = open_ledger(&setup.ledger_path(), &setup.env, Keeping::Thread, |_| ());
        let ask = Callback(move |question: &Permission| {
            let text = serde_json::to_string(question).unwrap_or_default();
            Said::new(decision(person.hears(format!("{} {text}", question.sentence()))))
        });
        let options = OpenTools {
            service: Some(Arc::new(ask)),
            ledger: Some(Arc::clone(&ledger)),
            session_key: Some("doors".to_owned()),
            // Without one a container has no fence of its own.
            stage: Some(env!("CARGO_BIN_EXE_ringfence").into()),
            ..OpenTools::default()
        };
        let tools = options.open(&setup);
        Ok(Self { tools: tools.map_err(|error| error.chain().to_string())?, ledger })
    }

    /// The result as other programs see it.
    pub(crate) fn call(&self, name: &str, arguments: &Value) -> Value {
        serde_json::to_value(self.tools.call(name, arguments)).unwrap()
    }

    /// Ends all of it; the ledger is complete afterwards.
    pub(crate) fn close(self) {
        self.tools.dispose();
        drop(self.tools);
        self.ledger.flush();
    }
}

fn pair((name, value): (&std::ffi::OsStr, Option<&std::ffi::OsStr>)) -> Option<(OsString, OsString)> {
    Some((name.to_owned(), value?.to_owned()))
}

fn decision(answer: Answer) -> Decision {
    match answer {
        Answer::Once => Decision::AllowOnce,
        Answer::Session => Decision::AllowSession,
        Answer::Always => Decision::AllowPermanent,
        Answer::Deny => Decision::Deny,
        Answer::Abort => Decision::Abort,
    }
}
