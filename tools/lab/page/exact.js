'use strict';
// The engine's arithmetic on single numbers, bit for bit, in the order that src/kernels/kernels.h
// states: what a panel shows as a sum is the sum that the engine made.
const Exact = (() => {
    const NARROW = 64; // most rows of a matrix whose sums have four chains
    const f64 = new Float64Array(1), u64 = new BigUint64Array(f64.buffer), f32 = new Float32Array(1), u32 = new Uint32Array(f32.buffer);
    const round = Math.fround;

    // a b + c of floats with one rounding: the sum in float64 rounded to odd, then to float32.
    function fma(a, b, c) {
        const p = a * b, s = p + c, t = s - p, rest = (p - (s - t)) + (c - t);
        if (!rest || !Number.isFinite(s)) return round(s);
        f64[0] = s;
        if (!(u64[0] & 1n)) u64[0] += (rest > 0) === (s > 0) ? 1n : -1n;
        return round(f64[0]);
    }

    // Sum of a[i] b[i] in n chains, chain c over i = c, c + n, ...
    function chained(a, b, n) {
        const c = [0, 0, 0, 0];
        for (let i = 0; i < a.length; i++) c[i % n] = fma(b[i], a[i], c[i % n]);
        return n === 1 ? c[0] : round(round(c[0] + c[1]) + round(c[2] + c[3]));
    }

    // The product of a row x and a row w of a matrix that has nOut rows.
    const matmul = (x, w, nOut) => chained(x, w, nOut > NARROW ? 1 : 4);
    const score = (q, k, by) => round(chained(q, k, 1) * round(by));

    // Sixteen partial sums, number i over elements i, i + 16, ...; add(sum, x) adds one.
    function sumRow(x, add) {
        const p = new Float32Array(16);
        for (let i = 0; i < x.length; i++) p[i % 16] = add(p[i % 16], x[i]);
        for (let half = 8; half >= 1; half /= 2) for (let i = 0; i < half; i++) p[i] += p[i + half];
        return p[0];
    }

    const plus = (sum, x) => round(sum + x);

    // {mean, inverse}: y = (x - mean) * inverse. RMSNorm has the mean 0.
    function norm(x, eps, withMean) {
        const n = x.length, mean = withMean ? round(sumRow(x, plus) / n) : 0;
        const squares = sumRow(x, (sum, v) => fma(round(v - mean), round(v - mean), sum));
        return { mean, inverse: round(1 / round(Math.sqrt(round(round(squares / n) + round(eps))))) };
    }

    // Constants of exp_f32 in kernels/spec/float_tmpl.h: a hexadecimal float is an integer over a power of two.
    const P = [0x16a1a76 / 2 ** 34, 0x1123fc6 / 2 ** 31, 0x1555916 / 2 ** 29, 0x155548a / 2 ** 27, 0x1fffffc / 2 ** 26];

    function exp(x) {
        const c = Math.min(89, Math.max(-104, x)), big = 1.5 * 2 ** 23, whole = round(fma(c, 0x1715476 / 2 ** 24, big) - big);
        const r = fma(whole, -0x17f7d1c / 2 ** 44, fma(whole, -0x162e4 / 2 ** 17, c));
        const p = P.reduce((sum, k) => fma(sum, r, k));
        f32[0] = round(fma(p, round(r * r), r) + 1);
        const half = Math.floor((whole + 512) / 2) - 256;
        return round(round(f32[0] * 2 ** half) * 2 ** (whole - half));
    }

    // {terms, sum, a}: what softmax makes of the scores that are seen.
    function softmax(scores) {
        const high = Math.max(...scores), terms = Float32Array.from(scores, (s) => exp(round(s - high)));
        const sum = sumRow(terms, plus), inverse = round(1 / sum);
        return { terms, sum, high, a: terms.map((e) => e * inverse) };
    }

    const sigmoid = (x, by) => round(x / round(1 + exp(round(by))));
    const ACTS = { relu: (x) => (x < 0 ? 0 : x), relu2: (x) => round((x < 0 ? 0 : x) ** 2), silu: (x) => sigmoid(x, -x),
        sigmoid: (x) => sigmoid(1, -x),
        gelu_quick: (x) => sigmoid(x, -round(round(1.702) * x)),
        gelu_tanh: (x) => sigmoid(x, -2 * round(round(0x1988454 / 2 ** 25) *
            fma(round(round(round(0.044715) * x) * x), x, x))) };

    const bits = (x) => { f32[0] = x; return u32[0]; };
    return { fma, chained, matmul, score, norm, softmax, exp, ACTS, NARROW, round, same: (a, b) => bits(a) === bits(b) };
})();
