//! The tests of the gate, in one binary.

mod suite {
    mod checks;
    mod corpus;
    mod fenced;
    mod own_check;
    mod risk;
    mod robust;
    mod rules;
    mod strict;
}

/// A file of tests that nobody lists here would never run.
#[test]
fn no_test_file_is_forgotten() {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let list = std::fs::read_to_string(here.join("all.rs")).unwrap();
    for entry in std::fs::read_dir(here.join("suite")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(module) = name.strip_suffix(".rs") else { continue };
        assert!(list.contains(&format!("mod {module};")), "tests/suite/{name} is not listed in tests/all.rs");
    }
}
