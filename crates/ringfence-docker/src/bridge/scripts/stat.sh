find_file "$1" "$2" "$3"
[ -e "./$name" ] || exit 81
stat -c '%f %s %Y' "./$name"
