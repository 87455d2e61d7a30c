# Runs a container engine of its own, docker or podman by $2, in the directory $1 until nobody holds a lock on $1/users any
# more, and then removes everything. Images are made from this machine's own Debian packages: no registry is needed.
set -eu
dir=$1
kind=$2
cd "$dir"
export DOCKER_HOST="unix://$dir/socket"
unset DOCKER_CONTEXT DOCKER_TLS_VERIFY

fail() {
  echo "$1: $(tail -n 3 log 2>/dev/null)" >failed
}
stop() {
  trap - EXIT TERM INT HUP
  docker ps -aq 2>/dev/null | xargs -r docker rm -f >/dev/null 2>&1 || true
  kill "$engine" 2>/dev/null || true
  wait "$engine" 2>/dev/null || true
  cd /
  # Podman leaves its directories mounted on themselves.
  for mounted in "$dir/data/overlay" "$dir/data"; do
    while umount "$mounted" 2>/dev/null; do :; done
  done
  rm -rf "$dir"
}

# Everything a package needs, but for what only installs or documents it.
with_dependencies() {
  seen=" " queue=$*
  skipped=" perl perl-base perl-modules-5.36 liberror-perl git-man debconf dpkg adduser passwd tzdata usrmerge init-system-helpers "
  while [ -n "$queue" ]; do
    next=
    for package in $queue; do
      case "$seen$skipped" in *" $package "*) continue ;; esac
      seen="$seen$package "
      next="$next $(dpkg-query -W -f '${Depends},${Pre-Depends}' "$package" 2>/dev/null |
        tr ',' '\n' | sed 's/|.*//; s/(.*//; s/:any//; s/ //g' | tr '\n' ' ')"
    done
    queue=$(echo $next)
  done
  echo "$seen"
}

# root DIRECTORY PACKAGE…: a root directory with these packages.
root() {
  root=$1
  shift
  mkdir -p "$root/usr/bin" "$root/usr/sbin" "$root/usr/lib" "$root/usr/lib64" "$root/tmp" "$root/var/tmp" "$root/run" \
    "$root/proc" "$root/sys" "$root/dev" "$root/etc" "$root/root" "$root/home"
  for name in bin sbin lib lib64; do ln -s "usr/$name" "$root/$name"; done
  chmod 1777 "$root/tmp" "$root/var/tmp"
  for package in $(with_dependencies "$@"); do dpkg -L "$package" 2>/dev/null || true; done |
    grep -vE '^/usr/share/(doc|man|locale|info|lintian|bug|gitweb)|/python3[.0-9]*/(test|idlelib|tkinter|lib2to3)/|/__pycache__' |
    sed 's,^/\(bin\|sbin\|lib\|lib64\)/,/usr/\1/,' | sort -u |
    while read -r file; do
      if [ -L "$file" ] || [ -f "$file" ]; then echo "${file#/}"; fi
    done >"$root.list"
  tar -C / -cf - --no-recursion --hard-dereference -T "$root.list" 2>/dev/null | tar -C "$root" -xf - 2>/dev/null || true
  echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
  echo 'root:x:0:' >"$root/etc/group"
  test -e "$root/usr/bin/sh" || ln -s dash "$root/usr/bin/sh"
}

image() {
  tar -C "$1" -cf "$1.tar" .
  docker import "$1.tar" "$2" >/dev/null
  rm -rf "$1" "$1.list"
}

if [ "$kind" = podman ]; then
  # Nothing of it is shared with the machine's own, it makes no network, and it raises no limit: not every root may.
  cat >containers.conf <<END
[containers]
netns = "none"
default_ulimits = []
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
END
  TMPDIR="$dir" CONTAINERS_CONF="$dir/containers.conf" podman --root "$dir/data" --runroot "$dir/run" --tmpdir "$dir/tmp" \
    --storage-driver overlay system service --time 0 "$DOCKER_HOST" >>log 2>&1 &
else
  dockerd --host "$DOCKER_HOST" --data-root "$dir/data" --exec-root "$dir/exec" --pidfile "$dir/pid" \
    --bridge=none --iptables=false --ip6tables=false --storage-driver=overlay2 >>log 2>&1 &
fi
engine=$!
trap stop EXIT TERM INT HUP

root "$dir/full" bash dash coreutils grep sed findutils procps util-linux mount hostname git python3-minimal \
  libpython3-stdlib base-files libc-bin curl libstdc++6 python3-pip
root "$dir/least" dash coreutils
root "$dir/bare" dash
find "$dir/bare/usr/bin" "$dir/bare/usr/sbin" -mindepth 1 ! -name dash ! -name sh -delete
root "$dir/busybox" busybox
for applet in $(busybox --list); do ln -sf busybox "$dir/busybox/usr/bin/$applet"; done

tries=0
until docker version >/dev/null 2>&1; do
  tries=$((tries + 1))
  if [ "$tries" -gt 300 ] || ! kill -0 "$engine" 2>/dev/null; then
    fail "$kind did not start"
    sleep 2
    exit 1
  fi
  sleep 0.2
done
if ! { image "$dir/full" ringfence-test:full && image "$dir/least" ringfence-test:least &&
  image "$dir/bare" ringfence-test:bare && image "$dir/busybox" ringfence-test:busybox; } >>log 2>&1; then
  fail "the images could not be made"
  sleep 2
  exit 1
fi
touch ready

# Tests come and go; a moment without any is not the end.
exec 9<users
idle=0
while [ "$idle" -lt 8 ]; do
  if flock --exclusive --nonblock 9; then
    idle=$((idle + 1))
    [ "$idle" -lt 8 ] && flock --unlock 9
  else
    idle=0
  fi
  sleep 0.5
done
