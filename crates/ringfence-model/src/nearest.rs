//! What was probably meant by a word that nobody knows.

/// The word nearest to `word`, when one is near enough to be what was meant.
#[must_use]
pub fn closest<'a>(word: &str, words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| text.to_ascii_lowercase().replace(['_', '-'], "");
    let wanted = plain(word);
    let limit = 1 + wanted.chars().count() / 4;
    words
        .map(|candidate| (distance(&wanted, &plain(candidate)), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, candidate)| (*distance, candidate.contains('_')))
        .map(|(_, candidate)| candidate)
}

/// How many letters to change, add, remove or swap with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > 8 {
        return usize::MAX;
    }
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let change = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (rows[i - 1][j] + 1).min(row[j - 1] + 1).min(rows[i - 1][j - 1] + change);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found_and_far_ones_not() {
        let words = ["allowWrite", "allow_write", "allowRead", "deny", "whitelist", "limits"];
        for (word, want) in [
            ("alowWrite", Some("allowWrite")),
            ("AllowWrite", Some("allowWrite")),
            ("allow-read", Some("allowRead")),
            ("dney", Some("deny")),
            ("limit", Some("limits")),
            ("whitelists", Some("whitelist")),
            ("permissions", None),
        ] {
            assert_eq!(closest(word, words.into_iter()), want, "{word}");
        }
    }
}
