#!/bin/sh
# The conformance vectors notice a wrong engine: the scalar level with one sum in another order, or one rounding
# more, is not the specification. Each change is made in a copy of src/; the copy without one passes.
# The argument is spec_vectors.
set -eu
vectors=${1:?spec_vectors} source=${MGPT_SOURCE_ROOT:?}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT INT TERM
"$vectors" >"$dir/vectors"

# conforms FILE CHANGE: compiles the scalar level with what sed changes in FILE, and compares it.
conforms() {
    rm -rf "$dir/src"
    cp -r "$source/src" "$dir/src"
    sed -i 's/defined(__x86_64__)\|defined(__aarch64__)/0/' "$dir/src/kernels/ladder.c" # no other level
    sed -i "$2" "$dir/src/kernels/$1"
    [ -z "$2" ] || ! cmp -s "$source/src/kernels/$1" "$dir/src/kernels/$1" || { echo "not ok: $1 has no $2"; exit 1; }
    (cd "$dir" && ${CC:-cc} -std=c11 -D_POSIX_C_SOURCE=200809L -O1 -w -ffp-contract=off -fno-math-errno -Isrc \
        -I"$source/tests" -I"$source/include" "$source/tests/spec/conforms.c" src/kernels/ladder.c src/kernels/isa/scalar.c \
        src/kernels/spec/int_scalar.c src/kernels/pack/*.c src/dtype/*.c -lm -o conforms) || { echo "not ok: $1 does not compile"; exit 1; }
    "$dir/conforms" <"$dir/vectors" >"$dir/result"
}

conforms ladder.c '' || { echo "not ok: the scalar level differs"; cat "$dir/result"; exit 1; }
while IFS='|' read -r what file change; do
    if conforms "$file" "$change" </dev/null; then
        echo "not ok: the vectors do not notice: $what"
        exit 1
    fi
    echo "ok $what: $(cat "$dir/result")"
done <<'END'
chains of a narrow product|spec/float_tmpl.h|s/(s->c\[0\]\[l\] + s->c\[1\]\[l\]) + (s->c\[2\]\[l\] + s->c\[3\]\[l\])/((s->c[0][l] + s->c[1][l]) + s->c[2][l]) + s->c[3][l]/
sum of a row|spec/float_tmpl.h|s/p\[i\] += p\[i + 8\]/p[i] += p[15 - i]/
product in two roundings|spec/float_tmpl.h|s/= fmaf(w\[k \* PANEL + l\], x\[k\], s->c\[k % n_chains\]\[l\])/+= w[k * PANEL + l] * x[k]/
experts added in two roundings|spec/float_tmpl.h|s/= fmaf(b, y\[i\], a \* x\[i\])/= a * x[i] + b * y[i]/
block of integers in two roundings|spec/int_scalar.c|s/= fmaf(b->scale\[s\]\[r\] \* x->scale, (float)sum\[r\], y\[r\])/+= b->scale[s][r] * x->scale * (float)sum[r]/
END
