//! The FUSE protocol, as far as a file system needs it that refuses everything.
//!
//! Integers are in the machine's own order. Sizes and offsets are those of `linux/fuse.h`, protocol 7.31.

use rustix::io::Errno;

use super::Kind;

/// The protocol version that is spoken; newer kernels adapt to it.
const MAJOR: u32 = 7;
const MINOR: u32 = 31;

const HEADER: usize = 40;

/// Entries of a directory come with attributes, so that one request tells all traps.
const DO_READDIRPLUS: u32 = 1 << 13;
const PARALLEL_DIROPS: u32 = 1 << 18;

/// As long as the kernel may believe what never changes.
const LONG: u64 = 24 * 60 * 60;

/// The largest request that can arrive: what a write may carry, and its header.
pub(super) const REQUEST_SIZE: usize = 16 * 1024;
const MAX_WRITE: u32 = 4096;

/// What the kernel wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request<'a> {
    pub(super) unique: u64,
    pub(super) node: u64,
    /// The calling thread, numbered as in the sandbox; zero when the caller is not in it.
    pub(super) tid: i32,
    pub(super) body: Body<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body<'a> {
    Init {
        minor: u32,
        flags: u32,
    },
    Lookup {
        name: &'a [u8],
    },
    Forget {
        count: u64,
    },
    ForgetMany {
        pairs: &'a [u8],
    },
    GetAttributes,
    SetAttributes {
        valid: u32,
    },
    Open {
        flags: i32,
    },
    OpenDirectory,
    ReadDirectory {
        offset: u64,
        size: u32,
    },
    Access {
        mask: u32,
    },
    /// Makes `name` in the directory.
    Make {
        how: Make,
        name: &'a [u8],
    },
    Remove {
        name: &'a [u8],
    },
    Rename {
        name: &'a [u8],
    },
    ChangeXattr,
    Statfs,
    /// Ends the use of something; always granted.
    Done,
    /// Needs no answer.
    Silent,
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Make {
    File,
    Directory,
    Symlink,
    Link,
}

impl<'a> Request<'a> {
    /// None when it is no whole request.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let length = usize::try_from(word(bytes, 0)?).ok()?;
        let arguments = bytes.get(HEADER..length)?;
        let opcode = word(bytes, 4)?;
        let body = match opcode {
            1 => Body::Lookup { name: name(arguments)? },
            2 => Body::Forget { count: long(arguments, 0)? },
            3 => Body::GetAttributes,
            4 => Body::SetAttributes { valid: word(arguments, 0)? },
            6 => Body::Make { how: Make::Symlink, name: name(arguments)? },
            8 => Body::Make { how: Make::File, name: name(arguments.get(16..)?)? },
            9 => Body::Make { how: Make::Directory, name: name(arguments.get(8..)?)? },
            10 | 11 => Body::Remove { name: name(arguments)? },
            12 => Body::Rename { name: name(arguments.get(8..)?)? },
            13 => Body::Make { how: Make::Link, name: name(arguments.get(8..)?)? },
            14 => Body::Open { flags: word(arguments, 0)?.cast_signed() },
            17 => Body::Statfs,
            18 | 20 | 25 | 29 | 30 => Body::Done,
            21 | 24 => Body::ChangeXattr,
            26 => Body::Init { minor: word(arguments, 4)?, flags: word(arguments, 12)? },
            27 => Body::OpenDirectory,
            34 => Body::Access { mask: word(arguments, 0)? },
            35 => Body::Make { how: Make::File, name: name(arguments.get(16..)?)? },
            // Requests are answered one by one: what is interrupted has been answered before this is read.
            36 | 41 => Body::Silent,
            42 => Body::ForgetMany { pairs: arguments.get(8..)? },
            44 => Body::ReadDirectory { offset: long(arguments, 8)?, size: word(arguments, 16)? },
            45 => Body::Rename { name: name(arguments.get(16..)?)? },
            _ => Body::Unknown,
        };
        let tid = word(bytes, 32)?.cast_signed();
        Some(Self { unique: long(bytes, 8)?, node: long(bytes, 16)?, tid, body })
    }
}

/// The pairs of node and count of a [`Body::ForgetMany`].
pub(super) fn pairs(bytes: &[u8]) -> impl Iterator<Item = (u64, u64)> {
    bytes.chunks_exact(16).filter_map(|pair| Some((long(pair, 0)?, long(pair, 8)?)))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Up to the terminator.
fn name(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.iter().position(|&b| b == 0)?;
    Some(&bytes[..end])
}

/// A reply under construction.
#[derive(Debug, Default)]
pub(super) struct Reply(Vec<u8>);

impl Reply {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn begin(&mut self, unique: u64, error: i32) -> &mut Self {
        self.0.clear();
        self.word(0).word(error.cast_unsigned()).long(unique)
    }

    /// Writes the length, known at the end only, into its place at the beginning.
    fn end(&mut self) {
        let length = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
    }

    fn half(&mut self, value: u16) -> &mut Self {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    fn word(&mut self, value: u32) -> &mut Self {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    fn long(&mut self, value: u64) -> &mut Self {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    fn zeros(&mut self, count: usize) -> &mut Self {
        self.0.resize(self.0.len() + count, 0);
        self
    }

    pub(super) fn error(&mut self, unique: u64, errno: Errno) {
        self.begin(unique, -errno.raw_os_error()).end();
    }

    pub(super) fn done(&mut self, unique: u64) {
        self.begin(unique, 0).end();
    }

    pub(super) fn init(&mut self, unique: u64, minor: u32, offered: u32) {
        let flags = offered & (DO_READDIRPLUS | PARALLEL_DIROPS);
        self.begin(unique, 0).word(MAJOR).word(MINOR.min(minor)).word(0).word(flags);
        // Background requests and when there are too many of them; nothing here is done in the background.
        self.half(8).half(6);
        self.word(MAX_WRITE).word(1).half(0).half(0).word(0).zeros(28).end();
    }

    /// An entry whose name must be looked up again each time.
    pub(super) fn entry(&mut self, unique: u64, node: u64, kind: Kind) {
        self.begin(unique, 0).entry_of(node, kind, 0, 0).end();
    }

    fn entry_of(&mut self, node: u64, kind: Kind, name_valid: u64, attributes_valid: u64) -> &mut Self {
        self.long(node)
            .long(0)
            .long(name_valid)
            .long(attributes_valid)
            .word(0)
            .word(0)
            .attributes_of(node, kind)
    }

    pub(super) fn attributes(&mut self, unique: u64, node: u64, kind: Kind) {
        self.begin(unique, 0).long(0).word(0).word(0).attributes_of(node, kind).end();
    }

    /// What nobody may use: mode 000, nobody's, empty.
    fn attributes_of(&mut self, node: u64, kind: Kind) -> &mut Self {
        let (mode, links) = match kind {
            Kind::Directory => (libc::S_IFDIR, 2),
            Kind::File => (libc::S_IFREG, 1),
        };
        let owner = rustix::process::geteuid().as_raw();
        let group = rustix::process::getegid().as_raw();
        self.long(node)
            .zeros(5 * 8 + 3 * 4)
            .word(mode)
            .word(links)
            .word(owner)
            .word(group)
            .word(0)
            .word(4096)
            .word(0)
    }

    pub(super) fn statfs(&mut self, unique: u64) {
        self.begin(unique, 0).zeros(40).word(4096).word(255).word(4096).zeros(28).end();
    }

    pub(super) fn opened(&mut self, unique: u64) {
        self.begin(unique, 0).zeros(16).end();
    }

    /// The traps from `offset` on, each a name that stays; as many as fit into `size`.
    pub(super) fn traps(&mut self, unique: u64, offset: u64, size: u32, kinds: &[Kind], first: u64) {
        self.begin(unique, 0);
        let room = self.0.len() + size as usize;
        for (index, kind) in (0_u64..).zip(kinds).skip(usize::try_from(offset).unwrap_or(usize::MAX)) {
            let name = index.to_string();
            let padded = name.len().next_multiple_of(8);
            if self.0.len() + 128 + 24 + padded > room {
                break;
            }
            // A directory's own attributes never tell anything; of a file, to ask for them may be to execute it.
            let valid = if *kind == Kind::Directory { LONG } else { 0 };
            let entry_type = if *kind == Kind::Directory { libc::DT_DIR } else { libc::DT_REG };
            self.entry_of(first + index, *kind, LONG, valid);
            self.long(first + index).long(index + 1);
            self.word(u32::try_from(name.len()).unwrap_or(0)).word(entry_type.into());
            self.0.extend_from_slice(name.as_bytes());
            self.zeros(padded - name.len());
        }
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(opcode: u32, arguments: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&u32::try_from(HEADER + arguments.len()).unwrap().to_ne_bytes());
        bytes.extend_from_slice(&opcode.to_ne_bytes());
        bytes.extend_from_slice(&77_u64.to_ne_bytes());
        bytes.extend_from_slice(&5_u64.to_ne_bytes());
        for word in [1000_u32, 1000, 42, 0] {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
        bytes.extend_from_slice(arguments);
        bytes
    }

    #[test]
    fn names_are_found_behind_the_fixed_arguments() {
        for (opcode, fixed, body) in [
            (1, 0, Body::Lookup { name: b"key" }),
            (8, 16, Body::Make { how: Make::File, name: b"key" }),
            (9, 8, Body::Make { how: Make::Directory, name: b"key" }),
            (35, 16, Body::Make { how: Make::File, name: b"key" }),
            (13, 8, Body::Make { how: Make::Link, name: b"key" }),
            (10, 0, Body::Remove { name: b"key" }),
            (45, 16, Body::Rename { name: b"key" }),
        ] {
            let arguments = [&vec![7; fixed][..], b"key\0rest\0"].concat();
            let bytes = request(opcode, &arguments);
            assert_eq!(Request::parse(&bytes), Some(Request { unique: 77, node: 5, tid: 42, body }));
        }
    }

    #[test]
    fn a_request_that_is_cut_off_is_none() {
        let whole = request(1, b"key\0");
        for length in 0..whole.len() {
            assert_eq!(Request::parse(&whole[..length]), None, "{length}");
        }
        assert_eq!(Request::parse(&request(1, b"key")), None, "no terminator");
        assert_eq!(Request::parse(&request(14, &[0; 3])), None);
        assert_eq!(Request::parse(&request(4000, &[])).unwrap().body, Body::Unknown);
    }

    #[test]
    fn replies_have_the_sizes_the_kernel_expects() {
        let mut reply = Reply::default();
        let mut size = |make: &dyn Fn(&mut Reply)| {
            make(&mut reply);
            let length = word(reply.bytes(), 0).unwrap() as usize;
            assert_eq!(length, reply.bytes().len());
            assert_eq!(long(reply.bytes(), 8), Some(9));
            length - 16
        };
        assert_eq!(size(&|reply| reply.init(9, 45, u32::MAX)), 64);
        assert_eq!(size(&|reply| reply.entry(9, 3, Kind::File)), 128);
        assert_eq!(size(&|reply| reply.attributes(9, 3, Kind::File)), 104);
        assert_eq!(size(&|reply| reply.statfs(9)), 80);
        assert_eq!(size(&|reply| reply.opened(9)), 16);
        assert_eq!(size(&|reply| reply.error(9, Errno::ACCESS)), 0);
        reply.error(9, Errno::ACCESS);
        assert_eq!(word(reply.bytes(), 4).unwrap().cast_signed(), -libc::EACCES);
    }

    #[test]
    fn traps_are_told_as_far_as_they_fit_and_go_on_there() {
        let kinds = [Kind::Directory; 12];
        let entry = 128 + 24 + 8;
        let mut reply = Reply::default();
        reply.traps(9, 0, 4 * entry + 1, &kinds, 100);
        assert_eq!(reply.bytes().len(), 16 + 4 * entry as usize);
        // The last one says where to go on.
        let last = 16 + 3 * entry as usize;
        assert_eq!(long(reply.bytes(), last), Some(103));
        assert_eq!(long(reply.bytes(), last + 128 + 8), Some(4));
        reply.traps(9, 10, 4 * entry, &kinds, 100);
        assert_eq!(reply.bytes().len(), 16 + 2 * entry as usize);
        assert_eq!(&reply.bytes()[16 + 128 + 24..16 + 128 + 26], b"10");
        reply.traps(9, 12, 4 * entry, &kinds, 100);
        assert_eq!(reply.bytes().len(), 16);
    }
}
