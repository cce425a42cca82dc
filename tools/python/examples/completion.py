"""create_completion of llama-cpp-python with mgpt: completion.py MODEL PROMPT prints a text while it is drawn.

A chunk is a dict as OpenAI's API has it. n texts, logits and chat are left out; arguments that are not named here go to
Model.generate: top_k, min_p, repeat_penalty, ...
"""
import itertools
import sys
import time

import mgpt


def create_completion(model, prompt, *, max_tokens=16, temperature=0.8, stop=(), seed=0, echo=False, stream=False, **sampling):
    """Chunks as they are drawn, or with stream=False one dict with the whole text."""
    chunks = _chunks(model, prompt, max_tokens, echo, temperature=temperature, stop=stop or (), seed=seed, **sampling)
    if stream:
        return chunks
    chunks = list(chunks)
    text, n = "".join(c["choices"][0]["text"] for c in chunks), len(model.encode(prompt))
    drawn = sum(c["choices"][0]["finish_reason"] is None for c in chunks) - echo
    choice = {**chunks[-1]["choices"][0], "text": text}
    return {**chunks[-1], "choices": [choice], "usage": {"prompt_tokens": n, "completion_tokens": drawn, "total_tokens": n + drawn}}


_ids = itertools.count()


def _chunks(model, prompt, max_tokens, echo, **options):
    head = {"id": f"cmpl-{next(_ids)}", "object": "text_completion", "created": int(time.time()), "model": model.path}

    def chunk(text, reason=None):
        return {**head, "choices": [{"text": text, "index": 0, "logprobs": None, "finish_reason": reason}]}

    if echo:
        yield chunk(prompt)
    drawn, piece = 0, None
    for piece in model.generate(prompt, max_tokens, logprobs=0, **options):
        if piece.token is not None:  # the last piece has none, unless a stop text came
            drawn += 1
            yield chunk(str(piece))
    is_last = piece is not None and piece.token is None
    yield chunk(str(piece) if is_last else "", "length" if is_last and drawn == max_tokens else "stop")


if __name__ == "__main__":
    for one in create_completion(mgpt.Model(sys.argv[1]), sys.argv[2], max_tokens=100, stream=True):
        print(one["choices"][0]["text"], end="", flush=True)
    print()
