//! Limits: each ends the command, or the call, and is named in the result.

use ringfence_model::Policy;

use crate::conformance::case::Expect::{
    HostLacks, Limit, MarkerGone, NoViolation, StdoutHas, StdoutLacks, TimedOut, Truncated,
};
use crate::conformance::case::{Case, shell};
use crate::conformance::place::Place;

const MIB: u64 = 1 << 20;

pub(super) fn cases() -> Vec<Case> {
    vec![
        shell("limit/timeout", "bash -c 'exec -a {marker} sleep 300' & sleep 300")
            .policy(|policy, _| policy.limits.timeout_ms = Some(300))
            .exits(124)
            .expect(TimedOut)
            .expect(Limit("time"))
            .expect(MarkerGone),
        shell("limit/timeout-cannot-be-ignored", "trap '' TERM INT HUP; while :; do sleep 1; done")
            .policy(|policy, _| policy.limits.timeout_ms = Some(300))
            .exits(124)
            .expect(TimedOut),
        shell("limit/output-before-the-timeout-is-kept", "echo early; sleep 300")
            .policy(|policy, _| policy.limits.timeout_ms = Some(500))
            .exits(124)
            .prints("early\n"),
        shell("limit/file-size", "head -c 200000 /dev/zero > big")
            .policy(|policy, _| policy.limits.max_file_size_bytes = Some(100_000))
            .fails()
            .expect(Limit("fileSize")),
        shell("limit/file-size-allows-less", "head -c 90000 /dev/zero > ok && wc -c < ok")
            .policy(|policy, _| policy.limits.max_file_size_bytes = Some(100_000))
            .prints("90000\n"),
        shell("limit/cpu", "while :; do :; done")
            .policy(|policy, _| policy.limits.max_cpu_seconds = Some(1))
            .fails()
            .expect(Limit("cpu")),
        shell("limit/open-files", "for i in $(seq 10 60); do eval \"exec $i</dev/null\" || exit 3; done")
            .policy(|policy, _| policy.limits.max_open_files = Some(32))
            .fails(),
        shell("limit/processes", "for i in $(seq 60); do sleep 5 & done; echo alive")
            .policy(few_processes)
            .exits_somehow()
            .expect(Limit("processes")),
        shell("limit/fork-bomb", "f() { f | f & }; f; sleep 1")
            .policy(|policy, place| {
                few_processes(policy, place);
                policy.limits.timeout_ms = Some(3000);
            })
            .exits_somehow()
            .expect(Limit("processes"))
            .expect(MarkerGone),
        shell("limit/memory", "python3 -c 'x = bytearray(400 << 20); print(len(x))'")
            .policy(|policy, _| policy.limits.max_memory_bytes = Some(128 * MIB))
            .fails()
            .expect(StdoutLacks("419430400")),
        shell("limit/memory-is-of-all-together", "for i in 1 2 3 4; do python3 -c 'import time; x = bytearray(60 << 20); time.sleep(1)' & done; wait -n; wait -n; wait -n; wait; false")
            .policy(|policy, _| policy.limits.max_memory_bytes = Some(128 * MIB))
            .fails()
            .expect(Limit("memory")),
        shell("limit/memory-allows-less", "python3 -c 'print(len(bytearray(20 << 20)))'")
            .policy(|policy, _| policy.limits.max_memory_bytes = Some(256 * MIB))
            .prints("20971520\n")
            .expect(NoViolation),
        shell("limit/memory-covers-private-files", "head -c 300000000 /dev/zero > /tmp/big; wc -c < /tmp/big")
            .policy(|policy, _| policy.limits.max_memory_bytes = Some(128 * MIB))
            .exits_somehow()
            .expect(StdoutLacks("300000000")),
        shell("limit/output", "echo first; head -c 1000000 /dev/zero | tr '\\0' x; echo; echo last")
            .policy(|policy, _| policy.limits.max_output_bytes = Some(10_000))
            .expect(Truncated)
            .expect(Limit("output"))
            .expect(StdoutHas("first"))
            .expect(StdoutHas("last"))
            .expect(StdoutHas("left out"))
            .expect(HostLacks("project/output")),
    ]
}

fn few_processes(policy: &mut Policy, _: &Place) {
    policy.limits.max_processes = Some(20);
}
