'use strict';
// How a number arises. explain(scene, m, r, c) gives what a panel shows of one cell: a sentence, the
// formula, the products and their sum as the engine adds them, the line of src/page/page.inc, and the
// cells that went into it.
const HomeCell = (() => {
    const CODE = { x: 'token_rows(p, p->x);', h: 'mat h = norm(p, p->h, &l->attn_norm, p->x);', q: 'qkv_matmul(p, l, h);', k: 'qkv_matmul(p, l, h);', v: 'qkv_matmul(p, l, h);',
        rq: 'qk_norm_rope(p, l);', rk: 'qk_norm_rope(p, l);', s: 'attend(p);', a: 'attend(p);', z: 'attend(p);', ao: 'matmul(p, p->a, &l->o, p->o);', mid: 'add(p, p->x, p->a);',
        h2: 'mat h = norm(p, p->h, &l->ffn_norm, p->x);', pre: 'mlp_up(p, l, h);', lin: 'mlp_up(p, l, h);', post: 'mlp_up(p, l, h);', mo: 'matmul(p, p->m, &l->down, p->f);',
        bx: 'kv_append(p);', tp: 'attend(p);', rs: 'add_experts(p, l, h);', ew: 'add_experts(p, l, h);', ey: 'add_experts(p, l, h);', end: 'add(p, p->x, p->m);', fin: 'mat h = norm(p, p->h, &p->model->final_norm, x);', lg: 'matmul(p, p->logits, &p->model->head, y);' };
    const TITLE = { x: 'Residual stream', h: 'Normalised copy', q: 'Query', k: 'Key', v: 'Value', rq: 'Query, turned', rk: 'Key, turned', z: 'Mixed value', ao: 'What attention adds',
        mid: 'Residual stream', h2: 'Normalised copy', pre: 'Neuron, before', lin: 'Linear part', post: 'Neuron, after', mo: 'What the MLP adds', bx: 'Kept for later', rs: 'Router’s score', ew: 'Weight of an expert', ey: 'What an expert writes', fin: 'Normalised copy', lg: 'Logit' };
    const FOUR = 'The engine adds in four chains: products 0, 4, 8 …; 1, 5, 9 …; and so on; then (c₀ + c₁) + (c₂ + c₃).';
    const ONE = 'The engine adds in one chain, first product first, with one rounding for each.';

    const word = (pos) => `“${HomeText.label(App.state.ids[pos])}”`;
    const idOf = (layer, part) => (layer < 0 ? part : `${layer}.${part}`);
    const row = (layer, hook, pos) => HomeData.layerRow(layer, hook, pos);
    const HOOK = { x: 'hook_resid_pre', h: 'ln1.hook_normalized', h2: 'ln2.hook_normalized', z: 'attn.hook_z', post: 'mlp.hook_post', fin: 'ln_final.hook_normalized' };

    // A cell of the plan as a factor: a region of it, if it is drawn.
    function region(e, id, r0, c0 = 0, r1 = r0 + 1, c1 = Infinity) {
        const m = e.scene.mats.get(id);
        if (m) e.factors.push(HomeScene.region(m, r0, c0, Math.min(r1, m.rows), Math.min(c1, m.cols)));
    }

    // A number of the same token and column that goes in as it is.
    function take(e, name, value, part, layer = e.layer) {
        region(e, idOf(layer, part), e.r, e.c, e.r + 1, e.c + 1);
        e.rows.push([name, value, [idOf(layer, part), e.r, e.c]]);
    }

    // ---- a product with a matrix ----

    // Output `out` of the weights `part` on the row x of the same token, which is the part `source` of the plan.
    function linear(e, part, source, x, out) {
        const t = HomeData.tensor(part, e.layer), id = idOf(e.layer, part);
        region(e, source, e.r);
        if (part === 'w2') region(e, id, e.c, 0, e.c + 1);
        else region(e, id, 0, e.c, Infinity, e.c + 1); // a column goes through all rows of its matrix
        if (!Engine.live) return unknown(e);
        const n = part === 'wu' ? Engine.info.vocab : t.n, at = (part === 'wu' ? out : HomeData.storedRow(part, e.layer, out)) * t.cols;
        const w = (part === 'wu' && e.m.ids ? HomeData.rows(t, [out]) : HomeData.rows(t).subarray(at, at + t.cols)).subarray(0, t.cols);
        e.terms = Array.from(x, (a, i) => ({ name: i, a, b: w[i], p: a * w[i], from: [source, e.r, i] }));
        e.sum = Exact.matmul(x, w, n);
        plus(e, 'bias', HomeData.bias(part, e.layer, out));
        e.order = n > Exact.NARROW ? ONE : FOUR;
        return fewBits(e, t.type);
    }

    function unknown(e, why = 'This page holds a recorded run, without the weights: the products are not known here.') {
        e.note = why;
    }

    // The sum times a number, or plus one; as it was, where the model has none.
    function then(e, name, v, sum) {
        if (v === null || v === undefined) return;
        e.rows.push([name, v]);
        e.sum = Exact.round(sum);
    }
    const times = (e, name, v) => then(e, name, v, e.sum * Exact.round(v)), plus = (e, name, v) => then(e, name, v, e.sum + v);

    // The number of column c of row x, scaled as the whole row is.
    function level(e, x, why = '') {
        const mean = Engine.info.norm === 'layernorm', n = Exact.norm(x, Engine.info.norm_eps, mean);
        if (mean) e.rows.push(['− mean of the row', n.mean]);
        e.rows.push([`× 1 / root mean square${why}`, n.inverse]);
        e.sum = Exact.round(Exact.round(x[e.c] - n.mean) * n.inverse);
    }

    function fewBits(e, type) {
        if (!/^(F32|F16|BF16)$/.test(type)) e.note = `The file keeps these weights in few bits (${type}): the engine multiplies blocks of integers, so this sum of floats is near its number.`;
    }

    // ---- parts ----

    const sourceOf = { q: ['wq', 'h'], k: ['wk', 'h'], v: ['wv', 'h'], ao: ['wo', 'z'], rs: ['wr', 'h2'], pre: ['w1', 'h2'], lin: ['w1', 'h2'], mo: ['w2', 'post'], lg: ['wu', 'fin'] };

    function product(e) {
        let [w, source] = sourceOf[e.part];
        if (e.part === 'pre' && HomeData.tensor('wg', e.layer)) w = 'wg';
        if (w === 'wv' && !HomeData.tensor('wv', e.layer)) w = 'wk'; // Gemma 4: values are the keys before their norm
        if (source === 'h2' && !HomeData.hook(e.layer, HOOK.h2)) source = 'h';
        if (source === 'fin' && !HomeData.hook(-1, HOOK.fin)) source = 'x';
        const x = source === 'x' ? streamEnd(e.r) : row(e.layer, source === 'fin' ? HomeData.headInput() : HOOK[source], e.r);
        linear(e, w, idOf(e.layer, source), x, e.m.ids ? e.m.ids[e.c] : e.c);
        e.names = [{ h: 'norm h', h2: 'norm h', z: 'mixed z', post: 'neuron', fin: 'norm h', x: 'stream x' }[source], HomeLabels.symbolOf(w, e.layer)];
        if (e.terms && !Exact.same(e.sum, e.value)) (e.part === 'v' && Engine.info.value_scale === 1 ? levelledHead : scaled)(e, x, w);
        if ('qkv'.includes(e.part) && Math.abs(e.sum) > Math.abs(e.value) && Math.abs(e.value) === Math.max(...row(e.layer, `attn.hook_${e.part}`, e.r).map(Math.abs))) {
            e.rows.push(['sum of the products', e.sum], ['the model’s limit', e.value]);
            e.sum = e.value;
        }
        if (e.part === 'v' && Engine.info.arch === 'nanochat' && !Exact.same(e.sum, e.value)) e.note = 'This model then adds values of the token itself, from a table.';
        if (e.part === 'lg' && Engine.info.logit_softcap) e.note = `The sum is then bent by a soft cap at ${Engine.info.logit_softcap}.`;
    }

    // Some models scale values, what a part adds, or the logits, by a number, or by a norm over all outputs of the product.
    function scaled(e, x) {
        const i = Engine.info, depth = i.arch === 'beam' && { ao: 2, mo: 3 }[e.part];
        const by = depth ? Math.fround(1 / Math.sqrt(2 * e.layer + depth)) : { v: i.value_scale, lg: i.logit_scale }[e.part] || i.residual_scale;
        const name = { ao: 'post_attention_norm', mo: 'post_ffw_norm' }[e.part], gain = name && HomeData.vector(`blk.${e.layer}.${name}.weight`);
        const scales = 'v ao mo lg'.includes(e.part) && by !== 1;
        if (!gain && !scales) return;
        e.rows.push(['sum of the products', e.sum]);
        if (gain) {
            const t = HomeData.tensor(e.part === 'ao' ? 'wo' : 'w2', e.layer), w = HomeData.rows(t);
            const all = Float32Array.from({ length: t.n }, (_, i) => Exact.matmul(x, w.subarray(i * t.cols, (i + 1) * t.cols), t.n)), n = Exact.norm(all, Engine.info.norm_eps, false);
            times(e, '× 1 / root mean square of all sums', n.inverse);
            times(e, '× gain', gain[e.c]);
        }
        if (scales) times(e, '× a number of the model', by);
    }

    // Gemma 4 scales the values of each head to one length.
    function levelledHead(e, x, part) {
        const t = HomeData.tensor(part, e.layer), w = HomeData.rows(t), { dv } = HomeData.heads(e.layer), first = Math.floor(e.c / dv) * dv;
        const { inverse } = Exact.norm(Float32Array.from({ length: dv }, (_, i) => Exact.matmul(x, w.subarray((first + i) * t.cols, (first + i + 1) * t.cols), t.n)), Engine.info.norm_eps, false);
        if (!Exact.same(Exact.round(e.sum * inverse), e.value)) return;
        e.rows.push(['sum of the products', e.sum], ['× 1 / root mean square of the head', inverse]);
        e.sum = e.value;
    }

    const streamEnd = (pos) => (Engine.info.layers ? row(Engine.info.layers - 1, 'hook_resid_post', pos) : HomeData.streamStart(pos));

    function score(e) {
        const { layer, r, c } = e, head = e.m.head, { d, kv: of } = HomeData.heads(layer), kv = of(head), turned = HomeData.hook(layer, 'attn.hook_rot_q') ? 'r' : '';
        const q = App.row(HomeData.compared('q', layer), r, head), k = App.row(HomeData.compared('k', layer), c, kv), id = idOf(layer, `${turned}k`);
        region(e, idOf(layer, `${turned}q`), r, head * d, r + 1, head * d + d);
        region(e, id, c, kv * d, c + 1, kv * d + d);
        e.terms = Array.from(q, (a, i) => ({ name: i, a, b: k[i], p: a * k[i], from: [id, c, kv * d + i] }));
        e.sum = HomeData.score(q, k, e.value);
        e.rows.push(['q · k', Exact.chained(q, k, 1)]);
        if (e.value === -Infinity) {
            Object.assign(e, { terms: null, sum: e.value, sumName: 'score', order: '' });
            e.note = `This layer’s queries see the keys of a window, and ${word(c)} is before it.`;
        } else if (Engine.info.positions === 'alibi') {
            e.rows.push(['q · k, scaled', e.sum], [`less for ${r - c} positions (ALiBi)`, e.value - e.sum]);
            e.sum = e.value;
        } else if (Math.abs(e.sum) > Math.abs(e.value)) e.note = 'This model then bends its scores by a soft cap.';
        const usual = Math.abs(Engine.info.attn_scale * Math.sqrt(d) - 1) < 1e-6;
        if (e.terms) Object.assign(e, { sumName: usual ? `÷ √${d}` : `× ${Numbers.exact(Engine.info.attn_scale)}`, order: ONE });
        e.names = ['query', 'key'];
        e.title = `Score, head ${head}`;
        e.say = `How well the query of ${word(r)} fits the key of ${word(c)}: products pair by pair, their sum, divided by √d.`;
    }

    function shareOf(e) {
        const { layer, r, c } = e, head = e.m.head, scores = App.line(HomeData.hook(layer, 'attn.hook_attn_scores'), head, r);
        const first = scores.findIndex((s) => s !== -Infinity), sink = HomeData.vector(`blk.${layer}.attn_sinks.weight`);
        const seen = [...scores.subarray(first), ...(sink ? [sink[head]] : [])], { terms, a } = Exact.softmax(seen);
        region(e, idOf(layer, `s${head}`), r, 0, r + 1, r + 1);
        e.shares = Array.from(a, (share, i) => (first + i > r ? { name: 'the sink', score: sink[head], e: terms[i], share } : { pos: first + i, score: scores[first + i], e: terms[i], share, on: first + i === c, from: [idOf(layer, `s${head}`), r, first + i] }));
        if (sink) e.note = 'This model has a sink in each head: a score of its own that takes a share and gives nothing.';
        e.sum = c < first ? 0 : a[c - first];
        e.sumName = 'share';
        e.title = `Attention, head ${head}`;
        e.order = 'e to the power of each score, less the largest; divided by their sum.';
        e.say = `The share of its attention that ${word(r)} gives to ${word(c)}. All shares of a row add up to 1${sink ? ', with that of the sink' : ''}.`;
    }

    function mix(e) {
        const { layer, r, c } = e, { dv, kv } = HomeData.heads(layer), head = Math.floor(c / dv), column = kv(head) * dv + (c % dv);
        const all = App.line(HomeData.hook(layer, 'attn.hook_pattern'), head, r), v = HomeData.hook(layer, 'attn.hook_v');
        const scores = App.line(HomeData.hook(layer, 'attn.hook_attn_scores'), head, r), first = scores.findIndex((s) => s !== -Infinity), a = all.subarray(first);
        const vs = Float32Array.from(a, (_, i) => HomeData.flatRow(v, first + i)[column]);
        region(e, idOf(layer, `a${head}`), r, 0, r + 1, r + 1);
        region(e, idOf(layer, 'v'), 0, column, r + 1, column + 1);
        e.terms = Array.from(a, (x, i) => ({ name: HomeText.label(App.state.ids[first + i]), a: x, b: vs[i], p: x * vs[i], from: [idOf(layer, 'v'), first + i, column] }));
        e.sum = Exact.chained(a, vs, 1);
        e.order = ONE;
        e.names = ['attention', 'value'];
        e.say = `Head ${head} mixes the values: each earlier token’s number, times the attention that it gets.`;
        gated(e, head, dv);
    }

    // Some models then multiply what a head mixed by a sigmoid or a softplus, one for the head or one for each of its values.
    function gated(e, head, dv) {
        const gates = HomeData.hook(e.layer, 'attn.hook_gate');
        if (!gates) return;
        const g = HomeData.flatRow(gates, e.r), gate = g[g.length * dv === row(e.layer, HOOK.z, e.r).length ? head : e.c];
        e.rows.push(['sum of the products', e.sum]);
        times(e, '× gate', gate);
        e.say += ' A gate, made of the same input as the query, lets a part of it through.';
    }

    // ---- what is not a product ----

    const NORMS = { h: ['attn_norm_2', 'attn_norm'], h2: ['post_attention_norm', 'attn_norm', 'ffn_norm', 'attn_output_norm'], fin: ['output_norm', 'token_embd_norm'] };

    // ModernBERT: the head has a matrix, an activation and a norm of its own.
    function headNormed(e) {
        region(e, 'x', e.r);
        Object.assign(e, { sum: e.value, sumName: 'after the norm', code: 'h = head_input(p, h);', eq: `h = norm(${HomeLabels.act()}(W · norm x))`,
            say: 'What the head reads: the normalised stream, through a matrix, an activation and a norm of the head’s own.' });
        unknown(e, 'This page does not compute that matrix and that activation.');
    }

    function normed(e) {
        if (e.part === 'fin' && e.m.hook !== HOOK.fin) return headNormed(e);
        const layer = e.layer, half = e.part === 'h2' && HomeData.hook(layer, 'hook_resid_mid'), id = idOf(layer, half ? 'mid' : 'x');
        const x = e.part === 'fin' ? streamEnd(e.r) : row(layer, half ? 'hook_resid_mid' : 'hook_resid_pre', e.r);
        region(e, id, e.r);
        e.rows.push(['stream', x[e.c], [id, e.r, e.c]]);
        level(e, x);
        const plain = e.sum, shown = e.rows.length;
        for (const name of NORMS[e.part]) { // the one that gives the engine's number
            if (e.rows.length > shown && Exact.same(e.sum, e.value)) break;
            e.rows.length = shown;
            e.sum = plain;
            gains(e, e.part === 'fin' ? name : `blk.${layer}.${name}`);
        }
        if (!Exact.same(e.sum, e.value) && Exact.same(x[e.c], e.value)) { // some models read the stream as it is
            e.rows.length = 1;
            e.sum = x[e.c];
        }
        e.sumName = 'after the norm';
        e.say = 'A copy of the stream, each row scaled to the same length. The next part reads this copy.';
    }

    function gains(e, name) {
        if (!Engine.live) return;
        times(e, '× gain', HomeData.vector(`${name}.weight`)?.[e.c]);
        plus(e, '+ bias', HomeData.vector(`${name}.bias`)?.[e.c]);
    }

    function embedded(e) {
        const id = App.state.ids[e.r], tok = row(-1, 'hook_embed', e.r), pos = App.tensor('hook_pos_embed') && row(-1, 'hook_pos_embed', e.r);
        region(e, 'emb', e.scene.s.used.indexOf(id));
        e.rows.push([`row of ${word(e.r)} in the token table`, tok[e.c], ['emb', e.scene.s.used.indexOf(id), e.c]]);
        const x = pos ? tok.map((v, i) => v + pos[i]) : tok;
        if (pos) {
            region(e, 'pos', e.r);
            e.rows.push([`row ${e.r} in the position table`, pos[e.c], ['pos', e.r, e.c]]);
        }
        e.sum = x[e.c];
        if (App.tensor('ln_embed.hook_normalized')) {
            level(e, x, ' of the row');
            gains(e, 'token_embd_norm');
        }
        e.sumName = 'stream';
        e.say = `Which token it is${pos ? ', plus where it stands' : ''}${App.tensor('ln_embed.hook_normalized') ? '; then the row is scaled to a fixed length' : ''}.`;
    }

    // The stream after half a layer: what was there, plus what a part found.
    function added(e, layer, half) {
        const after = half !== 'mid', parallel = !HomeData.hook(layer, 'hook_resid_mid'), before = after && !parallel ? ['hook_resid_mid', 'mid'] : ['hook_resid_pre', 'x'];
        for (const [name, hook, part] of [['stream before', ...before], after && ['the MLP adds', 'hook_mlp_out', 'mo'], parallel === after && ['attention adds', 'hook_attn_out', 'ao']].filter(Boolean)) {
            const v = row(layer, hook, e.r)[e.c];
            take(e, name, v, part, layer);
            if (e.sum === null) aged(e, v, 2 * layer + after);
            else e.sum = Exact.round(e.sum + v);
        }
        e.sumName = 'stream';
        e.code = after ? CODE.end : CODE.mid;
        e.say = 'The stream is never overwritten. What a part finds is added to what was there.';
        levelled(e, layer, half);
        if (after) ended(e, layer);
    }

    // Beam: what was there counts for less, before each of its branches.
    function aged(e, v, branches) {
        e.sum = v;
        if (Engine.info.arch === 'beam') times(e, '× its share', Math.fround(Math.sqrt((branches + 1) / (branches + 2))));
    }

    // Gemma 4 scales the stream after each layer; before it, some of its models add what the layer makes of the token itself.
    function ended(e, layer) {
        const scale = Engine.live && HomeData.vector(`blk.${layer}.layer_output_scale.weight`);
        if (!scale) return;
        if (Engine.tensors[`blk.${layer}.inp_gate.weight`]) e.rows.push(['the token’s input of this layer adds', e.value / scale[0] - e.sum]);
        e.rows.push(['× a number of the layer', scale[0]]);
        e.sum = Engine.tensors[`blk.${layer}.inp_gate.weight`] ? e.value : Exact.round(e.sum * scale[0]);
    }

    // GPT-1 has its norms here: the sum goes on scaled to one length.
    function levelled(e, layer, half) {
        const name = `blk.${layer}.${half === 'mid' ? 'attn' : 'layer'}_output_norm`, [a, b] = half === 'mid' ? ['hook_resid_pre', 'hook_attn_out'] : ['hook_resid_mid', 'hook_mlp_out'];
        if (!Engine.tensors[`blk.${layer}.layer_output_norm.weight`]) return; // DBRX has the name of the first for the norm before its MLP
        const x = row(layer, b, e.r);
        e.rows.push(['added up', e.sum]);
        level(e, row(layer, a, e.r).map((v, i) => v + x[i]));
        gains(e, name);
        e.say = 'What a part finds is added to what was there; this model then scales the row to one length.';
    }

    function stream(e) {
        const before = e.layer > 0 ? e.layer - 1 : e.layer < 0 ? Engine.info.layers - 1 : -1;
        if (e.part === 'mid') added(e, e.layer, 'mid');
        else if (before >= 0) added(e, before, 'post');
        else embedded(e);
        if (e.part === 'x' && e.layer >= 0 && !Exact.same(e.sum, e.value)) e.note = 'This model scales the stream before each layer, and mixes in the row that it began with.';
        if (e.part === 'x' && e.layer < 0 && Engine.info.arch === 'nanochat' && !Exact.same(e.sum, e.value)) e.note = 'This model then takes away a share of the stream after the middle layer.';
        e.eq = e.part === 'x' && before < 0 ? equation('x') : 'x ← x + Δ';
    }

    function activated(e) {
        const pre = row(e.layer, 'mlp.hook_pre', e.r)[e.c], lin = HomeData.hook(e.layer, 'mlp.hook_pre_linear') && row(e.layer, 'mlp.hook_pre_linear', e.r)[e.c];
        const fn = Exact.ACTS[Engine.info.activation], name = HomeLabels.act();
        take(e, 'before', pre, 'pre');
        e.sum = fn ? fn(pre) : e.value;
        if (lin !== null) take(e, '× linear part', lin, 'lin');
        if (lin !== null && fn) e.sum = Exact.round(e.sum * lin);
        e.sumName = name;
        e.say = name === 'ReLU' ? (e.value > 0 ? 'The neuron fired: what is above zero passes.' : 'The neuron is silent: what is below zero becomes zero.')
            : `${name} lets through what is well above zero and holds back the rest.`;
    }

    function turned(e) {
        const part = e.part[1], raw = row(e.layer, `attn.hook_${part}`, e.r), { d } = HomeData.heads(e.layer), head = Math.floor(e.c / d) * d, turns = HomeLatent.has(e.layer) ? HomeLatent.sizes(e.layer).rot : d, first = head + d - turns, pair = first + ((e.c - first + turns / 2) % turns);
        region(e, idOf(e.layer, part), e.r, head, e.r + 1, head + d);
        e.rows.push(['before', raw[e.c], [idOf(e.layer, part), e.r, e.c]], ...(e.c < first ? [] : [['its pair', raw[pair], [idOf(e.layer, part), e.r, pair]]]));
        e.sum = e.value;
        e.sumName = 'after';
        e.say = e.c < first ? `Only the last ${turns} numbers of a query are turned by its place; this one stays.` : `Two numbers of a head are a point in a plane; it is turned by an angle that grows with the position (${e.r}). So a score knows how far apart two tokens are.`;
    }

    // ---- one cell ----

    const SAY = { q: (e) => `One of the numbers that say what ${word(e.r)} is looking for: its row times one column of the weights, added up.`,
        k: (e) => `One of the numbers that say what ${word(e.r)} offers to those who look: its row times one column of the weights.`,
        v: (e) => `One of the numbers that ${word(e.r)} passes on when it is looked at: its row times one column of the weights.`,
        ao: () => 'What the heads found, turned back into the language of the stream.', pre: (e) => `How strongly neuron ${e.c} is addressed by ${word(e.r)}.`,
        lin: (e) => `What neuron ${e.c} says if its gate lets it.`, mo: () => 'Only neurons that fired speak here: their value, times what each writes into this place of the stream.',
        rs: (e) => `How well expert ${e.c} suits ${word(e.r)}: its row times one column of the router’s weights, added up.`,
        lg: (e) => `How much the stream at ${word(e.r)} speaks for ${HomeText.candidate(e.m.ids[e.c])} as what comes next.` };
    // The formula of a part, with what this model has: gains, biases, the mean, a gate.
    function equation(part, layer = 0) {
        if (NORMS[part]) {
            if (part !== 'fin' && sameAsStream(part, layer)) return 'h = x';
            const has = (what) => Engine.live && NORMS[part].some((name) => HomeData.vector(`${part === 'fin' ? '' : `blk.${layer}.`}${name}.${what}`));
            return `${Engine.info.norm === 'layernorm' ? 'h = (x − mean(x)) / sd(x)' : 'h = x / rms(x)'}${has('weight') ? ' · g' : ''}${has('bias') ? ' + b' : ''}`;
        }
        if (part === 'x') {
            const sum = App.tensor('hook_pos_embed') ? 'E[token] + P[place]' : 'E[token]';
            return App.tensor('ln_embed.hook_normalized') ? `x = norm(${sum})` : `x = ${sum}`;
        }
        if (part === 'post') return HomeData.hook(layer, 'mlp.hook_pre_linear') ? `${HomeLabels.act()}(W_G h) · W_1 h` : `${HomeLabels.act()}(W_1 h)`;
        if (part === 'pre') return HomeData.hook(layer, 'mlp.hook_pre_linear') ? 'W_G h' : 'W_1 h';
        if (HomeExperts.has(layer) && part === 'mo') return 'm = Σ w_e y_e';
        if (HomeShort.has(layer) && SHORT[part]) return SHORT[part];
        if (part === 'z' && HomeData.hook(layer, 'attn.hook_gate')) return 'z = gate(W_z h) Σ a v';
        if (HomeLatent.has(layer) && HomeLatent.equation(part, layer)) return HomeLatent.equation(part, layer);
        if (part === 'mo') return `W_2 (${equation('post', layer)})`;
        return EQ[part];
    }
    const SHORT = { q: 'C = W_C h', k: 'B = W_B h', v: 'x = W_x h', z: 'z = C · Σ w (B x)' };

    // Some models read the stream as it is.
    function sameAsStream(part, layer) {
        const [copy, from] = part === 'h' ? ['ln1.hook_normalized', 'hook_resid_pre'] : ['ln2.hook_normalized', HomeData.has(layer, 'hook_resid_mid') ? 'hook_resid_mid' : 'hook_resid_pre'];
        return HomeData.has(layer, copy) && Numbers.same(row(layer, copy, 0), row(layer, from, 0));
    }

    const EQ = { bx: 'B · x', tp: '|C · w (B x)|', rs: 's = W_r h', ew: 'w = softmax(s), the largest', ey: 'y = W_d (act(W_g h) · W_u h)', q: 'q = W_Q h', k: 'k = W_K h', v: 'v = W_V h', s: 's = q · k / √d', a: 'a = softmax(s)', z: 'z = Σ a v', ao: 'W_O z',
        lin: 'W_1 h', lg: 'logit = W_U x', rq: 'q turned by place · θ', rk: 'k turned by place · θ' };
    const HOW = { s: score, a: shareOf, z: mix, x: stream, mid: stream, h: normed, h2: normed, fin: normed, post: activated, rq: turned, rk: turned };
    const tools = { region, take, row, idOf, word, unknown };

    function weight(e) {
        e.title = { emb: 'Token table', pos: 'Position table' }[e.m.part] || 'Weight';
        const where = e.m.part === 'emb' ? `row of “${HomeText.label(e.scene.s.used[e.r])}”` : e.m.part === 'pos' ? `place ${e.r}` : `row ${e.r}, column ${e.c}`;
        e.where = `${e.m.tensor.name}, ${where}`;
        e.say = `A weight: one of the ${Numbers.count(Engine.info.params)} numbers found by training. It is the same for every text.`;
        if (!Engine.live) unknown(e);
        else e.circuit = Circuits.ofWeight(e.m, e.r, e.c);
        return e;
    }

    // Keys and values of another layer are told as that layer's.
    function lent(scene, m, r, c) {
        const of = HomeData.lender(m.layer), e = explain(scene, { ...m, layer: of }, r, c);
        return { ...e, say: `${e.say} Layer ${m.layer} has no keys and values of its own: it reads those of layer ${of}.` };
    }

    function explain(scene, m, r, c) {
        if (/^(r?k|v)$/.test(m.part) && HomeData.lender(m.layer) >= 0) return lent(scene, m, r, c);
        const part = m.part.replace(/^([sa])\d+$/, '$1'), e = { scene, m, r, c, part, layer: m.layer, factors: [], rows: [], terms: null, sum: null, sumName: 'sum', order: '', note: '' };
        e.value = m.kind === 'w' && !Engine.live ? NaN : m.get(r, c);
        if (m.kind === 'w') return weight(e);
        Object.assign(e, { title: TITLE[part], hook: m.hook, code: CODE[part], eq: equation(part, m.layer), where: part === 'ey' ? `expert ${c}, number ${r}` : `token ${r} ${word(r)}, ${m.tri ? `key ${c} ${word(c)}` : part === 'rs' || part === 'ew' ? `expert ${c}` : part === 'lg' ? `candidate ${HomeText.candidate(m.ids[c])}` : `number ${c}`}` });
        if (e.part === 'lg') e.title = `Logit of ${HomeText.candidate(m.ids[c])}`;
        if (SAY[part]) e.say = SAY[part](e);
        const short = HomeShort.has(m.layer), latent = Engine.live && HomeLatent.has(m.layer), own = (HomeExperts.has(m.layer) && HomeExperts.HOW[part]) || (short && HomeShort.HOW[part]) || (latent && HomeLatent.HOW[part]);
        if (short && HomeShort.TITLE[part]) Object.assign(e, { title: HomeShort.TITLE[part], say: HomeShort.SAY[part] });
        if (latent && HomeLatent.TITLE[part]) e.title = HomeLatent.TITLE[part];
        if (own && part === 'mo') Object.assign(e, { title: 'What the experts add', code: CODE.ew });
        if (short && part === 'ao') e.say = 'What was read, turned back into the language of the stream.';
        if (own) own(e, tools);
        else (HOW[part] || product)(e);
        e.exact = e.sum !== null && Exact.same(e.sum, e.value);
        if (latent && HomeLatent.NOTE[part] && !e.exact) e.note = HomeLatent.NOTE[part];
        return e;
    }

    return { explain, equation, fewBits, CODE, word };
})();
