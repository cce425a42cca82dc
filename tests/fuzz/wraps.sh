#!/bin/sh
# Everything compiles with clang without a warning, and no arithmetic on what a file says may wrap around or
# convert a float to an integer that cannot hold it: builds with clang's checks for these into
# build-wraps/ (what is meant to wrap is in wraps.txt) and replays all fuzz targets with it.
set -eu
cd "$(dirname "$0")/../.."
directory=build-wraps
check="-fsanitize=pointer-overflow,unsigned-integer-overflow,integer-divide-by-zero,float-cast-overflow"
[ -f $directory/build.ninja ] || CC=clang /usr/bin/meson setup $directory -Dwerror=true -Db_lundef=false \
    -Dbuildtype=debugoptimized -Ddefault_library=static -Dc_link_args="$check" \
    -Dc_args="-g1 -DQUICK_TO_COMPILE $check -fno-sanitize-recover=all -fsanitize-ignorelist=$PWD/tests/fuzz/wraps.txt" >&2
ninja -C $directory all meson-test-prereq fuzz >&2
DAMAGE=${DAMAGE:-200} /usr/bin/meson test -C $directory --no-rebuild --suite fuzz --print-errorlogs
