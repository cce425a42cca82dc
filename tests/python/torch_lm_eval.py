"""MgptLM next to the harness' own backend `hf` on random checkpoints: log-probabilities, decisions, windows, texts.

Not collected by default: it wants torch, transformers and lm_eval[hf] (suite "torch" of meson test).
"""
import random
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("lm_eval")
huggingface = pytest.importorskip("lm_eval.models.huggingface")
from lm_eval.api.instance import Instance  # noqa: E402
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers  # noqa: E402

import mgpt  # noqa: E402
from mgpt.lm_eval import MgptLM  # noqa: E402

SMALL = {"vocab_size": 400, "hidden_size": 32, "intermediate_size": 80, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 64, "bos_token_id": 0, "eos_token_id": 0}
GPT2 = {"vocab_size": 400, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "bos_token_id": 0, "eos_token_id": 0}
END = "<|endoftext|>"
TEXT = ("The king came home. The queen was there, and they had bread;\n\nthen the night fell on the castle of the king "
        "and nobody saw the 12 men who came over the wall. ")


def tokenizer(folder, adds_bos):
    made = Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    made.train_from_iterator([TEXT * 3], trainers.BpeTrainer(
        vocab_size=380, special_tokens=[END], show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    if adds_bos:
        made.post_processor = processors.TemplateProcessing(single=f"{END} $A", special_tokens=[(END, 0)])
    transformers.PreTrainedTokenizerFast(tokenizer_object=made, bos_token=END, eos_token=END, model_max_length=64,
                                         ).save_pretrained(folder)


@pytest.fixture(scope="module", params=["gpt2", "llama", "llama with BOS"])
def both(request, tmp_path_factory):
    """(the harness' model, ours)."""
    folder = str(tmp_path_factory.mktemp(request.param.replace(" ", "-")))
    torch.manual_seed(7)
    kind = ("GPT2Config", GPT2) if request.param == "gpt2" else ("LlamaConfig", SMALL)
    model = transformers.AutoModelForCausalLM.from_config(getattr(transformers, kind[0])(**kind[1])).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.1)
    model.save_pretrained(folder)
    tokenizer(folder, "BOS" in request.param)
    # lm_eval 0.4.13 with logits_cache gives ("", "a b") and ("a", " b") one row of logits, the wrong one for the second.
    theirs = huggingface.HFLM(pretrained=folder, device="cpu", dtype="float32", batch_size=1, logits_cache=False)
    return theirs, MgptLM(folder)


def requests(kind, rows):
    return [Instance(request_type=kind, doc={}, arguments=row, idx=i) for i, row in enumerate(rows)]


def pairs():
    """What a boundary can be: inside words, at spaces of all kinds, after nothing, beyond the window."""
    made = [("", "The king"), ("The king ", "came"), ("The king \n", "came"), ("The king\u3000", " came home"),
            (END, "The"), (END + "The", " king"), ("The king", END), ("k", "ing"), ("", END + " the queen"),
            ("The queen was \u00e9", "t\u00e9 there"), ("12", "3"), (TEXT * 3, " the king"), (TEXT * 2, TEXT[:150])]
    r = random.Random(3)
    for _ in range(40):
        a, b, c = sorted(r.sample(range(len(TEXT)), 3))
        made += [(TEXT[a:b], TEXT[b:c]), (TEXT[a:b], TEXT[b: b + 2])]
    return made


def greedy(model):
    """Contexts with what the model says after them."""
    contexts = [TEXT[:n] for n in range(3, 60, 4)]
    rows = [(context, {"until": [], "max_gen_toks": 1}) for context in contexts]
    said = model.generate_until(requests("generate_until", rows), True)
    return [pair for pair in zip(contexts, said, strict=True) if pair[1]]


def test_loglikelihood(both):
    rows = []
    for row in pairs() + greedy(both[0]):
        try:
            both[0].loglikelihood(requests("loglikelihood", [row]), disable_tqdm=True)
            rows.append(row)
        except AssertionError:
            with pytest.raises(mgpt.Error, match="no token of its own"):
                both[1].loglikelihood(requests("loglikelihood", [row]))
    assert len(rows) > 50
    want = both[0].loglikelihood(requests("loglikelihood", rows), disable_tqdm=True)
    ours = both[1].loglikelihood(requests("loglikelihood", rows))
    for row, (value, is_greedy), (our_value, our_greedy) in zip(rows, want, ours, strict=True):
        assert abs(value - our_value) <= 1e-4, row
        assert is_greedy == our_greedy, row
    assert any(is_greedy for _, is_greedy in want)


def test_rolling(both):
    rows = [(TEXT,), (TEXT * 4,), ("The king",), (TEXT[:90],), (END + "The king",)]
    want = both[0].loglikelihood_rolling(requests("loglikelihood_rolling", rows), disable_tqdm=True)
    ours = both[1].loglikelihood_rolling(requests("loglikelihood_rolling", rows))
    assert [float(a) for a in ours] == pytest.approx(want, abs=1e-3, rel=1e-6)


def test_generation(both):
    options = [{"until": ["the"], "max_gen_toks": 20}, {"until": ["\n\n", "."], "max_gen_toks": 8, "do_sample": False},
               {"max_gen_toks": 1}]
    rows = [(TEXT[:n], o) for n in (5, 20, 40, 41, 150) for o in options] + [(TEXT * 2, options[0])]
    want = both[0].generate_until(requests("generate_until", rows), disable_tqdm=True)
    assert both[1].generate_until(requests("generate_until", rows)) == want


def test_refused(both):
    with pytest.raises(mgpt.Error, match="not empty"):
        both[1].loglikelihood(requests("loglikelihood", [("The king", "")]))
    with pytest.raises(mgpt.Error, match="the model's context holds 64"):
        both[1].loglikelihood(requests("loglikelihood", [("The", TEXT * 3)]))
    with pytest.raises(ValueError, match="leave no room"):
        both[1].generate_until(requests("generate_until", [("The king", {"max_gen_toks": 64})]))


def test_command(root, tmp_path):
    """python -m mgpt.lm_eval on a task of a local file."""
    (tmp_path / "rows.jsonl").write_text('{"q": "an", "c": ["na", "xq"], "a": 0}\n{"q": "ma", "c": ["zz", "ry"], "a": 1}\n')
    (tmp_path / "names.yaml").write_text(f"""task: names
dataset_path: json
dataset_kwargs:
  data_files:
    test: {tmp_path}/rows.jsonl
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{q}}}}"
doc_to_choice: "{{{{c}}}}"
doc_to_target: "{{{{a}}}}"
target_delimiter: ""
metric_list:
  - metric: acc
""")
    done = subprocess.run([sys.executable, "-m", "mgpt.lm_eval", "--model", "mgpt", "--model_args",
                           f"path={root}/weights/names.gguf", "--tasks", "names", "--include_path", tmp_path],
                          capture_output=True, text=True, env={**__import__("os").environ, "HF_HOME": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert "|names|" in done.stdout and "|1|" in done.stdout.replace(" ", ""), done.stdout
