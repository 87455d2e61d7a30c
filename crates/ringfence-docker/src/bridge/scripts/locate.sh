# $4: follow or keep, a link at the very end. Says where the path leads, NUL after each: the directory, as the kernel names it;
# what comes below it; and what is there, or nothing.
make=stop
begin "$1"
walk "$2"
name=$3
if [ -n "$left" ]; then
	certain
	printf '%s\0%s/%s\0\0' "$here" "$left" "$name"
	exit 0
fi
if [ "$4" = follow ]; then
	follow
else
	certain
fi
printf '%s\0%s\0' "$here" "$name"
if [ -e "./$name" ] || [ -L "./$name" ]; then
	stat -c '%f %s %Y' "./$name"
fi
printf '\0'
