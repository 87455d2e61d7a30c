//! Large files, broken connections and callers that go away.

use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use ringfence_model::ErrorKind;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::super::{BridgeOptions, Parents};
use super::with_every_shell;

const LARGE: u64 = 100 << 20;

/// A stream of numbered bytes that is nowhere in memory; it may break off with an error.
struct Numbers {
    at: u64,
    end: u64,
    breaks: bool,
}

/// The stream is this over and over; its length is prime, so that no block of a disk or pipe begins like another.
const ROUND: usize = 65_521;

static NUMBERS: std::sync::LazyLock<Vec<u8>> =
    std::sync::LazyLock::new(|| (0..2 * ROUND).map(|at| u8::try_from(at % ROUND % 251).unwrap()).collect());

/// At most `limit` bytes of the stream, from `at` on.
fn numbers(at: u64, limit: usize) -> &'static [u8] {
    let begin = usize::try_from(at % ROUND as u64).unwrap();
    &NUMBERS[begin..begin + limit.min(ROUND)]
}

impl AsyncRead for Numbers {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.at == self.end && self.breaks {
            return Poll::Ready(Err(std::io::Error::other("the connection broke")));
        }
        let left = usize::try_from(self.end - self.at).unwrap();
        let chunk = numbers(self.at, left.min(buffer.remaining()));
        buffer.put_slice(chunk);
        self.at += chunk.len() as u64;
        Poll::Ready(Ok(()))
    }
}

/// Compares what it gets with the numbers, and keeps none of it. The largest piece shows that nothing was gathered.
struct Compare {
    at: u64,
    largest: usize,
}

impl AsyncWrite for Compare {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let expected = numbers(self.at, bytes.len());
        assert!(bytes[..expected.len()] == *expected, "another byte after {}", self.at);
        self.largest = self.largest.max(bytes.len());
        self.at += expected.len() as u64;
        Poll::Ready(Ok(expected.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[test]
fn large_files_stream_both_ways() {
    with_every_shell(|inside| async move {
        let bridge = inside.bridge();
        let path = Path::new("large");
        let mut input = Numbers { at: 0, end: LARGE, breaks: false };
        bridge.write_from(path, &mut input, LARGE, Parents::Make).await.unwrap();
        assert_eq!(std::fs::metadata(inside.at("workspace/large")).unwrap().len(), LARGE);
        let mut compare = Compare { at: 0, largest: 0 };
        assert_eq!(bridge.read_to(path, &mut compare).await.unwrap(), LARGE);
        assert_eq!(compare.at, LARGE);
        assert!(compare.largest <= 1 << 20, "{} bytes at once", compare.largest);
        assert_eq!(bridge.stat(path).await.unwrap().unwrap().size, LARGE);
    });
}

#[test]
fn half_a_file_never_takes_the_place_of_a_whole_one() {
    with_every_shell(|inside| async move {
        let bridge = inside.bridge();
        let path = Path::new("f");
        bridge.write(path, b"whole", Parents::Make).await.unwrap();
        let before = inside.everything();
        for (end, announced, breaks) in [(10, 20, false), (20, 10, false), (100_000, 200_000, true)] {
            let mut input = Numbers { at: 0, end, breaks };
            let error = bridge.write_from(path, &mut input, announced, Parents::Make).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Cancelled, "{error}");
            assert_eq!(bridge.read(path).await.unwrap(), b"whole");
        }
        let left: Vec<_> = inside.everything().into_iter().filter(|path| !before.contains(path)).collect();
        // A script that was killed could not tidy up; what it leaves is not the file, and says whose it is.
        assert!(
            left.iter().all(|path| path.file_name().unwrap().to_string_lossy().starts_with(".ringfence-")),
            "{left:?}"
        );
        assert!(left.len() <= 1, "{left:?}");
    });
}

#[test]
fn a_caller_that_goes_away_leaves_the_old_file() {
    with_every_shell(|inside| async move {
        let bridge = inside.bridge();
        let path = Path::new("f");
        bridge.write(path, b"whole", Parents::Make).await.unwrap();
        let (_held_open, mut never_ends) = tokio::io::duplex(16);
        let mut write = Box::pin(bridge.write_from(path, &mut never_ends, 1000, Parents::Make));
        // Until the script runs and waits for what does not come.
        loop {
            tokio::select! {
                ended = &mut write => panic!("{ended:?}"),
                () = tokio::time::sleep(std::time::Duration::from_millis(5)) => {}
            }
            let begun = inside.everything().iter().any(|path| path.to_string_lossy().ends_with(".tmp"));
            if begun {
                break;
            }
        }
        drop(write);
        assert_eq!(bridge.read(path).await.unwrap(), b"whole");
    });
}

#[test]
fn a_file_that_is_too_large_is_not_read_into_memory() {
    with_every_shell(|mut inside| async move {
        inside.options = BridgeOptions { max_file_bytes: 1000, ..BridgeOptions::default() };
        std::fs::write(inside.at("workspace/exact"), vec![1; 1000]).unwrap();
        std::fs::write(inside.at("workspace/more"), vec![1; 1001]).unwrap();
        assert_eq!(inside.bridge().read(Path::new("exact")).await.unwrap().len(), 1000);
        let error = inside.bridge().read(Path::new("more")).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::ResourceLimitExceeded, "{error}");
    });
}
