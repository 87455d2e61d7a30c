//! The relay from outside, over loopback.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

mod suite {
    mod datagrams;
    mod dial;
    mod http;
    mod inspect;
    mod inspect_http2;
    mod raw;
    mod rig;
    mod tls;
}
