"""onnxruntime-genai in float32: pip install onnxruntime-genai onnx onnx-ir transformers torch. suite.py run DIR
--serve 'python3 onnxruntime_builder.py' --format hf. Its model builder makes the graph, onnxruntime runs it."""
import json
import tempfile

import numpy
import onnxruntime
from adapter import main, refuse_ways
from onnxruntime_genai.models import builder
from onnxruntime_genai.models.builders.base import Model

Model.save_processing = Model.make_genai_config = lambda *words, **options: None  # there is no tokenizer


def feed(wanted, ids, width):
    """The value of an input: ids, mask, positions, and a cache without positions, whose heads have this width."""
    if wanted.name.startswith("past"):
        sizes = {"batch_size": 1, "kv_cache_dim": width}
        return numpy.zeros([size if isinstance(size, int) else sizes.get(size, 0) for size in wanted.shape], numpy.float32)
    return {"input_ids": numpy.array([ids]), "attention_mask": numpy.ones((1, len(ids)), numpy.int64),
            "position_ids": numpy.arange(len(ids))[None]}[wanted.name]


def logits(model, ids, how):
    refuse_ways(how)
    with open(model + "/config.json", encoding="utf-8") as file:
        c = json.load(file)
    width = c.get("head_dim") or c.get("hidden_size", c.get("n_embd")) // c.get("num_attention_heads", c.get("n_head"))
    with tempfile.TemporaryDirectory() as folder:
        builder.create_model(None, model, folder, "fp32", "cpu", folder + "/cache", **builder.parse_extra_options(
            None, model, folder, "fp32", "cpu", folder + "/cache", []))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 3
        session = onnxruntime.InferenceSession(folder + "/model.onnx", options)
        return session.run(["logits"], {wanted.name: feed(wanted, ids, width) for wanted in session.get_inputs()})[0][0]


main(logits)
