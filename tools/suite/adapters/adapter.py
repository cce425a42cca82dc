"""What the adapters in Python share: it answers a line for each case (--serve 'python3 NAME.py'), or one case
(--engine 'python3 NAME.py {model} {ids} {out} {how}')."""
import json
import os
import sys

sys.dont_write_bytecode = True


def last_words(failed):
    """An exception in one line, with its place."""
    place = failed.__traceback__
    while place.tb_next:
        place = place.tb_next
    where = f"{os.path.basename(place.tb_frame.f_code.co_filename)}:{place.tb_lineno}"
    return f"{type(failed).__name__}: {failed} ({where})".replace("\n", " ").replace("\t", " ")[:300]


def answer(logits, tokens, fields):
    """Writes what logits(model, ids, how) returns: an array of float32, [tokens][vocabulary]; or of tokens(model, texts):
    a list of ids for each text, without BOS."""
    model, ids, out, how = (fields + [""])[:4]
    if how == "--tokenize":
        if not tokens:
            raise NotImplementedError("no such way: --tokenize")
        with open(ids, encoding="utf-8") as file:
            lines = tokens(model, [json.loads(line) for line in file])
        with open(out, "w", encoding="ascii") as file:
            file.writelines(" ".join(map(str, line)) + "\n" for line in lines)
        return
    with open(ids, encoding="ascii") as file:
        values = logits(model, [int(word) for word in file.read().split()], how.split())
    with open(out, "wb") as file:
        file.write(values.astype("<f4").tobytes() if hasattr(values, "astype") else bytes(values))


def main(logits, tokens=None):
    if len(sys.argv) > 3:
        try:
            answer(logits, tokens, sys.argv[1:4] + [" ".join(sys.argv[4:])])
        except Exception as failed:
            sys.exit(last_words(failed))
        return
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what engines print is no answer
    for line in sys.stdin:
        try:
            answer(logits, tokens, line.rstrip("\n").split("\t"))
            said = "ok"
        except (Exception, SystemExit) as failed:
            said = "refused " + last_words(failed)
        print(said, file=answers, flush=True)


def chunk_of(how, n):
    """How many tokens are to be fed at a time, of n."""
    if how[:1] not in ([], ["--step"], ["--chunk"]):
        refuse_ways(how)
    return int((how + ["1"])[1]) if how else n


def refuse_ways(how):
    """For adapters that have only one way of computing logits."""
    if how:
        raise NotImplementedError(f"no such way: {' '.join(how)}")
