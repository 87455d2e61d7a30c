//! Every target on its seeds and on mutations of them, by any compiler.

use std::path::Path;

/// Mutations for each target, unless more are asked for: a second or two of an unoptimised build.
const ROUNDS: usize = 3_000;

/// Pieces that are put in, besides single bytes.
const PIECES: &[&[u8]] = &[
    b"\n",
    b"\0",
    b"\xff",
    b"\"",
    b"'",
    b"$(",
    b"${",
    b"*** ",
    b"@@",
    b"**",
    b"[",
    b"{\"say\":",
    b"../",
    b"/",
];

/// xorshift: the same numbers each time, so that a failure is found again.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).unwrap() % end.max(1)
    }
}

fn run(name: &str, target: fn(&[u8])) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(name);
    let mut files: Vec<_> =
        std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let seeds: Vec<Vec<u8>> = files.iter().map(|file| std::fs::read(file).unwrap()).collect();
    assert!(!seeds.is_empty(), "no seeds in {}", directory.display());
    seeds.iter().for_each(|seed| target(seed));
    let rounds = std::env::var("RINGFENCE_FUZZ_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15);
    for _ in 0..rounds.unwrap_or(ROUNDS) {
        target(&mutated(&seeds, &mut numbers));
    }
}

fn mutated(seeds: &[Vec<u8>], numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = seeds[numbers.below(seeds.len())].clone();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(bytes.len() + 1);
        match numbers.below(5) {
            0 => bytes.truncate(at),
            1 if at < bytes.len() => bytes[at] = u8::try_from(numbers.below(256)).unwrap(),
            2 if at < bytes.len() => drop(bytes.drain(at..(at + 1 + numbers.below(8)).min(bytes.len()))),
            3 => {
                let other = &seeds[numbers.below(seeds.len())];
                let from = numbers.below(other.len() + 1);
                bytes.splice(at..at, other[from..].iter().copied().take(64));
            }
            _ => drop(bytes.splice(at..at, PIECES[numbers.below(PIECES.len())].iter().copied())),
        }
    }
    bytes
}

#[test]
fn bash_parse_keeps_its_promises() {
    run("bash_parse", crate::bash_parse);
}

#[test]
fn gate_judge_keeps_its_promises() {
    run("gate_judge", crate::gate_judge);
}

#[test]
fn patch_keeps_its_promises() {
    run("patch", crate::patch);
}

#[test]
fn policy_pattern_keeps_its_promises() {
    run("policy_pattern", crate::policy_pattern);
}

#[test]
fn guest_wire_keeps_its_promises() {
    run("guest_wire", crate::guest_wire);
}

#[cfg(target_os = "linux")]
#[test]
fn fuse_wire_keeps_its_promises() {
    run("fuse_wire", crate::fuse_wire);
}

/// A target that no program of `fuzz/` has is fuzzed by nobody.
#[test]
fn every_target_has_a_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for entry in std::fs::read_dir(root.join("seeds")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let program = root.join("../../fuzz/fuzz_targets").join(format!("{name}.rs"));
        let text = std::fs::read_to_string(&program).unwrap();
        assert!(text.contains(&format!("ringfence_fuzz::{name}(")), "{}", program.display());
    }
}
