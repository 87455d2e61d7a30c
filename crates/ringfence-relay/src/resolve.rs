//! Names to addresses, by the host's `getent`.

use std::collections::HashMap;
use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ringfence_model::{Host, LockExt as _};
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::dial::DialError;

/// How long an answer holds.
const KEPT: Duration = Duration::from_secs(30);
/// How long a failure holds: those who waited for it do not try again one after the other.
const FAILURE_KEPT: Duration = Duration::from_secs(2);
const MOST_KEPT: usize = 1024;
const LONGEST_ANSWER: usize = 64 * 1024;

type Answer = Result<Arc<[IpAddr]>, DialError>;

/// One name: its lock is held while it is looked up, so that whoever wants the same name waits for the same answer.
type Entry = Arc<Mutex<Option<(Instant, Answer)>>>;

#[derive(Debug)]
pub(crate) struct Resolver {
    program: PathBuf,
    limit: Duration,
    entries: Mutex<HashMap<String, Entry>>,
}

impl Resolver {
    pub(crate) fn new(program: PathBuf, limit: Duration) -> Self {
        Self { program, limit, entries: Mutex::default() }
    }

    pub(crate) fn look_up(&self, host: &Host) -> Answer {
        let name = match host {
            Host::Address(address) => return Ok(Arc::new([*address])),
            Host::Name(name) => name,
        };
        if name == "localhost" || name.ends_with(".localhost") {
            return Ok(Arc::new([Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]));
        }
        let entry = self.entry(name);
        let mut kept = entry.locked();
        if let Some((since, answer)) = &*kept
            && since.elapsed() < if answer.is_ok() { KEPT } else { FAILURE_KEPT }
        {
            return answer.clone();
        }
        let answer = ask(&self.program, name, self.limit);
        *kept = Some((Instant::now(), answer.clone()));
        answer
    }

    fn entry(&self, name: &str) -> Entry {
        let mut entries = self.entries.locked();
        if entries.len() >= MOST_KEPT && !entries.contains_key(name) {
            // Those being looked up right now are locked, and stay.
            entries.retain(|_, entry| {
                entry.try_lock().map_or(true, |kept| {
                    kept.as_ref().is_some_and(|(since, answer)| answer.is_ok() && since.elapsed() < KEPT)
                })
            });
            if entries.len() >= MOST_KEPT {
                entries.clear();
            }
        }
        entries.entry(name.to_owned()).or_default().clone()
    }
}

fn ask(program: &Path, name: &str, limit: Duration) -> Answer {
    // A `Host` has no label that begins with `-`, so that it cannot be taken for an option.
    let child = Command::new(program)
        .args(["ahosts", name])
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child =
        child.map_err(|error| DialError::NoResolver { program: program.to_owned(), kind: error.kind() })?;
    let output = output_of(&mut child, Instant::now() + limit);
    // One that ended is not killed by this, and one that did not is late.
    let _ = child.kill();
    let _ = child.wait();
    let addresses = addresses_in(&output.ok_or_else(|| DialError::LookUpLate { host: name.to_owned() })?);
    if addresses.is_empty() {
        return Err(DialError::NoSuchHost { host: name.to_owned() });
    }
    Ok(addresses.into())
}

/// None when it did not come in time.
fn output_of(child: &mut Child, deadline: Instant) -> Option<String> {
    let mut stdout = child.stdout.take()?;
    let mut output = Vec::new();
    let mut part = [0; 4096];
    loop {
        let left = deadline.checked_duration_since(Instant::now())?;
        let mut waited = [PollFd::new(&stdout, PollFlags::IN)];
        let ready = rustix::io::retry_on_intr(|| {
            rustix::event::poll(&mut waited, Timespec::try_from(left).ok().as_ref())
        });
        if ready.ok()? == 0 {
            return None;
        }
        let count = stdout.read(&mut part).ok()?;
        output.extend_from_slice(&part[..count]);
        if count == 0 || output.len() > LONGEST_ANSWER {
            return Some(String::from_utf8_lossy(&output).into_owned());
        }
    }
}

/// Each once, in the order in which they are to be tried.
fn addresses_in(output: &str) -> Vec<IpAddr> {
    let mut addresses = Vec::new();
    for line in output.lines() {
        if let Some(Ok(address)) = line.split_whitespace().next().map(str::parse::<IpAddr>) {
            let address = address.to_canonical();
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
    }
    addresses
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn resolver(script: &str, limit: Duration) -> (tempfile::TempDir, Resolver) {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("getent");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        (dir, Resolver::new(program, limit))
    }

    fn name(text: &str) -> Host {
        Host::parse(text).unwrap()
    }

    #[test]
    fn addresses_are_taken_once_each_and_in_order() {
        let output = "192.0.2.1 STREAM a.example\n192.0.2.1 DGRAM\n2001:db8::1 STREAM\n\
                      ::ffff:192.0.2.1 RAW\nfe80::1%eth0 STREAM\nrubbish\n\n";
        let want: Vec<IpAddr> = vec!["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()];
        assert_eq!(addresses_in(output), want);
    }

    #[test]
    fn a_dead_resolver_is_waited_for_only_so_long_and_only_once() {
        let (_dir, resolver) = resolver("exec sleep 60", Duration::from_millis(100));
        let since = Instant::now();
        for _ in 0..3 {
            let error = resolver.look_up(&name("a.example")).unwrap_err();
            assert!(matches!(error, DialError::LookUpLate { .. }), "{error}");
        }
        assert!(since.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn no_resolver_is_said() {
        let resolver = Resolver::new("/nonexistent/getent".into(), Duration::from_secs(1));
        let error = resolver.look_up(&name("a.example")).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/getent"), "{error}");
    }

    #[test]
    fn nothing_found_is_no_such_host_and_local_names_are_not_asked_about() {
        let (_dir, resolver) = resolver("exit 2", Duration::from_secs(5));
        let error = resolver.look_up(&name("a.example")).unwrap_err();
        assert!(matches!(error, DialError::NoSuchHost { .. }), "{error}");
        for local in ["localhost", "x.localhost", "127.0.0.1"] {
            assert!(resolver.look_up(&name(local)).unwrap()[0].is_loopback(), "{local}");
        }
    }

    #[test]
    fn who_wants_the_same_name_at_once_shares_one_answer() {
        let (dir, resolver) =
            resolver("echo x >> \"${0%/*}/asked\"; sleep 0.1; echo 192.0.2.1", Duration::from_secs(20));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| resolver.look_up(&name("a.example")).unwrap());
            }
        });
        assert_eq!(std::fs::read_to_string(dir.path().join("asked")).unwrap(), "x\n");
    }

    #[test]
    fn answers_kept_are_not_without_number() {
        let (_dir, resolver) = resolver("exit 2", Duration::from_secs(5));
        for number in 0..MOST_KEPT + 10 {
            resolver.entry(&format!("n{number}.example"));
        }
        assert!(resolver.entries.lock().unwrap().len() <= MOST_KEPT);
    }
}
