__ringfence_path=$PATH
if [ -r /etc/profile ]; then command . /etc/profile 6<&- 7>&- 8>&- 9>&-; fi
# What the container was given comes before what the profile says.
case $PATH in
"$__ringfence_path" | "$__ringfence_path":*) ;;
*) PATH=$__ringfence_path:$PATH ;;
esac
export PATH
unset __ringfence_path
__ringfence_n='
'
# An error leaves whatever is evaluated, functions and loops included, and `command` keeps it from ending the shell.
trap 'case $__ringfence_on in 1) exec 2>/dev/null; eval ")" ;; esac' 16
__ringfence_status=$$ __ringfence_on= __ringfence_all= __ringfence_mark= __ringfence_nonce= __ringfence_line=
until
  unset -f command printf read rm
  set +e
  { IFS=' ' read -r __ringfence_nonce __ringfence_mark <&6 || { [ $? -gt 128 ] && IFS=' ' read -r __ringfence_nonce __ringfence_mark <&6; }; } &&
  printf %s "$__ringfence_mark" >&7 &&
  printf %s "$__ringfence_mark" >&8 &&
  printf '\n%s done %s\n' "$__ringfence_nonce" "$__ringfence_status" >&9
  __ringfence_nonce= __ringfence_mark= __ringfence_command= __ringfence_input= __ringfence_began=
  ! { IFS= read -r __ringfence_line <&6 || { [ $? -gt 128 ] && IFS= read -r __ringfence_line <&6; }; }
do
  eval "$__ringfence_line"
  __ringfence_line=
  # When this is, and which number the last process has that was started before.
  IFS=' ' read -r __ringfence_began __ringfence_line </proc/uptime
  IFS= read -r __ringfence_line </proc/loadavg
  printf '\nbegan %s %s\n' "$__ringfence_began" "${__ringfence_line##* }" >&9
  case $__ringfence_all in 1) set -a ;; esac
  __ringfence_on=1
  case $__ringfence_input in
  '')
    command eval "$__ringfence_command" </dev/null >&7 2>&8 6<&- 7>&- 8>&- 9>&-
    __ringfence_status=$? __ringfence_on=
    ;;
  *)
    {
      # It is open, so its name is of no use any more. Without `rm` it is emptied, when nobody needs it any more.
      command rm -f -- "$__ringfence_input" && __ringfence_left= || __ringfence_left=$__ringfence_input
      command eval "$__ringfence_command" >&7 2>&8 6<&- 7>&- 8>&- 9>&-
      __ringfence_status=$? __ringfence_on=
      __ringfence_input=
      case $__ringfence_left in ?*) : >|"$__ringfence_left" ;; esac
    } <"$__ringfence_input"
    case $__ringfence_input in ?*) printf '\ninput failed\n' >&9 ;; esac
    ;;
  esac
  case $- in *a*) __ringfence_all=1; set +a ;; *) __ringfence_all= ;; esac
done
