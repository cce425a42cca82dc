"""References for mgpt check as other programs write them, for seeds.py, tests/cli/malformed.py and references.py.

Of tokens and their rows of logits: REFERENCES(ids, rows) is a list of (name, bytes, which tokens the user has to
give: none, all or those of the prompt, positions that are compared). Standard library only; each function names
the lines that make the real file.
"""
import collections
import io
import json
import math
import struct
import zipfile

from formats import npy, npz, safetensors

PROMPT = 2  # tokens, where a program gives those of an answer only
FORMATS = {"f2": "e", "f4": "f", "f8": "d", "i2": "h", "i4": "i", "i8": "q", "u1": "B", "u2": "H", "u4": "I"}
STORAGES = {"f2": "Half", "V2": "BFloat16", "f4": "Float", "f8": "Double", "i4": "Int", "i8": "Long", "i2": "Short"}


def packed(kind, values):
    """V2: bfloat16, cut off."""
    if kind == "V2":
        return b"".join(struct.pack("<f", v)[2:] for v in values)
    return struct.pack("<%d%s" % (len(values), FORMATS[kind]), *values)


def flat(rows):
    return [v for row in rows for v in row]


# ---- torch.save ----

Tensor = collections.namedtuple("Tensor", "kind shape data strides", defaults=[None])


def torch(tree, folder="archive"):
    """torch.save(tree, f): dicts, tuples and tensors."""
    storages = []

    def numbers(values):
        return b"(" + b"".join(b"J" + struct.pack("<i", v) for v in values) + b"t"

    def text(s):
        return b"X" + struct.pack("<I", len(s.encode())) + s.encode()

    def tensor(t):
        strides = [math.prod(t.shape[i + 1:]) for i in range(len(t.shape))] if t.strides is None else t.strides
        storages.append(t.data)
        return (b"ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + b"ctorch\n%sStorage\n" % STORAGES[t.kind].encode() +
                text(str(len(storages) - 1)) + text("cpu") + numbers([len(t.data) // int(t.kind[1])])[1:-1] + b"tQJ" +
                bytes(4) + numbers(t.shape) + numbers(strides) + b"\x89ccollections\nOrderedDict\n)RtR")

    def dump(v):
        if isinstance(v, Tensor):
            return tensor(v)
        if isinstance(v, dict):
            return b"}(" + b"".join(text(k) + dump(x) for k, x in v.items()) + b"u"
        return b"N" if v is None else b"(" + b"".join(map(dump, v)) + b"t"
    return archive(folder, b"\x80\x02" + dump(tree) + b".", storages)


def archive(folder, pickle, storages):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as z:
        for name, data in [("data.pkl", pickle), ("byteorder", b"little"), ("version", b"3\n")] + [
                ("data/%d" % i, data) for i, data in enumerate(storages)]:
            z.writestr(zipfile.ZipInfo(folder + "/" + name, (1980, 1, 1, 0, 0, 0)), data)
    return buffer.getvalue()


def arrays(ids, rows):
    """numpy.savez, mlx.core.savez (bfloat16 is <V2), save_safetensors, torch.save, and plain floats."""
    n, v = len(rows), len(rows[0])
    values = flat(rows)
    head = {"tokens": {"dtype": "I64", "shape": [1, n], "data_offsets": [0, 8 * n]},
            "logits": {"dtype": "F32", "shape": [1, n, v], "data_offsets": [8 * n, 8 * n + 4 * n * v]}}
    tokens, logits = Tensor("i8", [1, n], packed("i8", ids)), Tensor("f4", [1, n, v], packed("f4", values))
    turned = [row[i] for i in range(v) for row in rows]
    pair = [("tokens.npy", npy("<i8", [1, n], packed("i8", ids))), ("logits.npy", npy("<f8", [1, n, v], packed("f8", values)))]
    return [
        ("batch.npz", npz(pair), "", n),
        ("mlx.npz", npz([("tokens.npy", npy("<u4", [n], packed("u4", ids))), ("logits.npy", npy("<f4", [n, v], packed("f4", values)))]), "", n),
        ("u2.npz", npz([("input_ids.npy", npy("<u2", [n], packed("u2", ids))), pair[1]]), "", n),
        ("last.npz", npz([pair[0], ("logits.npy", npy("<f4", [1, 1, v], packed("f4", rows[-1])))]), "", 1),
        ("batch.safetensors", safetensors(head, packed("i8", ids) + packed("f4", values)), "", n),
        ("dict.pt", torch({"tokens": tokens, "logits": logits, "past_key_values": None}), "", n),
        ("lens.pt", torch({"embed.hook_in": tokens, "unembed.hook_out": logits, "hook_unembed": logits}), "", n),
        ("pair.pt", torch((logits, {"embed.hook_in": tokens})), "", n),
        ("turned.pt", torch({"tokens": tokens, "logits": Tensor("f8", [n, v], packed("f8", turned), [1, n])}), "", n),
        ("logits.pt", torch(logits, "x"), "all", n),
        ("llama-debug.bin", packed("f4", rows[-1]), "all", 1),
        ("floats.bin", packed("f4", values), "all", n),
    ]


# ---- servers ----

def log_softmax(row):
    top = max(row)
    return [x - top - math.log(sum(math.exp(y - top) for y in row)) for x in row]


def servers(ids, rows):
    """Requests as mgpt check --help has them. Entry i is about token i."""
    n = len(ids)
    logprobs = [log_softmax(row) for row in rows]
    tops = [sorted(range(len(p)), key=lambda k: -p[k])[:3] for p in logprobs]

    def entries(make, begin=1):
        return [make(logprobs[i - 1], tops[i - 1], ids[i]) for i in range(begin, n)]

    def vllm(p, top, token):
        return {str(k): {"logprob": p[k], "rank": 1, "decoded_token": "?"} for k in [token] + [k for k in top if k != token]}

    def content(p, top, token):
        return {"token": "token_id:%d" % token, "logprob": p[token], "bytes": None,
                "top_logprobs": [{"token": "token_id:%d" % k, "logprob": p[k], "bytes": None} for k in top]}

    def llama(p, top, token):
        return {"id": token, "token": "?", "bytes": [63], "logprob": p[token],
                "top_logprobs": [{"id": k, "token": "?", "bytes": [63], "logprob": p[k]} for k in top]}
    given = [[None, ids[0], None]] + entries(lambda p, top, token: [p[token], token, None])
    best = entries(lambda p, top, token: [[p[k], k, None] for k in top])
    echo = {"tokens": ["token_id:%d" % i for i in ids], "token_logprobs": [None] + [g[0] for g in given[1:]],
            "top_logprobs": [None] + entries(lambda p, top, token: {"token_id:%d" % k: p[k] for k in top})}
    prompt_logprobs = [None] + entries(vllm)
    return [(name, json.dumps(value).encode(), needs, positions) for name, value, needs, positions in (
        ("vllm.json", {"object": "text_completion", "choices": [
            {"index": 0, "text": "", "logprobs": None, "prompt_logprobs": prompt_logprobs, "prompt_token_ids": ids}]}, "", n - 1),
        ("vllm-old.json", {"choices": [{"text": "", "prompt_logprobs": prompt_logprobs}]}, "all", n - 1),
        ("vllm-chat.json", {"choices": [{"message": {}, "logprobs": None}], "prompt_logprobs": prompt_logprobs,
                            "prompt_token_ids": ids}, "", n - 1),
        ("vllm-llm.json", [{"prompt_token_ids": ids, "prompt_logprobs": [None] + entries(
            lambda p, top, token: {str(k): p[k] for k in top})}], "", n - 1),
        ("sglang.json", {"text": "", "meta_info": {"input_token_logprobs": given, "input_top_logprobs": [None] + best}}, "", n - 1),
        ("sglang-given.json", {"text": "", "meta_info": {"input_token_logprobs": given[:PROMPT], "output_token_logprobs": given[PROMPT:],
                                                         "output_top_logprobs": None}}, "", n - 1),
        ("completions.json", {"choices": [{"text": "", "logprobs": echo}]}, "", n - 1),
        ("completions-given.json", {"choices": [{"text": "", "logprobs": dict(echo, top_logprobs=None)}]}, "", n - 1),
        ("chat.json", {"choices": [{"message": {}, "logprobs": {"content": entries(content, PROMPT)}}]}, "prompt", n - PROMPT),
        ("llama-server.json", {"content": "", "completion_probabilities": entries(llama, PROMPT)}, "prompt", n - PROMPT))]


def references(ids, rows):
    return arrays(ids, rows) + servers(ids, rows)
