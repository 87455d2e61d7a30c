//! From rules to classic BPF.
//!
//! A [`Program`] starts from a machine, and assembling it writes the check of that machine first: a
//! program without it cannot be built. Then come a search tree over the call numbers, the argument
//! tests, and the returns they share:
//!
//! ```text
//!     ld  arch;  jeq AUDIT_ARCH, tree, enosys
//!     ld  nr;    jge …                            ; the tree
//!     ld  args[n];  jset …                        ; the argument tests
//!     ret allow; ret errno; …
//! ```
//!
//! Installing a filter costs about as much as its instructions times the system calls the kernel has,
//! because the kernel runs it once for every number to learn which ones need no filter at all. So paths
//! must be short (the tree) and instructions few (sharing).

use super::decide::{Case, Graph};
use super::emit::{Code, Span};
use super::rule::{Arch, Test, Verdict};
use libc::sock_filter;

/// Set in the number of every call made through the x32 interface of `x86_64`.
const X32: u32 = 0x4000_0000;

/// Rules for one machine, on their way to a program.
#[derive(Debug)]
pub struct Program {
    arch: Arch,
    unknown: Verdict,
    unnamed: Verdict,
    cases: Vec<Case>,
}

impl Program {
    /// A program that allows everything made through the native interface of that machine, and answers
    /// every call of another one (i386 and x32 on `x86_64`, arm on `aarch64`) with `ENOSYS`.
    #[must_use]
    pub fn for_arch(arch: Arch) -> Self {
        Self { arch, unknown: Verdict::Allow, unnamed: Verdict::Allow, cases: Vec::with_capacity(128) }
    }

    /// The verdict on numbers from [`Arch::first_unknown`] up.
    #[must_use]
    pub fn unknown(mut self, verdict: Verdict) -> Self {
        self.unknown = verdict;
        self
    }

    /// The verdict on calls that have no case, of every number.
    #[must_use]
    pub fn all_others(mut self, verdict: Verdict) -> Self {
        self.unknown = verdict;
        self.unnamed = verdict;
        self
    }

    /// Adds a case. The first case of a call whose tests all hold decides it; if none does, the call is
    /// allowed.
    pub fn add(&mut self, nr: u32, tests: &'static [Test], verdict: Verdict) {
        self.cases.push(Case { nr, tests, verdict });
    }

    /// The finished program.
    #[must_use]
    pub fn assemble(mut self) -> Vec<sock_filter> {
        let mut graph = Graph::new();
        let foreign = graph.ret(Verdict::Errno(ENOSYS));
        let unnamed = graph.ret(self.unnamed);
        self.cases.sort_by_key(|case| case.nr);

        let mut spans = Vec::with_capacity(128);
        put(&mut spans, 0, unnamed);
        for cases in self.cases.chunk_by(|a, b| a.nr == b.nr) {
            let node = graph.decide(cases);
            put(&mut spans, cases[0].nr, node);
            put(&mut spans, cases[0].nr + 1, unnamed);
        }
        let unknown = graph.ret(self.unknown);
        put(&mut spans, self.arch.first_unknown(), unknown);
        match self.arch {
            Arch::X86_64 => put(&mut spans, X32, foreign),
            Arch::Aarch64 => {}
        }
        Code::new(&graph, &spans, foreign).finish(&spans, self.arch, foreign)
    }
}

/// Sends every number from `start` up to `node`. Numbers must come in order.
fn put(spans: &mut Vec<Span>, start: u32, node: usize) {
    if spans.last().is_some_and(|last| last.start == start) {
        spans.pop();
    }
    if spans.last().is_none_or(|last| last.node != node) {
        spans.push(Span { start, node });
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a small positive number")]
const ENOSYS: u16 = libc::ENOSYS as u16;
