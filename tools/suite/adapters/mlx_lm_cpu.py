"""mlx-lm in float32: pip install 'mlx[cpu]' mlx-lm (macOS: mlx). suite.py run DIR --serve 'python3 mlx_lm_cpu.py' --format hf4,hf"""
import pathlib

import mlx.core as mx
import numpy
from adapter import chunk_of, main
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import load_model


def logits(model, ids, how):
    found, _ = load_model(pathlib.Path(model))
    found.set_dtype(mx.float32)
    size = chunk_of(how, len(ids))
    cache = make_prompt_cache(found) if how else None
    rows = [found(mx.array([ids[at:at + size]]), cache=cache).astype(mx.float32) for at in range(0, len(ids), size)]
    return numpy.concatenate([numpy.array(row[0]) for row in rows])


main(logits)
