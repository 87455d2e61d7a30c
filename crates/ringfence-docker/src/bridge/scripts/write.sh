# $4: the name of a file that nobody has; $5: how many bytes will come; $6: yes, missing directories are made.
make=$6
find_file "$1" "$2" "$3"
[ ! -d "./$name" ] || exit 88
mode=
if [ -e "./$name" ]; then
	[ -f "./$name" ] || exit 86
	[ -w "./$name" ] || exit 90
	mode=$(stat -c %a "./$name")
fi
fresh=$4
set -C
exec 3>"./$fresh"
set +C
trap 'rm -f "./$fresh"' EXIT
trap 'exit 89' HUP INT PIPE TERM
# By its descriptor: its name may be another's by now.
[ -z "$mode" ] || chmod "$mode" /proc/self/fd/3
cat >&3
exec 3>&-
# A connection that broke looks like the end of the input; half a file must not take the place of a whole one.
[ "$(($(wc -c <"./$fresh")))" -eq "$5" ] || exit 89
mv -f "./$fresh" "./$name"
trap - EXIT
