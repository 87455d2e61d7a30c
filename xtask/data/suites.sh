# The tests of Debian's git and bash, with what of their sources these need.
#
# Usage: sh suites.sh DIRECTORY
#
# They come from the machine's own package sources, without changing what apt knows. What is there already stays.
set -eu
mkdir -p "$1"
cd "$1"
here=$PWD

fetch() {
    if [ ! -e apt/updated ]; then
        mkdir -p apt/etc apt/lists/partial apt/cache/archives/partial
        for file in /etc/apt/sources.list.d/*.sources; do
            [ ! -e "$file" ] || sed 's/^Types:.*/Types: deb-src/' "$file" > "apt/etc/${file##*/}"
        done
        [ ! -e /etc/apt/sources.list ] || sed -n 's/^deb /deb-src /p' /etc/apt/sources.list > apt/etc/main.list
        cat > apt/apt.conf <<END
Dir::State::Lists "$here/apt/lists";
Dir::Cache "$here/apt/cache";
Dir::Etc::SourceList "/dev/null";
Dir::Etc::SourceParts "$here/apt/etc";
APT::Sandbox::User "root";
END
        # Others than Debian's may have no sources.
        APT_CONFIG=apt/apt.conf apt-get update -qq || true
        touch apt/updated
    fi
    APT_CONFIG=apt/apt.conf apt-get source -qq --download-only "$1"
    mkdir "$1.new"
    tar -x -f "$1"_*.orig.tar.?z -C "$1.new" --strip-components=1
}

if [ ! -e bash/tests/xcase ]; then
    rm -rf bash bash.new
    fetch bash
    for name in recho zecho xcase; do
        gcc -w -DHAVE_STRING_H -DHAVE_STDLIB_H -DHAVE_UNISTD_H -I bash.new -I bash.new/include \
            -o "bash.new/tests/$name" "bash.new/support/$name.c"
    done
    mkdir bash
    mv bash.new/tests bash/
    rm -r bash.new
fi

if [ ! -e git/t/helper/test-tool ]; then
    rm -rf git git.new
    fetch git
    # The shape of the program that is tested; its tests ask.
    make -s -C git.new -j "$(nproc)" CFLAGS='-O0 -w' NO_CURL=1 NO_EXPAT=1 NO_GETTEXT=1 NO_TCLTK=1 \
        SHELL_PATH=/bin/sh PERL_PATH=/usr/bin/perl PYTHON_PATH=/usr/bin/python3 GIT-BUILD-OPTIONS t/helper/test-tool
    mkdir -p git/templates/blt
    # Without hooks, which nobody inside makes.
    cp -r /usr/share/git-core/templates/info /usr/share/git-core/templates/description git/templates/blt
    mv git.new/t git.new/GIT-BUILD-OPTIONS git/
    rm -r git.new
fi
rm -rf apt ./*.tar.* ./*.dsc ./*.asc
