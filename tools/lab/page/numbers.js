'use strict';
// Arithmetic on rows of logits and on small vectors: no page, no engine. Sums are in float64, ties
// go to the lower id, as in mgpt_top, mgpt_logprob and the REPL's views, so that both show the same
// digits.
const Numbers = (() => {
    // log(sum(exp(x)))
    function logSum(x) {
        const high = x[best(x)];
        return high + Math.log(x.reduce((sum, v) => sum + Math.exp(v - high), 0));
    }

    // Softmax at temperature t; t = 0 is the largest alone.
    function softmax(x, t = 1) {
        const most = best(x), out = new Float64Array(x).map((v, i) => (t > 0 ? Math.exp((v - x[most]) / t) : Number(i === most))), sum = out.reduce((a, b) => a + b, 0);
        return out.map((v) => v / sum);
    }

    function best(x) {
        let at = 0;
        for (let i = 1; i < x.length; i++) if (x[i] > x[at]) at = i;
        return at;
    }

    const logprob = (logits, token) => logits[token] - logSum(logits);

    // 1: nothing is likelier.
    const rank = (logits, token) => logits.reduce((n, v, i) => n + (v > logits[token] || (v === logits[token] && i < token) ? 1 : 0), 1);

    // The k largest, largest first, as indices.
    function top(x, k) {
        const kept = [];
        for (let i = 0; i < x.length; i++) {
            if (kept.length === k && !(x[i] > x[kept[k - 1]])) continue;
            let at = kept.length;
            while (at > 0 && x[i] > x[kept[at - 1]]) at--;
            kept.splice(at, 0, i);
            if (kept.length > k) kept.pop();
        }
        return kept;
    }

    // KL(p || q) in nats of two rows of logits.
    function kl(p, q) {
        const zp = logSum(p), zq = logSum(q);
        return p.reduce((sum, v, i) => {
            const lp = v - zp, w = Math.exp(lp);
            return w > 0 ? sum + w * (lp - (q[i] - zq)) : sum;
        }, 0);
    }

    // The entropy of probabilities, in nats.
    const entropy = (p) => p.reduce((sum, v) => (v > 0 ? sum - v * Math.log(v) : sum), 0);
    const same = (a, b) => a.length === b.length && a.every((v, i) => Object.is(v, b[i]));
    const dot = (a, b) => a.reduce((sum, v, i) => sum + v * b[i], 0);
    const length = (a) => Math.sqrt(dot(a, a));

    // What may be drawn: probabilities at a temperature, then top-k, then top-p on what is left, in
    // the order of mgpt_sample. {p, n: how many can be drawn, why(id): what cut this one, or ''}.
    function survivors(logits, { temperature, topK, topP }) {
        const p = softmax(logits, temperature), all = p.length, cutP = topP > 0 && topP < 1;
        if (!cutP && !(topK > 0 && topK < all)) return { p, n: all, why: () => '' };
        const order = Array.from(p.keys()).sort((a, b) => p[b] - p[a] || a - b);
        const k = topK > 0 ? Math.min(topK, all) : all;
        let n = k;
        if (cutP) {
            let left = 0, sum = 0;
            for (let i = 0; i < k; i++) left += p[order[i]];
            for (n = 0; n < k && (n === 0 || sum < topP * left); n++) sum += p[order[n]];
        }
        const place = new Int32Array(all);
        order.forEach((id, i) => { place[id] = i; });
        return { p, n, why: (id) => (place[id] < n ? '' : ['top-k', 'top-p'][Number(place[id] < k)]) };
    }

    // Per position: the next token, its probability, rank and -log p. logitsAt(i) is the row after
    // token i.
    function losses(ids, logitsAt) {
        return Array.from(ids.slice(1), (next, pos) => {
            const row = logitsAt(pos), lp = logprob(row, next);
            return { pos, next, p: Math.exp(lp), rank: rank(row, next), nll: -lp };
        });
    }

    // The least and the largest that are finite.
    function range(values) {
        const known = values.filter(Number.isFinite);
        return known.length ? [known.reduce((a, b) => Math.min(a, b)), known.reduce((a, b) => Math.max(a, b))] : [0, 0];
    }

    // Digits after the point; never "-0.0000".
    function fixed(x, digits = 4) {
        if (x === -Infinity) return '−∞';
        if (!Number.isFinite(x)) return String(x).replace('-', '−');
        const s = Math.abs(x).toFixed(digits);
        return x < 0 && Number(s) !== 0 ? '−' + s : s;
    }

    // A number with fixed digits for a cell of a table, which keeps all digits.
    const cell = (x, digits = 4, text = fixed(x, digits)) => ({ x, toString: () => text });

    const signed = (x, digits = 4) => (x >= 0 ? '+' : '') + fixed(x, digits);

    // Nine digits tell every float32 from its neighbours.
    function exact(x) {
        return Number.isFinite(x) ? String(Number(x.toPrecision(9))).replace('-', '−') : fixed(x);
    }

    // Percent in a sentence: whole from ten on, two digits below, and never 0 for what is above it.
    const share = (p) => `${p >= 0.0995 ? Math.round(100 * p) : p === 0 ? 0 : p < 1e-5 ? '< 0.001' : String(Number((100 * p).toPrecision(2)))} %`;
    const percent = (p) => `${fixed(100 * p, p < 0.0995 ? 2 : 1)} %`;

    const scientific = (x) => (Number.isFinite(x) ? x.toExponential(2).replace(/-/g, '−') : fixed(x));

    const count = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, ',');

    return { logSum, softmax, best, logprob, rank, top, kl, entropy, same, dot, length, survivors, losses,
        range, fixed, cell, signed, exact, share, percent, scientific, count };
})();
