# Watches over one shell. Its standard output is the channel that the shell reports on: the shell opens it through /proc, and no
# command that the shell runs has it. It is told on standard input what to end, and when that ends, ends everything.
printf '\nwatch %s\n' "$$"

# members WRAPPER MARK: all processes of the shell, as " pid pid ", and in $entries what is known about each process. They are those below
# the wrapper, those of its session, and those that were left to pid 1 and have the mark in their environment.
members() {
  known=" $1 " entries=
  for place in /proc/[0-9]*; do
    stat=
    { while IFS= read -r line || [ "$line" ]; do stat=$stat$line; done; } 2>/dev/null <"$place/stat" || continue
    case $stat in *') '*) ;; *) continue ;; esac
    pid=${place#/proc/} wrapper=$1 mark=$2
    # After the name, which may hold anything: state, parent, group, session, …, and the twentieth is when it began.
    set -- ${stat##*) }
    case $1 in
    Z | X) ;;
    *)
      entries="$entries $pid:$2:${20}"
      if [ "$4" = "$wrapper" ]; then
        known="$known$pid "
      elif [ "$2" = 1 ]; then
        environment=
        { while IFS= read -r line || [ "$line" ]; do environment=$environment$line; done; } 2>/dev/null <"$place/environ"
        case $environment in *"RINGFENCE_SHELL=$mark"*) known="$known$pid " ;; esac
      fi
      ;;
    esac
    set -- "$wrapper" "$mark"
  done
  grown=yes
  while [ "$grown" ]; do
    grown=
    for entry in $entries; do
      pid=${entry%%:*} parent=${entry#*:}
      case $known in *" $pid "*) continue ;; esac
      case $known in *" ${parent%:*} "*) known="$known$pid " grown=yes ;; esac
    done
  done
}

# end SIGNAL WRAPPER SHELL MARK SINCE LAST: sends the signal to what the shell started since then, but not to the shell itself, and says
# how many there are. Of what began in the same hundredth of a second, it is what has a higher number than LAST.
end() {
  members "$2" "$4"
  count=0
  for entry in $entries; do
    pid=${entry%%:*}
    case $pid in "$2" | "$3") continue ;; esac
    case $known in *" $pid "*) ;; *) continue ;; esac
    if [ "${entry##*:}" -eq "$5" ]; then
      [ "$pid" -gt "$6" ] || continue
    else
      [ "${entry##*:}" -gt "$5" ] || continue
    fi
    count=$((count + 1))
    kill "-$1" "$pid" 2>/dev/null
  done
  printf '\nleft %s\n' "$count"
}

# count_of FILE KEY: the number behind the key; nothing without one.
count_of() {
  { while read -r key number; do [ "$key" = "$2" ] && found=$number; done; } 2>/dev/null <"$1"
}

minded= marked=
while read -r order a b c d e f; do
  case $order in
  mind) minded=$a marked=$b ;;
  # The shell first: it must know before what it waits for is gone.
  stop) kill -16 "$c" 2>/dev/null; end "$a" "$b" "$c" "$d" "$e" "$f" ;;
  clear) end "$a" "$b" "$c" "$d" "$e" "$f" ;;
  meter)
    found= killed=0 refused=0
    for file in memory/memory.oom_control memory.events; do count_of "/sys/fs/cgroup/$file" oom_kill; done
    killed=${found:-0} found=
    for file in pids/pids.events pids.events; do count_of "/sys/fs/cgroup/$file" max; done
    printf '\nmeter %s %s\n' "$killed" "${found:-0}"
    ;;
  esac
done

# Nobody is there any more. What is started while this looks is found by the next look.
[ "$minded" ] || exit 0
rounds=0
while [ "$rounds" -lt 100 ]; do
  members "$minded" "$marked"
  left=
  for entry in $entries; do
    pid=${entry%%:*}
    case $known in *" $pid "*) left=yes; kill -9 "$pid" 2>/dev/null ;; esac
  done
  [ "$left" ] || break
  rounds=$((rounds + 1))
done
