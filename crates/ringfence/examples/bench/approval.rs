//! From a person's answer to the return of the call that waited.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ringfence::fence::CreateOptions;
use ringfence::fence::approve::{Callback, Question};
use ringfence::local::approval::{Approval, AskAbout};
use ringfence::local::fence::{LocalFence, Streams};
use ringfence::model::config::ConfigFile;
use ringfence::model::{Command, Decision, ExecRequest};
use ringfence::setup::Setup;
use serde_json::{Value, json};

use crate::Outcome;
use crate::payload::now;

/// Files and directories beside the project, none of which the policy allows.
pub(crate) fn measure(project: &Path, rounds: usize) -> Outcome {
    let outside = project.parent().ok_or("the project has no parent")?.join("outside");
    let (mut files, mut directories) = (vec![], vec![]);
    for number in 0..rounds {
        let (file, directory) = (outside.join(format!("file{number}")), outside.join(format!("dir{number}")));
        std::fs::create_dir_all(&directory)?;
        std::fs::write(&file, "content\n")?;
        files.push(file.display().to_string());
        directories.push(directory.display().to_string());
    }
    Ok(json!({ "file": latencies(project, &files)?, "directory": latencies(project, &directories)? }))
}

fn latencies(project: &Path, wanted: &[String]) -> Result<Vec<u64>, Box<dyn std::error::Error>> {
    let setup = Setup::load(project, std::env::vars_os().collect(), ConfigFile::default(), None)?;
    let native = LocalFence::prepare(CreateOptions {
        cwd: setup.project.clone(),
        policy: setup.policy(),
        environment: setup.env.clone(),
        provider_options: Default::default(),
        hooks: Default::default(),
    })?;
    let answered: Arc<Mutex<Vec<u64>>> = Arc::default();
    let at = Arc::clone(&answered);
    let approver = Callback(move |_: &Question| {
        at.lock().unwrap_or_else(PoisonError::into_inner).push(now());
        Decision::AllowOnce
    });
    let approval = Approval {
        approver: Arc::new(approver),
        about: AskAbout::All,
        timeout: Duration::from_secs(10),
        on_settled: Arc::new(|_| ()),
    };
    // A copy of this program in the project can be seen inside.
    let program = project.join("bench");
    std::fs::copy(std::env::current_exe()?, &program)?;
    let mut argv = vec![program.into_os_string(), "wait".into()];
    argv.extend(wanted.iter().map(Into::into));
    let request = ExecRequest::new(Command::Argv(argv));
    let result = native.run_asking(&request, Streams::Capture, &|_| (), Some(approval))?;
    let returned: Value = serde_json::from_slice(&result.stdout)?;
    let returned: Vec<u64> = serde_json::from_value(returned)
        .map_err(|error| format!("{error}: {}", String::from_utf8_lossy(&result.stdout)))?;
    let answered = answered.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if answered.len() != returned.len() {
        return Err(format!("{} answers for {} opens", answered.len(), returned.len()).into());
    }
    Ok(returned.iter().zip(answered).map(|(returned, answered)| returned.saturating_sub(answered)).collect())
}
