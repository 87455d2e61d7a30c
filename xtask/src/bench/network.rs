//! The way out by name: beside bare loopback, a proxy in variables and one that inspects, in turn in one run.
//!
//! Server and clients are the example `network_load` of the relay; clients time themselves, so that no start counts.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::goals::verdict;
use super::parts::{noise, output_of};
use super::place::{BARE, FULL, Place};
use super::quiet::Meter;
use super::render::Found;
use super::{Amount, Programs, installs, peers};
use crate::{shell, workspace};

/// What is measured with.
struct Rig {
    load: String,
    place: Place,
    _server: Running,
    port: u16,
}

/// A program that ends with this value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // One that is gone already needs no ending.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How each way did in each round, and what became of those that could not.
#[derive(Default)]
struct Ways(Vec<(&'static str, Result<Vec<f64>, String>)>);

impl Ways {
    fn add(&mut self, name: &'static str, sample: Result<f64>) {
        let known = match self.0.iter().position(|(known, _)| *known == name) {
            Some(index) => index,
            None => {
                self.0.push((name, Ok(Vec::new())));
                self.0.len() - 1
            }
        };
        let samples = &mut self.0[known].1;
        match (samples, sample) {
            (Ok(samples), Ok(sample)) => samples.push(sample),
            (samples @ Ok(_), Err(error)) => {
                *samples = Err(format!("{error:#}").lines().next().unwrap_or_default().to_owned());
            }
            (Err(_), _) => {}
        }
    }

    fn has_failed(&self, name: &str) -> bool {
        self.0.iter().any(|(known, samples)| *known == name && samples.is_err())
    }

    fn median(&self, name: &str) -> Option<f64> {
        let (_, samples) = self.0.iter().find(|(known, _)| *known == name)?;
        median(samples.as_ref().ok()?.clone())
    }

    fn table(&self, title: &str, unit: &str, base: &str) -> String {
        let mut text =
            format!("\n### {title}\n\n| way | median {unit} | ratio to {base} |\n|---|---:|---:|\n");
        for (name, samples) in &self.0 {
            let _ = match (samples, self.median(name)) {
                (Err(why), _) => writeln!(text, "| {name} | not measured: {why} | |"),
                (Ok(_), None) => writeln!(text, "| {name} | no samples | |"),
                (Ok(_), Some(got)) => {
                    let ratio =
                        self.median(base).map_or("–".to_owned(), |base| format!("{:.2}", got / base));
                    writeln!(text, "| {name} | {got:.1} | {ratio} |")
                }
            };
        }
        text.push('\n');
        text
    }

    fn json(&self, title: &str) -> Value {
        let rows: Vec<Value> =
            self.0.iter().map(|(name, samples)| json!({ "name": name, "samples": samples.as_ref().ok(), "failed": samples.as_ref().err() })).collect();
        json!({ "title": title, "rows": rows })
    }
}

fn median(mut samples: Vec<f64>) -> Option<f64> {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied()
}

pub(crate) fn run(programs: &Programs, amount: Amount) -> Result<Found> {
    let built = workspace::build(&["-p", "ringfence-relay", "--example", "network_load"], "network_load")?;
    let rig = Rig::new(programs, &built)?;
    let rounds = match amount {
        Amount::Quick => 5,
        Amount::Full => 15,
    };
    let meter = Meter::start();
    let mut tables = vec![];
    let mut text = setup(&rig, rounds, &mut tables)?;
    text += &streams(&rig, amount, rounds, &mut tables)?;
    text += &inspected(&rig, amount, &mut tables)?;
    let text = format!("\n{}\n{text}", noise(&meter));
    let installed = installs::run(programs, amount)?;
    let mut all = installed.json.as_array().cloned().unwrap_or_default();
    tables.append(&mut all);
    Ok(Found { markdown: text + &installed.markdown, json: Value::Array(tables) })
}

impl Rig {
    fn new(programs: &Programs, built: &Path) -> Result<Self> {
        let place = Place::new(programs)?;
        // Within what is shown inside.
        let load = super::place::copy_into(Path::new(&place.project), built)?;
        let mut server = Command::new(&load)
            .arg("serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting the server")?;
        let mut line = String::new();
        let stdout = server.stdout.take().context("the server has no output")?;
        BufReader::new(stdout).read_line(&mut line).context("reading the server's port")?;
        let port = line.trim().parse().context("reading the server's port")?;
        let load = load.to_str().context("a path is not text")?.to_owned();
        Ok(Self { load, place, _server: Running(server), port })
    }

    /// The client, bare or inside.
    fn client(&self, way: &str, arguments: &[&str]) -> Result<Value> {
        let command: Vec<&str> =
            std::iter::once(self.load.as_str()).chain(arguments.iter().copied()).collect();
        let mut row = self.place.row(way, &command);
        if way != BARE {
            let at = row.argv.iter().position(|word| word == "--").context("no command in the row")?;
            row.argv.splice(at..at, ["--allow-host".to_owned(), format!("host-port:{}", self.port)]);
        }
        output_of(Command::new(&row.argv[0]).args(&row.argv[1..]).envs(row.env).current_dir(row.cwd))
    }
}

/// The median of what a client printed, in µs.
fn middle(found: &Value) -> Result<f64> {
    let samples: Vec<f64> = serde_json::from_value(found.clone()).context("reading times")?;
    Ok(median(samples).context("no times")? / 1000.0)
}

const PROXY: &str = "a proxy in variables (tinyproxy)";
const SRT: &str = "srt";

fn setup(rig: &Rig, rounds: usize, tables: &mut Vec<Value>) -> Result<String> {
    const TITLE: &str = "A connection: connect, a byte each way, close";
    const COUNT: &str = "200";
    let port = rig.port.to_string();
    let proxy = tinyproxy(rig.place.directory());
    let srt = srt(rig);
    let mut ways = Ways::default();
    for _ in 0..rounds {
        for way in [BARE, FULL] {
            ways.add(way, rig.client(way, &["setup", &port, COUNT]).and_then(|found| middle(&found)));
        }
        let by_proxy = || {
            let (_, proxy) = proxy.as_ref().map_err(|why| anyhow::anyhow!("{why:#}"))?;
            middle(&rig.client(BARE, &["setup", &port, COUNT, &proxy.to_string()])?)
        };
        if !ways.has_failed(PROXY) {
            ways.add(PROXY, by_proxy());
        }
        let by_srt = || {
            let argv = srt.as_ref().map_err(|why| anyhow::anyhow!("{why:#}"))?;
            middle(&output_of(Command::new(&argv[0]).args(&argv[1..]).current_dir(&rig.place.project))?)
        };
        if !ways.has_failed(SRT) {
            ways.add(SRT, by_srt());
        }
    }
    tables.push(ways.json(TITLE));
    Ok(ways.table(TITLE, "µs", BARE))
}

fn tinyproxy(directory: &Path) -> Result<(Running, u16)> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let config = directory.join("tinyproxy.conf");
    std::fs::write(
        &config,
        format!("Port {port}\nListen 127.0.0.1\nTimeout 60\nMaxClients 200\nAllow 127.0.0.1\n"),
    )?;
    let mut command = shell::program("tinyproxy");
    command.arg("-d").arg("-c").arg(&config).stdout(Stdio::null()).stderr(Stdio::null());
    listening(command, port)
}

/// Started, once it listens there.
fn listening(mut command: Command, port: u16) -> Result<(Running, u16)> {
    const LONGEST: Duration = Duration::from_secs(60);
    let shown = shell::line(&command);
    let mut running = Running(command.spawn().with_context(|| format!("starting {shown}"))?);
    let since = Instant::now();
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        if let Some(status) = running.0.try_wait()? {
            anyhow::bail!("{shown}: {status}");
        }
        anyhow::ensure!(since.elapsed() < LONGEST, "{shown} does not listen");
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok((running, port))
}

/// The client in that sandbox, by the proxy that it puts into variables.
fn srt(rig: &Rig) -> Result<Vec<String>> {
    let peers = workspace::target_directory()?.join("bench/peers");
    let program = peers::find(&peers, "srt").with_context(|| {
        format!("not installed; `npm install --prefix {} @anthropic-ai/sandbox-runtime`", peers.display())
    })?;
    let settings = rig.place.directory().join("srt.json");
    let allowed = json!({
        "network": { "allowedDomains": ["127.0.0.1"], "deniedDomains": [] },
        "filesystem": { "denyRead": [], "allowWrite": ["."], "denyWrite": [] },
    });
    std::fs::write(&settings, allowed.to_string())?;
    let words = [
        program.display().to_string(),
        "--settings".to_owned(),
        settings.display().to_string(),
        rig.load.clone(),
    ];
    Ok(words.into_iter().chain(["setup", &rig.port.to_string(), "50", "env"].map(str::to_owned)).collect())
}

fn streams(rig: &Rig, amount: Amount, rounds: usize, tables: &mut Vec<Value>) -> Result<String> {
    let bytes: u64 = match amount {
        Amount::Quick => 256 << 20,
        Amount::Full => 1 << 30,
    };
    let (port, text_bytes) = (rig.port.to_string(), bytes.to_string());
    let mut text = String::new();
    for (streams, least) in [("1", 0.7), ("64", 0.8)] {
        for direction in ["out", "in"] {
            let title = format!("{streams} stream(s), {direction}");
            let mut ways = Ways::default();
            for _ in 0..rounds {
                for way in [BARE, FULL] {
                    let found = rig.client(way, &[direction, &port, streams, &text_bytes]);
                    #[expect(clippy::cast_precision_loss, reason = "a rate")]
                    let rate = |found: Value| {
                        found.as_f64().map(|time| bytes as f64 * 1000.0 / time).context("reading a time")
                    };
                    ways.add(way, found.and_then(rate));
                }
            }
            text += &ways.table(&title, "MB/s", BARE);
            if let (Some(inside), Some(bare)) = (ways.median(FULL), ways.median(BARE)) {
                let got = inside / bare;
                let _ = writeln!(text, "- {title}: {got:.2}, goal ≥ {least:.1}: {}", verdict(least, got));
            }
            tables.push(ways.json(&title));
        }
    }
    Ok(text)
}

/// Times faster than mitmproxy.
const FASTER: f64 = 5.0;

fn inspected(rig: &Rig, amount: Amount, tables: &mut Vec<Value>) -> Result<String> {
    const TITLE: &str = "An inspected HTTPS request, with its connection";
    let count = match amount {
        Amount::Quick => "30",
        Amount::Full => "200",
    };
    let proxy = mitmproxy(rig.place.directory());
    let mut arguments = vec!["inspect".to_owned(), count.to_owned()];
    let mut text = String::new();
    match &proxy {
        Ok((_, port, ca)) => arguments.extend([port.to_string(), ca.display().to_string()]),
        Err(why) => text = format!("\n- not measured: mitmproxy: {why:#}\n"),
    }
    let found = output_of(Command::new(&rig.load).args(&arguments))?;
    let mut ways = Ways::default();
    for (name, key) in [(BARE, "bare"), ("the relay", "relay"), ("mitmproxy", "proxy")] {
        let samples: Vec<f64> = serde_json::from_value(found[key].clone()).context("reading times")?;
        samples.into_iter().for_each(|sample| ways.add(name, Ok(sample / 1000.0)));
    }
    tables.push(ways.json(TITLE));
    text += &ways.table(TITLE, "µs", BARE);
    if let (Some(ours), Some(theirs)) = (ways.median("the relay"), ways.median("mitmproxy")) {
        let got = theirs / ours;
        let word = verdict(FASTER, got);
        let _ = writeln!(text, "- times faster than mitmproxy: {got:.1}, goal ≥ {FASTER:.0}: {word}");
    }
    Ok(text)
}

/// With the authority that it made.
fn mitmproxy(directory: &Path) -> Result<(Running, u16, PathBuf)> {
    let room = workspace::target_directory()?.join("bench/mitmproxy");
    let program = room.join("bin/mitmdump");
    if !program.exists() {
        shell::run(shell::program("python3").args(["-m", "venv", "--clear"]).arg(&room))?;
        shell::run(shell::program(room.join("bin/pip")).args(["install", "--quiet", "mitmproxy"]))?;
    }
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let own = directory.join("mitmproxy");
    let mut command = shell::program(program);
    command.args(["--quiet", "--ssl-insecure", "--listen-host", "127.0.0.1", "--listen-port"]);
    command.arg(port.to_string()).arg("--set").arg(format!("confdir={}", own.display()));
    let (running, port) = listening(command, port)?;
    Ok((running, port, own.join("mitmproxy-ca-cert.pem")))
}
