//! Background commands and terminals in containers with a guest.

use std::time::{Duration, Instant};

use ringfence_docker::testing::LEAST;
use ringfence_fence::Jobs;
use ringfence_fence::jobs::{JobState, TerminalSize};
use ringfence_model::{ErrorKind, ExecRequest};
use serde_json::json;

use super::support::{World, run, text, wait};

/// All that a job has written, when it holds this.
fn until(jobs: &dyn Jobs, id: &str, words: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let said = text(&wait(jobs.read(id, 0, 1 << 20)).unwrap().bytes);
        if said.contains(words) {
            return said;
        }
        assert!(Instant::now() < deadline, "{words:?} is not in {said:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_job_goes_on_while_others_run_and_is_read_written_and_ended() {
    let Some(world) = World::new() else { return };
    let sandbox = world.sandbox();
    run(&*sandbox, "cd /tmp; export NAME=fence");
    let jobs = sandbox.jobs().unwrap();
    let job = wait(jobs.start(ExecRequest::shell("echo $NAME $PWD; cat; echo end; exit 3"))).unwrap();
    assert_eq!(job.state, JobState::Running);
    until(jobs, &job.id, "fence /tmp\n");
    assert_eq!(text(&run(&*sandbox, "echo meanwhile").stdout), "meanwhile\n");
    wait(jobs.write(&job.id, b"in\0put\n")).unwrap();
    until(jobs, &job.id, "in\0put\n");
    assert_eq!(wait(jobs.list()).unwrap().len(), 1);
    wait(jobs.close_input(&job.id)).unwrap();
    let ended = wait(jobs.wait(&job.id)).unwrap();
    assert_eq!(ended.state, JobState::Ended { exit_code: 3, signal: None });
    let read = wait(jobs.read(&job.id, 11, 100)).unwrap();
    assert_eq!((read.offset, text(&read.bytes).as_str()), (11, "in\0put\nend\n"));

    let job = wait(jobs.start(ExecRequest::shell("sleep 1234"))).unwrap();
    wait(jobs.signal(&job.id, 9)).unwrap();
    assert!(matches!(
        wait(jobs.wait(&job.id)).unwrap().state,
        JobState::Ended { signal: Some(9), .. } | JobState::Ended { exit_code: 137, .. }
    ));
    assert_eq!(wait(jobs.read("none", 0, 1)).unwrap_err().kind, ErrorKind::NotFound);
    // The sandbox takes its jobs with it, and whoever waits hears of it.
    let job = wait(jobs.start(ExecRequest::shell("sleep 1234"))).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| wait(jobs.wait(&job.id)));
        std::thread::sleep(Duration::from_millis(50));
        wait(sandbox.dispose()).unwrap();
        let _ = waiting.join().unwrap();
    });
}

#[test]
fn a_terminal_is_one_and_has_a_size() {
    let Some(world) = World::new() else { return };
    let sandbox = world.sandbox();
    let jobs = sandbox.jobs().unwrap();
    let request = ExecRequest {
        tty: true,
        ..ExecRequest::shell("tty; stty size; read line; echo \"got $line\"; stty size; read end")
    };
    let error = wait(sandbox.execute(request.clone(), &|_| ())).unwrap_err();
    assert!(error.message.contains("is a job"), "{error}");
    let job = wait(jobs.start(request)).unwrap();
    let said = until(jobs, &job.id, "24 80");
    assert!(said.contains("/dev/pts/"), "{said}");
    wait(jobs.resize(&job.id, TerminalSize { rows: 40, columns: 132 })).unwrap();
    wait(jobs.write(&job.id, b"typed\n")).unwrap();
    let said = until(jobs, &job.id, "40 132");
    assert!(said.contains("got typed"), "{said}");
    wait(jobs.write(&job.id, b"\n")).unwrap();
    assert_eq!(wait(jobs.wait(&job.id)).unwrap().state, JobState::Ended { exit_code: 0, signal: None });
    // Without a guest there are none.
    let plain = world.create(world.options(json!({ "image": LEAST }))).unwrap();
    assert!(plain.jobs().is_none());
}
