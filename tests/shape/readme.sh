#!/bin/sh
# The README is true: every command in it that is followed by output is run and
# must print exactly that, and the C program in it must compile, link and print a name.
# Its table of models, and that of tools/convert, are what models_table.py writes.
set -u
cd "${MGPT_SOURCE_ROOT:?}" || exit 1
mgpt=${MGPT:?path of the binary}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT INT TERM
failed=0

# One file per command of the console blocks that has output: N.cmd and N.out.
awk -v dir="$dir" '
    /^```console$/ { inside = 1; next }
    /^```$/ { inside = 0; name = "" ; next }
    inside && /^\$ / { n++; name = dir "/" n; print substr($0, 3) > (name ".cmd"); next }
    inside && name != "" { print > (name ".out") }' README.md

run=0
for out in "$dir"/*.out; do
    run=$((run + 1))
    cmd=$(sed "s|build/tools/mgpt|\"$mgpt\"|g" "${out%.out}.cmd")
    if sh -c "$cmd" >"$dir/got" 2>/dev/null && cmp -s "$out" "$dir/got"; then
        printf "ok %d %s\n" "$run" "$(cat "${out%.out}.cmd")"
    else
        printf "not ok %d %s\n" "$run" "$(cat "${out%.out}.cmd")"
        diff "$out" "$dir/got" | head -n 10
        failed=1
    fi
done
[ "$run" -ge 5 ] || { echo "not ok: only $run commands with output found"; failed=1; }

run=$((run + 1))
if python3 tools/convert/families/models_table.py --check; then
    echo "ok $run the tables of models"
else
    echo "not ok $run the tables of models"
    failed=1
fi

# What start.sh lets the models write ends with a sentence.
text=$(sed -n 's|^build/tools/mgpt|"$mgpt"|p' tools/start.sh | tail -n 1)
run=$((run + 1))
case $(eval "$text" 2>/dev/null | tail -n 1) in
*[.!?]) echo "ok $run tools/start.sh ends with a sentence" ;;
*) echo "not ok $run tools/start.sh ends within a sentence"; failed=1 ;;
esac

# The program: the first C block.
awk '/^```c$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' README.md >"$dir/main.c"
# shellcheck disable=SC2086
if ${CC:-cc} -std=c11 -Wall -Wextra -Werror -Iinclude ${MGPT_CFLAGS-} "$dir/main.c" -o "$dir/main" \
    "${MGPT_LIB:?path of libmgpt.a}" $(pkg-config --libs libpcre2-8) -lm -pthread &&
    "$dir/main" >"$dir/name" && grep -q '^[a-z][a-z]*$' "$dir/name"; then
    echo "ok $((run + 1)) the program prints '$(cat "$dir/name")'"
else
    echo "not ok $((run + 1)) the program"
    failed=1
fi
exit "$failed"
