# $1: a mount; then a directory and a name in it for each directory to list.
# Names end with NUL, since nothing else cannot be in them; what stat says follows in the same order, with each name once
# more, because one that went away in between has no line.
tell() {
	printf '%s\0' "$#"
	printf '%s\0' "$@"
	stat -c '%f %s %Y %n' "$@" 2>/dev/null || :
	printf '\0'
}

entries() {
	set --
	count=0
	for entry in ./* ./.[!.]* ./..?*; do
		if [ -e "$entry" ] || [ -L "$entry" ]; then
			set -- "$@" "$entry"
			count=$((count + 1))
			if [ "$count" -eq 200 ]; then
				tell "$@"
				set --
				count=0
			fi
		fi
	done
	[ "$count" -eq 0 ] || tell "$@"
}

mount=$1
shift
alone=no
[ "$#" -ne 2 ] || alone=yes
while [ "$#" -gt 0 ]; do
	set +e
	(
		set -e
		find_file "$mount" "$1" "$2"
		[ -e "./$name" ] || exit 81
		[ -d "./$name" ] || exit 82
		cd -P "./$name" || exit 83
		[ "$name" = . ] || expected=$expected/$name
		stay
		certain
		entries
	)
	status=$?
	set -e
	# One that is asked for alone says by itself what is wrong with it.
	[ "$status" -eq 0 ] || [ "$alone" = no ] || exit "$status"
	printf 'end %s\0' "$status"
	shift 2
done
