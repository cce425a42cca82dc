#!/bin/sh
# Speed next to a former release: compare_release.sh [COMMIT] builds the library of COMMIT (default: the newest tag, or
# 0.2.0's commit where there is no tag) and that of the working tree, and runs both in turn on random models of each element
# type. Of each cell {type} x {threads} x {mode} it prints old time / new time with the bounds of its median. Exit code 1:
# a cell's upper bound is below 0.97. "open" opens the model, runs a token and closes it. 12 minutes on two idle cores; on a busy machine the bounds are wide.
#
#     TYPES="f32 q8_0" THREADS=1,2 MODES=decode,batch8,batch16,prompt,open SECONDS_EACH=4     a part, or another time for a cell
#     WHERE=DIRECTORY   builds and models, which the next run uses again (default: build-release)
set -eu
cd "$(dirname "$0")/../.."
root=$PWD
commit=${1:-$(git describe --tags --abbrev=0 2>/dev/null || echo c11a25a)}
where=$(realpath -m "${WHERE:-build-release}")
types=${TYPES:-f32 f16 bf16 q8_0 q4_0 q4_1 q5_0 q5_1 q4_k q6_k}
old=$(git rev-parse --short "$commit^{commit}")
mkdir -p "$where/models"

# library NAME SOURCES: $where/NAME.so, the library with what is measured.
library()
{
    [ -f "$where/$1/build.ninja" ] || CC="${CC:-cc}" /usr/bin/meson setup "$where/$1" "$2" -Dbuildtype=release >&2
    ninja -C "$where/$1" src/libmgpt.a >&2
    # shellcheck disable=SC2046  # flags are words
    ${CC:-cc} -O2 -shared -fPIC -fvisibility=hidden -Wl,-Bsymbolic,--exclude-libs,ALL -I"$2/include" \
        tests/quality/release_side.c "$where/$1/src/libmgpt.a" -o "$where/$1.so" $(pkg-config --libs libpcre2-8) -lm -pthread
}

if [ ! -d "$where/source-$old" ]; then
    mkdir "$where/source-$old"
    git archive "$old" | tar -x -C "$where/source-$old"
fi
library "$old" "$where/source-$old"
library now "$root"
mgpt=${MGPT:-build/tools/mgpt} # converts the models
[ -x "$mgpt" ] || { mgpt=$where/now/tools/mgpt && ninja -C "$where/now" tools/mgpt >&2; }
${CC:-cc} -O2 -std=c11 tests/quality/compare_release.c -o "$where/compare_release" -ldl -lm
[ -f "$where/models/f16.gguf" ] || python3 tests/quality/release_model.py "$where/models/f16.gguf"

echo "old: $old, new: $(git describe --always --dirty); ratio: old time / new time"
echo "type     threads  mode       ratio     low    high  rounds"
code=0
for type in $types; do
    model=$where/models/$type.gguf
    [ -f "$model" ] || "$mgpt" convert "$where/models/f16.gguf" "$model" --type "$type" >/dev/null
    "$where/compare_release" "$type" "$model" "$where/$old.so" "$where/now.so" "${SECONDS_EACH:-4}" \
        "${THREADS:-1,2}" "${MODES:-decode,batch8,batch16,prompt,open}" || { [ $? -eq 1 ] && code=1 || exit 1; }
done
exit $code
