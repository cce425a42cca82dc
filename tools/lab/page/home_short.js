'use strict';
// Short convolutions (LFM2) in the picture. In place of attention a token reads its own row and a few before it: q, k and v of such a
// layer are C, B and x, and z = C · (w_1 (B x)_{i-2} + w_2 (B x)_{i-1} + w_3 (B x)_i), number by number, with three taps w.
const HomeShort = (() => {
    const TITLE = { q: 'C, a gate for later', k: 'B, a gate', v: 'x, what may be kept', z: 'What is read' };
    const NAMES = { q: 'C', k: 'B', v: 'x', z: 'read' }, SYMBOL = { wq: 'W_C', wk: 'W_B', wv: 'W_x', wc: 'taps' };
    const SAY = { q: 'One of the numbers that what is read is multiplied by at the end.', k: 'One of the numbers that decide what of x is kept.', v: 'One of the numbers that may be kept for the tokens after it.' };

    const has = (layer) => layer >= 0 && layer < Engine.info.layers && HomeData.has(layer, 'attn.hook_z') && !HomeData.has(layer, 'attn.hook_pattern');
    const any = () => Array.from({ length: Engine.info.layers }, (_, l) => l).some(has);
    const taps = (layer) => HomeData.tensor('wc', layer).cols;

    // What token r keeps: B times x.
    function kept(layer) {
        const [k, v] = ['k', 'v'].map((part) => HomeData.hook(layer, `attn.hook_${part}`)), n = k.data.length / k.dims[0];
        return (r, c) => Exact.round(k.data[r * n + c] * v.data[r * n + c]);
    }

    // The weight of number c of token j as token i reads it, which has i - j tokens in between.
    const weight = (layer) => {
        const t = HomeData.tensor('wc', layer), all = HomeData.rows(t);
        return (i, j, c) => all[c * t.cols + t.cols - 1 - (i - j)];
    };

    // How much token i takes of token j: the length of what it adds to z. 0 before the first tap.
    function taken(layer) {
        const n = taps(layer), w = weight(layer), of = kept(layer), z = HomeData.hook(layer, 'attn.hook_q'), D = z.data.length / z.dims[0];
        return (i, j) => (i - j < n ? Numbers.length(Float32Array.from({ length: D }, (_, c) => z.data[i * D + c] * w(i, j, c) * of(j, c))) : 0);
    }

    function square(p, layer, x, y, wide = 1) {
        const { s } = p;
        return Engine.live ? p.put({ part: 'tp', layer, kind: 'x', rows: s.T, cols: s.T, x, y, cw: s.rh * wide, rh: s.rh, tri: true, get: taken(layer) }) : null;
    }

    // In a rib: what is kept under B, the taps above what is read, and how much is taken of which token at the right.
    function place(p, layer, cols, x, y) {
        const { s } = p, rh = 1.5 * s.u;
        p.put({ part: 'bx', layer, kind: 'x', rows: s.T, cols: s.D, x: cols.k, y, rh: s.rh, get: kept(layer) });
        p.weights('wc', layer, cols.v, y - taps(layer) * rh - 1.5 * s.u, { rh });
        square(p, layer, x, y);
    }

    // ---- how a number arises ----

    function product(e, { take, row }) {
        for (const [part, name] of [['k', 'B'], ['v', '× x']]) take(e, name, row(e.layer, `attn.hook_${part}`, e.r)[e.c], part);
        e.sum = e.value;
        e.sumName = 'kept';
        e.say = 'What this token keeps for those after it: x, as much as B lets through.';
    }

    function read(e, { region, row, idOf, word }) {
        const { layer, r, c } = e, n = Math.min(r + 1, taps(layer)), first = r + 1 - n, of = kept(layer), C = row(layer, 'attn.hook_q', r)[c];
        region(e, idOf(layer, 'bx'), first, c, r + 1, c + 1);
        region(e, idOf(layer, 'q'), r, c, r + 1, c + 1);
        e.say = `What ${word(r)} reads of ${n === 1 ? 'itself' : `the last ${n} tokens, itself among them`}: each kept number times its tap, added up, as much as C lets through.`;
        e.names = ['tap', 'kept'];
        if (!Engine.live) return;
        region(e, idOf(layer, 'wc'), taps(layer) - n, c, taps(layer), c + 1);
        const w = weight(layer);
        e.terms = Array.from({ length: n }, (_, j) => ({ name: HomeText.label(App.state.ids[first + j]), a: w(r, first + j, c), b: of(first + j, c), p: Exact.round(w(r, first + j, c) * of(first + j, c)), from: [idOf(layer, 'bx'), first + j, c] }));
        const sum = e.terms.reduce((all, t) => Exact.round(all + t.p), 0);
        e.rows.push(['added up', sum], ['× C', C, [idOf(layer, 'q'), r, c]]);
        e.sum = Exact.round(C * sum);
        e.sumName = 'read';
        e.order = 'The engine adds the oldest first, and rounds each product and each sum.';
    }

    function share(e, { region, idOf, word }) {
        region(e, idOf(e.layer, 'bx'), e.c);
        region(e, idOf(e.layer, 'q'), e.r);
        Object.assign(e, { sum: e.value, sumName: 'length', title: 'Taken from' });
        e.say = e.r - e.c < taps(e.layer) ? `How much ${word(e.r)} takes of ${word(e.c)}: the length of what it reads there, kept numbers times tap times C.` : `${word(e.c)} is too far back: only the last ${taps(e.layer)} rows are read here.`;
    }

    const HOW = { bx: product, z: read, tp: share };

    return { has, any, taps, kept, square, place, HOW, TITLE, NAMES, SYMBOL, SAY };
})();
