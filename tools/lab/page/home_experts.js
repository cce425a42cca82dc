'use strict';
// Mixtures of experts in the picture: the router's scores, the weights of the experts that it chose, and what each of these would write
// for the chosen token: y_e = W_down (act(W_gate h) · W_up h). What the layer adds is the sum of w_e y_e (src/run/experts.c).
const HomeExperts = (() => {
    const SCORES = 'mlp.hook_router_scores', WEIGHTS = 'mlp.hook_expert_weights', WIDE = 34, MOST = 4, NEAR = 0.05; // cells of a small model for all columns, for one; how far sums of few bits may be
    const GATES = { 'gpt-oss': { limit: 7, more: 1 } }; // of architectures whose gates are limited

    const has = (layer) => layer >= 0 && layer < Engine.info.layers && HomeData.has(layer, SCORES);
    const any = () => Engine.hooks.some((x) => x.name.endsWith(SCORES));
    const count = (layer) => HomeData.width(layer, SCORES);
    const weights = (layer, pos) => HomeData.layerRow(layer, WEIGHTS, pos);
    const chosen = (layer, pos) => Array.from(weights(layer, pos), (w, i) => (w === 0 ? -1 : i)).filter((i) => i >= 0);
    // The cell of the expert that counts most, in the first layer that has some.
    const first = (pos) => {
        const l = Engine.hooks.find((x) => x.name.endsWith(SCORES)).layer;
        return [`${l}.ew`, pos, Numbers.best(weights(l, pos))];
    };
    const input = (layer, pos) => HomeData.layerRow(layer, HomeData.has(layer, 'ln2.hook_normalized') ? 'ln2.hook_normalized' : 'ln1.hook_normalized', pos);
    const sigmoid = (x) => Exact.softmax([x, 0]).a[0];

    // ---- one expert ----

    // A matrix of expert i: {at(r): row r, bias(r), n, type}
    function matrix(part, layer, i) {
        const t = HomeData.tensor(part, layer), all = HomeData.rows({ ...t, first: i * t.n }), name = t.name.replace('.weight', '.bias');
        const biases = Engine.tensors[name] ? HomeData.rows({ name, first: i, n: 1 }) : null;
        return { n: t.n, type: t.type, at: (r) => all.subarray(r * t.cols, (r + 1) * t.cols), bias: biases, of(x, r) {
            const sum = Exact.matmul(x, this.at(r), t.n);
            return biases ? Exact.round(sum + biases[r]) : sum;
        } };
    }

    // {f: its neurons, y: what it writes} for a token.
    function answer(layer, i, pos) {
        return HomeData.once(['expert', layer, i, pos], () => {
            const [gate, up, down] = ['eg', 'eu', 'ed'].map((part) => matrix(part, layer, i)), h = input(layer, pos), act = Exact.ACTS[Engine.info.activation], { limit = Infinity, more = 0 } = GATES[Engine.info.arch] || {};
            const f = Float32Array.from({ length: gate.n }, (_, r) => Exact.round(act(Math.min(gate.of(h, r), limit)) * Exact.round(Math.max(-limit, Math.min(limit, up.of(h, r))) + more)));
            return { f, y: Float32Array.from({ length: down.n }, (_, r) => down.of(f, r)) };
        });
    }

    // The expert that every token uses, where the model has one: what it counts, and what it writes.
    function shared(layer, pos) {
        if (!HomeData.has(layer, 'mlp.hook_post')) return [];
        const t = HomeData.tensor('w2', layer), all = HomeData.rows(t), f = HomeData.layerRow(layer, 'mlp.hook_post', pos), gate = HomeData.rowOf('sharedGate', layer);
        return [{ name: 'shared', i: -1, a: gate ? sigmoid(Exact.matmul(input(layer, pos), gate, 1)) : 1, y: Float32Array.from({ length: t.n }, (_, r) => Exact.matmul(f, all.subarray(r * t.cols, (r + 1) * t.cols), t.n)) }];
    }

    // What a layer adds for a token: {parts: who writes, sums: of their numbers, steps: [name, number(c)] after it, row: what is added}.
    function whole(layer, pos) {
        return HomeData.once(['experts', layer, pos], () => {
            const w = weights(layer, pos), parts = [...shared(layer, pos), ...chosen(layer, pos).map((i) => ({ name: `expert ${i}`, i, a: w[i], y: answer(layer, i, pos).y }))], steps = [];
            const sums = parts[0].y.map((_, c) => parts.reduce((sum, p) => (p.i < 0 ? Exact.round(p.a * p.y[c]) : Exact.fma(p.a, p.y[c], sum)), 0)), gain = HomeData.rowOf('normAfter', layer), by = Engine.info.residual_scale;
            let row = sums;
            if (gain) {
                const { inverse } = Exact.norm(sums, Engine.info.norm_eps, false);
                steps.push(['× 1 / root mean square of all sums', () => inverse], ['× gain', (c) => gain[c]]);
                row = sums.map((v, c) => Exact.round(v * inverse) * gain[c]);
            }
            if (by !== 1) {
                steps.push(['× a number of the model', () => by]);
                row = row.map((v) => v * Exact.round(by));
            }
            return { parts, sums, steps, row };
        });
    }

    // Whether what an expert writes can be computed here: what all of them write is what the layer adds, or near it where the file keeps few bits.
    function known(layer, pos) {
        if (!Engine.live || !Exact.ACTS[Engine.info.activation]) return false;
        return HomeData.once(['known', layer, pos], () => {
            const { row } = whole(layer, pos), real = HomeData.layerRow(layer, 'hook_mlp_out', pos), near = /^(F32|F16|BF16)$/.test(HomeData.tensor('ed', layer).type) ? 1e-4 : NEAR;
            return Numbers.length(row.map((v, c) => v - real[c])) <= near * Numbers.length(real);
        });
    }

    // ---- the plan ----

    const shares = (p, l, x, y, cw = p.s.u) => p.values('ew', l, WEIGHTS, x, y, { kind: 'a', cw });

    // The router and its experts from x on: scores, weights under them, and as columns under these what each expert writes. Gives the right end.
    function place(p, l, x, wy, M1, M2) {
        const { s } = p, X = count(l), cw = Math.max(1, Math.min(MOST * s.u, (WIDE * s.u) / X)), lane = HomeData.lane, pos = lane ? HomeChange.former(App.state.query) : App.state.query, w = pos < 0 ? [] : weights(l, pos);
        p.weights('wr', l, x, wy, { cw });
        p.values('rs', l, SCORES, x, M1, { cw });
        shares(p, l, x, M2, cw);
        if (pos >= 0 && known(l, pos)) p.put({ part: 'ey', layer: l, kind: 'y', rows: s.D, cols: X, x, y: M2 + s.TH + 4.4 * s.u, cw, of: ` ${pos}`, get: (r, c) => (w[c] === 0 ? NaN : HomeData.inLane(lane, () => answer(l, c, pos).y[r])) });
        return x + X * cw;
    }

    // ---- how a number arises ----

    // The rule that gives the engine's weights: [name, number] for each step, of expert c. Some models divide by the sum of those chosen, some scale.
    function ruleOf(scores, w, c) {
        const on = Array.from(w, (x, i) => (x === 0 ? -1 : i)).filter((i) => i >= 0);
        for (const [name, p] of [[`softmax over all ${scores.length}`, Exact.softmax(scores).a], ['sigmoid', Array.from(scores, sigmoid)]])
            for (const more of [null, 0, Math.fround(1e-6)]) {
                const sum = more === null ? 1 : Exact.round(on.reduce((all, i) => Exact.round(all + p[i]), 0) + more), parts = on.map((i) => (more === null ? p[i] : Exact.round(p[i] / sum)));
                const by = Exact.round(Number((w[on[0]] / parts[0]).toPrecision(5)));
                if (on.every((i, k) => Exact.same(Exact.round(parts[k] * by), w[i])))
                    return { p, steps: [[name, p[c]], ...(more === null ? [] : [[`÷ sum of the ${on.length} chosen`, sum]]), ...(by === 1 ? [] : [['× a number of the model', by]])] };
            }
        return null;
    }

    function weight(e, { region, idOf, row, word }) {
        const scores = row(e.layer, SCORES, e.r), w = weights(e.layer, e.r), rule = ruleOf(scores, w, e.c), on = e.value !== 0, n = chosen(e.layer, e.r).length;
        region(e, idOf(e.layer, 'rs'), e.r);
        e.rows.push(['score', scores[e.c], [idOf(e.layer, 'rs'), e.r, e.c]], ...(rule ? rule.steps : []));
        e.shares = Array.from(scores, (score, i) => ({ name: `expert ${i}`, score, e: rule ? rule.p[i] : NaN, share: w[i], on: i === e.c, from: [idOf(e.layer, 'rs'), e.r, i] }));
        e.heads = ['expert', 'score', '', rule ? rule.steps[0][0].replace(/ .*/, '') : '', '', 'weight'];
        e.sum = rule || !on ? e.value : null;
        e.sumName = 'weight';
        e.say = on ? `For ${word(e.r)} the router chose ${n} of ${w.length} experts; expert ${e.c} is one of them. What it writes is added with this weight.`
            : `For ${word(e.r)} the router chose ${n} other experts of ${w.length}: expert ${e.c} is not asked, and not computed.`;
    }

    function wrote(e, { idOf, region }) {
        const { f } = answer(e.layer, e.c, App.state.query), down = matrix('ed', e.layer, e.c), w = down.at(e.r);
        region(e, idOf(e.layer, 'h2'), App.state.query);
        e.terms = Array.from(f, (a, i) => ({ name: i, a, b: w[i], p: a * w[i], from: null }));
        if (down.bias) e.rows.push(['bias', down.bias[e.r]]);
        e.sum = down.of(f, e.r);
        e.names = ['neuron', 'W_d'];
        e.say = `What expert ${e.c} writes into number ${e.r} of the stream: its own ${f.length} neurons, each times what it writes there.`;
        HomeCell.fewBits(e, down.type);
    }

    // What the layer adds: the sum over the chosen experts.
    function added(e, { region, idOf, unknown }) {
        const on = chosen(e.layer, e.r), here = e.r === App.state.query;
        e.say = `${on.length} of ${count(e.layer)} experts were asked; each number that they write counts as much as the router says.`;
        region(e, idOf(e.layer, 'ew'), e.r);
        if (!known(e.layer, e.r)) return unknown(e, Engine.live ? 'What the experts write is not known here: their activation has a limit that the page does not know.' : undefined);
        if (here) region(e, idOf(e.layer, 'ey'), e.c);
        const { parts, sums, steps, row } = whole(e.layer, e.r);
        e.terms = parts.map(({ name, i, a, y }) => ({ name, a, b: y[e.c], p: a * y[e.c], from: i < 0 ? null : here ? [idOf(e.layer, 'ey'), e.c, i] : [idOf(e.layer, 'ew'), e.r, i] }));
        if (steps.length) e.rows.push(['sum of the products', sums[e.c]], ...steps.map(([name, at]) => [name, at(e.c)]));
        e.sum = row[e.c];
        e.names = ['weight', 'writes'];
        e.order = 'The engine adds expert after expert, with one rounding for each.';
        HomeCell.fewBits(e, HomeData.tensor('ed', e.layer).type);
    }

    const HOW = { ew: weight, ey: wrote, mo: added };

    return { has, any, first, count, weights, chosen, shares, place, HOW };
})();
