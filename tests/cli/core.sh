#!/bin/sh
# The core commands on GGUF files alone, as a build without converter and laboratory has them.
# shellcheck disable=SC2016,SC2154
# shellcheck source=tests/cli/lib.sh
. "$MGPT_SOURCE_ROOT/tests/cli/lib.sh"
cd "$tmp" || exit 1

prints 'generate' 'racolee
ayaria
andrie' generate "$names" --samples 3 --temp 0.5
run generate "$names" -p an --json -n 3
check 'generate --json' eval '[ $code -eq 0 ] && grep -q "^{\"index\":0,\"text\":\"" out'
run generate "$names" -p anna -n 2 --session s
check 'generate --session' eval '[ $code -eq 0 ] && [ -s s ]'
prints 'tokenize' '0 13 13 0' tokenize "$names" -p anna --no-bos
printf '{"text": "anna"}\n' >text
run score "$names" -f text --json
check 'score --json' eval '[ $code -eq 0 ] && grep -q "\"sum_logprob\":-" out'
run info "$names" --json
check 'info --json' eval '[ $code -eq 0 ] && grep -q "\"n_params\":4192" out'
run check "$names" "$MGPT_SOURCE_ROOT/weights/names.ref.json" --tol 1e-5
check 'check' eval '[ $code -eq 0 ]'
run check --self "$names"
check 'check --self' eval 'tail -n 1 out | grep -q "^092da0f84bfcf144"'
run check --self "$names" --attest attested
run check --self "$names" --attested attested
check 'check --attested' eval '[ $code -eq 0 ] && grep -q "the same" out'
run attend causal
check 'attend' eval '[ $code -eq 0 ] && grep -q "^A =" out'
printf 'anna\n/a 0 3\n/ab 0.1 zero\n/branch b\nb\n/save x\n' >typed
"$MGPT" repl "$names" <typed >out 2>err
code=$?
check 'repl' eval '[ $code -eq 0 ] && [ -s x ]'
for format in npz safetensors; do
    run trace "$names" -p anna -o "t.$format"
    check "trace: .$format" eval '[ $code -eq 0 ] && [ -s "t.$format" ]'
done
check 'the archive is whole' python3 -c 'import sys, zipfile; sys.exit(zipfile.ZipFile("t.npz").testzip() is not None)'
# qemu shows a CPU without AVX. Programs of sanitizers do not run in it.
if [ "$(uname -m)" = x86_64 ] && qemu-x86_64 "$MGPT" --version >/dev/null 2>&1; then
    qemu-x86_64 -cpu Nehalem "$MGPT" generate "$names" --samples 3 --temp 0.5 >out 2>/dev/null || : >out
    check 'a CPU without AVX' eval '[ "$(cat out)" = "$(printf "racolee\nayaria\nandrie")" ]'
fi
run info "$MGPT_SOURCE_ROOT/README.md"
check 'what is no model is refused' eval '[ $code -eq 3 ] && [ "$(wc -l <err)" -ge 1 ]'
finish
