# $4: refuse or allow, files with several names.
find_file "$1" "$2" "$3"
[ -e "./$name" ] || exit 81
[ ! -d "./$name" ] || exit 88
[ -f "./$name" ] || exit 86
exec 3<"./$name"
# What was opened is judged, not what the name meant a moment before.
opened=$(readlink /proc/self/fd/3 && printf .) || exit 85
case $opened in
"$root"/*) ;;
*) exit 80 ;;
esac
if [ "$4" = refuse ]; then
	set -f
	# shellcheck disable=SC2046
	set -- $(ls -ldnL /proc/self/fd/3)
	[ "$2" = 1 ] || exit 87
fi
cat <&3
