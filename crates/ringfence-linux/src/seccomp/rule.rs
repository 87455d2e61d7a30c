//! The words the seccomp tables are written in.

/// The machines whose tables exist. Both are little-endian, which the argument loads rely on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arch {
    X86_64,
    Aarch64,
}

impl Arch {
    /// The machine this was compiled for.
    #[cfg(target_arch = "x86_64")]
    pub const HOST: Self = Self::X86_64;
    /// The machine this was compiled for.
    #[cfg(target_arch = "aarch64")]
    pub const HOST: Self = Self::Aarch64;

    /// `AUDIT_ARCH_*`: what the kernel puts into `seccomp_data.arch`.
    #[must_use]
    pub const fn audit(self) -> u32 {
        match self {
            Self::X86_64 => 0xC000_003E,
            Self::Aarch64 => 0xC000_00B7,
        }
    }

    /// The first number above every call the tables were written against.
    ///
    /// A later kernel may give it a meaning nobody here has judged.
    #[must_use]
    pub const fn first_unknown(self) -> u32 {
        match self {
            Self::X86_64 => number(syscalls::x86_64::Sysno::last().id()) + 1,
            Self::Aarch64 => number(syscalls::aarch64::Sysno::last().id()) + 1,
        }
    }
}

#[expect(clippy::cast_sign_loss, reason = "system call numbers are never negative")]
pub(crate) const fn number(id: i32) -> u32 {
    id as u32
}

/// A system call by name, with its number on each machine that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    pub name: &'static str,
    pub x86_64: Option<u32>,
    pub aarch64: Option<u32>,
}

impl Call {
    #[must_use]
    pub const fn number(&self, arch: Arch) -> Option<u32> {
        match arch {
            Arch::X86_64 => self.x86_64,
            Arch::Aarch64 => self.aarch64,
        }
    }
}

/// `call!(openat)` exists on every machine, `call!(x86 open)` on `x86_64` only.
macro_rules! call {
    (x86 $name:ident) => {
        $crate::seccomp::rule::Call {
            name: stringify!($name),
            x86_64: Some($crate::seccomp::rule::number(syscalls::x86_64::Sysno::$name.id())),
            aarch64: None,
        }
    };
    ($name:ident) => {
        $crate::seccomp::rule::Call {
            name: stringify!($name),
            x86_64: Some($crate::seccomp::rule::number(syscalls::x86_64::Sysno::$name.id())),
            aarch64: Some($crate::seccomp::rule::number(syscalls::aarch64::Sysno::$name.id())),
        }
    };
}
pub(crate) use call;

/// What the kernel shall do with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Allow,
    /// The call does not happen and returns this error.
    Errno(u16),
    /// The caller waits while the supervisor is asked.
    Notify,
    /// The process ends at once.
    Kill,
}

impl Verdict {
    /// The value a seccomp program returns for it.
    #[must_use]
    pub const fn code(self) -> u32 {
        match self {
            Self::Allow => libc::SECCOMP_RET_ALLOW,
            Self::Errno(errno) => libc::SECCOMP_RET_ERRNO | errno as u32,
            Self::Notify => libc::SECCOMP_RET_USER_NOTIF,
            Self::Kill => libc::SECCOMP_RET_KILL_PROCESS,
        }
    }
}

/// One test of one argument: whether `argument & mask` equals `value`, or does not.
///
/// The kernel cuts `int` arguments to 32 bits before it looks at them, so a test of such an argument
/// must ignore the upper half; the `int_*` constructors do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Test {
    pub arg: u8,
    pub mask: u64,
    pub value: u64,
    /// Whether the test holds when the two are equal, or when they differ.
    pub equal: bool,
}

impl Test {
    /// The `int` argument is this value.
    #[must_use]
    pub const fn int_is(arg: u8, value: u32) -> Self {
        Self { arg, mask: u32::MAX as u64, value: value as u64, equal: true }
    }

    /// The `int` argument is anything but this value.
    #[must_use]
    pub const fn int_is_not(arg: u8, value: u32) -> Self {
        Self { equal: false, ..Self::int_is(arg, value) }
    }

    /// These bits of the `int` argument have this value.
    #[must_use]
    pub const fn int_bits(arg: u8, mask: u32, value: u32) -> Self {
        Self { arg, mask: mask as u64, value: value as u64, equal: true }
    }

    /// At least one of these bits is set.
    #[must_use]
    pub const fn any_of(arg: u8, mask: u64) -> Self {
        Self { arg, mask, value: 0, equal: false }
    }

    /// The pointer argument is not null.
    #[must_use]
    pub const fn not_null(arg: u8) -> Self {
        Self::any_of(arg, u64::MAX)
    }

    /// Whether it holds for these arguments.
    #[must_use]
    pub const fn holds(&self, args: &[u64; 6]) -> bool {
        ((args[self.arg as usize] & self.mask) == self.value) == self.equal
    }
}
