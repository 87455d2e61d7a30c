//! The one thing the file bridge needs: a script run in a container.
//!
//! The bridge is written against [`Exec`] and not against an engine, so that its scripts are tested with every shell a
//! machine has, and so that the engine may run them however is fastest.

use ringfence_fence::BoxFuture;
use ringfence_model::Result;
use tokio::io::{AsyncRead, AsyncWrite};

/// How much of what a script says on stderr is kept; the rest is read and dropped.
pub const STDERR_KEPT: usize = 16 * 1024;

/// What `$0` is called in a script, and so what its shell's own messages begin with.
pub const SCRIPT_NAME: &str = "ringfence";

/// A script for the `sh` of the container: `sh -c TEXT ringfence ARGUMENT…`, as the container's user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Script<'a> {
    /// POSIX `sh`. It is one of ours, never made from anything that comes from outside.
    pub text: &'a str,
    /// `$1`, `$2` and so on, exactly as given: nothing in them is special.
    pub arguments: &'a [&'a str],
}

/// What came of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// The script's exit status; 128 and the signal's number when a signal ended it.
    pub code: i32,
    /// The first [`STDERR_KEPT`] bytes.
    pub stderr: Vec<u8>,
}

/// Where a script's standard input comes from.
pub type Input<'a> = &'a mut (dyn AsyncRead + Send + Unpin);

/// Where a script's standard output goes.
pub type Output<'a> = &'a mut (dyn AsyncWrite + Send + Unpin);

/// Runs scripts in one container.
pub trait Exec: Send + Sync + std::fmt::Debug {
    /// Runs `script` to its end: feeds it `input` and then the end of input, and hands what it writes to `output` as it
    /// comes, both at once and neither held in memory.
    ///
    /// - A script that ends, or closes its input, before it has read everything is no error: its status counts.
    /// - An error of `input` or `output` ends the script and is returned. The script's input is *not* closed in an
    ///   orderly way then: it must not take half of it for all of it.
    /// - Dropping the future takes the script's input and output away. Engines have no call to end it; the scripts of the bridge
    ///   then end by themselves, and change nothing for want of the rest.
    /// - An error means that the script may or may not have run; a script that failed by itself is an `Ok`.
    fn run<'a>(
        &'a self,
        script: Script<'a>,
        input: Input<'a>,
        output: Output<'a>,
    ) -> BoxFuture<'a, Result<Finished>>;
}
