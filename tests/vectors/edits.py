#!/usr/bin/env python3
"""Golden vectors of tools/choose, computed here in float64 from the definitions, by other algorithms than there:
repetitions are compared token by token, filters sort. `python3 edits.py > edits.txt`

A case is a line of each: set SETTING TEXT (any number), breaks IDS (through which no repetition goes), history IDS, logits X..., edited X... ("-inf" is dropped).
"""
import math
import random

INF = math.inf


def softmax(x, t=1.0):
    top = max(x)
    e = [math.exp((v - top) / t) for v in x]
    return [v / sum(e) for v in e]


def penalties(x, history, repeat=1.0, last=-1, presence=0.0, frequency=0.0):
    window = history if last < 0 else history[len(history) - min(last, len(history)):]
    out = list(x)
    for token in set(window):
        out[token] = x[token] * repeat if x[token] < 0 else x[token] / repeat
        out[token] -= window.count(token) * frequency + presence
    return out


def dry(x, history, breaks, mult, base=1.75, allowed=2, last=-1):
    window = history if last < 0 else history[len(history) - min(last, len(history)):]
    since = window
    for i in range(len(window) - 1, -1, -1):
        if window[i] in breaks:
            since = window[i + 1:]
            break
    longest = {}
    for end in range(len(window) - 1):  # what would repeat window[.. end], followed by window[end + 1]
        n = 0
        while n < len(since) and n <= end and window[end - n] == since[len(since) - 1 - n]:
            n += 1
        follows = window[end + 1]
        longest[follows] = max(longest.get(follows, 0), n)
    out = list(x)
    for token, n in longest.items():
        if n >= allowed and token not in breaks:
            out[token] -= mult * base ** (n - allowed)
    return out


def nsigma(x, n):
    held = [v for v in x if v > -INF]
    mean = sum(held) / len(held)
    sigma = math.sqrt(sum((v - mean) ** 2 for v in held) / len(held))
    return [v if v >= max(x) - n * sigma else -INF for v in x]


def typical(x, mass):
    p = softmax(x)
    entropy = -sum(q * math.log(q) for q in p if q > 0)
    order = sorted((i for i in range(len(x)) if p[i] > 0), key=lambda i: (abs(-math.log(p[i]) - entropy), i))
    total, kept = 0.0, set()
    for i in order:
        kept.add(i)
        total += p[i]
        if total > mass:
            break
    return [v if i in kept else -INF for i, v in enumerate(x)]


def xtc(x, threshold):
    p = softmax(x)
    top = sorted((i for i in range(len(x)) if p[i] >= threshold), key=lambda i: (-p[i], i))
    return [-INF if i in top[:-1] else v for i, v in enumerate(x)]


def mirostat(x, mu, t):
    p = softmax(x, t)
    kept = [v if q > 0 and -math.log2(q) <= mu else -INF for v, q in zip(x, p)]
    return kept if max(kept) > -INF else [v if v == max(x) else -INF for v in x]


def case(rng, settings, function, n_tokens=27, length=12, breaks=()):
    x = [rng.gauss(0, 3) for _ in range(n_tokens)]
    history = [rng.randrange(6) if rng.random() < 0.8 else rng.randrange(n_tokens) for _ in range(length)]
    if length > 8 and rng.random() < 0.7:  # a repetition
        history[-4:] = history[-8:-4]
    for name, value in settings:
        print('set', name, value)
    print('breaks', *breaks)
    print('history', *history)
    print('logits', *[f'{v:.9g}' for v in x])
    x = [float(f'{v:.9g}') for v in x]
    print('edited', *[f'{v:.9g}' for v in function(x, history)])


def main():
    print('# Made by edits.py. Tokens are those of weights/names.gguf: a to z and BOS.')
    rng = random.Random(44)
    for repeat, last, presence, frequency in ((1.3, -1, 0, 0), (0.7, -1, 0, 0), (1.5, 3, 0, 0), (1, -1, 0.5, 0),
                                              (1, 5, -0.25, 0.75), (2, -1, 0.125, 0.5), (1.1, 0, 1, 1)):
        for length in (0, 1, 12):
            case(rng, [('repeat-penalty', repeat), ('repeat-last', last), ('presence', presence), ('frequency', frequency)],
                 lambda x, h: penalties(x, h, repeat, last, presence, frequency), length=length)
    for numbers in ((0.8,), (1.5, 2), (1, 1.75, 1), (0.5, 1.2, 3, 9), (2, 1, 1, -1), (1, 3, 2, 0)):
        for length in (0, 1, 2, 3, 12, 40, 41):
            case(rng, [('dry', ':'.join(map(str, numbers)))], lambda x, h: dry(x, h, set(), *numbers), length=length)
    for breaks in ((1,), (3, 7), (0, 1, 2, 3, 4, 5)):
        for allowed in (1, 2):
            case(rng, [('dry', f'1.25:2:{allowed}')], lambda x, h: dry(x, h, breaks, 1.25, 2, allowed), length=60, breaks=breaks)
    for n in (0.5, 1, 2.5):
        case(rng, [('top-nsigma', n)], lambda x, h: nsigma(x, n))
    for mass in (0.05, 0.3, 0.6, 0.9, 0.99):
        case(rng, [('typical', mass)], lambda x, h: typical(x, mass))
    for threshold in (0, 0.02, 0.1, 0.3, 0.5):
        case(rng, [('xtc', f'1:{threshold}')], lambda x, h: xtc(x, threshold))
    for tau in (0.3, 1, 3, 5):
        case(rng, [('mirostat', f'2:{tau}')], lambda x, h: mirostat(x, 2 * tau, 0.8))
    case(rng, [('bias', 'c+2.5'), ('bias', '4-inf'), ('bias', '"z"-1')],
         lambda x, h: [v + {2: 2.5, 4: -INF, 25: -1}.get(i, 0) for i, v in enumerate(x)])
    case(rng, [('bias', 'a-inf'), ('repeat-penalty', 1.2), ('dry', 1), ('top-nsigma', 1.5), ('typical', 0.8)],
         lambda x, h: typical(nsigma(dry(penalties([-INF] + x[1:], h, 1.2), h, set(), 1), 1.5), 0.8))


if __name__ == '__main__':
    main()
