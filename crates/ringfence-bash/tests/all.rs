//! One binary for all integration tests of this crate.

mod suite {
    mod agreement;
    mod bash;
    mod commands;
}

/// Short texts, good and bad, for comparing with bash.
fn snippets() -> Vec<String> {
    let table = include_str!("data/snippets.txt");
    table.split("\n----\n").map(|text| text.trim_end_matches('\n').to_owned()).collect()
}
