//! Agreement with `bash -n` over the scripts of this machine and our own snippets.

use ringfence_bash::{Extglob, Options, parse_with};

use super::{bash, commands, scripts};

const BAR: f64 = 0.995;

/// Short texts, good and bad, that only have to be read as bash reads them.
fn snippets() -> impl Iterator<Item = String> {
    include_str!("../data/snippets.txt").split("\n----\n").map(|text| text.trim_end_matches('\n').to_owned())
}

#[test]
fn agrees_with_bash_on_scripts_and_snippets() {
    let found = scripts::on_this_machine();
    let files = found.len();
    let mut texts: Vec<_> = found.into_iter().map(|found| (found.path, found.text)).collect();
    let ours = snippets().chain(commands::table().into_iter().map(|case| case.text));
    texts.extend(ours.map(|text| (format!("snippet {text:?}"), text.into_bytes())));
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
