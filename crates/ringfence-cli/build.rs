//! Hands the linker a list of functions to lay side by side, when a packager names one.
//!
//! `RINGFENCE_FUNCTION_ORDER=PATH` is set by `cargo xtask release` and by nothing else: the option that takes the list is
//! known to lld only. A plain build passes no option and works with any linker. What the order gains:
//! docs/performance.md, "Packaging".

const VARIABLE: &str = "RINGFENCE_FUNCTION_ORDER";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    let Some(list) = std::env::var_os(VARIABLE).filter(|list| !list.is_empty()) else { return };
    let list = std::path::PathBuf::from(list);
    if !list.is_absolute() || !list.is_file() {
        println!(
            "cargo::error={VARIABLE} must be the absolute path of a file, and {} is not",
            list.display()
        );
        return;
    }
    println!("cargo::rerun-if-changed={}", list.display());
    println!("cargo::rustc-link-arg-bins=-Wl,--symbol-ordering-file={}", list.display());
    // The list may name functions that this build does not have.
    println!("cargo::rustc-link-arg-bins=-Wl,--no-warn-symbol-ordering");
}
