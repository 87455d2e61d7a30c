//! Tools for files: the decision, the call, and a person where the fence's rules refuse.

use std::path::{Component, Path, PathBuf};

use ringfence_gate::policy::Tool;
use ringfence_model::{Decision, Error, ErrorKind, Grant, Operation, Result, Violation, ViolationKind};
use serde_json::Value;

use super::files::FileCall;
use super::guard::refusal;
use super::run::not_allowed;
use super::toolbox::Tools;
use crate::permission::Permission;
use crate::session::Call;
use crate::session::ToolResult;

/// How many files one call may ask for.
const MOST_QUESTIONS: usize = 8;

/// The path that a person would recognise; `..` at the root stays there. Nothing is opened by it.
fn without_dots(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut clean, part| {
        match part {
            Component::ParentDir => drop(clean.pop()),
            Component::CurDir => {}
            part => clean.push(part),
        }
        clean
    })
}

impl Tools {
    pub(crate) fn file(&self, call: &Call, file: &FileCall, arguments: &Value) -> Result<ToolResult> {
        if file.writes()
            && let Err(refused) =
                self.decide(call, Tool::File, &call.tool, file.is_escalated(), &|| Ok(()), arguments)
        {
            return Ok(*refused);
        }
        if let Err(refused) = self.begin(call) {
            return Ok(*refused);
        }
        let own = self.workplace.files()?;
        self.shared.files.enforce(|| self.workplace.policy())?;
        let questions = self.shared.core.questions();
        let mut once: Vec<Grant> = vec![];
        for _ in 0..MOST_QUESTIONS {
            // Nothing was changed by a call that was refused: files are checked before they are touched.
            let (error, stopped) =
                match self.shared.files.call(file, own.as_deref(), &questions.granted(), &once) {
                    Ok(result) => return Ok(result),
                    Err(failed) => failed,
                };
            let Some(stopped) = stopped else {
                if let Some(reached) = self.shared.files.take_too_large() {
                    self.shared.core.recorder().refused(&reached);
                }
                // One that leaves the workspace was refused by no rule about it, but refused.
                if error.kind == ErrorKind::PathTraversal {
                    self.shared.core.recorder().refused(&self.left_the_workspace(file, &error));
                }
                return Err(error);
            };
            if !questions.asks_about(Some(stopped.reason())) {
                self.shared.core.recorder().refused(&stopped.violation());
                return Err(error);
            }
            let question = stopped.question(file.sentence());
            let permission = Permission::access(&call.tool, &question, questions.redact());
            let outcome = questions.ask(permission.clone(), call);
            match outcome.answer.decision {
                Decision::AllowOnce => once.push(question.grant),
                Decision::AllowSession | Decision::AllowPermanent => {}
                Decision::Deny | Decision::DenyPermanent | Decision::Abort => {
                    self.shared.core.recorder().refused(&stopped.violation());
                    return Ok(not_allowed(&permission, &outcome));
                }
            }
        }
        Ok(self
            .shared
            .files
            .call(file, own.as_deref(), &questions.granted(), &once)
            .unwrap_or_else(|(error, _)| ToolResult::of_error(&error)))
    }

    fn left_the_workspace(&self, file: &FileCall, error: &Error) -> Violation {
        let workspace = self.workspace();
        let meant = |path: PathBuf| without_dots(&workspace.join(path));
        let paths: Vec<PathBuf> = file.paths().into_iter().map(meant).collect();
        // One that seems to be inside can lead out by a link.
        let outside = paths.iter().find(|path| !path.starts_with(workspace)).or(paths.first());
        let path = outside.map_or(workspace, PathBuf::as_path);
        refusal(ViolationKind::PathAccessDenied, Operation::Open, path.display().to_string(), error.chain())
    }
}
