#!/bin/sh
# The folders of src/ and tools/ are in the order in which their meson.build names them: an #include points into
# its own folder or one named before it. No folder at any depth includes one that includes it. Tools include the headers of src/ that are listed here.
# Architectures have names only up to binding. The library calls nothing that prints, exits, aborts, or reads the
# environment, and has no globals. Tools open files through files.c.
set -eu
root=${MGPT_SOURCE_ROOT:?}
lib=${1:?library to look into}
bad=0
list=$(mktemp)
trap 'rm -f "$list"' EXIT INT TERM

# place FOLDER FOLDERS...: its number in the list, none if it is not there.
place() {
    wanted=$1 number=0
    shift
    for folder; do
        number=$((number + 1))
        [ "$folder" != "$wanted" ] || { echo "$number"; return; }
    done
    echo none
}

# check_folders PART: of src or tools.
check_folders() {
    folders=$(sed -n "s/^ *subdir('\(.*\)')\$/\1/p" "$root/$1/meson.build")
    for folder in $folders; do
        # shellcheck disable=SC2086 # the folders are words of their own
        from=$(place "$folder" $folders)
        grep -rHE '^ *# *include "' --include='*.[ch]' --include='*.inc' "$root/$1/$folder" |
            sed 's/^\([^:]*\):.*"\(.*\)"/\1 \2/' | while read -r file header; do
            [ -e "$root/$1/$header" ] || continue
            to=$(place "${header%%/*}" $folders)
            [ "$to" != none ] && [ "$to" -le "$from" ] || echo "${file#"$root/"} includes $header"
        done
    done
    for folder in "$root/$1"/*/; do
        folder=$(basename "$folder")
        # shellcheck disable=SC2086
        [ "$(place "$folder" $folders)" != none ] || [ "$folder" = python ] || [ "$folder" = examples ] || [ "$folder" = suite ] || echo "$1/$folder is not in $1/meson.build"
    done
}

# folder_pairs PART: "from to" for each #include from one folder into another, at any depth; one line per pair.
folder_pairs() {
    (cd "$root/$1" && grep -rHE '^ *# *include "[^"]*/' --include='*.[ch]' --include='*.inc' .) |
        sed 's/^\.\/\([^:]*\):.*"\(.*\)"/\1 \2/' | while read -r file header; do
        case $file in */*) from=${file%/*} ;; *) from=. ;; esac
        [ "$from" = "${header%/*}" ] || [ ! -e "$root/$1/$header" ] || echo "$from ${header%/*}"
    done | sort -u
}

for part in src tools tests; do
    folder_pairs "$part" >"$list"
    [ "$part" = tests ] || [ "$(wc -l <"$list")" -gt 20 ] || { echo "not ok: few includes were found in $part"; bad=1; }
    if ! circle=$(tsort "$list" 2>&1 >/dev/null); then
        printf 'not ok: these folders of %s/ include each other\n%s\n' "$part" \
            "$(echo "$circle" | sed -e 's/^tsort: //' -e 's/.*input contains a loop:$/circle:/')"
        bad=1
    else
        echo "ok no circle of includes among the folders of $part/"
    fi
done

for part in src tools; do
    up=$(check_folders "$part")
    if [ -n "$up" ]; then
        printf 'not ok: these point up, or are in no folder\n%s\n' "$up"
        bad=1
    else
        echo "ok no include of $part/ points up"
    fi
done

# The headers of src/ that tools include, most of them in the files named here only.
cat >"$list" <<'END'
tools/[^:]*: base/(check|cursor|error|file|fnv|mem|outfile|splitmix|utf8|xxh64)\.h
tools/[^:]*: dtype/dtype\.h
tools/convert/[^:]*: kernels/activations\.h
tools/(bench/bench_limit|generate/prefixes|score/score_(team|walk))\.c: base/threads\.h
tools/lab/wasm/system\.c: base/(background|threads)\.h
tools/windows/posix\.[ch]: base/(wide|windows)\.h
tools/(convert/core/checkpoint\.h|convert/vocab/pattern\.h|common/files\.c|engine/steer\.c|imatrix/input_sums\.h): gguf/gguf\.h
tools/(attend/attend_stages\.h|bench/bench_cases\.h|check/self/attest\.c|engine/engine_pass\.c): kernels/kernels\.h
tools/(check/oracle/oracle|convert/core/checkpoint)\.h: model/numbers\.h
tools/check/oracle/oracle_model\.c: model/slots\.h
tools/lab/wasm/no_refused\.c: model/arch\.h
tools/lab/wasm/(fma|isa_wasm)\.c: kernels/(simd/(lanes|vec)|spec/float_tmpl|tiles/attend_tile_tmpl)\.h
tools/(bench/bench_streaming|choose/author|convert/core/from_gguf|convert/core/write_check|check/oracle/oracle_model|lab/wasm/system|python/weights)\.c: model/model\.h
tools/(bench/cmd_bench|choose/heal|generate/(choices|resume)|imatrix/cmd_imatrix|info/cmd_info|score/score_walk)\.c: run/session\.h
tools/convert/(core/elsewhere|core/write|families/from_hf|families/hf_special|families/hf_windows)\.c: model/arch\.h
tools/convert/families/gpt_facts\.c: model/arch\.h
tools/(amalgamation/no_split|convert/vocab/.*|lab/wasm/split)\.c: tokenizer/tok_split\.h
tools/convert/(core/mixtures|vocab/hf_steps)\.c: tokenizer/tok_regex\.h
tools/(amalgamation/no_regex|lab/wasm/no_steps)\.c: tokenizer/tok_(impl|regex)\.h
END
inside=$(cd "$root" && grep -rE '^ *# *include "' tools --include='*.[ch]' --include='*.inc' |
    sed 's/:.*"\(.*\)"/: \1/' | while read -r file header; do
    [ ! -e "src/$header" ] || echo "$file $header"
done | grep -vxEf "$list" || true)
if [ -n "$inside" ]; then
    printf 'not ok: these reach into src/ past the list in folders.sh\n%s\n' "$inside"
    bad=1
else
    echo "ok tools include the headers of src/ that are listed"
fi

# The public header is read in one sitting.
if [ "$(wc -l <"$root/include/mgpt.h")" -gt 365 ] ||
    [ "$(grep -v '^ \*' "$root/include/mgpt.h" | grep -oE '\bmgpt_[a-z_]+\(' | sort -u | wc -l)" -gt 50 ]; then
    echo "not ok: mgpt.h has more than 365 lines or 50 functions"
    bad=1
else
    echo "ok mgpt.h has at most 365 lines and 50 functions"
fi

# Architectures are rows of a table: after binding nothing asks which one it is.
if grep -rnE 'ARCH_[A-Z0-9]+|arch->(bit|name)|arch_(find|row)' "$root/src/run" "$root/src/page"; then
    echo "not ok: the lines above ask for an architecture"
    bad=1
else
    echo "ok nothing after binding knows an architecture by name"
fi
# Commands open files through tools/common/files.c, which knows what may not be written over. The others have asked
# it before, or read their own kind (session and history files), or nothing of the user's.
if grep -rnE '(^|[^>_a-z])(file_open|file_open_partly|outfile_open|gguf_create|fopen|creat|open|openat)\(' \
    "$MGPT_SOURCE_ROOT/tools" --include='*.c' --exclude-dir=adapters |
    grep -vE '/((files|sandbox|cli_read|reader|main|line|repl_load|trace_file|write|bench_machine|system|cmd_imatrix)\.c:|reference\.c:.*open\(ref)'; then
    echo "not ok: the lines above open files past tools/common/files.c"
    bad=1
else
    echo "ok tools open files through files.c"
fi

# Undefined symbols only: what the library asks of others.
if nm "$lib" | grep -E ' U (_*(printf|fprintf|vfprintf|snprintf|vsnprintf|puts|exit|_exit|abort|__assert_fail|getenv|setlocale|signal|sigaction))(_chk)?$'; then
    echo "not ok: the library calls the above"
    bad=1
else
    echo "ok the library has no side effects"
fi

# Writable data, but for what stb_ds brings (the seed of hash maps, which the library does not use) and
# the sanitizers'. Tables of constants with pointers are in .data.rel.ro, which is read-only at run time.
if objdump -t "$lib" | awk '($3 == "O" || $2 == "O") && / \.(data|bss)\t/ { print $NF }' |
    grep -vE '^(stbds_hash_seed$|_*(asan|ubsan|odr_asan|llvm|sancov|gcov)|\.L|Lubsan|\*\.L)'; then
    echo "not ok: the library has the globals above"
    bad=1
else
    echo "ok the library has no globals"
fi
exit "$bad"
