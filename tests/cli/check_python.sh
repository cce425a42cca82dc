#!/bin/sh
# The lines of Python in the help of mgpt check do what they say: they are taken from the help, run, and
# their references must pass for fresh models.
# shellcheck disable=SC2016
# shellcheck source=tests/cli/lib.sh
python=${MGPT_PYTHON:-python3}
packages='numpy torch transformers'
has()
{
    # shellcheck disable=SC2086
    "$python" -c "import sys, importlib.util as u; sys.exit(any(u.find_spec(p) is None for p in sys.argv[1:]))" \
        "$@" 2>/dev/null
}
# shellcheck disable=SC2086
has $packages || { echo "skipped: $python has no $packages"; exit 77; }
. "$MGPT_SOURCE_ROOT/tests/cli/lib.sh"
cd "$tmp" || exit 1
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1

# Blocks 1, 2, 3: PyTorch, transformers, TransformerLens; 4 is MLX.
"$MGPT" check --help | awk '
    /^  .* = model\(|run_with_cache/ { n++; left = 2 }
    left-- > 0 { print substr($0, 3) > ("block" n ".py") }'
check "four blocks in the help" [ "$(cat block?.py | wc -l)" -eq 8 ]

# passes NAME MODEL: ref.pt passes at f32 and NMSE is at most 1e-10; inner values in it have the shapes that
# the reader wants.
passes()
{
    runs "$1" check "$2" ref.pt --tol f32 --max-nmse 1e-10
    rm -f ref.pt
}

# ---- nanoGPT's interface, in plain PyTorch ----

# The module that made the fixture's checkpoint, under nanoGPT's calling convention.
cat >plain.py <<END
import sys
sys.argv, sys.dont_write_bytecode = ["make.py", "made"], True
sys.path.insert(0, "$MGPT_SOURCE_ROOT/tests/fixtures/torch")
import make, torch
class NanoGPT(make.GPT):
    def forward(self, idx, targets=None):
        logits = super().forward(idx)
        return (logits if targets is not None else logits[:, [-1], :]), None
model = NanoGPT(len(make.TEXT), 8, 2, 1)
state = torch.load("$MGPT_SOURCE_ROOT/tests/fixtures/torch/nanogpt/ckpt.pt", weights_only=False)["model"]
model.load_state_dict({name.removeprefix("_orig_mod."): value for name, value in state.items()})
ids = torch.tensor([[1, 2, 3]])
END
cat plain.py block1.py >run.py
"$MGPT" convert "$MGPT_SOURCE_ROOT/tests/fixtures/torch/nanogpt/ckpt.pt" nano.gguf --assume nanogpt >out 2>err
"$python" run.py >out 2>err
passes "PyTorch: nanoGPT" nano.gguf

# Equal logits with a NaN inside are not the same.
cat plain.py block1.py - >run.py <<'END'
bad = torch.full((3, 8), float("nan"))
torch.save({"tokens": ids, "logits": logits, "blocks.0.hook_resid_post": bad}, "ref.pt")
END
"$python" run.py >out 2>err
run check nano.gguf ref.pt
check "a NaN inside" eval '[ $code -eq 1 ] && grep -q "an inner value is not a number" "$tmp/err"'
rm -f ref.pt

# ---- transformers: fresh models of four architectures ----

cat >fresh.py <<'END'
import sys, torch, transformers as t
torch.manual_seed(int(sys.argv[2]))
small = dict(vocab_size=97, hidden_size=32, intermediate_size=80, num_hidden_layers=3,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64)
config = {"gpt2": lambda: t.GPT2Config(vocab_size=97, n_positions=64, n_embd=32, n_layer=3, n_head=4),
          "llama": lambda: t.LlamaConfig(**small), "qwen2": lambda: t.Qwen2Config(**small),
          "qwen3": lambda: t.Qwen3Config(**small, head_dim=16)}[sys.argv[1]]()
config._attn_implementation = "eager"
model = t.AutoModelForCausalLM.from_config(config).eval()
with torch.no_grad():
    for p in model.parameters():
        p.add_(torch.randn_like(p) * 0.15)
model.save_pretrained(sys.argv[1])
ids = torch.randint(0, 97, (1, 40))
END
for name in gpt2 llama qwen2 qwen3; do
    cat fresh.py block2.py >run.py
    "$python" run.py $name 5 >out 2>err
    run convert $name $name.gguf --no-tokenizer
    passes "transformers: $name" $name.gguf
done

# ---- TransformerLens ----

if has transformer_lens; then
    cat >lens.py <<'END'
import torch
from transformers import AutoModelForCausalLM
from transformer_lens.model_bridge import TransformerBridge
hf = AutoModelForCausalLM.from_pretrained("gpt2", attn_implementation="eager")
model = TransformerBridge.boot_transformers("gpt2", hf_model=hf)
ids = torch.randint(0, 97, (1, 40))
END
    cat lens.py block3.py >run.py
    "$python" run.py >out 2>err || cat err >>"$tmp/err"
    passes "TransformerLens: gpt2" gpt2.gguf
else
    echo "# no transformer_lens here"
fi

finish
