//! Small things about names and strings of both languages.

use tree_sitter::Node;

/// What `from … import *` brings that rules are about.
pub(super) const STARRED: &[(&str, &[&str])] = &[
    (
        "os",
        &[
            "system", "popen", "remove", "unlink", "rmdir", "execv", "execvp", "fork", "kill", "chmod",
            "symlink", "environ", "putenv",
        ],
    ),
    ("subprocess", &["run", "call", "Popen", "check_call", "check_output", "getoutput", "getstatusoutput"]),
    ("shutil", &["rmtree", "move", "copy", "chown"]),
    ("pathlib", &["Path"]),
    ("ctypes", &["CDLL", "PyDLL", "cdll", "pydll", "pythonapi", "memmove", "memset", "cast", "CFUNCTYPE"]),
];

/// A module without what says where it comes from.
pub(super) fn module_name(name: &str) -> String {
    name.strip_prefix("node:").unwrap_or(name).to_owned()
}

pub(crate) fn children(node: Node<'_>) -> impl Iterator<Item = Node<'_>> {
    let count = node.child_count();
    (0..count.min(4096)).filter_map(move |index| node.child(index))
}

/// Escapes that are the same in both languages; `None` for others.
pub(super) fn unescape(text: &str) -> Option<String> {
    if !text.contains('\\') {
        return Some(text.to_owned());
    }
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let digits = |chars: &mut std::str::Chars<'_>, count: usize| {
            let hex: String = chars.by_ref().take(count).collect();
            u32::from_str_radix(&hex, 16).ok().and_then(char::from_u32)
        };
        match chars.next()? {
            'n' => out.push('\n'),
            't' => out.push('\t'),
            'r' => out.push('\r'),
            '\n' => {}
            c @ ('\\' | '\'' | '"' | '`' | '$') => out.push(c),
            'x' => out.push(digits(&mut chars, 2)?),
            'u' => out.push(digits(&mut chars, 4)?),
            '0' => out.push('\0'),
            other => {
                out.push('\\');
                out.push(other);
            }
        }
    }
    Some(out)
}
