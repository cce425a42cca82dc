#!/bin/sh
# The library and its unit tests on another system, as static programs. PCRE2 and cmocka are compiled for it from
# Debian's sources, once.
# usage: tests/kernels/elsewhere.sh musl|aarch64 [FOLDER]     (all that is made; /tmp/mgpt-SYSTEM if absent)
#   musl      musl-gcc (package musl-tools)
#   aarch64   aarch64-linux-gnu-gcc, run by qemu-aarch64 (packages gcc-aarch64-linux-gnu, qemu-user): NEON
set -eu
system=${1:?musl or aarch64}
case $system in
    musl) compiler=musl-gcc cross= headers="/usr/include/$(uname -m)-linux-gnu" ;;
    aarch64) compiler=aarch64-linux-gnu-gcc cross=--cross-file=cross.txt headers=/usr/include ;;
    *) echo "$system: musl or aarch64" >&2; exit 2 ;;
esac
root=$(realpath "$(dirname "$0")/../..")
dir=${2:-/tmp/mgpt-$system}
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
    (cd pcre2-*/ && ./configure -q --host="${compiler%-gcc}" CC="$compiler" --prefix="$dir" --disable-shared && make -s -j2 install) >log 2>&1
    (cd cmocka-*/ && "$compiler" -O2 -w -DHAVE_STDINT_H -DHAVE_INTTYPES_H -DHAVE_SIGNAL_H -DHAVE_TIME_H -DHAVE_STRINGS_H \
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
project('elsewhere', 'c', default_options: ['c_std=c11', 'optimization=1', 'prefer_static=true'])
# The kernel's headers (linux/) are not musl's. (gcc 12 fails on a test with -O3 for aarch64.)
add_project_arguments('-D_POSIX_C_SOURCE=200809L', '-idirafter', '/usr/include', '-idirafter', '$headers', language: 'c')
mgpt = subproject('mgpt', default_options: ['default_library=static'])
deps = [mgpt.get_variable('internal_dep'), dependency('cmocka')]
inc = include_directories('.', 'tests', 'check')
toys = static_library('toys', 'check/oracle/oracle.c', 'check/oracle/oracle_math.c', $support dependencies: deps, include_directories: inc)
$(sed -n '/^wrapped = {/,/}$/p' "$root/tests/meson.build")
fs = import('fs')
foreach file : [$programs]
  name = fs.stem(file)
  test(name, executable(name, file, link_with: toys, dependencies: deps, include_directories: inc,
    link_args: wrapped.get(name.substring(5), [])), env: {'MGPT_SOURCE_ROOT': '$root'}, timeout: 3000)
endforeach
MESON
cat >cross.txt <<CROSS
[binaries]
c = '$compiler'
ar = 'aarch64-linux-gnu-ar'
pkgconfig = 'pkg-config'
exe_wrapper = 'qemu-aarch64'
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
[properties]
pkg_config_libdir = '$dir/lib/pkgconfig'
CROSS
export CC="$compiler" LDFLAGS=-static PKG_CONFIG_LIBDIR="$dir/lib/pkgconfig"
[ -f build/build.ninja ] || /usr/bin/meson setup $cross -Dc_args=-DQUICK_TO_COMPILE build project
ninja -C build meson-test-prereq
/usr/bin/meson test -C build --no-rebuild
