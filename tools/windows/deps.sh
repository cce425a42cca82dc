#!/bin/sh
# usage: deps.sh FOLDER [FOLDER_OF_ARCHIVES]
# Builds for Windows, with mingw-w64, what mgpt needs and Debian has not for it: PCRE2, and cmocka for the tests. Installs
# static libraries with .pc files in FOLDER. The archives are those of Debian's source packages: pcre2_*.orig.tar.* and
# cmocka_*.orig.tar.* in FOLDER_OF_ARCHIVES, or else apt-get downloads them and checks their signatures.
set -eu
[ $# -ge 1 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
host=x86_64-w64-mingw32
mkdir -p "$1"
folder=$(cd "$1" && pwd)
archives=${2:+$(cd "$2" && pwd)}
command -v $host-gcc-posix >/dev/null || { echo "deps.sh: $host-gcc-posix is missing: apt-get install gcc-mingw-w64-x86-64" >&2; exit 2; }
[ ! -e "$folder/lib/libcmocka.a" ] || exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
cd "$work"

if [ -z "$archives" ]; then
    # A list of sources of its own: most systems have none for source packages.
    . /etc/os-release
    mkdir -p lists/partial
    echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $VERSION_CODENAME main" >sources.list
    options="-qq -o Dir::Etc::sourcelist=$work/sources.list -o Dir::Etc::sourceparts=- -o Dir::State::lists=$work/lists -o APT::Sandbox::User="
    # shellcheck disable=SC2086 # options are words
    { apt-get $options update && apt-get $options --download-only source pcre2 cmocka; } >apt.log 2>&1 || {
        cat apt.log >&2
        echo "deps.sh: apt-get cannot download the sources of pcre2 and cmocka: give a folder with their archives" >&2
        exit 5
    }
    archives=$work
fi
for name in pcre2 cmocka; do
    mkdir $name
    for archive in "$archives/$name"_*.orig.tar.?z; do
        tar -xf "$archive" -C $name --strip-components=1
    done
done
mkdir -p "$folder/lib/pkgconfig" "$folder/include"

cd "$work/pcre2"
# As Debian builds it: UTF-8 and Unicode properties, and the JIT compiler.
./configure --host=$host --prefix="$folder" --disable-shared --enable-jit CC=$host-gcc-posix CFLAGS=-O2 >configure.log 2>&1 ||
    { tail -20 configure.log >&2; exit 1; }
make -j2 libpcre2-8.la >make.log 2>&1 || { tail -20 make.log >&2; exit 1; }
cp .libs/libpcre2-8.a "$folder/lib/"
cp src/pcre2.h "$folder/include/"
cp libpcre2-8.pc "$folder/lib/pkgconfig/"
cp LICENCE "$folder/LICENCE.pcre2"

cd "$work/cmocka"
$host-gcc-posix -O2 -w -DHAVE_STDINT_H -DHAVE_INTTYPES_H -DHAVE_SIGNAL_H -DHAVE_TIME_H -DHAVE_STRINGS_H -DHAVE_IO_H \
    -DHAVE_MALLOC_H -DHAVE_STRUCT_TIMESPEC -DHAVE_CLOCK_GETTIME -Iinclude -c -o cmocka.o src/cmocka.c
cp include/cmocka*.h "$folder/include/"
printf 'Name: cmocka\nDescription: for tests\nVersion: 1\nLibs: -L%s/lib -lcmocka\nCflags: -I%s/include\n' \
    "$folder" "$folder" >"$folder/lib/pkgconfig/cmocka.pc"
$host-ar rcs "$folder/lib/libcmocka.a" cmocka.o
