#!/bin/sh
# From a fresh clone to text: installs what is missing, builds, lets two shipped models write, and says what to try next.
set -eu
. "$(dirname "$0")/setup.sh"

install_missing
build build tools/mgpt
echo '$ build/tools/mgpt generate weights/names.gguf --samples 10 --temp 0.7' >&2
build/tools/mgpt generate weights/names.gguf --samples 10 --temp 0.7
echo >&2
echo '$ build/tools/mgpt generate weights/shakespeare.gguf -p "ROMEO:" -n 234 --temp 0.8 --seed 6' >&2
build/tools/mgpt generate weights/shakespeare.gguf -p "ROMEO:" -n 234 --temp 0.8 --seed 6
cat >&2 <<'END'

Next:
  build/tools/mgpt repl weights/names.gguf                       look inside: type anna, then /a 0 3, then /help
  build/tools/mgpt lab weights/names.gguf -p anna -o lab.html    the same as a page: open lab.html in a browser
  build/tools/mgpt generate CKPT -p "Once upon a time" -n 100    your own checkpoint: a file, or a directory
END
