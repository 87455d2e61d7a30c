# Runs as root inside a private mount namespace, and hands each test binary to an ordinary user.
# It removes nothing: the caller does that from outside, where nothing is mounted below the scratch
# directory.
set -euo pipefail
scratch=$1 user=$2 repository=$3 rustup=$4 cargo_bin=$5 system_path=$6

chmod 0755 "$scratch"
mkdir -p "$scratch/home" "$scratch/tmp" "$scratch/toolchain/rustup" "$scratch/toolchain/cargo/bin"
chmod 0700 "$scratch/home"
chmod 1777 "$scratch/tmp"
chown -R "$user:$user" "$scratch/home" "$scratch/toolchain/cargo"

environment=(
  "HOME=$scratch/home" "USER=ringfence-test" "LOGNAME=ringfence-test" "SHELL=/bin/bash"
  "LANG=C.UTF-8" "RUST_BACKTRACE=1" "TERM=dumb"
)
path=$system_path
if [[ -d $rustup && -d $cargo_bin ]]; then
  for pair in "$rustup:$scratch/toolchain/rustup" "$cargo_bin:$scratch/toolchain/cargo/bin"; do
    mount --bind "${pair%%:*}" "${pair#*:}"
    mount -o remount,bind,ro "${pair#*:}"
  done
  environment+=("RUSTUP_HOME=$scratch/toolchain/rustup" "CARGO_HOME=$scratch/toolchain/cargo")
  path=$scratch/toolchain/cargo/bin:$path
fi
environment+=("PATH=$path" "${@:7}")

# A checkout below a closed directory (root's home) is made reachable at its own path, because test
# binaries have that path compiled in.
closed=
directory=$(dirname "$repository")
while [[ $directory != / ]]; do
  [[ $(stat -c %A "$directory") == *[xt] ]] || closed=$directory
  directory=$(dirname "$directory")
done
if [[ -n $closed ]]; then
  mkdir "$scratch/repository"
  mount --rbind "$repository" "$scratch/repository"
  mount -t tmpfs -o mode=0755 tmpfs "$closed"
  mkdir -p "$repository"
  mount --rbind "$scratch/repository" "$repository"
fi

# Temporary files go where they are removed with the rest.
if [[ $repository != /tmp/* ]]; then
  mount --bind "$scratch/tmp" /tmp
else
  environment+=("TMPDIR=$scratch/tmp")
fi
for directory in "$repository"/target/tmp "$repository"/target/*/tmp; do
  if [[ -d $directory ]]; then mount -t tmpfs -o mode=1777 tmpfs "$directory"; fi
done

failed=0
while IFS=$'\t' read -r directory binary; do
  echo "     Running as $user: ${binary##*/}"
  run=(setpriv "--reuid=$user" "--regid=$user" --clear-groups
    /usr/bin/env -i "${environment[@]}" "CARGO_MANIFEST_DIR=$directory")
  if ! "${run[@]}" test -x "$binary"; then
    echo "error: user $user cannot reach $binary" >&2
    failed=1
    continue
  fi
  run_tests() { (cd "$directory" && timeout --kill-after=10 2400 "${run[@]}" "$binary" "$@" </dev/null); }
  if ! run_tests | tee "$scratch/output"; then
    # As in nextest.toml: a test that fails is tried a second time, alone, to tell whether it is flaky. Flaky is a failure.
    mapfile -t names < <(
      awk '/^failures:$/ { n = 0 } /^    [[:alnum:]_:]+$/ { names[n++] = $1 }
        /^test result: FAILED/ { for (i = 0; i < n; i++) print names[i] }' "$scratch/output"
    )
    if ((${#names[@]})) && run_tests --exact --test-threads=1 "${names[@]}" | tee "$scratch/output" &&
      grep -q "^test result: ok. ${#names[@]} passed" "$scratch/output"; then
      echo "error: FLAKY as user $user (passed at the second try): ${names[*]}" >&2
    else
      echo "error: failed as user $user: $binary" >&2
    fi
    failed=1
  fi
done <"$scratch/binaries"
exit "$failed"
