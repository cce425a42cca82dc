#!/usr/bin/env python3
"""Bugs that are planted in a copy of an engine: the conformance suite must turn red for each.

    planted.py MGPT [NAME...]     all bugs, or those whose words are named

The engine is the specification's program (tests/spec/pass.c). Each bug is one edit of its source; the copy is compiled and
runs all cases of logits. The copy without a bug has no red case. With -v the red cases are printed.
"""
import contextlib
import io
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/suite"))
import suite  # noqa: E402

# (what, file of tests/spec, text, what takes its place)
PASS, BLOCKS, MATH = "pass.c", "blocks.h", "arithmetic.h"
BUGS = [
    # positions
    ("rope base ignored", PASS, 'double all = real("rope.freq_base", 10000);', "double all = 10000;"),
    ("rope rotates halves where pairs are adjacent", PASS, "(a->pairs == 1 ? 2 * i : i), *q = p + (a->pairs == 1 ? 1 : n / 2)", "i, *q = p + n / 2"),
    ("rope rotates the whole head", PASS, '(size_t)real("rope.dimension_count", (double)D)', "D"),
    ("rope turns the other way", PASS, "s *= scale, c *= scale;", "s *= -scale, c *= scale;"),
    ("positions are counted in halves", PASS, "d_sincos((double)pos * (local", "d_sincos((double)pos * 0.5 * (local"),
    ("rope's divisors ignored (Llama 3.1)", PASS, "f /= (double)element(divisors, 0, i);", "f /= 1;"),
    ("YaRN ignored", PASS, 'type->at && same(type->at, "yarn")', "0"),
    ("YaRN's factor of cosines ignored", PASS, "*scale = 1 + 0.1 * ln(factor);", "*scale = 1;"),
    ("LongRoPE's other factors", PASS, "(k == 2) ==", "(k == 2) !="),
    ("all layers rotate (SmolLM3)", PASS, '(int)value_of(find("mgpt.attention.no_rope_every"), a->no_rope_every)', "0"),
    ("full layers rotate too (Cohere 2)", PASS, "(a->rope_windowed && real", "(0 && real"),
    ("windows have the others' rope base (Gemma 3)", PASS, "base = local ? base : all;", "base = all;"),
    ("norms of q and k before the rotation (Hunyuan)", PASS, "int rope_first = a->rope_first ||", "int rope_first = 0 *a->rope_first ||"),
    ("learned positions are one off", PASS, "element(at, pos, i)", "element(at, pos + 1, i)"),
    ("ALiBi begins with head 0", PASS, "(double)h < heads ? (double)h + 1", "(double)h < heads ? (double)h"),
    ("ALiBi of heads that are no power of two", PASS, "(double)h - heads + 0.5", "(double)h + 1"),
    # attention
    ("no window", PASS, "first = window && n > window ? n - window : 0", "first = window * 0"),
    ("a window of one key more", PASS, "? n - window : 0", "? n - window - 1 : 0"),
    ("every layer has a window (Gemma 2)", PASS, "every && (layer + 1) % every == 0 ? 0", "every < 0 ? 0"),
    ("a query sees no key of its own", PASS, "softmax(s + first, n - first);", "s[n - 1] = n - first > 1 ? -1e9f : s[n - 1];\n        softmax(s + first, n - first);"),
    ("1/sqrt(d) where the file has a scale", PASS, '(float)real("attention.scale", 1.0 / sqrt(width))', "(float)(1.0 / sqrt(width))"),
    ("no soft cap of scores", PASS, "cap > 0 ? cap * tanh_f32(s[t] / cap) : s[t]", "s[t]"),
    ("no clamp of q (OLMoE, MPT)", PASS, "clamp(q, Q, limit);", ""),
    ("no clamp of v", PASS, "clamp(v, K, limit);", ""),
    ("KV heads are taken in turn, not in groups", PASS, "h / (H / G) * D", "h % G * D"),
    ("q, k, v in one tensor: k and v exchanged", PASS, 'fused * Q, k, K, h);\n    matmul(l, fused ? "attn_qkv" : "attn_v", fused * (Q + K)', 'fused * (Q + K), k, K, h);\n    matmul(l, fused ? "attn_qkv" : "attn_v", fused * Q'),
    ("no norms of q and k", PASS, 'norm(l, "attn_q_norm", q, q, Q, D, a->qk_norm);', ""),
    ("a head's gains are those of the first", PASS, "element(gain, i / width % rows, j)", "element(gain, 0, j)"),
    # norms and the residual stream
    ("epsilon is 1e-5", PASS, "(float)real(eps[a->layer_norm], 1e-5)", "1e-5f"),
    ("LayerNorm keeps the mean", PASS, "a->layer_norm ? sum_of(at, width, 0, 0) / (float)width : 0", "0"),
    ("no biases of norms", PASS, "bias->at ? at[j] + element(bias, 0, j) : at[j]", "at[j]"),
    ("no biases of matrices", PASS, "bias->at ? y[r] + element(bias, 0, row + r) : y[r]", "y[r]"),
    ("no norm after attention", PASS, 'norm(l, "post_attention_norm", out, out, E, E, 0);', ";"),
    ("no norm after the MLP", PASS, 'norm(l, "post_ffw_norm", m, m, E, E, 0);', ""),
    ("the residual is not normalised (GPT-1)", PASS, 'norm(l, "layer_output_norm", x, x, E, E, 0);', ""),
    ("no norm of the embedding (BLOOM)", PASS, '(int)value_of(find("mgpt.embedding_norm"), a->embd_norm)', "0"),
    ("embeddings are not scaled", PASS, '(float)real("embedding_scale", a->embd_root ? sqrt((double)E) : 1)', "1"),
    ("attention's branch is not scaled (Granite)", PASS, 'scale(out, E, (float)real("residual_scale", 1));', ""),
    ("parallel branches run one after the other", PASS, '(int)real("use_parallel_residual", a->parallel)', "0"),
    ("serial branches run parallel (GPT-NeoX)", PASS, '(int)real("use_parallel_residual", a->parallel)', "a->parallel"),
    ("logits are multiplied, not divided (Granite)", PASS, "a->divides ? 1 / by : by", "by"),
    ("no soft cap of logits", PASS, "logits[i] = cap > 0 ? cap * tanh_f32(logits[i] / cap) : logits[i];", ""),
    # the MLP
    ("GELU by tanh where it is by erf", MATH, "return gelu_erf(x);", 'return activation("gelu_tanh", x, c);'),
    ("GELU by erf where it is by tanh", MATH, "return x / (1.0f + exp_f32(-2.0f * (0x1.988454p-1f * fmaf(0.044715f * x * x, x, x))));", "return gelu_erf(x);"),
    ("gate and up exchanged", PASS, "activation(act, f[i], c) * (gated ? g[i] : 1)", "gated ? activation(act, g[i], c) * f[i] : activation(act, f[i], c)"),
    ("ReLU is not squared (Nemotron)", PASS, '{" nemotron jais2 ", "relu2"', '{" nemotron jais2 ", "relu"'),
    ("xIELU's beta is not added (Apertus)", PASS, "(float)(beta + softplus(alpha))", "(float)softplus(alpha)"),
    ("weights of experts are not divided by their sum", PASS, "w[e] = (normed ? w[e] / sum : w[e]) * by;", "w[e] = w[e] * by;"),
    ("weights of experts are always divided", PASS, "w[e] = (normed ? w[e] / sum : w[e]) * by;", "w[e] = w[e] / sum * by + 0 * (float)normed;"),
    ("one expert less", PASS, "before >= used ?", "before + 1 >= used ?"),
    ("no shared expert", PASS, 'if (part(l, "ffn_up_shexp", "weight")->at)', "if (0)"),
    ("the shared expert has no gate", PASS, "scale(m, E, sigmoid(gate));", "gate = 0;"),
    ("a convolution of the last tokens backwards (LFM2)", PASS, "element(w, c, j) * rows", "element(w, c, w->cols - 1 - j) * rows"),
    # element types
    ("Q4_0 is 7 too low", BLOCKS, "int offset = min ? 0 : five ? 16 : 8;", "int offset = min ? 0 : five ? 16 : 7;"),
    ("Q5: no fifth bit", BLOCKS, "v |= five ? (high[i / 8] >> i % 8 & 1) << 4 : 0;", ""),
    ("Q4_K, Q5_K: high bits of scales", BLOCKS, "(six[s + 4] & 15) | six[s - 4] >> 6 << 4", "(six[s + 4] & 15)"),
    ("Q6_K: scales without a sign", BLOCKS, "(float)(int8_t)p[192 + s * 2 + i]", "(float)p[192 + s * 2 + i]"),
    ("Q2_K: minima are added", BLOCKS, "-half(p + 82) * (float)(p[at] >> 4)", "half(p + 82) * (float)(p[at] >> 4)"),
    ("Q3_K: no third bit", BLOCKS, "three && !(p[i] >> s & 1) ? 4 : 0", "0"),
    ("IQ4: a value of the table", BLOCKS, "-127, -104, -83", "-127, -104, -38"),
    ("MXFP4: twice the scale", BLOCKS, "ldexpf(1, p[0] - 128)", "ldexpf(1, p[0] - 127)"),
    ("TQ1_0: digits of the last bytes", BLOCKS, ": at / 4 - 60;", ": 63 - at / 4;"),
    ("BF16 is read as F16", BLOCKS, "return from_bits((uint32_t)number(w + 2 * i, 2) << 16);", "return half(w + 2 * i);"),
]


GROUPS = ["architectures", "types", "precision"]  # a bug that the first shows need not be tried with the others


def compiled(folder, bug):
    """The engine with a bug, or without any (None)."""
    for source in (ROOT / "tests/spec").glob("*.[ch]"):
        text = source.read_text()
        if bug and source.name == bug[1]:
            if text.count(bug[2]) != 1:
                sys.exit(f"not ok {bug[0]}: {bug[1]} has its text {text.count(bug[2])} times, expected once")
            text = text.replace(bug[2], bug[3])
        (folder / source.name).write_text(text)
    cc = shlex.split(os.environ.get("CC", "cc"))
    done = subprocess.run([*cc, "-O1", "-w", "-ffp-contract=off", str(folder / PASS), "-o", str(folder / "pass"), "-lm"],
                          capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"not ok {bug[0]}: does not compile: {done.stderr}")
    return folder / "pass"


def red_cases(cases, bug, work):
    """The ids of cases that are wrong or crash, in the first group that has any."""
    adapter, red = shlex.quote(str(ROOT / "tools/suite/adapters/mgpt_spec.sh")), []
    with tempfile.TemporaryDirectory(dir=work) as folder:
        folder = pathlib.Path(folder)
        os.environ["SPEC_PASS"] = str(compiled(folder, bug))
        for group in GROUPS:
            with contextlib.redirect_stdout(io.StringIO()):
                suite.main(["run", str(cases), "--engine", f"sh {adapter} {{model}} {{ids}} {{out}} {{how}}", "--format", "gguf",
                            "--group", group, "--json", str(folder / "result"), "--jobs", "2", "--mgpt", "/nonexistent"])
            found = json.loads((folder / "result").read_text())["cases"]
            red += [c["id"] for c in found if c["verdict"] in ("wrong", "crash")]
            if red:
                break
    return red


def main(mgpt, names):
    verbose = "-v" in names
    names = [n for n in names if n != "-v"]
    bugs = [bug for bug in BUGS if not names or any(n in bug[0] for n in names)]
    with tempfile.TemporaryDirectory() as work:
        cases, green = pathlib.Path(os.environ.get("SUITE_DIR") or pathlib.Path(work, "suite")), []
        if not cases.exists() and suite.main(["write", str(cases), "--mgpt", mgpt, "--formats", "gguf"]):
            return 1
        before = red_cases(cases, None, work)
        print(f"{'not ok' if before else 'ok'} without a bug: {len(before)} red {' '.join(before)}")
        for bug in bugs:
            red = [name for name in red_cases(cases, bug, work) if name not in before]
            print(f"{'ok' if red else 'not ok'} {bug[0]}: {len(red)} red {' '.join(red if verbose else red[:3])}", flush=True)
            green += [] if red else [bug[0]]
    print(f"{len(bugs) - len(green)} of {len(bugs)} planted bugs are seen")
    return 1 if green or before else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
