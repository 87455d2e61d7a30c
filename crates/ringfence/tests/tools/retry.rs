//! A fence that cannot hold a call: the command ends first, and is run again only after the answer.

use std::sync::{Arc, Mutex};

use ringfence::fence::{BoxFuture, CreateOptions, EventSink, Provider, Registry, Sandbox, SandboxInfo};
use ringfence::local::provider::LocalProvider;
use ringfence::model::{Assurance, Decision, ErrorKind, ExecRequest, ExecResult, Layer, Result};
use ringfence::permission::Answer;
use ringfence::session::SessionEvent;
use ringfence::setup::Setup;
use ringfence::tools::{OpenTools, Tools};
use serde_json::json;

use crate::world::{World, person, yes};

/// The local fence, by somebody who asks nobody while a command runs.
#[derive(Debug, Default)]
struct Deaf(LocalProvider);

#[derive(Debug)]
struct DeafSandbox(Arc<dyn Sandbox>);

impl Provider for Deaf {
    fn kind(&self) -> &str {
        "deaf"
    }

    fn create(&self, mut options: CreateOptions) -> BoxFuture<'_, Result<Arc<dyn Sandbox>>> {
        options.hooks.approval = None;
        Box::pin(async move {
            let sandbox = self.0.create(options).await?;
            Ok(Arc::new(DeafSandbox(sandbox)) as Arc<dyn Sandbox>)
        })
    }

    fn destroy<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<()>> {
        self.0.destroy(id)
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<SandboxInfo>>> {
        self.0.list()
    }
}

impl Sandbox for DeafSandbox {
    fn id(&self) -> &str {
        self.0.id()
    }

    fn assurance(&self) -> Assurance {
        let mut assurance = self.0.assurance();
        assurance.layers.retain(|layer| *layer != Layer::Supervisor);
        assurance
    }

    fn execute<'a>(
        &'a self,
        request: ExecRequest,
        events: EventSink<'a>,
    ) -> BoxFuture<'a, Result<ExecResult>> {
        self.0.execute(request, events)
    }

    fn dispose(&self) -> BoxFuture<'_, Result<()>> {
        self.0.dispose()
    }
}

/// The tools of `world` over a sandbox that nobody is asked by.
fn without_holding(world: &World, answers: &[Answer]) -> Tools {
    let mut registry = Registry::new();
    registry.register("deaf", || Ok(Arc::new(Deaf::default()) as Arc<dyn Provider>)).unwrap();
    let call = serde_json::from_value(json!({ "provider": "deaf", "workspaceAccess": "rw" })).unwrap();
    let setup = Setup::load(&world.project, world.setup.env.clone(), call, None).unwrap();
    let options = OpenTools {
        service: Some(person(answers.to_vec())),
        registry: Some(registry),
        ..OpenTools::default()
    };
    options.open(&Arc::new(setup)).unwrap()
}

#[test]
fn a_command_is_run_again_only_after_the_answer_with_exactly_what_was_granted() {
    let Some(world) = World::new(OpenTools::default()) else { return };
    std::fs::write(world.home.join(".ssh/other"), "other\n").unwrap();
    let answers =
        [Answer::deny("later"), yes(Decision::AllowOnce), yes(Decision::AllowSession), yes(Decision::Deny)];
    let tools = without_holding(&world, &answers);
    let asked: Arc<Mutex<usize>> = Arc::default();
    let count = Arc::clone(&asked);
    tools.listen(Arc::new(move |event: &SessionEvent| {
        *count.lock().unwrap() += usize::from(matches!(event, SessionEvent::ApprovalRequested { .. }));
    }));
    let command = json!({ "command": "echo ran >> log; cat ~/.ssh/config" });
    let runs = || world.read("log").lines().count();

    let denied = tools.call("bash", &command);
    assert_eq!(denied.error_kind, Some(ErrorKind::ApprovalDenied), "{denied:?}");
    assert!(denied.stderr.contains("refused: later"));
    assert_eq!(runs(), 1, "a refusal runs nothing again");

    let once = tools.call("bash", &command);
    assert_eq!(once.stdout, "Host treasure\n", "{once:?}");
    assert_eq!(runs(), 3);

    assert_eq!(tools.call("bash", &command).stdout, "Host treasure\n", "asked again: it was once");
    assert_eq!(runs(), 5);
    assert_eq!(tools.call("bash", &command).stdout, "Host treasure\n", "the sandbox has the grant now");
    assert_eq!(runs(), 6);
    assert_eq!(*asked.lock().unwrap(), 3);

    let other = tools.call("bash", &json!({ "command": "cat ~/.ssh/other" }));
    assert!(!other.ok && !other.stdout.contains("other"), "{other:?}");
    tools.dispose();
}
