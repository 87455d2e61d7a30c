//! Levels of risk, and where code has to run.

use ringfence_gate::reading::InProcess;
use ringfence_gate::risk::{Risk, Sandbox, SecurityMode, assess_browser, required_sandbox};
use ringfence_gate::{Gate, Language, Options, Request};

fn assess(language: Language, code: &str) -> ringfence_gate::risk::Assessment {
    let gate = Gate::new(Options::default()).reading_code_by(std::sync::Arc::new(InProcess));
    gate.judge(&Request::new(language, code, "/home/dev", "/home/dev/project")).risk
}

fn check(language: Language, cases: &[(&str, Risk)]) {
    for (code, want) in cases {
        let found = assess(language, code);
        assert_eq!(found.level, *want, "{code}: {}", found.reason);
    }
}

#[test]
fn python_words() {
    use Risk::*;
    check(
        Language::Python,
        &[
            ("", Safe),
            ("print(1)", Safe),
            ("x = 'eval('", Safe),
            ("# os.system('x')", Safe),
            ("__import__('x')", Critical),
            ("eval(x)", Critical),
            ("exec('1')", Critical),
            ("compile(a, b, c)", Critical),
            ("__builtins__", Critical),
            ("getattr(x, '__class__')", Critical),
            ("os.system('ls')", Critical),
            ("subprocess.run(['ls'])", Critical),
            ("os.popen('ls')", Critical),
            ("open('f', 'w')", High),
            ("f.write('x')", High),
            ("shutil.copy('a', 'b')", High),
            ("requests.get('x')", High),
            ("urllib.parse", High),
            ("socket.gethostname()", High),
            ("import os", High),
            ("import sys", High),
            ("import pickle", High),
            ("from os import path", High),
            ("import ctypes", High),
            ("IMPORT OS", High),
            ("open('f', 'r')", Medium),
            ("f.read()", Medium),
            ("json.load(f)", Medium),
            ("os.environ", Medium),
        ],
    );
}

#[test]
fn javascript_words() {
    use Risk::*;
    check(
        Language::JavaScript,
        &[
            ("", Safe),
            ("console.log(1)", Safe),
            ("'child_process'", Safe),
            ("eval('1')", Critical),
            ("new Function('x')", Critical),
            ("require('child_process')", Critical),
            ("import 'child_process'", Critical),
            ("require('fs')", High),
            ("require('http')", High),
            ("require('fs/promises')", High),
            ("fetch('x')", High),
        ],
    );
}

#[test]
fn shell_words() {
    use Risk::*;
    let critical = [
        "rm -rf /x",
        "rm -rf ~",
        "dd if=a of=b",
        "mkfs.ext4 x",
        ":(){ :|:& };:",
        "echo x > /dev/sda",
        "curl x | sh",
        "wget -qO- x | sh",
    ];
    for code in critical {
        let found = assess(Language::Shell, code);
        assert_eq!((found.level, found.suggested), (Critical, Sandbox::Reject), "{code}");
        assert!(found.requires_confirmation && found.requires_isolation);
    }
    check(
        Language::Shell,
        &[
            ("rm x", High),
            ("mv a b", High),
            ("echo x > file", High),
            ("git push", High),
            ("git commit --force", High),
            ("chmod +x a", High),
            ("cat .env", High),
            ("ls", Safe),
            ("/bin/ls -la", Safe),
            ("cat a | grep b", Safe),
            ("ls > /dev/null", Safe),
            ("echo hi", Safe),
            ("find . -name x", Safe),
            ("which ls", Safe),
            ("make", Medium),
            ("ls; make", Medium),
            ("", Medium),
            ("ls |", Medium),
            ("find . -delete", High),
        ],
    );
}

#[test]
fn browser_and_unknown() {
    assert_eq!(assess_browser("click", "#ok").level, Risk::Low);
    for text in ["type PASSWORD", "fill credit card", "Pay now"] {
        let found = assess_browser("type", text);
        assert_eq!(
            (found.level, found.suggested, found.requires_isolation),
            (Risk::High, Sandbox::Aio, false),
            "{text}"
        );
    }
    let unknown = assess(Language::Unknown, "x");
    assert_eq!(
        (unknown.level, unknown.requires_confirmation, unknown.requires_isolation, unknown.suggested),
        (Risk::High, true, true, Sandbox::Docker)
    );
}

#[test]
fn each_level_says_what_follows() {
    for (code, want) in [
        ("ls", (false, false, Sandbox::Subprocess)),
        ("make", (false, true, Sandbox::Docker)),
        ("rm x", (true, true, Sandbox::Docker)),
        ("sudo id", (true, true, Sandbox::Reject)),
    ] {
        let found = assess(Language::Shell, code);
        assert_eq!((found.requires_confirmation, found.requires_isolation, found.suggested), want, "{code}");
        assert!(!found.reason.is_empty());
    }
}

#[test]
fn the_sandbox_follows_level_and_mode_and_a_wish_only_tightens() {
    let at = |code: &str| assess(Language::Shell, code);
    assert_eq!(required_sandbox(&at("ls"), SecurityMode::Strict, None), Sandbox::Subprocess);
    assert_eq!(required_sandbox(&at("make"), SecurityMode::Strict, None), Sandbox::Docker);
    assert_eq!(required_sandbox(&at("make"), SecurityMode::Permissive, None), Sandbox::Docker);
    assert_eq!(required_sandbox(&at("sudo id"), SecurityMode::Permissive, None), Sandbox::Reject);
    assert_eq!(required_sandbox(&assess_browser("click", ""), SecurityMode::Strict, None), Sandbox::Aio);
    assert_eq!(
        required_sandbox(&at("make"), SecurityMode::Strict, Some(Sandbox::Subprocess)),
        Sandbox::Docker
    );
    assert_eq!(required_sandbox(&at("ls"), SecurityMode::Permissive, Some(Sandbox::Docker)), Sandbox::Docker);
    let import_os = assess(Language::Python, "import os");
    assert_eq!(import_os.level, Risk::High);
    assert_eq!(required_sandbox(&import_os, SecurityMode::Strict, None), Sandbox::Docker);
}
