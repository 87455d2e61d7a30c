# $4, $5, $6: mount, directory and name of the target.
make=yes
find_entry "$4" "$5" "$6"
target=$name
[ ! -d "./$target" ] || exit 88
# Holds the directory, so that it is the same one when the file arrives.
exec 4<.
make=no
find_entry "$1" "$2" "$3"
if [ ! -e "./$name" ] && [ ! -L "./$name" ]; then
	exit 81
fi
mv -f "./$name" "/proc/self/fd/4/$target"
