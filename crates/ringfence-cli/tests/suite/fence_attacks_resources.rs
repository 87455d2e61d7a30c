//! Attacks on what the machine has: processes, memory, disk, output, time; and what stays behind.

use std::time::{Duration, Instant};

use crate::suite::fence_support::{
    Fenced, Launcher, SIGNALS, for_every_launcher, names, processes_with, wait_until,
};
use crate::suite::support::Room;

for_every_launcher! {
    a_fork_bomb_ends_inside_its_limit,
    a_memory_bomb_ends_inside_its_limit,
    many_processes_together_end_inside_the_memory_limit,
    every_sandbox_has_limits,
    a_full_private_directory_is_told,
    a_memory_limit_in_which_nothing_starts_is_an_error,
    private_directories_cannot_fill_the_memory,
    a_flood_of_output_is_cut_and_said_to_be,
    time_disk_cpu_and_files_have_ends,
    nothing_outlives_the_sandbox,
    who_runs_from_process_to_process_is_caught,
    a_flood_of_refusals_ends_and_is_told_in_bounds,
    no_file_is_left_anywhere,
}

fn limits(ran: &Fenced) -> Vec<&str> {
    let violations = ran.json["violations"].as_array().map(Vec::as_slice).unwrap_or_default();
    violations
        .iter()
        .filter(|violation| violation["kind"] == "resource_limit")
        .filter_map(|violation| violation["resource"].as_str())
        .collect()
}

fn a_fork_bomb_ends_inside_its_limit(launcher: Launcher) {
    let room = Room::on(launcher);
    let marker = format!("bomb-{}", std::process::id());
    let started = Instant::now();
    let text = format!("exec -a {marker} bash -c 'f() {{ f | f & }}; f; f; sleep 2; echo done'");
    let ran = room.fenced_with(&["--processes", "40", "--timeout", "10"], &text);
    if ran.promises("processLimit") {
        assert!(limits(&ran).contains(&"processes"), "{ran:?}");
    }
    assert!(started.elapsed() < Duration::from_secs(45));
    assert!(wait_until(Duration::from_secs(20), || processes_with(&marker).is_empty()));
}

fn a_memory_bomb_ends_inside_its_limit(launcher: Launcher) {
    let room = Room::on(launcher);
    let ran = room
        .fenced_with(&["--memory", "128M"], "python3 -c 'x = []\nwhile True: x.append(bytearray(1 << 20))'");
    assert_ne!(ran.code, 0);
    assert_eq!(limits(&ran), ["memory"], "{ran:?}");
}

/// None of them alone uses too much.
fn many_processes_together_end_inside_the_memory_limit(launcher: Launcher) {
    let room = Room::on(launcher);
    let ran = room.fenced_with(
        &["--memory", "200M", "--timeout", "60"],
        "for i in 1 2 3 4 5 6; do python3 -c 'import time; x = b\"x\" * (60 << 20); time.sleep(3)' & done; wait; false",
    );
    assert!(limits(&ran).contains(&"memory"), "{ran:?}");
}

/// Without any option: no limit has to be asked for.
fn every_sandbox_has_limits(launcher: Launcher) {
    let room = Room::on(launcher);
    let ran = room.fenced("df -k --output=size,itotal /tmp ~ /dev/shm | tail -n +2; ulimit -n");
    let machine = std::fs::read_to_string("/proc/meminfo").unwrap();
    let machine: u64 = machine.split_whitespace().nth(1).unwrap().parse().unwrap();
    if ran.promises("directoriesOnHost") {
        let numbers: Vec<u64> = ran.stdout.split_whitespace().filter_map(|text| text.parse().ok()).collect();
        let sizes: u64 = numbers.chunks(2).take(3).map(|pair| pair[0]).sum();
        assert!(numbers.len() == 7 && sizes <= machine / 4 * 3, "{ran:?}");
    }
    // One that nobody sets.
    let told = room.run(&["config", "show", "--json"]).json()["limits"].clone();
    assert!(told["maxMemoryBytes"].as_u64().is_some_and(|most| most <= machine * 1024), "{told}");
    assert!(told["maxProcesses"].as_u64().is_some(), "{told}");
}

fn a_full_private_directory_is_told(launcher: Launcher) {
    let room = Room::on(launcher);
    let ran = room.fenced_with(&["--memory", "64M"], "head -c 100M /dev/zero > /tmp/f");
    if ran.promises("directoriesOnHost") {
        assert!(ran.code != 0 && limits(&ran).contains(&"files"), "{ran:?}");
        let ran = room.fenced_with(&["--memory", "64M"], "cd /tmp && seq 7000 | xargs touch");
        assert!(!ran.promises("fileLimit") || (ran.code != 0 && limits(&ran).contains(&"files")), "{ran:?}");
    }
}

/// It would end before its first instruction, without a word.
fn a_memory_limit_in_which_nothing_starts_is_an_error(launcher: Launcher) {
    let room = Room::on(launcher);
    let ran = room.run(&["run", "--launcher", launcher.name(), "--memory", "1", "--", "true"]);
    assert!(ran.code == 125 && ran.stderr.contains("less than any program needs"), "{ran:?}");
}

fn private_directories_cannot_fill_the_memory(launcher: Launcher) {
    let room = Room::on(launcher);
    let ran = room.fenced_with(
        &["--memory", "128M"],
        "for d in /tmp /dev/shm ~ /var/tmp; do head -c 200M /dev/zero > $d/f; done; \
         du -cb /tmp/f /dev/shm/f ~/f /var/tmp/f | tail -1 | cut -f1",
    );
    if ran.promises("memoryLimit") && ran.promises("directoriesOnHost") {
        let total: u64 = ran.stdout.trim().parse().unwrap_or(0);
        assert!(total < 160 << 20, "{ran:?}");
    }
}

fn a_flood_of_output_is_cut_and_said_to_be(launcher: Launcher) {
    let room = Room::on(launcher);
    let ran = room.fenced_with(
        &["--output", "64K", "--timeout", "60"],
        "echo head; yes | head -c 300000000; echo tail",
    );
    assert!(ran.stdout.len() < 100_000, "{}", ran.stdout.len());
    assert!(ran.stdout.starts_with("head\n") && ran.stdout.ends_with("tail\n"), "{}", &ran.stdout[..100]);
    assert_eq!(ran.json["truncated"], true);
    assert!(limits(&ran).contains(&"output"), "{:?}", limits(&ran));
}

fn time_disk_cpu_and_files_have_ends(launcher: Launcher) {
    let room = Room::on(launcher);
    let started = Instant::now();
    let ran =
        room.fenced_with(&["--timeout", "0.5"], "trap '' TERM INT HUP; sleep 60 & while :; do sleep 1; done");
    assert_eq!((ran.code, ran.json["timedOut"].as_bool()), (124, Some(true)));
    assert!(started.elapsed() < Duration::from_secs(30));
    let ran = room.fenced_with(&["--file-size", "1M"], "head -c 5M /dev/zero > big; wc -c < big");
    assert_eq!(ran.stdout.trim(), "1048576");
    let ran = room.fenced_with(&["--cpu", "1"], "while :; do :; done");
    assert!(limits(&ran).contains(&"cpu") && !ran.json.to_string().contains("0.8 s were used"), "{ran:?}");
    let ran = room.fenced("ulimit -c; ulimit -c unlimited 2>/dev/null; kill -SEGV $$");
    assert_eq!((ran.stdout.as_str(), ran.code), ("0\n", 139));
}

fn nothing_outlives_the_sandbox(launcher: Launcher) {
    let room = Room::on(launcher);
    let marker = format!("outlive-{}", std::process::id());
    let daemon = "import os,sys,time,signal
for s in (1,2,3,15): signal.signal(s, signal.SIG_IGN)
for i in range(3):
  if os.fork(): os._exit(0) if i else time.sleep(.1) or os._exit(0)
  os.setsid()
os.closerange(0, 100); time.sleep(300)";
    let ran = room.fenced(&format!(
        "setsid nohup sleep 300.{marker} >/dev/null 2>&1 </dev/null & disown; \
         (trap '' TERM HUP; exec -a {marker} sleep 300) & \
         python3 -c '{daemon}' {marker}; sleep 0.3; grep -c {marker} /proc/[0-9]*/cmdline | grep -vc ':0'"
    ));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        wait_until(Duration::from_secs(20), || processes_with(&marker).is_empty()),
        "{:?}",
        processes_with(&marker)
    );
}

/// A number that was read is gone when it is killed; only a child of the one who kills keeps it.
fn who_runs_from_process_to_process_is_caught(launcher: Launcher) {
    let room = Room::on(launcher);
    room.helper(&SIGNALS);
    let marker = format!("runaway-{}", std::process::id());
    let ran =
        room.fenced_with(&["--timeout", "60"], &format!("./signals run {marker} & sleep 0.3; echo done"));
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "done\n"), "{ran:?}");
    let is_over = || (0..20).all(|_| processes_with(&marker).is_empty());
    assert!(wait_until(Duration::from_secs(20), is_over), "{:?}", processes_with(&marker));
}

fn a_flood_of_refusals_ends_and_is_told_in_bounds(launcher: Launcher) {
    let room = Room::on(launcher);
    room.write(".vscode/settings.json", "{}");
    let ran = room.fenced_with(
        &["--timeout", "120"],
        "python3 -c '
for i in range(11000):
  try: open(\".vscode/evil%d\" % i, \"w\")
  except OSError: pass
try: open(\"/etc/shadow\")
except OSError: pass
'; true",
    );
    let told = ran.json["violations"].as_array().map_or(0, Vec::len);
    assert_eq!(told, 1000, "as many as a result keeps");
    let last = ran.json["violations"][999]["message"].as_str().unwrap_or_default();
    assert!(last.contains(" more refusals are not listed"), "{last}");
    assert_eq!(ran.code, 0);
}

fn no_file_is_left_anywhere(launcher: Launcher) {
    let room = Room::on(launcher);
    room.write(".env", "canary");
    room.write(".git/config", "");
    let before = names(&room.project);
    let temporary = || {
        let mut names: Vec<_> = std::fs::read_dir("/tmp").unwrap().flatten().map(|e| e.file_name()).collect();
        names.retain(|name| name.to_string_lossy().contains("ringfence"));
        names
    };
    let tmp = temporary();
    room.fenced(
        "mktemp; touch /tmp/ringfence-left /dev/shm/left /var/tmp/left ~/left /run/left; cat .env; false",
    );
    assert_eq!(names(&room.project), before);
    let new: Vec<_> = temporary().into_iter().filter(|name| !tmp.contains(name)).collect();
    assert!(!new.iter().any(|name| name == "ringfence-left"), "{new:?}");
    assert!(!std::path::Path::new("/dev/shm/left").exists());
}
