#!/bin/sh
# Installs what is missing, builds, runs all tests of the default setup. The last line counts them. Extra arguments go
# to `meson setup` (a build directory of its own is used then): tools/test.sh -Db_sanitize=address,undefined
# SETUP=ci tools/test.sh, which .ci/run calls, runs suite ci as well.
set -eu
. "$(dirname "$0")/setup.sh"

# Compiles mgpt.h as C++. Where clang is c++, g++ would replace it after the build directory has been configured.
command -v c++ >/dev/null || packages="$packages g++"
packages="$packages valgrind" # counts instructions
packages="$packages nodejs" # runs the engine of mgpt lab's pages
packages="$packages python3-venv" # the Python package is tested in an environment of its own
packages="$packages cmake mandoc man-db zsh fish" # read what is installed
install_missing
directory=build
export MGPT_CI=1 # what was installed above must be found: a test that needs it fails instead of skipping
[ $# -eq 0 ] || directory=build-$(echo "$@" | tr -c 'a-zA-Z0-9\n' '-')
build "$directory" meson-test-prereq "$@"
code=0
log=$directory/meson-logs/testlog${SETUP:+-$SETUP}.txt
$meson test -C "$directory" --no-rebuild --print-errorlogs --timeout-multiplier 3 ${SETUP:+--setup "$SETUP"} || code=$?
awk '/^Ok: / { ok = $2 } /^Expected Fail: / { ok += $3 } /^Fail: / { bad += $2 }
     /^Unexpected Pass: / { bad += $3 } /^Timeout: / { bad += $2 } /^Skipped: / { skip = $2 }
     END { printf "%d passed, %d failed, %d skipped\n", ok, bad, skip }' "$log"
exit "$code"
