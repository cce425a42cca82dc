#!/bin/sh
# The library and its unit tests on musl: static programs made with musl-gcc (package musl-tools). PCRE2 and
# cmocka are compiled for musl from Debian's sources, once.
# usage: tests/kernels/musl.sh [FOLDER]     (all that is made; /tmp/mgpt-musl if absent)
set -eu
root=$(realpath "$(dirname "$0")/../..")
dir=${1:-/tmp/mgpt-musl}
mkdir -p "$dir/lib/pkgconfig" "$dir/include" "$dir/apt/partial"
cd "$dir"

if [ ! -f lib/libcmocka.a ]; then
    echo 'deb-src http://deb.debian.org/debian bookworm main' >sources.list
    for step in update 'source --download-only pcre2 cmocka'; do
        # shellcheck disable=SC2086
        apt-get -qq -o Dir::Etc::SourceList="$dir/sources.list" -o Dir::Etc::SourceParts=/dev/null \
            -o Dir::State::Lists="$dir/apt" $step
    done
    tar xf pcre2_*.orig.tar.gz
    tar xf cmocka_*.orig.tar.xz
    (cd pcre2-*/ && ./configure -q CC=musl-gcc --prefix="$dir" --disable-shared && make -s -j2 install) >log 2>&1
    (cd cmocka-*/ && musl-gcc -O2 -w -DHAVE_STDINT_H -DHAVE_INTTYPES_H -DHAVE_SIGNAL_H -DHAVE_TIME_H -DHAVE_STRINGS_H \
        -DHAVE_STRUCT_TIMESPEC -DHAVE_CLOCK_GETTIME -Iinclude -c -o ../cmocka.o src/cmocka.c && cp include/cmocka*.h ../include)
    ar rcs lib/libcmocka.a cmocka.o
    printf 'Name: cmocka\nDescription: for tests\nVersion: 1\nLibs: -L%s/lib -lcmocka\nCflags: -I%s/include\n' \
        "$dir" "$dir" >lib/pkgconfig/cmocka.pc
fi

# A project of its own with mgpt as a subproject has the library only, so none of what the tools link with.
# QUICK_TO_COMPILE leaves the fused step as calls: the same bits, minutes less. The test programs are those of tests/meson.build.
mkdir -p project/subprojects
ln -sfn "$root" project/subprojects/mgpt
ln -sfn "$root/tests" project/tests
ln -sfn "$root/tools/check" project/check
folders='base dtype gguf tokenizer kernels page model run'
quoted() { # FILE...: as Meson's list
    printf "'%s'," "$@"
}
cd "$root"
# shellcheck disable=SC2046,SC2086  # the files are words of their own
{
    support=$(quoted $(ls tests/support/*.c | grep -v 'planted\|ref_file'))
    programs=$(quoted $(for folder in $folders; do ls tests/$folder/test_*.c; done))
}
cd "$dir"
cat >project/meson.build <<MESON
project('musl', 'c', default_options: ['c_std=c11', 'buildtype=release', 'prefer_static=true'])
# The kernel's headers (linux/) are not musl's.
add_project_arguments('-D_POSIX_C_SOURCE=200809L', '-idirafter', '/usr/include', '-idirafter',
  '/usr/include/$(uname -m)-linux-gnu', language: 'c')
mgpt = subproject('mgpt', default_options: ['default_library=static'])
deps = [mgpt.get_variable('internal_dep'), dependency('cmocka')]
inc = include_directories('.', 'tests', 'check')
toys = static_library('toys', 'check/oracle/oracle.c', 'check/oracle/oracle_math.c', $support dependencies: deps, include_directories: inc)
$(sed -n '/^wrapped = {/,/}$/p' "$root/tests/meson.build")
fs = import('fs')
foreach file : [$programs]
  name = fs.stem(file)
  test(name, executable(name, file, link_with: toys, dependencies: deps, include_directories: inc,
    link_args: wrapped.get(name.substring(5), [])), env: {'MGPT_SOURCE_ROOT': '$root'}, timeout: 600)
endforeach
MESON
export CC=musl-gcc LDFLAGS=-static PKG_CONFIG_LIBDIR="$dir/lib/pkgconfig"
[ -f build/build.ninja ] || /usr/bin/meson setup -Dc_args=-DQUICK_TO_COMPILE build project
ninja -C build meson-test-prereq
/usr/bin/meson test -C build --no-rebuild
