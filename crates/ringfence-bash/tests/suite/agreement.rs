//! Agreement with `bash -n` over the scripts of this machine and our own snippets.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use ringfence_bash::{Extglob, MAX_BYTES, Options, parse_with};

use super::bash;

/// Where scripts are looked for.
const ROOTS: [&str; 7] = ["/usr", "/etc", "/root/.pyenv", "/root/.cargo", "/root/.rustup", "/lib", "/opt"];
/// Enough files to be meaningful, few enough for a test.
const MOST_FILES: usize = 3_000;
const BAR: f64 = 0.995;

fn collect(dir: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    let mut entries: Vec<_> = entries.flatten().collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        if found.len() >= MOST_FILES {
            return;
        }
        let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
        if kind.is_dir() && depth > 0 {
            collect(&path, depth - 1, found);
        } else if kind.is_file() && is_script(&path) {
            found.push(path);
        }
    }
}

/// Tells whether a file begins with the name of a Bourne shell, or is called `.sh`
/// or `.bash`, and is not too long.
fn is_script(path: &Path) -> bool {
    let named = match path.extension() {
        Some(ext) if ext == "sh" || ext == "bash" => true,
        Some(_) => return false,
        None => false,
    };
    let Ok(file) = fs::File::open(path) else { return false };
    if !file.metadata().is_ok_and(|meta| meta.is_file() && meta.len() <= MAX_BYTES as u64) {
        return false;
    }
    let mut head = Vec::new();
    if file.take(128).read_to_end(&mut head).is_err() {
        return false;
    }
    let head = String::from_utf8_lossy(&head);
    let first = head.lines().next().unwrap_or_default();
    let shell = first.strip_prefix("#!").and_then(|line| {
        let mut words = line.split_whitespace().map(|word| word.rsplit('/').next().unwrap_or(word));
        words.find(|word| *word != "env" && !word.starts_with('-'))
    });
    match shell {
        Some(shell) => matches!(shell, "sh" | "bash" | "dash" | "ash"),
        None => named,
    }
}

#[test]
fn agrees_with_bash_on_scripts_and_snippets() {
    let mut texts: Vec<(String, Vec<u8>)> = Vec::new();
    let mut paths = Vec::new();
    for root in ROOTS {
        collect(Path::new(root), 14, &mut paths);
    }
    let files = paths.len();
    for path in paths {
        let text = fs::read(&path).unwrap();
        // What the parser refuses by its bytes is no question of grammar.
        if !text.contains(&b'\r') && !text.contains(&0) && std::str::from_utf8(&text).is_ok() {
            texts.push((path.display().to_string(), text));
        }
    }
    for (n, snippet) in super::super::snippets().into_iter().enumerate() {
        texts.push((format!("snippet {n}: {snippet:?}"), snippet.into_bytes()));
    }
    // `bash -n` starts with extended patterns off and never turns them on.
    let options = Options { extglob: Extglob::Off, ..Options::default() };
    let (mut total, mut same, mut loose) = (0_usize, 0_usize, Vec::new());
    for (name, text) in &texts {
        let Some(theirs) = bash::accepts(text) else {
            println!("no bash here: nothing compared");
            return;
        };
        let ours = parse_with(text, &options);
        total += 1;
        if ours.is_ok() == theirs {
            same += 1;
            continue;
        }
        match ours {
            Ok(_) => loose.push(name.clone()),
            Err(error) => println!("we refuse, bash accepts: {name}: {error}"),
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "small counts")]
    let rate = same as f64 / total as f64;
    println!("agreement with bash -n: {same} of {total} = {:.2} % ({files} files)", rate * 100.0);
    assert!(loose.is_empty(), "accepted here, refused by bash: {loose:#?}");
    assert!(rate >= BAR, "agreement fell to {rate}");
}
