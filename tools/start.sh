#!/bin/sh
# From a fresh clone to text: installs what is missing, builds, and lets two shipped models write.
set -eu
. "$(dirname "$0")/setup.sh"

install_missing
build build tools/mgpt
echo '$ build/tools/mgpt generate weights/names.gguf --samples 10 --temp 0.7' >&2
build/tools/mgpt generate weights/names.gguf --samples 10 --temp 0.7
echo >&2
echo '$ build/tools/mgpt generate weights/shakespeare.gguf -p "ROMEO:" -n 240 --temp 0.8' >&2
build/tools/mgpt generate weights/shakespeare.gguf -p "ROMEO:" -n 240 --temp 0.8
