//! Instructions.
//!
//! The code is written from its end: BPF only jumps forward, so every target is in place before the jumps
//! to it. A jump reaches 255 instructions; what lies further is given a stepping stone.

use super::decide::{Atom, Graph, Node, NodeId};
use super::rule::Arch;
use libc::sock_filter;

const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const JEQ: u16 = 0x15;
const JGE: u16 = 0x35;
const JSET: u16 = 0x45;
const RET: u16 = 0x06;

/// Words of `seccomp_data`.
const NR: u32 = 0;
const ARCH: u32 = 4;

/// So many single numbers are compared one after the other where a split would cost more instructions.
const CHAIN: usize = 3;

/// The call numbers from `start` up to the next span, which all lead to one node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) start: u32,
    pub(super) node: NodeId,
}

/// How the machine answers an [`Atom`].
struct Compare {
    op: u16,
    k: u32,
    /// The instruction jumps when the atom is false.
    inverted: bool,
    /// The part of the word that the accumulator must hold.
    mask: u32,
}

impl Atom {
    fn compare(self) -> Compare {
        let Self { mask, value, .. } = self;
        if mask == u32::MAX {
            Compare { op: JEQ, k: value, inverted: false, mask }
        } else if value == 0 {
            Compare { op: JSET, k: mask, inverted: true, mask: u32::MAX }
        } else if mask.is_power_of_two() {
            Compare { op: JSET, k: mask, inverted: false, mask: u32::MAX }
        } else {
            Compare { op: JEQ, k: value, inverted: false, mask }
        }
    }
}

/// The ways into a branch, by what the accumulator holds.
#[derive(Debug, Clone, Copy)]
enum Entry {
    /// Anything: load, mask, compare.
    Load,
    /// The word: mask, compare.
    Mask,
    /// The masked word: compare.
    Compare,
}

/// How to enter `child` from a branch on `parent`.
fn entry(child: &Node, parent: Atom) -> Entry {
    let Node::Branch { atom, .. } = child else { return Entry::Load };
    let holds = parent.compare().mask;
    if atom.word != parent.word {
        Entry::Load
    } else if atom.compare().mask == holds {
        Entry::Compare
    } else if holds == u32::MAX {
        Entry::Mask
    } else {
        Entry::Load
    }
}

/// A place in the code, counted from its end.
type Position = usize;

#[derive(Debug, Clone, Copy, Default)]
struct Place {
    load: Position,
    mask: Position,
    compare: Position,
}

impl Place {
    const fn at(self, entry: Entry) -> Position {
        match entry {
            Entry::Load => self.load,
            Entry::Mask => self.mask,
            Entry::Compare => self.compare,
        }
    }
}

/// Which parts of a node somebody jumps to.
#[derive(Debug, Clone, Copy, Default)]
struct Needs {
    used: bool,
    load: bool,
    mask: bool,
}

impl Needs {
    fn add(&mut self, entry: Entry) {
        self.used = true;
        match entry {
            Entry::Load => self.load = true,
            Entry::Mask => self.mask = true,
            Entry::Compare => {}
        }
    }

    fn of(graph: &Graph, spans: &[Span], foreign: NodeId) -> Vec<Self> {
        let nodes = graph.nodes();
        let mut needs = vec![Self::default(); nodes.len()];
        needs[foreign].add(Entry::Load);
        for span in spans {
            needs[span.node].add(Entry::Load);
        }
        for (id, node) in nodes.iter().enumerate().rev() {
            if let Node::Branch { atom, yes, no } = *node
                && needs[id].used
            {
                needs[yes].add(entry(&nodes[yes], atom));
                needs[no].add(entry(&nodes[no], atom));
            }
        }
        needs
    }
}

#[derive(Debug)]
pub(super) struct Code {
    /// The last instruction first.
    reversed: Vec<sock_filter>,
    places: Vec<Place>,
}

impl Code {
    /// The argument tests and the returns.
    pub(super) fn new(graph: &Graph, spans: &[Span], foreign: NodeId) -> Self {
        let nodes = graph.nodes();
        let needs = Needs::of(graph, spans, foreign);
        let mut code =
            Self { reversed: Vec::with_capacity(320), places: vec![Place::default(); nodes.len()] };
        for (id, node) in nodes.iter().enumerate().filter(|(id, _)| needs[*id].used) {
            code.places[id] = match *node {
                Node::Ret(value) => {
                    let at = code.push(RET, value);
                    Place { load: at, mask: at, compare: at }
                }
                Node::Branch { atom, yes, no } => {
                    let yes = code.places[yes].at(entry(&nodes[yes], atom));
                    let no = code.places[no].at(entry(&nodes[no], atom));
                    code.test(atom, yes, no, needs[id])
                }
            };
        }
        code
    }

    /// The tree in front of them, and the check of the machine in front of that.
    pub(super) fn finish(mut self, spans: &[Span], arch: Arch, foreign: NodeId) -> Vec<sock_filter> {
        let tree = self.tree(spans, u32::MAX);
        self.continue_at(tree);
        let tree = self.push(LOAD, NR);
        let foreign = self.places[foreign].load;
        self.branch(JEQ, arch.audit(), tree, foreign);
        self.push(LOAD, ARCH);
        self.reversed.reverse();
        self.reversed
    }

    fn test(&mut self, atom: Atom, yes: Position, no: Position, needs: Needs) -> Place {
        let Compare { op, k, inverted, mask } = atom.compare();
        let compare = if inverted { self.branch(op, k, no, yes) } else { self.branch(op, k, yes, no) };
        let masked = mask != u32::MAX && (needs.mask || needs.load);
        let mask = if masked { self.push(AND, mask) } else { compare };
        let load = if needs.load { self.push(LOAD, atom.word) } else { mask };
        Place { load, mask, compare }
    }

    /// A search among these spans, the last of which ends before `end`.
    fn tree(&mut self, spans: &[Span], end: u32) -> Position {
        if let [only] = spans {
            return self.places[only.node].load;
        }
        if let Some(usual) = chained(spans, end) {
            let mut next = self.places[usual].load;
            for span in spans.iter().rev().filter(|span| span.node != usual) {
                let yes = self.places[span.node].load;
                next = self.branch(JEQ, span.start, yes, next);
            }
            return next;
        }
        let (low, high) = spans.split_at(spans.len() / 2);
        let bound = high[0].start;
        let high = self.tree(high, end);
        let low = self.tree(low, bound);
        self.branch(JGE, bound, high, low)
    }

    fn push(&mut self, code: u16, k: u32) -> Position {
        self.reversed.push(sock_filter { code, jt: 0, jf: 0, k });
        self.reversed.len() - 1
    }

    fn branch(&mut self, code: u16, k: u32, yes: Position, no: Position) -> Position {
        // A stepping stone for one target pushes the other one further away by one.
        let yes = self.within_reach(yes, 1);
        let no = self.within_reach(no, 0);
        let (jt, jf) = (self.distance(yes), self.distance(no));
        self.reversed.push(sock_filter { code, jt, jf, k });
        self.reversed.len() - 1
    }

    /// A position which a jump, written after `margin` more instructions, can reach, and which goes on at
    /// `target`.
    fn within_reach(&mut self, target: Position, margin: usize) -> Position {
        let distance = self.reversed.len() - target - 1;
        if distance + margin <= usize::from(u8::MAX) {
            return target;
        }
        match self.reversed[target] {
            sock_filter { code: RET, k, .. } => self.push(RET, k),
            _ => self.jump(target),
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "programs have at most 4096 instructions")]
    fn jump(&mut self, target: Position) -> Position {
        let distance = self.reversed.len() - target - 1;
        self.push(JUMP, distance as u32)
    }

    /// Makes the instruction written next fall through to `target`.
    fn continue_at(&mut self, target: Position) {
        if target + 1 != self.reversed.len() {
            self.jump(target);
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "within_reach made it fit")]
    fn distance(&self, target: Position) -> u8 {
        let distance = self.reversed.len() - target - 1;
        debug_assert!(distance <= usize::from(u8::MAX));
        distance as u8
    }
}

/// The node that a chain of equality tests falls through to, if these spans are few enough single numbers
/// in between of it.
fn chained(spans: &[Span], end: u32) -> Option<NodeId> {
    let single = |i: usize| {
        let next = spans.get(i + 1).map_or(end, |next| next.start);
        next - spans[i].start == 1
    };
    spans.iter().take(2).map(|span| span.node).find(|usual| {
        let mut others = 0;
        spans.iter().enumerate().all(|(i, span)| {
            span.node == *usual || {
                others += 1;
                others <= CHAIN && others < spans.len() - 1 && single(i)
            }
        })
    })
}
