# $1: a mount; $2: refuse or allow, files with several names; then a directory and a name for each file. The first line of the
# input is told after each content, with how its reading went: nobody inside knows it before.
mount=$1
several=$2
shift 2
IFS= read -r mark
while [ "$#" -gt 0 ]; do
	set +e
	(
		set -e
		exec </dev/null
		find_file "$mount" "$1" "$2"
		open_file "$several"
		cat <&3
	)
	status=$?
	set -e
	printf '\n%s %s\n' "$mark" "$status"
	shift 2
done
