'use strict';
// What training put into a matrix: weights multiplied out over tokens (engine/circuit.h), as a table in its own order, what is
// found in it, and its strongest pairs. The engine gives the numbers; sentences are made of them.
const Circuits = (() => {
    const { h, table } = Dom;
    const WHOLE = 512, SOME = 48, KEPT = 400, VOWELS = 'aeiouy', LETTERS = 20, SPLITS = 200, CLEAR = 199; // tokens of a table; tables kept; letters of an alphabet
    const KINDS = {
        qk: { title: (u) => `which ${u} looks for which`, of: 'W_Q × W_K', row: 'the one that asks', col: 'the one it looks for', says: (a, b, v) => [a, v < 0 ? ' looks away from ' : ' looks for ', b] },
        ov: { title: (u) => `what seeing a ${u} makes likelier`, of: 'W_V × W_O × W_U', row: 'seen', col: 'comes next', says: (a, b, v) => ['seeing ', a, v < 0 ? ' speaks against ' : ' speaks for ', b] },
        direct: { title: (u) => `what the ${u} itself makes likelier`, of: 'E × W_U', row: 'the one read last', col: 'comes next', says: (a, b, v) => [a, v < 0 ? ' speaks against ' : ' speaks for ', b] },
        places: { title: () => 'which place looks for which', of: 'W_Q × W_K', row: 'the place that asks', col: 'the place it looks for', says: (a, b, v) => ['place ', a, v < 0 ? ' looks away from ' : ' looks for ', b] },
        fires: { title: (u) => `which ${u} fires it`, of: 'E × W_1', row: 'token', col: '', says: (a) => [a] },
        promotes: { title: (u) => `which ${u} it makes likelier when it fires`, of: 'W_2 × W_U', row: '', col: 'comes next', says: (_, b) => [b] },
    };
    const kept = new Map();

    // Tokens of a table: all, or of a large vocabulary those of the text, its likeliest next ones, then the first with a text.
    function tokens(state) {
        const n = Engine.info.choices, all = Array.from({ length: n }, (_, id) => id);
        if (n <= WHOLE) return all;
        const near = state.ids.flatMap((id, i) => [id, ...Numbers.top(Engine.choices(i), 5)]);
        return [...new Set([...near, ...all.slice(0, 4 * SOME).filter((id) => !Token.of(id).control)])].slice(0, SOME);
    }

    // {kind, ids, n, at(i, j), order, classes}: order has places of ids, those with a text along the table's own direction, then the others.
    function of(kind, layer, index, state) {
        const ids = tokens(state), key = [state.ago, kind, layer, index, ids.length < Engine.info.choices ? ids : ''].join();
        if (kept.size > KEPT) kept.clear();
        if (!kept.has(key)) {
            const c = Engine.circuit(kind, layer, index, ids), n = Math.max(c.rows, c.cols), classes = kind === 'places' ? null : classesOf(ids), order = Array.from({ length: n }, (_, i) => i);
            if (c.along) {
                const side = classes && mean(classes.yes.map((i) => c.along[i])) < mean(classes.no.map((i) => c.along[i])) ? -1 : 1, last = (i) => Number(Token.of(ids[i]).control);
                order.sort((a, b) => last(a) - last(b) || side * (c.along[b] - c.along[a]) || a - b);
                c.along = c.along.map((x) => side * x);
            }
            kept.set(key, { ...c, kind, layer, index, ids, n, classes, order, at: (i, j) => c.data[i * c.cols + j] });
        }
        return kept.get(key);
    }

    const mean = (list) => list.reduce((a, b) => a + b, 0) / list.length;

    // Where tokens with a text are along the second direction of a table: in which it varies most once the first is taken away (power method).
    // The first token is at the positive side.
    const TURNS = 2000, MOST = 128;
    function second(c) {
        const text = c.order.filter((i) => !Token.of(c.ids[i]).control), { dot, length } = Numbers, unit = (a) => a.map((v) => v / (length(a) || 1));
        if (c.across || text.length > MOST) return c.across;
        const rows = text.map((t) => text.map((f) => (c.kind === 'qk' ? c.at(f, t) : c.at(t, f)))).map((row) => row.map((v) => v - mean(row)));
        const first = unit(text.map((t) => c.along[t]));
        let v = unit(text.map((_, i) => Math.sin(i + 1)));
        for (let turn = 0, moved = 1; turn < TURNS && moved > 1e-12; turn++) {
            const u = text.map((_, f) => rows.reduce((sum, row, t) => sum + row[f] * v[t], 0)), w = rows.map((row) => dot(row, u)), along = dot(w, first), next = unit(w.map((x, i) => x - along * first[i]));
            moved = Math.max(...next.map((x, i) => Math.abs(x - v[i])));
            v = next;
        }
        const side = v[text.indexOf(Math.min(...text))] < 0 ? -1 : 1;
        c.across = [];
        text.forEach((t, i) => { c.across[t] = side * v[i]; });
        return c.across;
    }

    // Vowels and the other letters, where the vocabulary has an alphabet; null: it has none.
    function classesOf(ids) {
        const letters = ids.map((id, i) => [Token.of(id).text, i]).filter(([t]) => /^[a-z]$/.test(t)), pick = (vowel) => letters.filter(([t]) => VOWELS.includes(t) === vowel).map((l) => l[1]);
        return letters.length < LETTERS ? null : { yes: pick(true), no: pick(false) };
    }

    const alphabet = (state) => classesOf(tokens(state));

    // ---- what is found ----

    const choose = (n, k) => (k === 0 ? 1 : (choose(n - 1, k - 1) * n) / k);

    // The first letters in the head's own order, as many as there are vowels: which they are, how many are vowels, and in how many tries
    // chance gives as many or more, at this end or at the other.
    function front(c) {
        const { yes, no } = c.classes, m = yes.length, letters = c.order.filter((i) => yes.includes(i) || no.includes(i)), first = letters.slice(0, m), hits = first.filter((i) => yes.includes(i)).length;
        let ways = 0;
        for (let k = hits; k <= m; k++) ways += choose(m, k) * choose(no.length, m - k);
        return { first: first.map((i) => Token.of(c.ids[i]).text), hits, m, tries: Math.round(choose(m + no.length, m) / (2 * ways)) };
    }

    // How much of the table's variance four means explain: of rows and columns in `yes` and not.
    function explained(c, yes, all) {
        const sums = [0, 0, 0, 0], counts = [0, 0, 0, 0];
        for (const i of all) for (const j of all) {
            const k = 2 * Number(yes.has(i)) + Number(yes.has(j));
            sums[k] += c.at(i, j);
            counts[k]++;
        }
        const grand = sums.reduce((a, b) => a + b) / all.length ** 2;
        return { means: sums.map((s, k) => s / counts[k]), part: sums.reduce((t, s, k) => t + counts[k] * (s / counts[k] - grand) ** 2, 0) };
    }

    // Means of vowels and consonants, if this split explains more than 199 of 200 random ones; null: it does not.
    function split(c) {
        const { yes, no } = c.classes, all = yes.concat(no), real = explained(c, new Set(yes), all);
        let seed = 1, below = 0;
        for (let t = 0; t < SPLITS; t++) {
            const list = all.slice();
            for (let i = 0; i < yes.length; i++) {
                seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
                const j = i + Math.floor((seed / 2 ** 32) * (list.length - i));
                [list[i], list[j]] = [list[j], list[i]];
            }
            below += Number(explained(c, new Set(list.slice(0, yes.length)), all).part < real.part);
        }
        return below >= CLEAR ? real.means : null;
    }

    // The strongest cells, largest size first; with `apart` no row and no column twice.
    function strongest(c, n, apart) {
        const cells = Array.from(c.data.keys()).sort((a, b) => Math.abs(c.data[b]) - Math.abs(c.data[a]) || a - b), out = [];
        for (const k of cells) {
            const i = Math.floor(k / c.cols), j = k % c.cols;
            if (!apart || out.every((o) => o[0] !== i && o[1] !== j)) out.push([i, j, c.data[k]]);
            if (out.length === n) break;
        }
        return out;
    }

    const word = (c, i) => (c.kind === 'places' ? String(i) : HomeText.label(c.ids[i]));

    // [[what, value]]
    function facts(c, n = 6) {
        const out = [], means = c.kind === 'qk' && c.classes && split(c), names = ['consonants', 'vowels'], verb = (v) => (v < 0 ? 'look away from' : 'look for');
        if (means) for (const [a, b] of [[1, 1], [1, 0], [0, 1], [0, 0]]) out.push([`${names[a]} ${verb(means[2 * a + b])} ${names[b]}, on average`, means[2 * a + b]]);
        const says = KINDS[c.kind].says, square = c.rows > 1 && c.cols > 1;
        return out.concat(strongest(c, n, square).map(([i, j, v]) => [says(h('b', null, word(c, i)), h('b', null, word(c, j)), v), v]));
    }

    const factsTable = (c, n) => table(null, ['found in the numbers', ''], facts(c, n).map(([what, v]) => [h('span', null, what), Numbers.cell(v, 2, Numbers.signed(v, 2))]), '.facts');

    // ---- the table ----

    // What Matrix.update takes. chosen: [row, column] as places of the order.
    function matrix(c, state, more) {
        const label = (k) => word(c, c.order[k]), limit = 1.6 * Math.sqrt(mean(Array.from(c.data, (v) => v * v)));
        return { rows: c.rows, cols: c.cols, rowName: KINDS[c.kind].row, colName: KINDS[c.kind].col, rowLabel: label, colLabel: label, value: (i, j) => c.at(c.order[i], c.order[j]),
            scale: Colour.diverging(limit, state.dark), title: `${title(c)} (${c.kind}, layer ${c.layer}, ${c.index})`, ...more };
    }

    // Which tokens a table of a large vocabulary has.
    const some = (c) => (c.kind === 'places' || c.ids.length === Engine.info.choices ? '' : ` ${c.ids.length} of ${Numbers.count(Engine.info.choices)} ${HomeText.unit()}s: those of the text, their likeliest next ones, the first of the vocabulary.`);

    const product = (kind) => Dom.math(KINDS[kind].of);

    const title = (c) => KINDS[c.kind].title(HomeText.unit());

    // ---- a panel of a weight ----

    let small = null, chosen = [-1, -1], shown = '';

    // what: {kind, layer, index, name} of a weight that is chosen in the picture.
    function panel(what, state) {
        let c;
        try {
            c = of(what.kind, what.layer, what.index, state);
        } catch (e) {
            return h('p.small', null, `${e.message}.`);
        }
        const square = c.rows > 1 && c.cols > 1, key = JSON.stringify(what);
        if (key !== shown) chosen = [-1, -1];
        shown = key;
        const show = () => small.update(matrix(c, state, { selected: chosen, onSelect: (i, j) => { chosen = [i, j]; show(); } }));
        small ||= Matrix.create('weights multiplied out over tokens', { id: 'circuit', picture: { square: true, most: 24 } });
        if (square) show();
        return h('section.circuit', null, h('h3', null, 'What training put there'), h('p.small', null, `${what.name}${title(c)}: `, product(c.kind), `, multiplied out over ${c.kind === 'places' ? 'places' : `${HomeText.unit()}s`}${what.layer > 0 ? ', without what the layers before add' : ''}.${some(c)}`),
            square && small.el, factsTable(c, square ? 6 : 10));
    }

    // The circuit that a weight of the picture belongs to; null: none. r, c: its cell.
    function ofWeight(m, r, c) {
        if (HomeShort.has(m.layer) && /^w[qkvoc]$/.test(m.part)) return null; // no head
        const { H, G, d, dv } = HomeData.heads(Math.max(0, m.layer)), head = (i, wide, group = 1) => ({ index: Math.floor(i / wide) * group, name: `Head ${Math.floor(i / wide) * group}: ` }), neuron = (i) => ({ index: i, name: `Neuron ${i}: ` });
        const made = { emb: () => ({ kind: 'direct', index: 0, name: '' }), wu: () => ({ kind: 'direct', index: 0, name: '' }), pos: () => ({ kind: 'places', index: 0, name: 'Head 0: ' }), wq: () => ({ kind: 'qk', ...head(c, d) }), wk: () => ({ kind: 'qk', ...head(c, d, H / G) }),
            wv: () => ({ kind: 'ov', ...head(c, dv, H / G) }), wo: () => ({ kind: 'ov', ...head(r, dv) }), w1: () => ({ kind: 'fires', ...neuron(c) }), wg: () => ({ kind: 'fires', ...neuron(c) }), w2: () => ({ kind: 'promotes', ...neuron(c) }) }[m.part];
        return made ? { layer: Math.max(0, m.layer), ...made() } : null;
    }

    return { KINDS, of, second, alphabet, front, split, facts, factsTable, matrix, product, some, panel, ofWeight, strongest, word };
})();
