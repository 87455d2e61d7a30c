# Comes before each script. POSIX sh; cat, chmod, ls, mkdir, mv, readlink, rm, rmdir, stat and wc from the image.
# $1 is a mount of the container, $2 a directory below it, $3 a name in that directory; all three are only ever
# used in quotes, and names only with ./ before them.
# Ways to end, besides 0 and what a program of the image returns: see status.rs.
set -eu
LC_ALL=C
export LC_ALL
unset CDPATH || :
newline='
'
root=
name=
left=
make=no
# yes: nothing on the way, nor at its end, may be a link; somebody judged this very path, and it is this one or none.
exact=no
expected=

# Goes to the mount and remembers what it is really called.
begin() {
	cd -P -- "$1" 2>/dev/null || exit 81
	root=$PWD
	expected=$root
}

# Refuses when the current directory is not, by what the shell knows, below the root.
stay() {
	case $PWD/ in
	"$root"/*) ;;
	*) exit 80 ;;
	esac
	[ "$exact" = no ] || [ "$PWD" = "$expected" ] || exit 91
}

# Asks the kernel where the current directory is: the answer does not depend on what was renamed while we walked.
# The directory itself is held by this process from here on.
certain() {
	here=$(readlink /proc/self/cwd && printf .) || exit 85
	here=${here%.}
	here=${here%"$newline"}
	case $here/ in
	"$root"/*) ;;
	*) exit 80 ;;
	esac
	[ "$exact" = no ] || [ "$here" = "$expected" ] || exit 91
}

# Goes down the path $1 step by step, and never out of the root on the way. With make=yes, missing directories are made;
# with make=stop, the first that is missing, and all after it, are what is $left.
walk() {
	rest=$1
	while [ -n "$rest" ]; do
		step=${rest%%/*}
		case $rest in
		*/*) rest=${rest#*/} ;;
		*) rest= ;;
		esac
		case $step in
		'' | .) continue ;;
		esac
		if [ "$make" = yes ] && [ ! -e "./$step" ] && [ ! -L "./$step" ]; then
			certain
			# Somebody else may make it at the same moment.
			mkdir "./$step" || [ -d "./$step" ]
		fi
		if [ "$make" = stop ] && [ ! -e "./$step" ] && [ ! -L "./$step" ]; then
			left=$step${rest:+/$rest}
			return
		fi
		if [ ! -d "./$step" ]; then
			[ ! -e "./$step" ] || exit 82
			exit 81
		fi
		cd -P "./$step" || exit 83
		expected=$expected/$step
		stay
	done
}

# Goes to $2 and takes $3 as it is, link or not.
find_entry() {
	begin "$1"
	walk "$2"
	name=$3
	certain
}

# As find_entry, and follows links that stay below the root, until $name is none.
find_file() {
	begin "$1"
	walk "$2"
	name=$3
	follow
}

follow() {
	make=no
	[ "$exact" = no ] || [ ! -L "./$name" ] || exit 91
	turns=0
	while [ -L "./$name" ]; do
		turns=$((turns + 1))
		[ "$turns" -le 40 ] || exit 84
		to=$(readlink "./$name" && printf .) || exit 85
		to=${to%.}
		to=${to%"$newline"}
		case $to in
		"$root"/*)
			cd -P "$root"
			to=${to#"$root"/}
			;;
		"$root")
			cd -P "$root"
			to=.
			;;
		/*) exit 80 ;;
		esac
		while :; do
			case $to in
			?*/) to=${to%/} ;;
			*) break ;;
			esac
		done
		case $to in
		*/*)
			walk "${to%/*}"
			name=${to##*/}
			;;
		*) name=$to ;;
		esac
		case $name in
		'' | . | ..)
			walk "$name"
			name=.
			;;
		esac
	done
	certain
}

# Opens the file $name as 3. $1: refuse or allow, files with several names.
open_file() {
	[ -e "./$name" ] || exit 81
	[ ! -d "./$name" ] || exit 88
	[ -f "./$name" ] || exit 86
	exec 3<"./$name"
	# What was opened is judged, not what the name meant a moment before.
	opened=$(readlink /proc/self/fd/3 && printf .) || exit 85
	opened=${opened%.}
	opened=${opened%"$newline"}
	case $opened in
	"$root"/*) ;;
	*) exit 80 ;;
	esac
	[ "$exact" = no ] || [ "$opened" = "$expected/$name" ] || exit 91
	if [ "$1" = refuse ]; then
		set -f
		# shellcheck disable=SC2046
		set -- $(ls -ldnL /proc/self/fd/3)
		set +f
		[ "$2" = 1 ] || exit 87
	fi
}
