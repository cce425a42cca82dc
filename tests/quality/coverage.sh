#!/bin/sh
# How much of src/ and tools/ the tests run, by gcovr (Debian: gcovr), in build-coverage/. Lines and branches of
# each file and of each group: src/ and its folders, a command, the readers of a format; exit code 1 where src/ or
# readers stay below 95 % of their lines or 88 % of their branches.
#
#     tests/quality/coverage.sh             builds, runs the tests and the faults, reports
#     tests/quality/coverage.sh --report    reports what has been run so far
#     tests/quality/coverage.sh NAME...     runs these tests only, on top of what has been run so far
#
# Out of memory, failed reads and the like are branches as well: they are what tests/faults/ is for, so its
# sweeps belong to this run. Which vector ISA levels run depends on the machine; what it cannot run counts as
# not covered.
set -eu
cd "$(dirname "$0")/../.."
directory=build-coverage

# cli killed: kill -9 leaves no counters. cli samples: minutes, of the kernels' counters. The faults run last,
# without Meson, whose usual setup leaves them out.
not_run='^cli killed$|^cli samples$|^long$|^faults '

# jansson's loops ask of a key twice whether there is one.
unreachable='.*json_(object|array)_foreach.*'

if [ "${1-}" != --report ]; then
    [ -f $directory/build.ninja ] ||
        /usr/bin/meson setup $directory -Db_coverage=true -Doptimization=1 -Ddebug=true >&2
    ninja -C $directory meson-test-prereq >&2
    if [ $# -eq 0 ]; then
        find $directory -name '*.gcda' -delete
        /usr/bin/meson test -C $directory --list | sed 's/^.* \/ //' | sort -u | grep -vE "$not_run" |
            tr '\n' '\0' | xargs -0 /usr/bin/meson test -C $directory --no-rebuild -t 10 >&2
        MGPT_SOURCE_ROOT=$PWD MGPT=$PWD/$directory/tools/mgpt $directory/tests/test_faults >&2
    else
        /usr/bin/meson test -C $directory --no-rebuild -t 10 "$@" >&2
    fi
fi

# bench_peak_loops.c has other functions for each ISA level, which gcovr does not merge.
# Threads that count at once may leave a number below zero, which gcovr is to take as it is.
gcovr --root . $directory --gcov-ignore-parse-errors --exclude-throw-branches --exclude-unreachable-branches \
    --exclude-branches-by-pattern "$unreachable" --exclude tools/bench/bench_peak_loops.c \
    --filter src/ --filter tools/ --csv 2>/dev/null |
awk -F, '
    # The first two parts of a path.
    function part(path, folders) {
        split(path, folders, "/")
        return folders[1] "/" folders[2]
    }
    function group_of(file, name) {
        name = file
        sub(/.*\//, "", name)
        if (file ~ /^src/) return "src"
        if (file !~ /^tools\/(convert|common)/ && name !~ /^reference/) return part(file)
        if (name ~ /^reference/) return "references"
        if (name ~ /^(npy|npz)/) return "npy, npz"
        if (name ~ /^pickle(_call|_data|_globals|_numpy|_walk)?\./) return "pickle"
        if (name ~ /^(torch|torch_legacy|torch_zip|zip_dir)\./) return "torch files"
        if (name ~ /^(torch_|from_|state)/ && name !~ /^from_(hf|gguf)/) return "torch models"
        if (name ~ /^(hf_tokenizer|sentencepiece|tiktoken|pattern|vocab_slots)/) return "hf tokenizers"
        if (name ~ /^(hf_|from_hf|safetensors)/) return "safetensors, hf"
        if (name ~ /^json_/) return "json"
        if (name ~ /^(microgpt|tree|pickle_model|raw_floats)/) return "microgpt"
        if (name ~ /^llama2c/) return "llama2.c"
        return file ~ /^tools\/common/ ? "tools/common" : "convert, the rest"
    }
    function show(name, l, lc, b, bc) {
        printf "%-42s %5d lines %6.1f %%  %6d branches %6.1f %%\n", name, l, l ? 100 * lc / l : 100,
            b, b ? 100 * bc / b : 100
    }
    function add(g) {
        lines[g] += $2; lines_run[g] += $3; branches[g] += $5; branches_run[g] += $6
    }
    NR > 1 {
        show($1, $2, $3, $5, $6)
        add(group_of($1))
        if ($1 ~ /^src/) add(part($1))
    }
    END {
        print ""
        for (g in lines) {
            show(g, lines[g], lines_run[g], branches[g], branches_run[g])
            if (g ~ /\//) continue # a folder
            if (lines_run[g] < 0.95 * lines[g] || branches_run[g] < 0.88 * branches[g]) {
                low = low "\nbelow 95 % of lines or 88 % of branches: " g
            }
        }
        print low ? low : "\nall at 95 % of lines and 88 % of branches or above"
        exit low != ""
    }'
