//! How long a verdict takes: `cargo run --release -p ringfence-gate --example speed`.
#![expect(clippy::print_stdout, reason = "that is what it is for")]

use std::time::{Duration, Instant};

use ringfence_gate::reading::InProcess;
use ringfence_gate::{Gate, Language, Options, Request};

const TYPICAL: &[&str] = &[
    "ls -la src",
    "cargo test -p core -- --nocapture 2>&1 | tail -40",
    "git add -A && git commit -m \"fix: handle empty input\"",
    "for f in *.rs; do wc -l \"$f\"; done",
    "grep -rn 'NOTE' src | sort | uniq -c | head -20",
    "cd build && cmake .. && make -j8",
    "find . -name '*.pyc' -delete",
    "cat > hello.txt <<'EOF'\nhello\nEOF",
];

fn main() {
    let gate = Gate::new(Options::default()).reading_code_by(std::sync::Arc::new(InProcess));
    let time = |language: Language, code: &str| {
        let request = Request::new(language, code, "/home/dev", "/home/dev/project");
        let mut times: Vec<Duration> = (0..2000)
            .map(|_| {
                let start = Instant::now();
                let verdict = gate.judge(&request);
                let took = start.elapsed();
                std::hint::black_box(verdict);
                took
            })
            .collect();
        times.sort_unstable();
        (times[times.len() / 2], times[times.len() * 99 / 100])
    };
    let mut all: Vec<Duration> = vec![];
    for code in TYPICAL {
        let (median, slow) = time(Language::Shell, code);
        all.push(median);
        println!("{median:>10.1?} median {slow:>10.1?} p99  {}", code.lines().next().unwrap_or_default());
    }
    all.sort_unstable();
    println!("{:>10.1?} median of the medians", all[all.len() / 2]);
    let (median, slow) =
        time(Language::Python, "import json\nwith open('data.json') as f:\n    print(len(json.load(f)))");
    println!("{median:>10.1?} median {slow:>10.1?} p99  python");
    let (median, slow) =
        time(Language::JavaScript, "const fs = require('fs');\nconsole.log(fs.readFileSync('a', 'utf8'));");
    println!("{median:>10.1?} median {slow:>10.1?} p99  javascript");
}
