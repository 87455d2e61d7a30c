//! This test program, run again as another process that plays one part.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ringfence_ledger::{Ledger, Reservation, WriterOptions};

use crate::sample;

const PART: &str = "RINGFENCE_TEST_PART";
const LEDGER: &str = "RINGFENCE_TEST_LEDGER";

/// The command that plays `part` on the ledger at `path`, under `wrapper` when there is one.
pub(crate) fn command(wrapper: &[&str], part: &str, path: &Path) -> Command {
    let program = std::env::current_exe().unwrap();
    let mut words: Vec<std::ffi::OsString> = wrapper.iter().map(Into::into).collect();
    words.extend([program.into(), "--exact".into(), "child::play".into(), "--nocapture".into()]);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).env(PART, part).env(LEDGER, path).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Not a test of its own: does nothing unless it was started as a part.
#[test]
fn play() {
    let Ok(part) = std::env::var(PART) else { return };
    let path = PathBuf::from(std::env::var_os(LEDGER).unwrap());
    let words: Vec<&str> = part.split(' ').collect();
    match words[..] {
        ["write", many] => {
            let writer = ringfence_ledger::Writer::spawn(
                &path,
                WriterOptions {
                    on_problem: Box::new(|problem| panic!("{}", problem.chain())),
                    busy: std::time::Duration::from_secs(20),
                    ..WriterOptions::new(std::sync::Arc::new(ringfence_ledger::Nothing))
                },
            );
            for number in 0..many.parse().unwrap() {
                let id = writer.start(sample::shell(&format!("command {number}")));
                writer.finish(id, &sample::result(0));
                if number % 7 == 0 {
                    writer.flush();
                }
            }
        }
        ["start-and-hang"] => {
            let writer = ringfence_ledger::Writer::spawn(
                &path,
                WriterOptions::new(std::sync::Arc::new(ringfence_ledger::Nothing)),
            );
            writer.start(sample::shell("sleep 1000"));
            writer.flush();
            println!("\nstarted");
            std::thread::sleep(std::time::Duration::from_secs(60));
        }
        ["reserve-and-die", name] => {
            let mut ledger = Ledger::open(&path).unwrap();
            let reserved = ledger.reserve(&sample::sandbox(name), 1).unwrap();
            assert!(matches!(reserved, Reservation::Reserved { leftover: None }));
        }
        ["lease-and-die", name] => {
            let mut ledger = Ledger::open(&path).unwrap();
            ledger.lease(name, 1).unwrap().unwrap();
        }
        ["race", many] => {
            let mut ledger = Ledger::open(&path).unwrap();
            let mut won = 0;
            for number in 0..many.parse().unwrap() {
                let new = sample::sandbox(&format!("box-{number}"));
                if let Reservation::Reserved { .. } = ledger.reserve(&new, 1).unwrap() {
                    ledger.ready(&new, 2).unwrap();
                    won += 1;
                }
                ledger.upsert(&sample::sandbox(&format!("own-{}-{number}", std::process::id())), 3).unwrap();
            }
            println!("\nwon {won}");
        }
        ["record", text] => {
            let problems = sample::Problems::default();
            let writer = ringfence_ledger::Writer::spawn(&path, problems.options());
            for _ in 0..3 {
                let id = writer.start(sample::shell(&text.repeat(20_000)));
                writer.finish(id, &sample::result(0));
                writer.flush();
            }
            drop(writer);
            println!("\ntold {:?}", problems.told());
        }
        _ => panic!("no such part: {part}"),
    }
}
