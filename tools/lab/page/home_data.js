'use strict';
// The numbers of the picture: each part of the model as rows that can be read, activations of the run
// that is shown and weights as the file has them. What was read of the weights is kept.
const HomeData = (() => {
    const weights = new Map(); // by name
    Engine.forget.push(() => weights.clear());
    const shapes = new Map(); // of the heads of layers
    let lane = 0; // whose values are read

    // What a map has for a key, made when it is first asked for.
    function kept(map, key, make) {
        if (!map.has(key)) map.set(key, make());
        return map.get(key);
    }

    // Where the file has the matrix of a part of a layer.
    const TENSORS = { wq: 'attn_q', wk: 'attn_k', wv: 'attn_v', wo: 'attn_output', wl: 'attn_kv_a_mqa', wg: 'ffn_gate', w1: 'ffn_up', w2: 'ffn_down', wr: 'ffn_gate_inp', wc: 'shortconv.conv', eg: 'ffn_gate_exps', eu: 'ffn_up_exps', ed: 'ffn_down_exps', sharedGate: 'ffn_gate_inp_shexp', normAfter: 'post_ffw_norm' };
    const SHARED = { wg: 'ffn_gate_shexp', w1: 'ffn_up_shexp', w2: 'ffn_down_shexp' }, CONV = ['wk', 'wq', 'wv']; // of the expert that every token uses; B, C and x of a short convolution, in the file's order

    const named = (layer, name) => `blk.${layer}.${name}.weight`;

    // {name, first, n, cols, type} of a part's matrix, rows as stored; null: the model lacks it.
    function tensor(part, layer) {
        const i = Engine.info, of = (name, first = 0) => {
            const t = Engine.tensors[name];
            return t && { name, first, type: t[0], cols: t[1], n: t[2] };
        };
        if (part === 'emb') return of('token_embd.weight');
        if (part === 'pos') return of('position_embd.weight');
        if (part === 'wu') return of('output.weight') || of('token_embd.weight');
        const conv = of(`blk.${layer}.shortconv.${part === 'wo' ? 'out_proj' : 'in_proj'}.weight`);
        if (conv && CONV.includes(part)) return { ...conv, first: CONV.indexOf(part) * i.d_model, n: i.d_model };
        if (conv && part === 'wo') return conv;
        const own = of(`blk.${layer}.${TENSORS[part]}.weight`) || (SHARED[part] && of(`blk.${layer}.${SHARED[part]}.weight`)) || (part === 'wq' && of(`blk.${layer}.attn_q_b.weight`)), all = of(`blk.${layer}.attn_qkv.weight`), up = 'wg w1'.includes(part) && of(`blk.${layer}.ffn_up.weight`);
        if (up && up.n === 2 * i.d_mlp) return { ...up, first: part === 'wg' ? 0 : i.d_mlp, n: i.d_mlp }; // both in one
        if (own || !all || !'wq wk wv'.includes(part)) return own;
        const { H, G, d, dv } = heads(layer), first = { wq: 0, wk: H * d, wv: (H + G) * d }[part];
        return { ...all, first, n: { wq: H * d, wk: G * d, wv: G * dv }[part] };
    }

    // Probabilities of what comes after a token, at the temperature that is set.
    const chances = (pos) => Numbers.softmax(Engine.choices(pos), App.state.temperature);

    // Rows of the file as one array, by their numbers or all.
    const rows = (t, ids) => kept(weights, `${t.name} ${t.first} ${ids || ''}`, () => {
        if (!ids) return Engine.weights(t.name, t.first, t.n);
        const out = new Float32Array(ids.length * t.cols);
        ids.forEach((id, i) => out.set(Engine.weights(t.name, t.first + id, 1), i * t.cols));
        return out;
    });

    // Files of some architectures keep the rows of a head of W_Q and W_K in another order than the
    // values are shown in: (mgpt.h, mgpt_value). The order that gives the engine's first row is taken.
    // Some turn the first n numbers of a head only.
    const adjacent = (n) => (i) => (i >= n ? i : i < n / 2 ? 2 * i : 2 * (i - n / 2) + 1);
    const ORDERS = (d) => [(i) => i, adjacent(d), (i) => (i + d / 2) % d, ...Array.from({ length: Math.max(0, Math.ceil(d / 2) - 2) }, (_, k) => adjacent(2 * k + 4))];

    const orderOf = (part, layer) => kept(weights, `order ${layer}${part}`, () => {
        const { d } = heads(layer), t = tensor(part, layer), w = rows(t), h = layerRow(layer, 'ln1.hook_normalized', 0), q = layerRow(layer, `attn.hook_${part[1]}`, 0), add = vector(t.name.replace('.weight', '.bias'));
        const dots = Array.from({ length: d }, (_, i) => Numbers.dot(h, w.subarray(i * t.cols, (i + 1) * t.cols)) + (add ? add[t.first + i] : 0));
        const off = (order) => dots.reduce((sum, _, i) => sum + Math.abs(q[i] - dots[order(i)]), 0);
        return ORDERS(Engine.info.positions === 'rope' ? d : 0).reduce((a, b) => (off(b) < off(a) * 0.5 ? b : a));
    });

    // q . k times the scale, added in the order in which the engine keeps the numbers of a head: that of
    // the file. `want` tells which one it is.
    function score(q, k, want) {
        const by = Engine.info.attn_scale, ordered = (x, order) => {
            const out = new Float32Array(x.length);
            x.forEach((v, i) => { out[order(i)] = v; });
            return out;
        };
        for (const order of ORDERS(q.length)) {
            const sum = Exact.score(ordered(q, order), ordered(k, order), by);
            if (Exact.same(sum, want)) return sum;
        }
        return Exact.score(q, k, by);
    }

    // Row r of the stored matrix that gives output r.
    function storedRow(part, layer, r) {
        if (!/^w[qk]$/.test(part) || HomeLatent.has(layer)) return r;
        const { d } = heads(layer);
        return Math.floor(r / d) * d + orderOf(part, layer)(r % d);
    }

    // The bias added to output r, or null.
    function bias(part, layer, r) {
        const t = tensor(part, layer), name = part === 'wu' ? 'output.bias' : t && t.name.replace('.weight', '.bias');
        return t && Engine.tensors[name] ? vector(name)[t.first + storedRow(part, layer, r)] : null;
    }

    const vector = (name) => (Engine.tensors[name] ? kept(weights, name, () => Engine.weights(name, 0, 1)) : null);

    // The only row of a part's tensor, or null.
    const rowOf = (part, layer) => vector(named(layer, TENSORS[part]));

    // What make() gives, computed once for a run and a lane.
    const made = new Map();
    let run = -1;
    function once(what, make) {
        if (run !== App.changed) made.clear();
        run = App.changed;
        return kept(made, [lane, ...what].join(), make);
    }

    // ---- activations ----

    // Whether a layer has a value of this name, and how many numbers of it a token has.
    const has = (layer, name) => Engine.hooks.some((x) => x.name === nameOf(layer, name));
    const width = (layer, name) => Engine.hooks.find((x) => x.name === nameOf(layer, name))?.dims.reduce((n, d) => n * (d || 1), 1) || 0;

    // The heads of a layer: H of queries with d numbers, G of keys, and of values, which have dv. Head h reads kv(h) of these.
    function heads(layer) {
        return kept(shapes, layer, () => {
            const [[, H, d], [, G, dv]] = ['q', 'v'].map((part) => Engine.hooks.find((x) => x.name === nameOf(layer, `attn.hook_${part}`)).dims);
            return { H, G, d, dv, kv: (h) => Math.floor((h * G) / H) };
        });
    }

    // The layer whose keys and values a layer reads, where it has none; -1: they are its own.
    const lender = (layer) => (layer < 0 || Engine.info.kv_from[layer] === layer ? -1 : Engine.info.kv_from[layer]);

    // The first layer that looks back with heads; -1: none.
    const attends = () => allHeads()[0]?.layer ?? -1;

    // {layer, head} of all heads that look back, in layers first to last.
    const allHeads = (first = 0, last = Engine.info.layers - 1) => Array.from({ length: Engine.info.layers }, (_, layer) => layer).filter((l) => l >= first && l <= last && has(l, 'attn.hook_pattern'))
        .flatMap((layer) => Array.from({ length: heads(layer).H }, (_, head) => ({ layer, head })));

    const nameOf = (layer, name) => (layer < 0 ? name : `blocks.${/attn.hook_(rot_k|[kv])$/.test(name) ? Engine.info.kv_from[layer] : layer}.${name}`);
    const hook = (layer, name) => App.tensor(nameOf(layer, name), lane);

    // What the head reads: ModernBERT's has a matrix, an activation and a norm of its own.
    const headInput = () => (hook(-1, 'mlm_head.ln.hook_normalized') ? 'mlm_head.ln.hook_normalized' : 'ln_final.hook_normalized');

    // Queries or keys of a layer as scores read them: turned, where they are turned.
    const compared = (part, layer) => hook(layer, `attn.hook_rot_${part}`) || hook(layer, `attn.hook_${part}`);

    // What fn reads is of the run in lane n.
    function inLane(n, fn) {
        lane = n;
        try {
            return fn();
        } finally {
            lane = 0;
        }
    }

    // All of a position, heads in order.
    function flatRow(t, pos) {
        const n = t.data.length / t.dims[0];
        return t.data.subarray(pos * n, (pos + 1) * n);
    }

    const layerRow = (layer, name, pos) => flatRow(hook(layer, name), pos);

    // What the first layer begins with.
    function streamStart(pos) {
        const normed = hook(-1, 'ln_embed.hook_normalized'), place = hook(-1, 'hook_pos_embed');
        if (normed) return flatRow(normed, pos);
        const token = layerRow(-1, 'hook_embed', pos);
        return place ? token.map((v, i) => v + flatRow(place, pos)[i]) : token;
    }

    return { kept, named, nameOf, chances, tensor, rows, score, storedRow, bias, vector, rowOf, hook, headInput, compared, has, heads, lender, width, attends, allHeads, flatRow, layerRow, streamStart, inLane, once, get lane() { return lane; } };
})();
