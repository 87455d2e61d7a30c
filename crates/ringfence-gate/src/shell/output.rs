//! What commands write, where that can be read off their words.

use super::command::Input;
use crate::value::{Arg, Seg, Val};

/// Programs that bring text from elsewhere.
const FETCH: &[&str] =
    &["curl", "wget", "nc", "ncat", "netcat", "socat", "telnet", "ftp", "aria2c", "lynx", "http", "xh"];

/// Programs that make one text of another, so that its words cannot be read beforehand.
const DECODE: &[&str] =
    &["base64", "base32", "basenc", "xxd", "uudecode", "openssl", "gpg", "zcat", "gunzip", "rev", "tr"];

/// Whether what the program writes comes from the network or was decoded.
pub(crate) fn is_foreign(name: &str, args: &[Arg]) -> bool {
    FETCH.contains(&name) || (DECODE.contains(&name) && args.len() > 1)
}

/// What a command writes, if its words tell.
pub(crate) fn known(name: &str, args: &[Arg], input: &Input, cwd: Option<&str>) -> Option<Val> {
    let rest = args.get(1..)?;
    match name {
        "echo" => echo(rest),
        "printf" => printf(rest),
        "cat" | "tee"
            if rest
                .iter()
                .all(|arg| arg.is("-") || (name == "tee" && !arg.val.prefix().starts_with('-'))) =>
        {
            input.text.clone()
        }
        "pwd" if rest.is_empty() => cwd.map(Val::text),
        "mktemp" => {
            let mut val = Val::text("/tmp/tmp.");
            val.push(Seg::Star);
            let plain = rest.iter().all(|arg| arg.known().is_some_and(|word| matches!(word, "-d" | "-q")));
            plain.then_some(val)
        }
        "nproc" | "whoami" | "wc" if rest.is_empty() => Some(Val::star()),
        // Numbers of processes.
        "pgrep" | "pidof" => Some(Val::star()),
        "lsof" if rest.iter().any(|arg| arg.val.prefix().starts_with("-t")) => Some(Val::star()),
        "which" => match rest {
            [only] => only
                .known()
                .filter(|word| !word.contains('/'))
                .map(|word| Val::text(format!("/usr/bin/{word}"))),
            _ => None,
        },
        "id" if rest.len() == 1 => Some(Val::star()),
        "basename" if rest.len() == 1 => Some(Val::star()),
        "git"
            if rest.first().is_some_and(|arg| arg.is("rev-parse"))
                && rest.iter().any(|arg| arg.is("HEAD")) =>
        {
            Some(Val::star())
        }
        "date" if rest.iter().all(|arg| arg.known().is_some_and(|word| !word.contains('/'))) => {
            Some(Val::star())
        }
        _ => None,
    }
}

fn echo(args: &[Arg]) -> Option<Val> {
    let mut out = Val::default();
    let mut args = args;
    let mut newline = true;
    while let Some(first) = args.first().and_then(Arg::known) {
        match first {
            "-n" => newline = false,
            "-e" | "-ne" | "-en" => return None,
            "-E" => {}
            _ => break,
        }
        args = &args[1..];
    }
    for (index, arg) in args.iter().enumerate() {
        if index > 0 {
            out.push_text(" ");
        }
        out.extend(&arg.val);
    }
    if newline {
        out.push_text("\n");
    }
    Some(out)
}

fn printf(args: &[Arg]) -> Option<Val> {
    let (format, values) = args.split_first()?;
    if format.is("-v") {
        return None;
    }
    let format = unescape(format.known()?)?;
    if !format.contains('%') {
        return Some(Val::text(format));
    }
    let plain = format.replace("%s", "");
    if plain.contains('%') {
        return None;
    }
    let mut out = Val::default();
    let mut values = values.iter();
    loop {
        let mut pieces = format.split("%s");
        out.push_text(pieces.next().unwrap_or_default());
        for piece in pieces {
            if let Some(value) = values.next() {
                out.extend(&value.val);
            }
            out.push_text(piece);
        }
        if values.len() == 0 {
            return Some(out);
        }
    }
}

/// The escapes of `printf`, as far as they give text.
pub(crate) fn unescape(text: &str) -> Option<String> {
    let mut out: Vec<u8> = vec![];
    let mut bytes = text.bytes().peekable();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match bytes.next()? {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'\\' => out.push(b'\\'),
            b'"' => out.push(b'"'),
            b'\'' => out.push(b'\''),
            b'x' => out.push(number(&mut bytes, 16, 2, 0)?),
            digit @ b'0'..=b'7' => out.push(number(&mut bytes, 8, 2, u32::from(digit - b'0'))?),
            _ => return None,
        }
    }
    String::from_utf8(out).ok().filter(|text| !text.contains('\0'))
}

fn number(
    bytes: &mut std::iter::Peekable<std::str::Bytes<'_>>,
    base: u32,
    most: usize,
    start: u32,
) -> Option<u8> {
    let mut value = start;
    for _ in 0..most {
        let Some(digit) = bytes.peek().and_then(|byte| char::from(*byte).to_digit(base)) else { break };
        value = value * base + digit;
        bytes.next();
    }
    u8::try_from(value).ok()
}
