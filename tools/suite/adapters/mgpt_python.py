"""mgpt's Python package: pip install ./tools/python. suite.py run DIR --serve 'python3 mgpt_python.py' --format gguf,hf"""
import mgpt
import numpy
from adapter import main, refuse_ways


def logits(model, ids, how):
    with mgpt.Model(model) as found:
        if how[:1] == ["--hooks"]:
            names = [n if n in found.hook_names else n.replace("hook_out", "hook_normalized") for n in how[1].split(",")]
            values = found.run_with_cache(ids, names)[1]  # a norm without gain has no hook_out
            return numpy.concatenate([values[name].ravel() for name in names])
        return in_a_session(found, ids, how) if how else found.logits(ids, kv="f32")


def in_a_session(model, ids, how):
    rows, half, way = [], len(ids) // 2, how[0]
    keep = [("logits", lambda value, hook: rows.append(value[0].copy()) or value)]
    with model.session(kv="f32") as session:
        if way in ("--step", "--chunk"):
            size = int(how[1]) if way == "--chunk" else 1
            for at in range(0, len(ids), size):
                session.feed(ids[at:at + size], keep)
        elif way in ("--rewind", "--fork"):
            session.feed(ids[:half], keep)
            other = session.fork() if way == "--fork" else session
            session.feed(ids[half - 1::-1])
            session.rewind(half)
            other.feed(ids[half:], keep)
        else:
            refuse_ways(how)
    return numpy.concatenate(rows)


def tokens(model, texts):
    with mgpt.Model(model, vocab_only=True) as found:
        return [found.encode(text, bos=False) for text in texts]


main(logits, tokens)
