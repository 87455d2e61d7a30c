# $4: single or recursive.
find_entry "$1" "$2" "$3"
if [ ! -e "./$name" ] && [ ! -L "./$name" ]; then
	exit 81
fi
if [ -L "./$name" ] || [ ! -d "./$name" ]; then
	rm -f "./$name"
elif [ "$4" = recursive ]; then
	rm -rf "./$name"
else
	rmdir "./$name"
fi
