# $4: refuse or allow, files with several names.
find_file "$1" "$2" "$3"
open_file "$4"
cat <&3
