//! What bash runs, and how it is told what to do.

use ringfence_linux::plan::LOWEST_SOURCE;
use ringfence_model::{Error, ErrorKind, Result};
use rustix::process::Signal;

/// The numbers of the shell's own descriptors.
pub(crate) const NULL: i32 = 90;
pub(crate) const STDOUT: i32 = 91;
pub(crate) const STDERR: i32 = 92;
pub(crate) const COMMANDS: i32 = 93;
pub(crate) const STATUS: i32 = 94;
const _: () = assert!(STATUS < LOWEST_SOURCE);

/// The nonce of the report that says that bash is ready for its first command.
pub(crate) const READY: &str = "ready";

/// The signal at which bash leaves the command it evaluates; nobody else uses it.
pub(crate) const ABORT: Signal = Signal::STKFLT;

/// Lengths travel in eight digits.
const LONGEST: usize = 99_999_999;

/// The loop. At the signal a command is left with all its loops; out of a
/// function there is no way but the end, because what follows the call must not run. All of it is parsed before the first command runs, so no alias changes it, and it names every
/// builtin as such, so no function does. What it prints itself goes to the null device. Everything happens in
/// the condition, so that `continue` in a command leads to the report too; whatever goes wrong there (a
/// descriptor is closed, a builtin is disabled) ends the loop, and with it the shell. The false that must be
/// false notices a shell that no longer executes what it reads, and emptying the variables notices those that
/// cannot be changed any more, before the next command is read into them.
pub(crate) fn script() -> String {
    format!(
        r#"
builtin shopt -s expand_aliases
builtin trap '[[ ${{FUNCNAME+in}} ]] && builtin exit 124; builtin continue 999' STKFLT
__ringfence_nonce={READY}
while
  __ringfence_status=$?
  __ringfence_done=$__ringfence_nonce __ringfence_nonce= __ringfence_head= __ringfence_command= __ringfence_input=
  builtin set +e
  builtin trap - DEBUG ERR RETURN
  ! builtin false &&
  builtin printf '%s %s' "$__ringfence_done" "$__ringfence_status" >&{STATUS} &&
  builtin read -r ${{TMOUT:+"-t99999999"}} -u {COMMANDS} -N 34 __ringfence_head &&
  __ringfence_nonce=${{__ringfence_head:0:16}} &&
  if [[ ${{__ringfence_head:16:1}} == a ]]; then
    builtin read -r ${{TMOUT:+"-t99999999"}} -u {COMMANDS} -N "${{__ringfence_head:17:8}}" __ringfence_command
  else
    LC_ALL=C builtin read -r ${{TMOUT:+"-t99999999"}} -u {COMMANDS} -N "${{__ringfence_head:17:8}}" __ringfence_command
  fi &&
  if [[ ${{__ringfence_head:25:1}} != - ]]; then
    LC_ALL=C builtin read -r ${{TMOUT:+"-t99999999"}} -u {COMMANDS} -N "${{__ringfence_head:26:8}}" __ringfence_input
  fi
do
  case ${{__ringfence_head:25:1}} in
  -) builtin eval "$__ringfence_command" <&{NULL} >&{STDOUT} 2>&{STDERR} {COMMANDS}<&- {STATUS}>&- ;;
  s) builtin eval "$__ringfence_command" <<<"$__ringfence_input" >&{STDOUT} 2>&{STDERR} {COMMANDS}<&- {STATUS}>&- ;;
  *) builtin eval "$__ringfence_command" < <(builtin printf %b "$__ringfence_input") >&{STDOUT} 2>&{STDERR} {COMMANDS}<&- {STATUS}>&- ;;
  esac
done
builtin exit 125
"#
    )
}

/// One request, as bytes for the driver.
pub(crate) fn request(nonce: &str, command: &str, input: Option<&[u8]>) -> Result<Vec<u8>> {
    if command.contains('\0') {
        return Err(Error::new(ErrorKind::Validation, "a command cannot contain a NUL byte"));
    }
    let (kind, input) = input.map_or(('-', vec![]), encoded);
    if command.len() > LONGEST || input.len() > LONGEST {
        return Err(Error::new(ErrorKind::Validation, "the command or its input is too long for a shell"));
    }
    let letters = if command.is_ascii() { 'a' } else { 'u' };
    let mut bytes = format!("{nonce}{letters}{:08}{kind}{:08}", command.len(), input.len()).into_bytes();
    bytes.extend_from_slice(command.as_bytes());
    bytes.extend(input);
    Ok(bytes)
}

/// Plain lines go in a here-string, which adds the last newline itself; everything else is spelled out for
/// `printf`, because a variable of bash cannot hold every byte.
fn encoded(input: &[u8]) -> (char, Vec<u8>) {
    let is_plain = |byte: &u8| matches!(byte, b'\t' | b'\n' | b' '..=b'~') || *byte >= 0x80;
    if let [lines @ .., b'\n'] = input
        && lines.iter().all(is_plain)
    {
        return ('s', lines.to_vec());
    }
    let mut text = Vec::with_capacity(input.len() * 2);
    for &byte in input {
        match byte {
            b'\\' => text.extend_from_slice(b"\\\\"),
            b'\n' | b'\t' | b' '..=b'~' => text.push(byte),
            other => text.extend_from_slice(format!("\\0{other:03o}").as_bytes()),
        }
    }
    ('b', text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: &str = "0123456789abcdef";

    #[test]
    fn a_request_says_how_long_it_is() {
        let bytes = request(NONCE, "pwd", None).unwrap();
        assert_eq!(bytes, b"0123456789abcdefa00000003-00000000pwd");
        assert_eq!(bytes.len(), 34 + 3);
        assert_eq!(request(NONCE, "é", None).unwrap(), "0123456789abcdefu00000002-00000000é".as_bytes());
        assert!(request(NONCE, "a\0b", None).is_err());
    }

    #[test]
    fn lines_stay_as_they_are_and_other_bytes_are_spelled_out() {
        assert_eq!(encoded(b"a\nb\n"), ('s', b"a\nb".to_vec()));
        assert_eq!(encoded(b"no end"), ('b', b"no end".to_vec()));
        assert_eq!(encoded(b"\0\\n\xff\n"), ('b', b"\\0000\\\\n\\0377\n".to_vec()));
        assert_eq!(encoded(b""), ('b', vec![]));
    }
}
