# $1: what the shell runs; $2: the watchman; $3, $4, $5: limits of CPU seconds, file size in blocks of 512 bytes, open files.
# Starts the shell, waits for it, and says how it ended: also when a signal ended it, and while others hold its output open.
exec 9>"/proc/$2/fd/1" || exit 125
IFS=' ' read -r secret mark || exit 125
printf '\nwrapper %s\n' "$$" >&9
# Above the first a program is told, above the second it is killed.
[ -z "$3" ] || { ulimit -S -t "$3" && ulimit -H -t "$(($3 + 1))"; } || exit 125
[ -z "$4" ] || ulimit -f "$4" || exit 125
[ -z "$5" ] || ulimit -n "$5" || exit 125
# Caught, not ignored: what the shell starts would ignore it too.
trap : HUP INT QUIT USR1 USR2 PIPE ALRM TERM
sh -c "$1" sh 6<&0 7>&1 8>&2 </dev/null >/dev/null 2>&1
status=$?
printf '%s' "$mark"
printf '%s' "$mark" >&2
printf '\n%s gone %s\n' "$secret" "$status" >&9
