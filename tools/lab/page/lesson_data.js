'use strict';
// The worked examples of the attention lessons: small matrices, projections by name, and words
// about them. The numbers of those that mgpt attend has too are its own
// (tools/attend/attend_examples.c); a test compares them.
const LessonData = (() => {
    const THREE = [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]];
    const EMMA = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1]];
    const BIGRAMS = [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0.5, 0.5], [1, 0, 0, 0]];
    const look = (n) => Array.from({ length: n }, (_, i) => Array.from({ length: n }, (_v, j) => (i === j ? 1000 : 0)));

    // name, title, what to see, X, labels, projections ('identity' ... or a matrix), causal, stages
    // shown (all when absent), heads.
    const EXAMPLES = [
        { name: 'similarity', title: 'Similarity X Xᵀ', x: THREE, show: ['s'],
            about: 'Queries and keys are the tokens themselves, so S = X Xᵀ: how alike two rows are. Each row has square 2; the '
                + 'third meets each of the others in one place.' },
        { name: 'identity', title: 'Attention', x: THREE,
            about: 'Q = K = V = X. Scores are divided by √d, softmax makes every row a distribution, and the output is the mean of '
                + 'the values under it.' },
        { name: 'causal', title: 'The mask', x: THREE, causal: true,
            about: 'The same, and no token sees the future: what is masked gets the score −∞ and the weight 0, exactly.' },
        { name: 'average', title: 'Averages', x: [[2, 4], [6, 0], [1, 5], [3, 3]], wq: 'zero', causal: true,
            about: 'Queries of zero give scores of zero: A is the triangular matrix of 1, 1/2, 1/3, 1/4, and A V are running means.' },
        { name: 'dimension', title: 'One dimension', x: THREE, wq: 'dim:1',
            about: 'The query keeps only dimension 1: a score is 2 or 1 or 0 by that dimension alone.' },
        { name: 'flip', title: 'Flipped', x: THREE, wq: 'flip',
            about: 'The query’s dimensions in reverse: tokens 0 and 1 now look at each other.' },
        { name: 'negate', title: 'Negated keys', x: THREE, wk: 'negate', about: 'Keys times −1: a query now scores highest with the key that is least like it.' },
        { name: 'random', title: 'Random', x: THREE, wq: 'random', wk: 'random', wv: 'random',
            about: 'Projections as they are before any training. “Resample” draws others.' },
        { name: 'one-hot', title: 'A copy', x: [[1, 0, 0], [0, 1, 0], [0, 0, 1]], wq: [[0, 0, 1000], [1000, 0, 0], [0, 1000, 0]],
            wv: [[1, 2], [3, 4], [5, 6]], about: 'A query that matches one key by far copies its value.' },
        { name: 'bigram', title: 'Bigram table', x: EMMA, labels: ['.', 'e', 'm', 'm', 'a'], wq: look(4), wv: BIGRAMS, causal: true,
            about: 'A table of next letters, looked up by attention: “.emma”. Each letter looks at itself and gets its row.' },
        { name: 'heads', title: 'Two heads', x: THREE, causal: true, heads: 2,
            about: 'Columns of Q, K and V are cut in two: each half has scores and weights of its own, and the outputs are joined side by side.' },
    ];

    // Numbers of 32 bits, the same for the same seed (xorshift32).
    function xorshift(seed) {
        let s = (seed * 2654435761 + 12345) >>> 0 || 1;
        const next = () => {
            s ^= s << 13;
            s ^= s >>> 17;
            s ^= s << 5;
            return s >>> 0;
        };
        for (let i = 0; i < 8; i++) next();
        return next;
    }

    // Numbers in [-1, 1] with two digits.
    function random(seed, rows, cols) {
        const next = xorshift(seed);
        return Array.from({ length: rows }, () => Array.from({ length: cols }, () => Math.round((next() / 0xffffffff) * 200 - 100) / 100));
    }

    // A projection of n dimensions by name, as --wq of mgpt attend has them.
    function projection(name, n, seed) {
        if (name === 'random') return random(seed, n, n);
        const only = /^dim:(\d+)$/.exec(name), at = { flip: (i) => n - 1 - i }[name] || ((i) => i);
        const size = { zero: 0, negate: -1 }[name] ?? 1;
        return Array.from({ length: n }, (_, i) => Array.from({ length: n }, (_v, j) =>
            (j === at(i) && (!only || i === Number(only[1]) - 1) ? size || 0 : 0)));
    }

    const names = (n) => ['identity', 'zero', 'negate', 'flip', 'random'].concat(Array.from({ length: n }, (_, i) => `dim:${i + 1}`));

    return { EXAMPLES, xorshift, random, projection, names };
})();
