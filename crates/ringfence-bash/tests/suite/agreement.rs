//! Agreement with `bash -n` over the scripts of this machine and our own snippets.

use ringfence_bash::{Extglob, Options, parse_with};

use super::{bash, commands, scripts};

const BAR: f64 = 0.995;

/// Snippets that we refuse on purpose though bash reads them, each with the reason. Any
/// other difference in a snippet is a bug.
const REFUSED: [(&str, &str); 7] = [
    ("for (( ; ; ) ) do ls; done", "bash forgets to report its own error"),
    ("[[ ]]", "bash forgets to report its own error"),
    ("[[ ! ]]", "bash forgets to report its own error"),
    ("cat <<$(x)\n$(id)\n$(x)", "what the delimiter is depends on the version"),
    ("x=$(cat <<EOF\na\nEOF)", "where the body ends depends on the version"),
    ("x=$(cat <<EOF)\n$(id)\nEOF", "whose body it is depends on the version"),
    ("{a[$(id)]}>x who", "whether it is a descriptor depends on what is in the brackets"),
];

/// Short texts, good and bad, that only have to be read as bash reads them.
fn snippets() -> impl Iterator<Item = String> {
    include_str!("../data/snippets.txt").split("\n----\n").map(|text| text.trim_end_matches('\n').to_owned())
}

/// What a comparison came to.
#[derive(Default)]
struct Tally {
    total: usize,
    same: usize,
    /// Accepted here, refused by bash.
    loose: Vec<String>,
    /// Refused here, accepted by bash.
    strict: Vec<String>,
}

impl Tally {
    fn compare(&mut self, name: &str, text: &[u8]) {
        // `bash -n` starts with extended patterns off and never turns them on.
        let options = Options { extglob: Extglob::Off, ..Options::default() };
        let Some(theirs) = bash::accepts(text) else { return };
        self.total += 1;
        match (parse_with(text, &options), theirs) {
            (Ok(_), true) | (Err(_), false) => self.same += 1,
            (Ok(_), false) => self.loose.push(name.to_owned()),
            (Err(_), true) => self.strict.push(name.to_owned()),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "small counts")]
    fn rate(&self) -> f64 {
        if self.total == 0 { 1.0 } else { self.same as f64 / self.total as f64 }
    }
}

#[test]
fn agrees_with_bash_on_scripts_and_snippets() {
    let (mut files, mut ours) = (Tally::default(), Tally::default());
    for found in scripts::on_this_machine() {
        files.compare(&found.path, &found.text);
    }
    for text in snippets().chain(commands::table().into_iter().map(|case| case.text)) {
        ours.compare(&text, text.as_bytes());
    }
    for name in files.strict.iter().chain(&ours.strict) {
        println!("we refuse, bash accepts: {name:?}");
    }
    // Deliberate refusals count as agreement; each is listed with its reason.
    let on_purpose = |text: &mut String| REFUSED.iter().any(|(refused, _)| refused == text);
    ours.same += ours.strict.extract_if(.., on_purpose).count();
    let (total, same) = (files.total + ours.total, files.same + ours.same);
    let all = Tally { total, same, ..Tally::default() };
    println!(
        "agreement with bash -n: {same} of {total} = {:.2} %; {} files: {:.2} %; {} snippets: {:.2} %",
        all.rate() * 100.0,
        files.total,
        files.rate() * 100.0,
        ours.total,
        ours.rate() * 100.0,
    );
    assert!(files.loose.is_empty() && ours.loose.is_empty(), "{:#?} {:#?}", files.loose, ours.loose);
    assert!(ours.strict.is_empty(), "refused here, read by bash: {:#?}", ours.strict);
    assert!(files.rate() >= BAR, "agreement on files fell to {}", files.rate());
    assert!(all.rate() >= BAR, "agreement fell to {}", all.rate());
}
