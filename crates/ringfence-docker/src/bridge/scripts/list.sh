make=no
find_file "$1" "$2" "$3"
[ -e "./$name" ] || exit 81
[ -d "./$name" ] || exit 82
cd -P "./$name" || exit 83
stay
certain

# Names end with NUL, since nothing else cannot be in them; what stat says follows in the same order, with each name once
# more, because one that went away in between has no line.
tell() {
	printf '%s\0' "$#"
	printf '%s\0' "$@"
	stat -c '%f %s %Y %n' "$@" 2>/dev/null || :
	printf '\0'
}

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
