//! A machine for classic BPF as seccomp allows it, so that programs can be judged without a kernel.

use libc::sock_filter;

/// What a program is asked about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Data {
    pub(super) nr: u32,
    pub(super) arch: u32,
    pub(super) args: [u64; 6],
}

impl Data {
    fn word(&self, offset: u32) -> u32 {
        let mut bytes = [0; 64];
        bytes[0..4].copy_from_slice(&self.nr.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.arch.to_le_bytes());
        for (i, arg) in self.args.iter().enumerate() {
            bytes[16 + 8 * i..][..8].copy_from_slice(&arg.to_le_bytes());
        }
        assert_eq!(offset % 4, 0, "unaligned load");
        u32::from_le_bytes(bytes[offset as usize..][..4].try_into().unwrap())
    }
}

/// A finished run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    /// What the program returned.
    pub(super) code: u32,
    /// Instructions executed.
    pub(super) steps: usize,
    /// An argument was looked at: the kernel cannot decide this call by its number.
    pub(super) looked: bool,
}

pub(super) fn run(program: &[sock_filter], data: &Data) -> Run {
    let (mut a, mut pc, mut steps, mut looked) = (0_u32, 0, 0, false);
    loop {
        let sock_filter { code, jt, jf, k } = program[pc];
        steps += 1;
        pc += 1;
        let mut jump = |taken: bool| pc += usize::from(if taken { jt } else { jf });
        match code {
            0x20 => {
                a = data.word(k);
                looked |= k >= 8;
            }
            0x54 => a &= k,
            0x05 => pc += k as usize,
            0x15 => jump(a == k),
            0x25 => jump(a > k),
            0x35 => jump(a >= k),
            0x45 => jump(a & k != 0),
            0x06 => return Run { code: k, steps, looked },
            _ => panic!("instruction {code:#x} at {} is not one seccomp takes", pc - 1),
        }
    }
}

/// What the kernel demands before it takes a program: known instructions, all jumps inside, a return at the
/// end, at most 4096 instructions.
pub(super) fn verify(program: &[sock_filter]) {
    assert!((1..=4096).contains(&program.len()));
    for (i, ins) in program.iter().enumerate() {
        let left = program.len() - i - 1;
        match ins.code {
            0x20 => assert!(ins.k < 64 && ins.k % 4 == 0),
            0x54 | 0x06 => {}
            0x05 => assert!((ins.k as usize) < left),
            0x15 | 0x25 | 0x35 | 0x45 => assert!(usize::from(ins.jt.max(ins.jf)) < left),
            code => panic!("instruction {code:#x} at {i}"),
        }
    }
    assert_eq!(program.last().unwrap().code, 0x06);
}
