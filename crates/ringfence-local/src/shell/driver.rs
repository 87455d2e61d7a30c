//! What bash runs, and how it is told what to do.

use ringfence_linux::plan::LOWEST_SOURCE;
use ringfence_model::{Error, ErrorKind, Result};
use rustix::process::Signal;

/// The numbers of the shell's own descriptors. Only bash itself has them: no program that it starts does.
pub(crate) const NULL: i32 = 90;
pub(crate) const COMMANDS: i32 = 93;
pub(crate) const STATUS: i32 = 94;
const FIRST_OUTPUT: i32 = 80;
/// Where they are put aside at the start.
const ASIDE: i32 = 40;
const _: () = assert!(STATUS < LOWEST_SOURCE && outputs(PAIRS)[0] <= NULL);

/// How many pairs of outputs a shell has. A command whose jobs keep theirs open leaves it to them, and the next
/// command gets another.
pub(crate) const PAIRS: usize = 4;

/// Standard output and error of the pair of this number.
pub(crate) const fn outputs(pair: usize) -> [i32; 2] {
    let mut first = FIRST_OUTPUT;
    let mut left = pair;
    while left > 0 {
        first += 2;
        left -= 1;
    }
    [first, first + 1]
}

/// The nonce of the report that says that bash is ready for its first command.
pub(crate) const READY: &str = "ready";

/// The signal at which bash leaves the command it evaluates; nobody else uses it.
pub(crate) const ABORT: Signal = Signal::STKFLT;

/// Lengths travel in eight digits.
const LONGEST: usize = 99_999_999;
/// Every request begins with a block of this size, which has room for a short command.
const BLOCK: usize = 128;
const HEADER: usize = 38;

/// Where the command stands in the block of a quick request, and how many digits say how long it is.
const QUICK: usize = 20;

/// Leaves the command with all its loops. Out of functions there is a longer way, and what is about to begin
/// must not: from here on every command is skipped and every function left, until none is left. Without a
/// command there is nothing to leave: the signal came late. Where it comes twice, only the first one sees how it was
/// before. Nor may the condition of the loop be left, since that would end the loop.
const LEAVE: &str = "if [[ $__ringfence_on ]]; then \
    [[ $__ringfence_undo ]] || builtin shopt -q extdebug || __ringfence_undo=:$-; \
    builtin shopt -s extdebug; builtin trap \"$__ringfence_skip\" DEBUG; \
    if [[ ! ${FUNCNAME+in} ]]; then __ringfence_on=; builtin continue 999; fi; fi";

/// Before each command, on the way out. A status that is not zero skips it. The first command of the loop itself
/// has to run.
const SKIP: &str = "if [[ ${FUNCNAME+in} ]]; then builtin return 2; \
    else __ringfence_on=; builtin trap - DEBUG; \
    case $BASH_COMMAND in __ringfence_* | builtin\\ printf\\ ?%.16s*) ;; *) ! builtin continue 999 ;; esac; fi";

/// The loop. All of it is parsed before the first command runs, so no alias changes it, and it names every
/// builtin as such, so no function does. What it prints itself goes to the null device.
///
/// No program that bash starts inherits the private descriptors. Bash can't be told so directly; but where it
/// closes descriptors for a while it keeps copies that have this property, and a copy of such a copy has it too.
///
/// Reporting and reading happen in the condition, so that `continue` in a command leads there too; whatever
/// goes wrong there (a descriptor is closed, a builtin is disabled) ends the loop, and with it the shell. A
/// shell that no longer executes what it reads leaves the status of conditions as it was, zero: that must end the
/// loop, therefore it is `until`. Emptying the variables notices those that cannot be changed any more, before
/// the next command is read into them. A read that a signal interrupts, as in POSIX mode, is tried once more.
///
/// What was not read whole is not evaluated: a division by zero leaves the loop whatever `builtin` has become. That
/// is also where a `builtin` that does nothing leads, since then nothing was read.
///
/// Somebody waits while bash goes once round the loop, and each command in it takes microseconds: a short command
/// is evaluated out of the block it came in, and most traps and options are looked at together.
pub(crate) fn script() -> String {
    let private: Vec<i32> = (0..PAIRS).flat_map(outputs).chain([NULL, COMMANDS, STATUS]).collect();
    let closed: String = private.iter().map(|fd| format!(" {fd}>&-")).collect();
    // Where bash puts copies: from ten on, in this order.
    let aside: String = (10..)
        .zip(private.iter().zip(ASIDE..))
        .map(|(copy, (_, aside))| format!(" {aside}>&{copy}"))
        .collect();
    let back: String = private.iter().zip(ASIDE..).map(|(fd, aside)| format!(" {fd}>&{aside}")).collect();
    let gone: String = private.iter().zip(ASIDE..).map(|(_, aside)| format!(" {aside}>&-")).collect();
    let read = format!("builtin read -r ${{TMOUT:+\"-t99999999\"}} -u {COMMANDS} -N");
    let [stdout, stderr] = outputs(0);
    format!(
        r#"
{{ exec{aside}; }}{closed}
exec{back}
exec{gone}
builtin shopt -s expand_aliases
__ringfence_skip='{SKIP}'
builtin trap '{LEAVE}' STKFLT
__ringfence_head={READY} __ringfence_status=0 __ringfence_on= __ringfence_undo=
until
  builtin printf '%.16s %s' "$__ringfence_head" "$__ringfence_status" >&{STATUS} &&
  {{
    __ringfence_status=0 __ringfence_head= __ringfence_on=
    builtin trap - DEBUG ERR RETURN
    case $-$__ringfence_undo in *[e:]*)
      builtin set +e
      case $__ringfence_undo in :*) builtin shopt -u extdebug ;; esac
      case $__ringfence_undo in :*T*) builtin set -T ;; esac
      case $__ringfence_undo in :*E*) builtin set -E ;; esac
      __ringfence_undo=
    esac
    {read} {BLOCK} __ringfence_head || {{ [[ $? -gt 128 ]] && {read} {BLOCK} __ringfence_head; }}
  }}
  [[ $? != 0 ]]
do
  case $__ringfence_head in
  ????????????????q*)
    __ringfence_on=1
    builtin eval "${{__ringfence_head:{QUICK}:${{__ringfence_head:17:3}}}}" <&{NULL} >&{stdout} 2>&{stderr}
    ;;
  *)
    __ringfence_command= __ringfence_input=
    case $__ringfence_head in
    ????????????????s*) __ringfence_command=${{__ringfence_head:{HEADER}:10#${{__ringfence_head:17:8}}}} ;;
    ????????????????a*) {read} "${{__ringfence_head:17:8}}" __ringfence_command ;;
    ????????????????u*) LC_ALL=C {read} "${{__ringfence_head:17:8}}" __ringfence_command ;;
    *) [[ $__ringfence_command ]] ;;
    esac &&
    case ${{__ringfence_head:25:1}} in
    [-o]) ;;
    *) LC_ALL=C {read} "${{__ringfence_head:26:8}}" __ringfence_input ;;
    esac || [[ $((1/0)) ]]
    __ringfence_on=1
    case ${{__ringfence_head:25:1}} in
    o) builtin eval "$__ringfence_command" ;;
    -) builtin eval "$__ringfence_command" <&{NULL} >&"${{__ringfence_head:34:2}}" 2>&"${{__ringfence_head:36:2}}" ;;
    s) builtin eval "$__ringfence_command" <<<"$__ringfence_input" >&"${{__ringfence_head:34:2}}" 2>&"${{__ringfence_head:36:2}}" ;;
    *) builtin eval "$__ringfence_command" < <(builtin printf %b "$__ringfence_input") >&"${{__ringfence_head:34:2}}" 2>&"${{__ringfence_head:36:2}}" ;;
    esac ;;
  esac
  __ringfence_status=$? __ringfence_on=
done
builtin exit 125
"#
    )
}

/// One request: a command and its input.
pub(crate) fn request(nonce: &str, command: &str, input: Option<&[u8]>) -> Result<Request> {
    if command.contains('\0') {
        return Err(Error::new(ErrorKind::Validation, "a command cannot contain a NUL byte"));
    }
    let (kind, input) = input.map_or(('-', vec![]), encoded);
    if command.len() > LONGEST || input.len() > LONGEST {
        return Err(Error::new(ErrorKind::Validation, "the command or its input is too long for a shell"));
    }
    Ok(Request { nonce: nonce.to_owned(), command: command.to_owned(), kind, input })
}

/// What is sent to bash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    nonce: String,
    command: String,
    kind: char,
    input: Vec<u8>,
}

impl Request {
    /// As bytes for the driver, with the output going to this pair.
    pub(crate) fn to(&self, pair: usize) -> Vec<u8> {
        let Self { nonce, command, kind, .. } = self;
        if pair == 0 && *kind == '-' && command.is_ascii() && command.len() <= BLOCK - QUICK {
            let mut bytes = format!("{nonce}q{:3}{command}", command.len()).into_bytes();
            bytes.resize(BLOCK, b' ');
            return bytes;
        }
        self.in_full(*kind, outputs(pair))
    }

    /// As bytes for the driver, with bash's own streams.
    pub(crate) fn plain(&self) -> Vec<u8> {
        self.in_full('o', outputs(0))
    }

    fn in_full(&self, kind: char, [stdout, stderr]: [i32; 2]) -> Vec<u8> {
        let Self { nonce, command, input, .. } = self;
        let letters = match command.is_ascii() {
            true if command.len() <= BLOCK - HEADER => 's',
            true => 'a',
            false => 'u',
        };
        let (length, input_length) = (command.len(), input.len());
        let mut bytes =
            format!("{nonce}{letters}{length:08}{kind}{input_length:08}{stdout:02}{stderr:02}").into_bytes();
        if letters == 's' {
            bytes.extend_from_slice(command.as_bytes());
        }
        bytes.resize(BLOCK, b' ');
        if letters != 's' {
            bytes.extend_from_slice(command.as_bytes());
        }
        bytes.extend_from_slice(input);
        bytes
    }
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
        let pwd = request(NONCE, "pwd", None).unwrap();
        assert!(pwd.to(0).starts_with(b"0123456789abcdefq  3pwd   "));
        assert!(pwd.to(1).starts_with(b"0123456789abcdefs00000003-000000008283pwd   "));
        assert!(pwd.plain().starts_with(b"0123456789abcdefs00000003o000000008081pwd   "));
        assert!([pwd.to(0), pwd.to(1), pwd.plain()].iter().all(|bytes| bytes.len() == BLOCK));
        let bytes = request(NONCE, "é", Some(b"in\n")).unwrap().to(3);
        assert!(bytes.starts_with(b"0123456789abcdefu00000002s000000028687 "));
        assert!(bytes.ends_with("éin".as_bytes()) && bytes.len() == BLOCK + 4);
        let long = "x".repeat(BLOCK);
        let bytes = request(NONCE, &long, None).unwrap().to(1);
        assert!(
            bytes.starts_with(b"0123456789abcdefa00000128-000000008283 ") && bytes.ends_with(long.as_bytes())
        );
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
