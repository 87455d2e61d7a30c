//! The cases of a call as a graph of 32-bit tests.

use super::rule::{Test, Verdict};

/// Where the arguments start in `seccomp_data`.
const ARGS: u32 = 16;

/// A verdict on a call, and the tests that must all hold for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub(super) nr: u32,
    pub(super) tests: &'static [Test],
    pub(super) verdict: Verdict,
}

/// A test of one 32-bit word of the call: whether `word & mask == value`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Atom {
    pub(super) word: u32,
    pub(super) mask: u32,
    pub(super) value: u32,
}

impl Atom {
    /// Its truth, if what is known already settles it.
    fn known(self, facts: &[(Self, bool)]) -> Option<bool> {
        facts.iter().filter(|(fact, _)| fact.word == self.word).find_map(|&(fact, truth)| {
            let both = fact.mask & self.mask;
            let agree = fact.value & both == self.value & both;
            match truth {
                true if !agree => Some(false),
                true if both == self.mask => Some(true),
                false if agree && both == fact.mask => Some(false),
                true | false => None,
            }
        })
    }
}

impl Test {
    fn atoms(&self) -> impl Iterator<Item = Atom> {
        let (mask, value) = (halves(self.mask), halves(self.value));
        let word = ARGS + 8 * u32::from(self.arg);
        let low = Atom { word, mask: mask[0], value: value[0] };
        let high = Atom { word: word + 4, mask: mask[1], value: value[1] };
        [low, high].into_iter().filter(|atom| atom.mask != 0)
    }

    /// Its truth under these facts, or the first atom it hangs on.
    fn settle(&self, facts: &[(Atom, bool)]) -> Result<bool, Atom> {
        let mut open = None;
        for atom in self.atoms() {
            match atom.known(facts) {
                Some(true) => {}
                Some(false) => return Ok(!self.equal),
                None => open = open.or(Some(atom)),
            }
        }
        open.map_or(Ok(self.equal), Err)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the two halves")]
const fn halves(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

pub(super) type NodeId = usize;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Node {
    Ret(u32),
    Branch { atom: Atom, yes: NodeId, no: NodeId },
}

/// Decisions, each kept once. A node comes after those it leads to.
#[derive(Debug)]
pub(super) struct Graph {
    nodes: Vec<Node>,
    /// What the decision under way has found out so far.
    facts: Vec<(Atom, bool)>,
}

impl Graph {
    pub(super) fn new() -> Self {
        Self { nodes: Vec::with_capacity(96), facts: Vec::with_capacity(16) }
    }

    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub(super) fn ret(&mut self, verdict: Verdict) -> NodeId {
        self.node(Node::Ret(verdict.code()))
    }

    fn node(&mut self, node: Node) -> NodeId {
        self.nodes.iter().position(|known| *known == node).unwrap_or_else(|| {
            self.nodes.push(node);
            self.nodes.len() - 1
        })
    }

    /// The decision these cases amount to: the first whose tests all hold, else allow.
    pub(super) fn decide(&mut self, cases: &[Case]) -> NodeId {
        for (i, case) in cases.iter().enumerate() {
            match self.settle(case) {
                Ok(true) => return self.ret(case.verdict),
                Ok(false) => {}
                Err(atom) => {
                    let yes = self.assume(atom, true, &cases[i..]);
                    let no = self.assume(atom, false, &cases[i..]);
                    return if yes == no { yes } else { self.node(Node::Branch { atom, yes, no }) };
                }
            }
        }
        self.ret(Verdict::Allow)
    }

    fn assume(&mut self, atom: Atom, truth: bool, cases: &[Case]) -> NodeId {
        self.facts.push((atom, truth));
        let node = self.decide(cases);
        self.facts.pop();
        node
    }

    fn settle(&self, case: &Case) -> Result<bool, Atom> {
        for test in case.tests {
            if !test.settle(&self.facts)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
