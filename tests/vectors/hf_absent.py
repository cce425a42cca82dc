"""Makes hf_absent.txt: what the classes of transformers take for a key that config.json lacks, for every golden model of
tests/golden and every key of its class (tests/tools/convert/test_hf_absent.c compares). Rows MODEL KEY VALUE CHANGES, where
CHANGES are other values of config.json.

    python3 tests/vectors/hf_absent.py >tests/vectors/hf_absent.txt        transformers 5.24
"""
import json
import pathlib
import re

import transformers

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
READS = (pathlib.Path(__file__).parents[2] / "tools/convert/families/hf_reads.txt").read_text()
BASE = set(re.search(r"^base:.*\n((?:  .*\n)+)", READS, re.M).group(1).split())
# Sizes of the tensors, without which no configuration of a class says anything, and what is not of the model.
SIZES = {"hidden_size", "n_embd", "d_model", "vocab_size", "num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_attention_heads",
         "n_head", "n_heads", "transformers_version", "torch_dtype", "use_cache", "_name_or_path", "problem_type", "return_dict"}


# Refused with other words: LG's program takes the number of heads, and gpt_neo's class has a list for 24 layers. Another form
# of the same: a list with the window of each layer, all equal.
OTHER_WORDS = {("exaone", "num_key_value_heads"), ("gpt_neo", "attention_types"), ("mistral_yarn", "layer_types")}
# Where a window shows: in a longer context, in use, in the layers of the class's choice.
WINDOWED = {"max_position_embeddings": 9000, "use_sliding_window": True, "layer_types": None}


# Model types with the tensors of another's golden model.
ALSO = {"mistral_yarn": ["ministral"], "qwen2_sharded": ["qwen2_vl_text", "qwen2_5_vl_text"], "qwen3": ["qwen3_vl_text"]}


def absent_value(make, config):
    """What the class makes of the configuration, or {}: it refuses it."""
    try:
        return make(**config).to_dict()
    except Exception:
        return {}


def rows(name, config, more):
    """Of a golden model with other values of config.json."""
    config = config | more
    if config["model_type"] not in transformers.CONFIG_MAPPING:
        return
    make = transformers.CONFIG_MAPPING[config["model_type"]]
    known = make().to_dict().keys()
    for key in sorted(known | config.keys()):
        if key in BASE | SIZES or key.startswith("_") or "dropout" in key or "quantization" in key:
            continue
        changes = {k: v for k, v in WINDOWED.items() if k in known} if key == "sliding_window" else {}
        rest = {k: v for k, v in (config | changes).items() if k != key and v is not None}
        absent = absent_value(make, rest).get(key)
        value = json.dumps(absent, separators=(",", ":"))
        if absent is not None and "Infinity" not in value and (name, key) not in OTHER_WORDS:
            yield name, key, value, json.dumps(more | changes, separators=(",", ":"))


for path in sorted(GOLDEN.glob("*/config.json")):
    config = json.loads(path.read_text())
    for more in [{}] + [{"model_type": other} for other in ALSO.get(path.parent.name, [])]:
        for row in rows(path.parent.name, config, more):
            print(*row)
