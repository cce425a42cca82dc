"""--lora: the logits of PEFT's merged models, from Hugging Face directories and from GGUF, of PEFT's adapters and of
llama.cpp's; every command; and what is refused. Standard library only (tests/fixtures/lora/make_lora.py)."""
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT, MGPT = pathlib.Path(os.environ["MGPT_SOURCE_ROOT"]), os.path.abspath(os.environ["MGPT"])
sys.path.insert(0, str(ROOT / "tests/fuzz"))
sys.dont_write_bytecode = True
import checks  # noqa: E402
from checks import finish, holds, run_text  # noqa: E402
from formats import safetensors  # noqa: E402
from malformed_gguf import Gguf  # noqa: E402
from split_gguf import parse  # noqa: E402

LORA, GOLDEN = ROOT / "tests/fixtures/lora", ROOT / "tests/golden"
BASES = {"gpt2": "gpt2", "gpt2_dora": "gpt2", "llama": "llama", "llama_pattern": "llama", "llama_tables": "llama",
         "llama_dora": "llama", "qwen2": "qwen2_sharded", "qwen2_plain": "qwen2_sharded", "qwen2_saved": "qwen2_sharded",
         "phi3": "phi3_longrope", "gpt_neox": "gpt_neox", "falcon_new": "falcon_new", "smollm2_bf16": "smollm2_bf16", "gpt_bigcode": "gpt_bigcode", "bigcode_heads": "bigcode_heads", "modernbert_decoder": "modernbert_decoder"}
def run(*words, text=None):
    return run_text(MGPT, *words, text=text)


def same(what, base, ref, *lora):
    words = [word for one in lora for word in ("--lora", one)]
    done = run("check", base, ref, "--tol", "2e-5", *words)
    holds(what, done.returncode == 0 and "changed" in done.stderr, done.stdout + done.stderr)


def refused(what, code, expected, *words):
    done = run(*words)
    lines = done.stderr.splitlines()
    holds("%s: %s" % (what, expected), done.returncode == code and not done.stdout and len(lines) == 1 and
          expected in lines[0] and len(lines[0]) < 200 + len(str(ROOT)), done.stdout + done.stderr)


# ---- adapters with one thing wrong ----

def head_of(path):
    data = path.read_bytes()
    n = struct.unpack_from("<Q", data)[0]
    return json.loads(data[8:8 + n]), data[8 + n:]


def repeated(head, data, copies):
    """The tensors, each with a copy for the new names that copies(name) gives."""
    out, entries = b"", {}
    for name, e in head.items():
        for new in (copies(name) if name != "__metadata__" else ()):
            begin, end = e["data_offsets"]
            entries[new] = {**e, "data_offsets": [len(out), len(out) + end - begin]}
            out += data[begin:end]
    return safetensors(entries, out)


def eleven_layers():
    """Layer 10 of an adapter is not layer 0 or 1: it changes a model whose other layers are equal, as the merged one."""
    base, folder = TMP / "eleven", TMP / "layer10"
    shutil.copytree(GOLDEN / "llama", base)
    shutil.copytree(LORA / "llama", folder)
    config = json.loads((base / "config.json").read_text())
    (base / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 11}))
    layers = lambda name: [name.replace("layers.1.", "layers.%d." % i) for i in range(1, 11)] if "layers.1." in name else [name]
    (base / "model.safetensors").write_bytes(repeated(*head_of(base / "model.safetensors"), layers))
    weights = folder / "adapter_model.safetensors"
    weights.write_bytes(repeated(*head_of(weights), lambda name: [name.replace("layers.1.", "layers.10.")]))
    out = TMP / "eleven.gguf"
    done = run("convert", base, out, "--no-tokenizer", "--lora", folder)
    holds("layer 10 of eleven", "14 matrices changed" in done.stderr, done.stderr)
    plain = TMP / "plain.gguf"
    run("convert", base, plain, "--no-tokenizer")
    tensors = [{name: data for name, _, _, data in parse(path.read_bytes())[2]} for path in (plain, out)]
    changed = {name.split(b".")[1] for name, data in tensors[0].items() if data != tensors[1][name]}
    holds("... and no other than it and layer 0", changed == {b"0", b"10"}, changed)


def edited(name, config=None, names=None, change=None):
    """A copy of an adapter: keys of its config, names of tensors (regular expressions), entries by a function."""
    folder = TMP / ("%s-%d" % (name, checks.count))
    shutil.copytree(LORA / name, folder)
    path = folder / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **(config or {})}))
    weights = folder / "adapter_model.safetensors"
    head, data = head_of(weights)
    for old, new in (names or {}).items():
        head = {re.sub(old, new, key): entry for key, entry in head.items()}
    if change:
        change(head)
    weights.write_bytes(safetensors(head, data))
    return folder


def edited_gguf(name, change):
    path = TMP / ("%s-%d.gguf" % (name, checks.count))
    g = Gguf((LORA / name / "lora.gguf").read_bytes())
    change(g)
    path.write_bytes(g.bytes())
    return path


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def set_key(g, name, payload):
    g.key(name)[2] = payload


def swap_shape(pattern):
    def change(head):
        for key, entry in head.items():
            if re.search(pattern, key):
                entry["shape"] = entry["shape"][::-1]
    return change


def values():
    for name, base in BASES.items():
        hf, made = GOLDEN / base, TMP / (name + ".gguf")
        subprocess.run([MGPT, "convert", hf, made, "--no-tokenizer", "--type", "f32"], check=True, capture_output=True)
        adapters = [LORA / name] + [p for p in [LORA / name / "lora.gguf"] if p.exists()]
        for adapter in adapters:
            form = "GGUF" if adapter.suffix else "PEFT"
            same("%s: %s adapter of a directory" % (name, form), hf, LORA / name / "ref.npz", adapter)
            same("%s: %s adapter of a GGUF file" % (name, form), made, LORA / name / "ref.npz", adapter)
    for name in ("llama", "llama_dora"):
        same(name + ": half of it", GOLDEN / "llama", LORA / name / "half.npz", "%s:0.5" % (LORA / name))
    for pattern in ("proj", "^self_attn.q_proj", "attn.q_proj"):  # none is the whole name, or words at its end
        same("%s is not the name of a module" % pattern, GOLDEN / "llama", LORA / "llama/ref.npz",
             edited("llama", config={"rank_pattern": {pattern: 2}, "alpha_pattern": {pattern: 99}}))
    same("a dot of a pattern is any character", GOLDEN / "llama", LORA / "llama_pattern/ref.npz", edited("llama_pattern", config={
        "rank_pattern": {"^model.layers.0.mlp.up.proj": 1, "layers.1.self.attn.k.proj": 3}, "alpha_pattern": {"k.proj": 7, "layers.0.mlp.up_proj": 2}}))
    eleven_layers()
    same("llama: half of it, GGUF", GOLDEN / "llama", LORA / "llama/half.npz", "%s:0.5" % (LORA / "llama/lora.gguf"))
    colon = TMP / "whole:0.5"  # a name, not a scale
    colon.write_bytes((LORA / "llama/lora.gguf").read_bytes())
    same("a file whose name ends as a scale does", GOLDEN / "llama", LORA / "llama/ref.npz", colon)
    made = []
    for alpha in (0, 4, 5):  # in GGUF 0 is the rank, as in llama.cpp
        out = TMP / ("alpha%d.gguf" % alpha)
        run("convert", GOLDEN / "llama", out, "--no-tokenizer", "--lora",
            edited_gguf("llama", lambda g: set_key(g, "lora.alpha", struct.pack("<f", alpha))))
        made.append(out.read_bytes())
    holds("alpha 0 is the rank", made[0] == made[1] != made[2])
    same("two adapters, in order", GOLDEN / "llama", LORA / "llama_pattern/after.npz", LORA / "llama", LORA / "llama_pattern")
    same("an adapter by its weights", GOLDEN / "llama", LORA / "llama/ref.npz", LORA / "llama/adapter_model.safetensors")
    same("an adapter by its config", GOLDEN / "llama", LORA / "llama/ref.npz", LORA / "llama/adapter_config.json")


def own_tensors():
    """modules_to_save that are the base's own tensors change nothing: rows that are transposed, in another order, stacked, or
    stored less 1. Left out is what is refused by name: a table that is the head as well, experts, integers."""
    folder, n, reasons = TMP / "own", 0, set()
    shutil.copytree(LORA / "llama", folder)
    for weights in sorted(GOLDEN.glob("*/model.safetensors")):
        head, data = head_of(weights)
        words = ["convert", weights.parent, "--no-tokenizer", "--type", "f32", *(
            (weights.parent / "options").read_text().split() if (weights.parent / "options").exists() else [])]
        refused_names = done = None
        while refused_names or not done:
            head = {name: entry for name, entry in head.items() if not refused_names or not name.startswith(refused_names)}
            (folder / "adapter_model.safetensors").write_bytes(repeated(head, data, lambda name: ["base_model.model." + name]))
            done = run(*words, TMP / "own.gguf", "--lora", folder)
            found = re.search(r"tensor base_model\.model\.(\S+?):", done.stderr) if done.returncode else None
            refused_names = found and found[1]
            if refused_names:
                reasons.add((weights.parent.name, done.stderr))
        if weights.parent.name == "mllama":
            holds("mllama: an adapter is refused", done.returncode == 3 and "whose layers have other numbers here" in done.stderr, done.stderr)
            continue
        run(*words, TMP / "base.gguf")
        own, base = ([(name, data) for name, _, _, data in parse((TMP / file).read_bytes())[2]] for file in ("own.gguf", "base.gguf"))
        n += len(head)
        holds("%s: its own tensors" % weights.parent.name, done.returncode == 0 and own == base,
              done.stderr + str([name for (name, x), (_, y) in zip(own, base) if x != y]))
    strange = sorted({name for name, text in reasons if "another base" in text})
    holds("left out as of another base: the narrow table", strange == ["opt_350m"], strange)
    holds("tensors that took the place of themselves", n > 1300, n)


def commands():
    hf, adapter, out = GOLDEN / "llama", LORA / "llama", TMP / "merged.gguf"
    done = run("convert", hf, out, "--no-tokenizer", "--lora", shutil.copytree(adapter, TMP / "a"))
    holds("a name of one letter", " adapter a: 14 matrices changed" in done.stderr, done.stderr)
    done = run("convert", hf, out, "--no-tokenizer", "--lora", "a/")
    holds("a name that ends in /", " adapter a/: 14 matrices changed" in done.stderr, done.stderr)
    done = run("convert", hf, out, "--no-tokenizer", "--lora", adapter)
    holds("convert says what was changed", "adapter llama: 14 matrices changed, in F32" in done.stderr, done.stderr)
    done = run("info", GOLDEN / "gpt_neox", "--lora", LORA / "gpt_neox")
    holds("parts of one matrix are one", "adapter gpt_neox: 4 matrices changed" in done.stderr, done.stderr)
    for words in (("check", "--self", "--tokens", "3"), ("generate", "--ids", "1,2", "-n", "5", "--temp", "0"),
                  ("trace", "--ids", "1,2", "-o", TMP / "t.npz"), ("imatrix", "--ids", "1,2", "-o", TMP / "i.gguf"), ("lab", "--static", "--ids", "1,2", "-o", TMP / "l.html")):
        seen = []
        for model in ((hf, "--lora", adapter), (out,)):
            for file in ("t.npz", "i.gguf", "l.html"):
                (TMP / file).unlink(missing_ok=True)
            done = run(*words, *model)
            seen.append((done.returncode, done.stdout.replace("llama-merged", "merged"),
                         [p.read_bytes().replace(b"golden/llama", b"") for p in (TMP / "t.npz", TMP / "i.gguf") if p.exists()]))
        holds("%s, with --lora and merged" % words[0], seen[0] == seen[1] and done.returncode == 0, str(seen)[:300] + done.stderr)
    done = run("repl", hf, "--lora", adapter, text="/ids 0 1\n/top\n")
    other = run("repl", out, text="/ids 0 1\n/top\n")
    holds("repl, with --lora and merged", done.returncode == 0 and done.stdout == other.stdout, done.stderr)
    line = re.search(r"mgpt convert \S+ (\S+) --lora (\S+) keeps the result", run("info", hf, "--lora", adapter).stderr)
    holds("the command that keeps the result", line and line[1] == "llama-merged.gguf" and line[2] == str(adapter))
    quantised = TMP / "q8.gguf"
    run("convert", hf, TMP / "base.gguf", "--no-tokenizer")
    run("convert", TMP / "base.gguf", quantised, "--type", "f16")
    types = run("info", "--tensors", quantised, "--lora", LORA / "llama_dora").stdout
    holds("changed matrices are F32, the others as they were",
          re.search(r"blk\.0\.attn_q\.weight +F32", types) and re.search(r"blk\.0\.attn_v\.weight +F16", types), types)
    run("convert", quantised, TMP / "both.gguf", "--lora", LORA / "llama_dora", "--type", "f16")
    types = run("info", "--tensors", TMP / "both.gguf").stdout
    holds("--type is the type of all", re.search(r"blk\.0\.attn_q\.weight +F16", types), types)


def texts():
    """Commands that need a text, on a model with a vocabulary."""
    g, path, merged = Gguf(b"GGUF" + struct.pack("<IQQ", 3, 0, 0)), TMP / "names-lora.gguf", TMP / "names-merged.gguf"
    g.keys = [["general.type", 8, text("adapter")], ["general.architecture", 8, text("microgpt")],
              ["adapter.type", 8, text("lora")], ["adapter.lora.alpha", 6, struct.pack("<f", 2)]]
    g.tensors = [["blk.0.attn_q.weight.lora_" + factor, dims, 0, struct.pack("<32f", *(i % 7 - 3 for i in range(32)))]
                 for factor, dims in (("a", [16, 2]), ("b", [2, 16]))]
    path.write_bytes(g.bytes())
    names = ROOT / "weights/names.gguf"
    run("convert", names, merged, "--lora", path)
    for words in (("generate", "-p", "an", "-n", "8", "--temp", "0"), ("score", "-f", TMP / "texts"),
                  ("tokenize", "-p", "anna"), ("patch", "--clean", "anna", "--corrupt", "anni", "--metric", "a - b")):
        (TMP / "texts").write_text("anna\nbert\n")
        one, two, plain = run(*words, names, "--lora", path), run(*words, merged), run(*words, names)
        same_name = two.stdout.replace(str(merged), str(names)).replace("names-merged", "names")
        holds("%s, with --lora and merged" % words[0], one.returncode == 0 and one.stdout == same_name and
              (one.stdout != plain.stdout or words[0] == "tokenize"), one.stderr + two.stderr)
    holds("bench", run("bench", names, "--lora", path, "-r", "1").returncode == 0)
    holds("check of two models: the adapter is the first one's",
          run("check", names, merged, "--lora", path).returncode == 0 and run("check", names, merged).returncode == 1)


def names_of_tensors():
    """The words that PEFT adds to names change nothing, in each form of a name; other words are refused."""
    factor, magnitude, tables, saved = r"\.lora_([AB])\.weight$", "_vector$", "_(embedding_[AB])$", r"(embed_tokens|lm_head)\.weight$"
    for name, old, forms in (
            ("llama", factor, (r".lora_\1", r".lora_\1.default", r".lora_\1.default.weight", r".default.lora_\1.weight",
                               r".base_layer.lora_\1.weight", r".modules_to_save.default.lora_\1.weight")),
            ("llama_dora", magnitude, ("_vector.weight", "_vector.default", "_vector.default.weight")),
            ("llama_tables", tables, (r"_\1.weight", r"_\1.default", r"_\1.default.weight")),
            ("qwen2_saved", saved, (r"\1.modules_to_save.weight", r"\1.modules_to_save.default.weight", r"\1.default.weight")),
            ("qwen2", r"base_layer\.bias$", ("bias", "default.bias", "base_layer.default.bias"))):
        for form in forms:
            same("%s: names as %s" % (name, form), GOLDEN / BASES[name], LORA / name / "ref.npz", edited(name, names={old: form}))
    for name, old, expected, forms in (
            ("llama", factor, "no LoRA with both A and B has it", (r".lora_\1.mine", r".lora_\1.mine.weight", r".lora_\1.weight.weight",
             r".lora_\1.weights", r".lora_\1.defaults.weight", r".lora_\1.weight.bias", r".lora_\1." + 60 * "d" + ".weight", r".lora_\1x.weight")),
            ("llama", factor, "has nothing that it changes", (r".mine.lora_\1.weight", r".weight.lora_\1.weight", r".base_layers.lora_\1")),
            ("llama_dora", magnitude, "lora_magnitude_vector is missing", ("_vector.mine.weight", "_vector.weight.weight", "_vectors")),
            ("qwen2_saved", saved, "has nothing that it changes", (r"\1.module_to_save.weight", r"\1", r"\1.weight.default.weight"))):
        for form in forms:
            refused("names as " + form, 3, expected, "info", GOLDEN / BASES[name], "--lora", edited(name, names={old: form}))
    for one, two in ("", ".weight"), (".default", ".weight"), (".mine", ".mine.weight"), (".mine", ".mine.default"):
        weights = edited("llama") / "adapter_model.safetensors"
        weights.write_bytes(repeated(*head_of(weights), lambda name: [re.sub(r"lora_A\.weight$", "lora_A" + end, name) for end in (
            (one, two) if "lora_A" in name else ("",))]))
        refused("names as lora_A%s and lora_A%s" % (one, two), 3, "of the same meaning", "info", GOLDEN / "llama", "--lora", weights.parent)


def refusals():
    hf = GOLDEN / "llama"

    def peft(expected, base=hf, name="llama", **how):
        refused("PEFT", 3, expected, "info", base, "--lora", edited(name, **how))

    # What is off in each of JSON's ways changes nothing; anything else in these keys does.
    for key in ("lora_bias", "use_qalora", "layer_replication", "target_parameters", "use_bdlora", "arrow_config", "velora_config",
                "trainable_token_indices", "monteclora_config", "kasa_config", "megatron_config", "alora_invocation_tokens"):
        peft("%s: not supported" % key, config={key: {"a": 1}})
    for off, on in (None, "a"), (False, True), (0, 1), ([], [1]), ({}, {"a": 1}):
        done = run("info", hf, "--lora", edited("llama", {"lora_bias": off, "layer_replication": off, "target_parameters": off}))
        holds("what is off as %s" % json.dumps(off), done.returncode == 0, done.stderr)
        peft("layer_replication: not supported", config={"layer_replication": on})

    def in_gguf(expected, change, name="llama", base=hf):
        refused("GGUF", 3, expected, "info", base, "--lora", edited_gguf(name, change))
    refused("usage", 2, "--lora nowhere:nan", "info", hf, "--lora", "nowhere:nan")
    refused("usage", 2, "'1e99' is not a scale", "info", hf, "--lora", "%s:1e99" % (LORA / "llama"))
    refused("usage", 5, "nowhere", "info", hf, "--lora", "nowhere")
    refused("usage", 2, "--lora: given more than 16 times", "info", hf, *["--lora", "x"] * 17)
    refused("a model", 3, "not an adapter: expected", "info", hf, "--lora", ROOT / "tests/fixtures/convert/v0.bin")
    refused("a model", 3, "general.type is '', expected 'adapter'",
            "info", hf, "--lora", ROOT / "weights/names.gguf")
    refused("a folder", 3, "no adapter_config.json", "info", hf, "--lora", hf)
    refused("another base", 3, "the base (gpt2) has nothing that it changes", "info", GOLDEN / "gpt2", "--lora", LORA / "llama")
    refused("another base", 3, "another base", "info", GOLDEN / "smollm2_bf16", "--lora", LORA / "llama")
    refused("another base", 3, "general.architecture is 'llama', expected 'gpt2'", "info", GOLDEN / "gpt2", "--lora",
            LORA / "llama/lora.gguf")
    refused("another base", 3, "another base", "info", GOLDEN / "smollm2_bf16", "--lora", LORA / "llama/lora.gguf")
    refused("no Hugging Face form", 3, "has the architecture microgpt", "info", ROOT / "weights/names.gguf", "--lora",
            LORA / "llama")
    for key, value, expected in (
            ("peft_type", "LOHA", "peft_type is LOHA, expected LORA"), ("peft_type", None, "peft_type is missing"),
            ("lora_bias", True, "lora_bias: not supported"), ("layer_replication", [[0, 1]], "layer_replication: not"),
            ("trainable_token_indices", [1], "trainable_token_indices: not"),
            ("alora_invocation_tokens", [1], "alora_invocation_tokens: not"),
            ("target_parameters", ["x"], "target_parameters: not"),
            ("init_lora_weights", "pissa", "init_lora_weights: pissa changes the base"),
            ("init_lora_weights", "pissa_niter_4", "init_lora_weights: pissa_niter_4 changes"),
            ("init_lora_weights", 3, "init_lora_weights: this value"),
            ("r", None, "r: expected a number"), ("r", 0, "r: expected a number"), ("r", "4", "r: expected a number"),
            ("r", 8, "rank 4, adapter_config.json says 8"), ("lora_alpha", -1, "lora_alpha: expected"),
            ("lora_alpha", None, "lora_alpha: expected"), ("use_rslora", 1, "use_rslora: expected true or false"),
            ("rank_pattern", {"q_proj": 2}, "rank 4, adapter_config.json says 2"),
            ("rank_pattern", [1], "rank_pattern: expected an object"),
            ("alpha_pattern", {"(q|k)_proj": 2}, "is a regular expression"),
            ("alpha_pattern", {"q_proj": "2"}, "alpha_pattern: q_proj: expected a number"),
            ("use_dora", True, "lora_magnitude_vector is missing")):
        peft(expected, config={key: value})
    peft("lora_magnitude_vector is there", name="llama_dora", config={"use_dora": False})
    weights = edited("llama_tables", config={"use_dora": True}) / "adapter_model.safetensors"
    weights.write_bytes(repeated(*head_of(weights), lambda name: [] if "head.lora" in name else [name] + [
        name.replace("lora_embedding_A", "lora_magnitude_vector")] * ("embedding_A" in name)))
    refused("PEFT", 3, "embed_tokens: DoRA of an embedding is not supported", "info", hf, "--lora", weights.parent)
    peft("of the same meaning", names={r"lora_B\.weight": "lora_A.default.weight"})
    peft("expected a name that begins base_model.model.", names={r"base_model\.model\.": "x."})
    peft("has nothing that it changes", names={"q_proj": "query"})
    peft("has nothing that it changes", names={r"layers\.1\.": "layers.2."})
    peft("has nothing that it changes", names={r"layers\.1\.": "layers.99999999999."})
    peft("its B is missing", names={r"q_proj\.lora_B": "q_proj.lora_C"})
    peft("no LoRA with both A and B has it", names={r"q_proj\.lora_A": "q_proj.lora_C"})
    peft("another base", change=swap_shape(r"q_proj\.lora_A"))
    peft("another base", change=swap_shape(r"q_proj\.lora_B"))
    peft("element type I32", change=lambda h: [e.update(dtype="I32") for k, e in h.items() if "q_proj.lora_B" in k] and None)
    peft("the model's head is the token table", base=GOLDEN / "llama3_rope", name="llama_tables")
    folder = edited("llama")
    (folder / "adapter_model.safetensors").unlink()
    refused("PEFT", 3, "no adapter_model.safetensors or adapter_model.bin", "info", hf, "--lora", folder)
    folder = edited("llama")
    (folder / "adapter_model.safetensors").write_bytes(safetensors({}, b""))
    refused("PEFT", 3, "it has no tensors", "info", hf, "--lora", folder)
    folder = edited("llama")
    (folder / "adapter_config.json").write_text("{")
    refused("PEFT", 3, "adapter_config.json: line 1", "info", hf, "--lora", folder)
    in_gguf("adapter.type is 'control', expected 'lora'", lambda g: set_key(g, "adapter.type", text("control")))
    in_gguf("adapter.lora.alpha is", lambda g: set_key(g, "lora.alpha", struct.pack("<f", float("nan"))))
    in_gguf("key adapter.lora.alpha: missing", lambda g: g.keys.remove(g.key("lora.alpha")))
    in_gguf("alora.invocation_tokens: an activated LoRA",
            lambda g: g.keys.append(["adapter.alora.invocation_tokens", 4, struct.pack("<I", 1)]))
    in_gguf("it has no tensors", lambda g: g.tensors.clear())
    in_gguf("expected NAME.lora_a or NAME.lora_b", lambda g: g.tensors[0].__setitem__(0, "blk.0.attn_q.weight"))
    in_gguf("lora_b is missing", lambda g: g.tensors.pop(1))
    in_gguf("lora_a is missing", lambda g: g.tensors.pop(0))
    in_gguf("the model has no tensor blk.9.", lambda g: [t.__setitem__(0, t[0].replace("blk.1.", "blk.9.")) for t in g.tensors])

    def shorter(g):  # B of rank 2
        t = g.tensors[1]
        t[1], t[3] = [2, t[1][1] * 2], t[3]
    in_gguf("A has rank 4, B has rank 2", shorter)
    for kept in slice(4), slice(2), slice(2, 4):  # the table and the head; one of them
        in_gguf("the model's head is the token table", lambda g: g.tensors.__setitem__(slice(4), g.tensors[kept]),
                name="llama_tables", base=GOLDEN / "llama3_rope")


with tempfile.TemporaryDirectory() as tmp:
    TMP = pathlib.Path(tmp)
    os.chdir(tmp)
    values()
    own_tensors()
    commands()
    texts()
    names_of_tensors()
    refusals()
finish()
