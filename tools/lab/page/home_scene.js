'use strict';
// The picture's plan: which matrices the model consists of and where each is. Lengths are in cells of
// a weight; u is the space that grows with the model, so that labels find room at every size.
//
// The residual stream runs down at the left. A layer is a rib: it leaves to the right on the upper lane
// and comes back on the lower one. Deep models have a line for each layer, very deep ones a strip; the
// layer that is entered is a rib there, too.
const HomeScene = (() => {
    const RIBS = 2, LINES = 12; // most layers drawn as ribs, as lines
    const WHOLE = 256, CANDIDATES = 32; // largest vocabulary drawn whole; how many are drawn of a larger one

    const form = (layer, n, open) => (n <= RIBS || layer === open || open === 'all' ? 'rib' : n <= LINES ? 'line' : 'strip');

    // ---- sizes ----

    // Tokens whose logits are drawn, and those whose rows of the table are.
    function vocabulary(state) {
        const named = /^(?:lg|wu)\.\d+\.(\d+)$/.exec(state.cell);
        const all = Array.from({ length: Engine.info.choices }, (_, i) => i);
        if (all.length <= WHOLE) return { ids: all, used: all, whole: all.length === Engine.info.vocab };
        const likely = Numbers.top(Engine.choices(state.query), CANDIDATES), used = [...new Set(state.ids.slice(0, state.step))];
        return { ids: [...new Set([...(named ? [Number(named[1])] : []), ...likely, ...used])].slice(0, 2 * CANDIDATES), used: used.sort((a, b) => a - b), whole: false };
    }

    // How much wider than high the cells of strips are: many layers would be a thin column otherwise.
    const stretch = ({ D, T, F, H, n, u, rh }, narrow) => (n <= LINES ? 1
        : Math.max(1, Math.min(3, ((narrow ? 0.85 : 1.4) * (n * (T * rh + 5 * u) + D + 30 * u) - 2 * D - (26 + 2 * H) * u) / (H * T * rh + F))));

    function sizes(state, open) {
        const i = Engine.info, n = i.layers, D = i.d_model, T = state.step, each = Array.from({ length: n }, (_, l) => l), most = (of) => Math.max(0, ...each.map(HomeData.heads).map(of));
        const F = Math.max(0, ...each.map((l) => HomeData.width(l, 'mlp.hook_post'))), rib = 3 * D + most(({ H, G, d, dv }) => H * d + G * (d + dv)) + 40, forms = new Set(each.map((l) => form(l, n, open)));
        const raw = forms.has('line') ? rib + (i.gated ? 4 : 3) * F : forms.has('strip') ? Math.max(rib, D + F) : rib;
        const u = Math.max(1, raw / 136), rh = Math.max(1, u * Math.min(2, 18 / T));
        return { D, T, F, H: i.heads, u, rh, TH: T * rh, gap: 0.6 * u, n, ...vocabulary(state) };
    }

    // ---- matrices ----

    // kind: w weights, x values of this text, a shares, y values of the chosen token alone. group: columns (rows: rgroup)
    // between two gaps.
    function measure(m, gap) {
        m.w = m.cols * m.cw + (m.group ? (m.cols / m.group - 1) * gap : 0);
        m.h = m.rows * m.rh + (m.rgroup ? (m.rows / m.rgroup - 1) * gap : 0);
        m.X = (c) => m.x + c * m.cw + (m.group ? Math.floor(c / m.group) * gap : 0);
        m.Y = (r) => m.y + r * m.rh + (m.rgroup ? Math.floor(r / m.rgroup) * gap : 0);
        return m;
    }

    function Plan(state, open, narrow) {
        const s = sizes(state, open), mats = new Map(), ribs = [];

        const put = (m) => {
            m.id = m.layer < 0 ? m.part : `${m.layer}.${m.part}`;
            mats.set(m.id, measure({ cw: 1, rh: 1, ...m }, s.gap));
            return mats.get(m.id);
        };

        // Values: a row for each token.
        function values(part, layer, hook, x, y, more = {}) {
            const t = HomeData.hook(layer, hook);
            if (!t) return null;
            const cols = t.data.length / t.dims[0];
            return put({ part, layer, kind: 'x', hook: HomeData.nameOf(layer, hook), rows: s.T, cols, x, y, rh: s.rh, get: (r, c) => t.data[r * cols + c], ...more });
        }

        // One head's scores or shares: a square.
        function square(part, layer, head, x, y, wide = 1) {
            const a = part === 'a', hook = a ? 'attn.hook_pattern' : 'attn.hook_attn_scores', t = HomeData.hook(layer, hook), n = t.dims[2];
            return put({ part: part + head, layer, head, hook: HomeData.nameOf(layer, hook), kind: a ? 'a' : 'x', rows: s.T, cols: s.T, x, y, cw: s.rh * wide, rh: s.rh, tri: true,
                get: (r, c) => t.data[(head * n + r) * n + c] });
        }

        // Weights. Across: a column for each output. Otherwise as stored, a row for each output.
        function weights(part, layer, x, y, more = {}) {
            const t = HomeData.tensor(part, layer), across = !('emb pos w2'.includes(part)), n = more.ids ? more.ids.length : t ? t.n : 0;
            if (!t) return null;
            let data = null, starts = null; // read when they are first drawn
            const at = (r, c) => {
                data = data || HomeData.rows(t, more.ids);
                starts = starts || Float64Array.from({ length: n }, (_, i) => t.cols * (more.ids ? i : HomeData.storedRow(part, layer, i)));
                return data[starts[r] + c];
            };
            return put({ part, layer, kind: 'w', rows: across ? t.cols : n, cols: across ? n : t.cols, x, y, tensor: t,
                get: across ? (r, c) => at(c, r) : at, ...more });
        }
        return { s, mats, ribs, narrow, put, values, square, weights };
    }

    // ---- a layer ----

    // The attention of a rib, or its short convolution. Gives where its lanes are and where its columns begin.
    function attention(p, l, top, at) {
        const { s } = p, u = s.u, L1 = top + s.D + 4.4 * u, L2 = L1 + s.TH + 13.8 * u, looks = HomeData.has(l, 'attn.hook_pattern'), latent = Engine.live && HomeLatent.has(l), { H, d, dv } = HomeData.heads(l), heads = (part) => (looks ? { group: 'vz'.includes(part) ? dv : d } : {});
        p.values('x', l, 'hook_resid_pre', at.s, L1);
        p.values('h', l, 'ln1.hook_normalized', at.hx, L1);
        let x = at.q;
        const cols = {};
        for (const k of ['q', 'k', 'v']) {
            cols[k] = x;
            p.weights(`w${k}`, l, x, top, heads(k));
            const m = k === 'k' && latent ? HomeLatent.place(p, l, x, top, L1) : p.values(k, l, `attn.hook_${k}`, x, L1, heads(k));
            x += Math.max(m.w, HomeData.width(l, `attn.hook_${k}`)) + (k === 'v' ? 5.6 : 3.5) * u;
            if (k !== 'v') p.values(`r${k}`, l, `attn.hook_rot_${k}`, cols[k], L2, heads(k));
        }
        const z = p.values('z', l, 'attn.hook_z', cols.v, L2, heads('z'));
        x = Math.max(x, z.x + z.w + 5.6 * u);
        const pitch = Math.max(s.TH + 1.8 * u, 11.8 * u), n = looks ? H : 1;
        for (let h = 0; h < H && looks; h++) {
            p.square('s', l, h, x + h * pitch, L1);
            p.square('a', l, h, x + h * pitch, L2);
        }
        if (!looks) HomeShort.place(p, l, cols, x, L2);
        p.values('ao', l, 'hook_attn_out', at.hx, L2);
        const wo = p.weights('wo', l, at.hx, L2 + s.TH + u, looks ? { rgroup: dv } : {});
        return { L1, L2, cols, sx: x, right: x + n * pitch, bottom: wo.y + wo.h };
    }

    function mlp(p, l, a, at) {
        const { s } = p, u = s.u, M1 = Math.max(a.L2 + s.TH + 9.8 * u + s.D, a.bottom + 5 * u), M2 = M1 + s.TH + 4.4 * u;
        const wy = M1 - 4.4 * u - s.D, F = HomeData.width(l, 'mlp.hook_post'), gated = HomeData.has(l, 'mlp.hook_pre_linear'), x2 = at.q + F + 4 * u;
        p.values('mid', l, 'hook_resid_mid', at.s, M1);
        p.values('h2', l, 'ln2.hook_normalized', at.hx, M1);
        if (F) {
            p.weights(gated ? 'wg' : 'w1', l, at.q, wy);
            p.values('pre', l, 'mlp.hook_pre', at.q, M1);
            if (gated) {
                p.weights('w1', l, x2, wy);
                p.values('lin', l, 'mlp.hook_pre_linear', x2, M1);
            }
            p.values('post', l, 'mlp.hook_post', at.q, M2);
        }
        p.values('mo', l, 'hook_mlp_out', at.hx, M2);
        if (F) p.weights('w2', l, at.q, M2 + s.TH + 4.4 * u);
        let mx = gated ? x2 + F : at.q + F;
        if (HomeExperts.has(l)) mx = HomeExperts.place(p, l, F ? mx + 6 * u : at.q, wy, M1, M2);
        return { M1, M2, mx, bottom: M2 + s.TH + 4.4 * u + s.D };
    }

    function rib(p, l, y, at) {
        const a = attention(p, l, y + 5 * p.s.u, at), b = mlp(p, l, a, at);
        p.ribs.push({ ...a, ...b, layer: l, form: 'rib', y, top: a.L1, end: b.M2 + p.s.TH / 2 });
        return b.bottom + 6 * p.s.u;
    }

    // A layer in one line: the stream, attention and MLP side by side; a strip has no weights.
    function line(p, l, y, at, strip) {
        const { s } = p, u = s.u, wide = strip ? stretch(s, p.narrow) : 1, parts = strip ? [] : [['wq', 3], ['wk', 3], ['wv', 4]], looks = HomeData.has(l, 'attn.hook_pattern'), { H, d, dv } = HomeData.heads(l);
        let x = at.hx, low = s.TH;
        const go = (m, gap) => {
            if (!m) return;
            x += m.w + gap * u;
            low = Math.max(low, m.h);
        };
        p.values('x', l, 'hook_resid_pre', at.s, y);
        for (const [part, gap] of parts) go(p.weights(part, l, x, y, looks ? { group: part === 'wv' ? dv : d } : {}), gap);
        const sx = x;
        for (let h = 0; h < H && looks; h++) go(p.square('a', l, h, x, y, wide), 2);
        if (!looks) go(HomeShort.square(p, l, x, y, wide), 2);
        x += 2 * u;
        if (!strip) for (const [part, gap] of [['wo', 6], ['wg', 3], ['w1', 3], ['wr', 3]]) go(p.weights(part, l, x, y, part === 'wo' && looks ? { rgroup: dv } : {}), gap);
        go(p.values('post', l, 'mlp.hook_post', x, y, { cw: wide }), 3);
        if (HomeExperts.has(l)) go(HomeExperts.shares(p, l, x, y), 3);
        if (!strip) go(p.weights('w2', l, x, y), 0);
        p.ribs.push({ layer: l, form: strip ? 'strip' : 'line', y, top: y, L1: y, sx, right: x, bottom: y + low, end: y + low });
        return y + low + 5 * u;
    }

    // ---- the whole ----

    function tables(p, x, y, aside) {
        const { s } = p, u = s.u, fit = (n, most) => Math.max(1, Math.min(2 * u, (most * u) / n));
        const emb = p.weights('emb', -1, x, y, { rh: fit(s.used.length, 27), ...(s.whole ? {} : { ids: s.used }) });
        const places = HomeData.tensor('pos'), n = places ? Math.min(places.n, Math.max(s.T, 16)) : 0;
        const ids = n && n < places.n ? { ids: Array.from({ length: n }, (_, i) => i) } : {};
        const pos = p.weights('pos', -1, aside ? x + s.D + 8 * u : x, aside ? y : y + emb.h + 6 * u, { rh: fit(n, 16), ...ids });
        return { emb, pos, bottom: Math.max(emb.y + emb.h, pos ? pos.y + pos.h : 0) };
    }

    function head(p, at, last, y) {
        const { s } = p, u = s.u, cw = Math.min(1.5 * u, Math.max(1, (60 * u) / s.ids.length));
        const beside = last && last.form === 'rib' && last.mx < last.sx, lx = beside ? last.sx + 4 * u : at.q;
        const HY = (beside ? last.M2 + s.TH + 7.6 * u : y + 8 * u) + s.D + 4.4 * u, ids = s.whole ? {} : { ids: s.ids };
        if (s.n) p.values('x', s.n - 1, 'hook_resid_post', at.s, HY, { layer: -1 });
        else {
            const rows = Array.from({ length: s.T }, (_, r) => HomeData.streamStart(r));
            p.values('x', -1, 'hook_embed', at.s, HY, { get: (r, c) => rows[r][c] });
        }
        p.values('fin', -1, HomeData.headInput(), at.hx, HY);
        p.weights('wu', -1, lx, HY - 4.4 * u - s.D, { cw, ...ids });
        const t = HomeData.hook(-1, 'logits'), V = Engine.info.vocab;
        p.values('lg', -1, 'logits', lx, HY, { cw, cols: s.ids.length, ids: s.ids, get: (r, c) => t.data[r * V + s.ids[c]] });
        return { HY, lx };
    }

    // The smallest box that holds all of these.
    function around(boxes) {
        const x = Math.min(...boxes.map((b) => b.x)), y = Math.min(...boxes.map((b) => b.y));
        return { x, y, w: Math.max(...boxes.map((b) => b.x + b.w)) - x, h: Math.max(...boxes.map((b) => b.y + b.h)) - y };
    }

    function bounds(p, left, HY) {
        const { u, TH } = p.s, all = [...p.mats.values()], box = around([...all, { ...all[0], h: HY + TH + 16 * u - all[0].y }]);
        return { x: box.x - left * u, y: box.y - 6 * u, w: box.w + (5 + left) * u, h: box.h + 8 * u };
    }

    // narrow: tables above the stream. open: the layer that is entered, or -1.
    function build(state, narrow, open) {
        const p = Plan(state, open, narrow), { s } = p, u = s.u;
        const spine = narrow ? 4 * u : s.D + 18 * u, at = { s: spine, hx: spine + s.D + 6 * u, q: spine + 2 * s.D + 14 * u };
        const t = tables(p, narrow ? spine : 0, 0, narrow);
        let y = narrow ? Math.max(0, t.bottom + 8 * u - (form(0, s.n, open) === 'rib' ? s.D + 9.4 * u : 0), t.pos ? t.pos.y + t.pos.h : 0) : 0;
        for (let l = 0; l < s.n; l++) {
            const kind = form(l, s.n, open);
            y = kind === 'rib' ? rib(p, l, y, at) : line(p, l, y, at, kind === 'strip');
        }
        const first = p.ribs[0], { HY, lx } = head(p, at, p.ribs[p.ribs.length - 1], s.n ? y : Math.max(t.bottom, y));
        if (!narrow && first && first.form === 'rib') for (const m of [t.emb, t.pos]) if (m) m.y += 2 * u;
        const top = first ? first.L1 : HY;
        return { ...p, at, open, HY, lx, u, top, bottom: HY + s.TH, world: bounds(p, narrow ? (first && first.form !== 'rib' ? 16 : 8) : s.whole ? 10 : 24, HY), first };
    }

    // ---- finding ----

    // The cell under a point of the plan: [matrix, row, column].
    function pick(scene, x, y) {
        for (const m of scene.mats.values()) {
            if (x < m.x || y < m.y || x > m.x + m.w || y > m.y + m.h) continue;
            const r = index(m.Y, m.rh, m.rows, y), c = index(m.X, m.cw, m.cols, x);
            if (r >= 0 && c >= 0 && !empty(m, r, c)) return { m, r, c };
        }
        return null;
    }

    // Where no number is: the future, an expert that was not asked.
    const empty = (m, r, c) => (m.tri && c > r) || (m.kind === 'y' && Number.isNaN(m.get(r, c)));

    // Which of n cells at `at(i)`, each `size` long, holds v.
    function index(at, size, n, v) {
        let i = Math.min(n - 1, Math.floor((v - at(0)) / size));
        while (i > 0 && at(i) > v) i--;
        return v <= at(i) + size ? i : -1;
    }

    const region = (m, r0, c0, r1, c1) => ({ m, r0, c0, r1, c1, x: m.X(c0), y: m.Y(r0), w: m.X(c1 - 1) + m.cw - m.X(c0), h: m.Y(r1 - 1) + m.rh - m.Y(r0) });

    return { build, around, pick, empty, region, form, RIBS, LINES, WHOLE };
})();
