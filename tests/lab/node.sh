#!/bin/sh
# node.sh SCRIPT ARGUMENTS: runs the script with Node, looked for now and not when the build was configured. Without
# Node the test is skipped, or fails where tools/test.sh has installed it (MGPT_CI).
command -v node >/dev/null || { echo "skipped: no node (Debian: apt-get install nodejs)"; [ -z "${MGPT_CI-}" ] && exit 77 || exit 1; }
exec node "$@"
