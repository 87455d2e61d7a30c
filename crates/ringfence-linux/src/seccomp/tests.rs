//! The programs against their tables, for every number, both machines, and arguments chosen to hurt.

use super::interpret::{Data, Run, run, verify};
use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

const ARCHES: [Arch; 2] = [Arch::X86_64, Arch::Aarch64];
const ENOSYS: u32 = Verdict::Errno(38).code();
const ALLOW: u32 = Verdict::Allow.code();

/// One line of either table.
struct Line {
    call: Call,
    when: &'static [Test],
    verdict: Verdict,
}

struct Table {
    name: String,
    lines: Vec<Line>,
    unknown: u32,
    build: Box<dyn Fn(Arch) -> Vec<sock_filter>>,
    /// Instructions, and mean path of a call that the kernel can decide by its number alone.
    bounds: (usize, f64),
}

impl Table {
    fn verdict(&self, arch: Arch, data: &Data) -> u32 {
        if data.arch != arch.audit() || (arch == Arch::X86_64 && data.nr >= 0x4000_0000) {
            return ENOSYS;
        }
        if data.nr >= arch.first_unknown() {
            return self.unknown;
        }
        self.lines
            .iter()
            .filter(|line| line.call.number(arch) == Some(data.nr))
            .find(|line| line.when.iter().all(|test| test.holds(&data.args)))
            .map_or(ALLOW, |line| line.verdict.code())
    }

    /// Values worth trying for each argument of this call: every constant its tests compare with, one bit
    /// away from it, with and without an upper half.
    fn values(&self, arch: Arch, nr: u32) -> [Vec<u64>; 6] {
        std::array::from_fn(|arg| {
            let mut values = BTreeSet::from([0, 1, u64::MAX]);
            let lines = self.lines.iter().filter(|line| line.call.number(arch) == Some(nr));
            for test in lines.flat_map(|line| line.when).filter(|test| usize::from(test.arg) == arg) {
                values.extend([test.value, test.mask, !test.mask, test.value | !test.mask]);
                values.extend(
                    (0..64)
                        .filter(|bit| test.mask.count_ones() < 32 && test.mask >> bit & 1 == 1)
                        .map(|bit| 1 << bit),
                );
                values.extend([test.value ^ 1, test.value | 1 << 32, test.value | 1 << 63]);
            }
            values.into_iter().collect()
        })
    }
}

fn line(&DenyEntry { call, when, verdict, .. }: &DenyEntry) -> Line {
    Line { call, when, verdict }
}

fn deny_lines() -> impl Iterator<Item = Line> {
    deny_table().iter().map(line)
}

/// Where the supervisor is told.
fn told_lines() -> impl Iterator<Item = Line> {
    let verdict = |entry: &DenyEntry| if entry.is_worth_telling() { Verdict::Notify } else { entry.verdict };
    deny_table().iter().zip(deny_lines()).map(move |(entry, line)| Line { verdict: verdict(entry), ..line })
}

fn notify_lines(set: NotifySet) -> impl Iterator<Item = Line> {
    notify_table().iter().filter(move |entry| set.selects(entry.group)).map(|entry| Line {
        call: entry.call,
        when: entry.when,
        verdict: Verdict::Notify,
    })
}

fn tables() -> Vec<Table> {
    let deny = Table {
        name: "static".into(),
        lines: deny::UNSEEN_OPENS.iter().map(line).chain(deny_lines()).collect(),
        unknown: ENOSYS,
        build: Box::new(static_program_for),
        bounds: (190, 12.0),
    };
    let sets = [
        ("full", NotifySet::full(), (75, 11.0)),
        ("writes", NotifySet::writes(), (75, 11.0)),
        ("off", NotifySet::off(), (8, 6.0)),
        ("connections", NotifySet::connections(), (20, 8.0)),
        ("everything", NotifySet { datagrams: true, ..NotifySet::everything() }, (105, 11.0)),
        ("all", NotifySet { sends: Sends::All, execs: true, ..NotifySet::full() }, (75, 11.0)),
        ("cwd", NotifySet { all_names: false, ..NotifySet::writes() }, (75, 11.0)),
    ];
    let notify = sets.map(|(name, set, bounds)| Table {
        name: format!("notify {name}"),
        lines: notify_lines(set).collect(),
        unknown: ALLOW,
        build: Box::new(move |arch| notify_program_for(arch, &set)),
        bounds,
    });
    let combined = Table {
        name: "combined full".into(),
        lines: told_lines().chain(notify_lines(NotifySet::full())).collect(),
        unknown: ENOSYS,
        build: Box::new(|arch| combined_program_for(arch, &NotifySet::full())),
        bounds: (200, 13.0),
    };
    [deny, combined].into_iter().chain(notify).collect()
}

/// Every number up to well beyond the last, and those with special bits.
fn numbers() -> impl Iterator<Item = u32> {
    (0..1100).chain([4096, 0x3fff_ffff, 0x4000_0000, 0x4000_0101, 0x7fff_ffff, 0x8000_0000, u32::MAX])
}

fn product(values: &[Vec<u64>; 6]) -> impl Iterator<Item = [u64; 6]> {
    let mut at = Some([0; 6]);
    std::iter::from_fn(move || {
        let now = at?;
        let mut next = now;
        at = (0..6).find_map(|i| {
            next[i] += 1;
            if next[i] < values[i].len() {
                return Some(next);
            }
            next[i] = 0;
            None
        });
        Some(std::array::from_fn(|i| values[i][now[i]]))
    })
}

#[test]
fn programs_say_what_the_tables_say() {
    for table in tables() {
        for arch in ARCHES {
            let program = (table.build)(arch);
            verify(&program);
            let mut judged = 0_usize;
            for nr in numbers() {
                let mut values = table.values(arch, nr);
                // Arguments no test looks at need no trying.
                for (arg, values) in values.iter_mut().enumerate() {
                    if values.len() == 3 && arg > 0 {
                        values.truncate(1);
                    }
                }
                for args in product(&values) {
                    let data = Data { nr, arch: arch.audit(), args };
                    let got = run(&program, &data).code;
                    assert_eq!(got, table.verdict(arch, &data), "{} {arch:?} {data:x?}", table.name);
                    judged += 1;
                }
            }
            assert!(judged > 1000);
        }
    }
}

#[test]
fn what_the_supervisor_is_told_of_it_refuses() {
    for entry in deny_table().iter().filter(|entry| entry.is_worth_telling()) {
        let Some(nr) = entry.call.number(Arch::HOST) else { continue };
        let mut args = [0; 6];
        for test in entry.when {
            args[usize::from(test.arg)] = if test.equal { test.value } else { test.mask & !test.value };
        }
        let found = refusal(i64::from(nr), &args);
        assert!(found.is_some_and(|found| found.call == entry.call), "{}", entry.call.name);
    }
    assert!(refusal(libc::SYS_clone, &[17, 0, 0, 0, 0, 0]).is_none());
    assert!(refusal(libc::SYS_mknodat, &[0, 0, 0o010_644, 0, 0, 0]).is_none());
    assert!(refusal(libc::SYS_getpid, &[0; 6]).is_none());
}

#[test]
fn foreign_interfaces_are_refused() {
    const I386: u32 = 0x4000_0003;
    const ARM: u32 = 0x4000_0028;
    for table in tables() {
        for arch in ARCHES {
            let program = (table.build)(arch);
            let other = if arch == Arch::X86_64 { Arch::Aarch64 } else { Arch::X86_64 };
            for foreign in [I386, ARM, other.audit(), 0, u32::MAX, arch.audit() ^ 1] {
                for nr in numbers() {
                    let data = Data { nr, arch: foreign, args: [0; 6] };
                    assert_eq!(run(&program, &data).code, ENOSYS, "{} {arch:?} {data:x?}", table.name);
                }
            }
            if arch == Arch::X86_64 {
                for nr in 0..1100 {
                    let data = Data { nr: nr | 0x4000_0000, arch: arch.audit(), args: [0; 6] };
                    assert_eq!(run(&program, &data).code, ENOSYS, "{} x32 {nr}", table.name);
                }
            }
        }
    }
}

#[test]
fn programs_are_small() {
    for table in tables() {
        for arch in ARCHES {
            let program = (table.build)(arch);
            let runs: Vec<Run> = (0..arch.first_unknown())
                .map(|nr| run(&program, &Data { nr, arch: arch.audit(), args: [0; 6] }))
                .collect();
            let steps: usize = runs.iter().map(|run| run.steps).sum();
            let mean = steps as f64 / runs.len() as f64;
            let looked = runs.iter().filter(|run| run.looked).count();
            println!(
                "{:14} {arch:?}: {} instructions, mean path {mean:.1}, {looked} calls need their arguments",
                table.name,
                program.len()
            );
            let (instructions, path) = table.bounds;
            assert!(program.len() <= instructions, "{} {arch:?}: {}", table.name, program.len());
            assert!(mean <= path, "{} {arch:?}: {mean}", table.name);
        }
    }
}

#[test]
fn tables_are_sound() {
    for entry in deny_table() {
        assert!(entry.reason.len() > 15, "{} has no reason", entry.call.name);
        assert_ne!(entry.verdict, Verdict::Notify);
    }
    for table in tables() {
        for line in &table.lines {
            for test in line.when {
                assert_eq!(test.value & !test.mask, 0, "{}: this test never holds", line.call.name);
                assert!(test.mask != 0 && test.arg < 6, "{}: tests nothing", line.call.name);
            }
        }
        // A line that can go without changing anything is a mistake.
        for (i, line) in table.lines.iter().enumerate() {
            let before = &table.lines[..i];
            let shadowed = before.iter().any(|other| {
                other.call == line.call && other.when.iter().all(|test| line.when.contains(test))
            });
            assert!(!shadowed || line.verdict == Verdict::Notify, "{} line {i} is never reached", table.name);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn random_calls_are_judged_alike(nr in 0_u32..480, high in any::<u32>(), args in any::<[u64; 6]>(), bits in any::<[u8; 6]>()) {
        let tables = tables();
        for table in &tables {
            for arch in ARCHES {
                let program = (table.build)(arch);
                // Small numbers are what arguments mostly are.
                let small: [u64; 6] = std::array::from_fn(|i| args[i] >> (bits[i] % 64));
                for args in [args, small] {
                    for nr in [nr, high] {
                        let data = Data { nr, arch: arch.audit(), args };
                        prop_assert_eq!(run(&program, &data).code, table.verdict(arch, &data));
                    }
                }
            }
        }
    }
}
