'use strict';
// What a head does over a whole text, as shares of its attention: no page, no engine. Each share is told with
// what attention that is even over the same keys would give (chance).
const Patterns = (() => {
    const FIRST = 2; // the first query: the one before it has no choice between the first key and the previous one
    const LEAST = 0.35, LIFT = 1.5, FEW = 2, EVEN = 0.8; // a pattern: share, share over chance, queries; evenness
    const KINDS = [
        ['previous', 'the token before', (i) => [i - 1]], ['first', 'the first token', () => [0]], ['itself', 'the query itself', (i) => [i]],
        ['same', 'the same token, earlier', (i, before) => before],
        ['induction', 'what followed the same token', (i, before) => before.map((j) => j + 1).filter((j) => j < i)],
    ];
    const WORDS = { diffuse: 'evenly, many keys', mixed: 'no single pattern' };

    // The keys that each kind means, [query][kind][...].
    function targets(ids, n) {
        const earlier = new Map();
        return Array.from({ length: n }, (_, i) => {
            if (!earlier.has(ids[i])) earlier.set(ids[i], []);
            const before = earlier.get(ids[i]), all = KINDS.map(([, , of]) => of(i, before.slice()));
            before.push(i);
            return all;
        });
    }

    // Measures the pattern of queries from 2 on. row(i): weights of keys 0 to i; seen(i, j): false outside a window. {name, value: the
    // measure of the pattern that it is, even: mean entropy as a share of the largest, kinds: [{name, words, share,
    // chance, n: queries that have such a key}]}.
    function measure(keysOf, row, seen = () => true) {
        const kinds = KINDS.map(([name, words]) => ({ name, words, share: 0, chance: 0, n: 0 }));
        let even = 0;
        for (let i = FIRST; i < keysOf.length; i++) {
            const w = row(i);
            let keys = 0;
            for (let j = 0; j <= i; j++) keys += seen(i, j);
            keysOf[i].forEach((found, k) => add(kinds[k], found.filter((j) => seen(i, j)), w, keys));
            even += keys > 1 ? Numbers.entropy(w) / Math.log(keys) : 0;
        }
        even /= Math.max(1, keysOf.length - FIRST);
        for (const k of kinds) if (k.n) [k.share, k.chance] = [k.share / k.n, k.chance / k.n];
        return { kinds, even, ...named(kinds, even) };
    }

    function add(kind, found, w, keys) {
        if (!found.length) return;
        kind.n++;
        kind.chance += found.length / keys;
        for (const j of found) kind.share += w[j];
    }

    // The pattern furthest above chance, if it is one.
    function named(kinds, even) {
        const over = (k) => k.share - k.chance, fit = kinds.filter((k) => k.n >= FEW && k.share >= LEAST && k.share >= LIFT * k.chance);
        const best = fit.sort((a, b) => over(b) - over(a))[0];
        if (best) return { name: best.name, words: best.words, value: best.share, chance: best.chance };
        const name = even >= EVEN ? 'diffuse' : 'mixed';
        return { name, words: WORDS[name], value: even, chance: 1 };
    }

    return { targets, measure };
})();
