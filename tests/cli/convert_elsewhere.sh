#!/bin/sh
# The line of mgpt convert about keys that llama.cpp ignores: for every golden model, and for a copy of its
# GGUF file. With llama.cpp b11739 each of these models gave other logits, or was refused for its shape; the
# others that it reads gave the same.
# shellcheck disable=SC2016,SC2154
# shellcheck source=tests/cli/lib.sh
. "$MGPT_SOURCE_ROOT/tests/cli/lib.sh"
golden=$MGPT_SOURCE_ROOT/tests/golden

# ignored DIRECTORY: the keys.
ignored()
{
    case $1 in
    cwm | exaone4 | qwen2_window) echo mgpt.attention.windows ;;
    mistral_yarn | phi3_longrope | starcoder2) echo attention.sliding_window ;;
    gemma2 | gemma3 | mpt) echo attention.scale ;;
    deepseek_v2_groups) echo that expert groups count by their maximum ;;
    gpt_neo) echo mgpt.attention.windows, attention.scale ;;
    gpt_oss) echo rope.scaling.yarn_beta_fast, swiglu_limit, mgpt.rope.yarn_truncate ;;
    olmo3) echo rope.freq_base_swa ;;
    olmoe) echo attention.clamp_kqv ;;
    granitemoe_swa) echo rope.freq_base_swa ;;
    mellum) echo mgpt.attention.windows ;;
    mimo_v2_flash) echo rope.dimension_count_swa, expert_weights_scale ;;
    minicpm3) echo embedding_scale, residual_scale, logit_scale ;;
    phimoe) echo expert_jitter ;;
    opt) echo mgpt.activation ;;
    esac
}

# told: the keys of the note that was printed.
told()
{
    sed -n 's/^mgpt: llama.cpp ignores \(.*\) and would run this file wrongly without an error$/\1/p' "$tmp/err"
}

# tells DIRECTORY: whether a conversion and a copy say so.
tells()
{
    # shellcheck disable=SC2046
    run convert "$1" "$tmp/model.gguf" --no-tokenizer $(cat "$1/options" 2>/dev/null)
    [ "$code" -eq 0 ] || return 1
    want=$(ignored "${1##*/}")
    [ "$(told)" = "$want" ] || return 1
    run convert "$tmp/model.gguf" "$tmp/copy.gguf" --dry-run
    [ "$code" -eq 0 ] && [ "$(told)" = "$want" ]
}

for directory in "$golden"/*/; do
    [ -f "$directory/ref.npz" ] || continue
    check "keys that llama.cpp ignores: $(basename "$directory")" tells "${directory%/}"
done

# What depends on a value or on the number of layers. changed NAME PYTHON KEYS: whether the conversion of a golden
# model with a changed configuration, and a copy of it, name these keys.
changed()
{
    rm -rf "$tmp/changed" && cp -r "$golden/$1" "$tmp/changed"
    python3 -c 'import json, sys
path = sys.argv[1] + "/config.json"
c = json.load(open(path))
exec(sys.argv[2])
json.dump(c, open(path, "w"))' "$tmp/changed" "$2"
    run convert "$tmp/changed" "$tmp/changed.gguf" --no-tokenizer
    [ "$code" -eq 0 ] && [ "$(told)" = "$3" ] || return 1
    run convert "$tmp/changed.gguf" "$tmp/copy.gguf" --dry-run
    [ "$code" -eq 0 ] && [ "$(told)" = "$3" ]
}
yarn='r = c["rope_parameters"]; c["sliding_window"] = None;'
check "bounds of YaRN: 16 and 1" changed mistral_yarn "$yarn r['beta_fast'] = 16" rope.scaling.yarn_beta_fast
check "bounds of YaRN: 32 and 2" changed mistral_yarn "$yarn r['beta_slow'] = 2" rope.scaling.yarn_beta_slow
check "no window" changed mistral_yarn 'c["sliding_window"] = None' ""
check "a clamp that llama.cpp reads" changed olmo 'c["clip_qkv"] = 0.75' ""
check "no clamp" changed olmoe 'c["clip_qkv"] = None' ""
check "Gemma 2 with the usual scale" changed gemma2 'c["query_pre_attn_scalar"] = c["head_dim"]' ""
check "weights of experts that do not sum to 1" changed qwen3_moe 'c["norm_topk_prob"] = False' expert_weights_norm
check "factors of MiniCPM3 that llama.cpp has, too" changed minicpm3 'c["dim_model_base"] = 256' ""
for other in 'c["scale_emb"] = 11' 'c["scale_depth"] = 1.5'; do
    check "one factor that llama.cpp has not: $other" changed minicpm3 "c['dim_model_base'] = 256; $other" "embedding_scale, residual_scale, logit_scale"
done
check "weights of experts that sum to 1" changed olmoe 'c["norm_topk_prob"] = True; c["clip_qkv"] = None' expert_weights_norm

# Groups of experts by the architecture's sigmoid, in a file without the key.
run convert "$golden/glm4_moe" "$tmp/model.gguf" --no-tokenizer
python3 -B - "$MGPT_SOURCE_ROOT/tests/cli" "$tmp/model.gguf" <<'END'
import sys
sys.path.insert(0, sys.argv[1])
from malformed_gguf import Gguf
g = Gguf(open(sys.argv[2], "rb").read())
g.keys.remove(g.key("expert_gating_func"))
open(sys.argv[2], "wb").write(g.bytes())
END
run convert "$tmp/model.gguf" "$tmp/copy.gguf" --dry-run
check "groups of experts without a stated function" eval '[ $code -eq 0 ] && [ -z "$(told)" ]'
finish
