'use strict';
// Latent attention (MLA) in the picture. A token keeps one short row for all heads: c = norm(W_C h), then r, a few numbers that are turned by
// its place. The key of a head is [W_K c; r], its value W_V c (src/run/latent.c). The page computes c from the weights.
const HomeLatent = (() => {
    const OTHER = 1e-6; // the eps of DeepSeek's latents, where that of the model's norms is another

    const nameOf = (layer, part) => HomeData.named(layer, `attn_${part}`);
    const tensor = (layer, part) => Engine.tensors[nameOf(layer, part)];
    const has = (layer) => layer >= 0 && Boolean(tensor(layer, 'kv_a_mqa'));
    // How long c is, and r.
    const sizes = (layer) => ({ R: tensor(layer, 'kv_a_norm')[1], rot: tensor(layer, 'kv_a_mqa')[2] - tensor(layer, 'kv_a_norm')[1] });
    const all = (layer, part, n) => HomeData.rows({ name: nameOf(layer, part), first: 0, n });

    // A row before its norm and after: of what all heads keep ('kv_a'), of queries ('q_a').
    function levelled(layer, pos, part, eps = epsOf(layer)) {
        return HomeData.once(['latent', layer, pos, part, eps], () => {
            const name = part === 'kv_a' ? 'kv_a_mqa' : part, [, cols, n] = tensor(layer, name), w = all(layer, name, n), bias = HomeData.vector(nameOf(layer, name).replace('weight', 'bias')), h = HomeData.layerRow(layer, 'ln1.hook_normalized', pos);
            const sums = Float32Array.from({ length: n }, (_, r) => Exact.matmul(h, w.subarray(r * cols, (r + 1) * cols), n) + (bias ? bias[r] : 0)), gain = HomeData.vector(nameOf(layer, `${part}_norm`));
            const { inverse } = Exact.norm(sums.subarray(0, gain.length), eps, false);
            return { sums, inverse, gain, row: sums.map((v, i) => (i < gain.length ? Exact.round(v * inverse) * gain[i] : v)) };
        });
    }

    // The row of weights that makes number i of a head's key ('k') or value ('v') of the latent.
    function made(layer, part, head, i) {
        const { R, rot } = sizes(layer), { H, d, dv } = HomeData.heads(layer), own = d - rot, at = (name, n, r) => all(layer, name, n).subarray(r * R, (r + 1) * R);
        if (tensor(layer, 'kv_b')) return at('kv_b', H * (own + dv), head * (own + dv) + (part === 'v' ? own : 0) + i);
        return part === 'v' ? at('v_b', H * dv, head * dv + i) : Float32Array.from({ length: R }, (_, j) => all(layer, 'k_b', H * R)[(head * R + j) * own + i]);
    }

    const row = (layer, pos) => levelled(layer, pos, 'kv_a').row; // what the cache keeps

    // The eps that gives the engine's first value.
    const epsOf = (layer) => [OTHER, Engine.info.norm_eps].find((eps) => Exact.same(Exact.chained(levelled(layer, 0, 'kv_a', eps).row.subarray(0, sizes(layer).R), made(layer, 'v', 0, 0), 1), HomeData.layerRow(layer, 'attn.hook_v', 0)[0])) || Engine.info.norm_eps;

    // In a rib, where keys are in other models: the latent under its matrix.
    function place(p, l, x, top, y) {
        const { R, rot } = sizes(l), cols = R + rot;
        p.weights('wl', l, x, top);
        return p.put({ part: 'lt', layer: l, kind: 'x', rows: p.s.T, cols, group: cols, x, y, rh: p.s.rh, get: (r, c) => row(l, r)[c] });
    }

    // ---- how a number arises ----

    function products(e, x, w, from, names, part) {
        HomeCell.fewBits(e, tensor(e.layer, part)[0]);
        e.terms = Array.from(x, (a, i) => ({ name: i, a, b: w[i], p: a * w[i], from: from && [from, e.r, i] }));
        e.names = names;
    }

    function latent(e, { region, idOf, row }) {
        const { sums, inverse, gain } = levelled(e.layer, e.r, 'kv_a'), [, cols] = tensor(e.layer, 'kv_a_mqa');
        region(e, idOf(e.layer, 'h'), e.r);
        region(e, idOf(e.layer, 'wl'), 0, e.c, cols, e.c + 1);
        products(e, row(e.layer, 'ln1.hook_normalized', e.r), all(e.layer, 'kv_a_mqa', sums.length).subarray(e.c * cols, (e.c + 1) * cols), idOf(e.layer, 'h'), ['norm h', 'W_C'], 'kv_a_mqa');
        if (e.c < gain.length) e.rows.push(['sum of the products', sums[e.c]], ['× 1 / root mean square', inverse], ['× gain', gain[e.c]]);
        e.sum = e.value;
        e.say = e.c < gain.length ? `One of the ${gain.length} numbers of which the keys and values of all heads are made. With those for the place, it is all that the cache keeps of ${HomeCell.word(e.r)}.`
            : `One of the ${sums.length - gain.length} numbers that will be turned by the place. They are the end of the keys of all heads.`;
    }

    function query(e, { row }) {
        const latents = tensor(e.layer, 'q_a') && levelled(e.layer, e.r, 'q_a').row, t = HomeData.tensor('wq', e.layer), w = HomeData.rows(t).subarray(e.c * t.cols, (e.c + 1) * t.cols), x = latents || row(e.layer, 'ln1.hook_normalized', e.r);
        products(e, x, w, latents ? null : `${e.layer}.h`, [latents ? 'latent' : 'norm h', 'W_Q'], latents ? 'q_a' : 'q');
        e.sum = Exact.matmul(x, w, t.n);
        e.say = `One of the numbers that say what ${HomeCell.word(e.r)} is looking for${latents ? `: its row is first made short, ${x.length} numbers, and each head asks with what it makes of these` : ''}.`;
    }

    // A number of a key or a value: the latent times a row of weights.
    function expanded(part) {
        return (e, { region, idOf, row }) => {
            const { R, rot } = sizes(e.layer), { d, dv } = HomeData.heads(e.layer), wide = part === 'k' ? d : dv, head = Math.floor(e.c / wide), i = e.c % wide, x = HomeLatent.row(e.layer, e.r), own = d - rot, id = idOf(e.layer, 'lt');
            e.sum = e.value;
            if (part === 'k' && i >= own) {
                const pair = (i - own + rot / 2) % rot;
                region(e, id, e.r, R, e.r + 1, R + rot);
                e.rows.push(['before', row(e.layer, 'attn.hook_k', e.r)[e.c], [id, e.r, R + i - own]], ['its pair', row(e.layer, 'attn.hook_k', e.r)[head * d + own + pair], [id, e.r, R + pair]]);
                e.sumName = 'after';
                e.say = `This end of the key is the same in every head: ${rot} numbers, turned by the place (${e.r}). The rest of it is made of the latent and is not turned.`;
                return;
            }
            region(e, id, e.r, 0, e.r + 1, R);
            const w = made(e.layer, part, head, i), latents = x.subarray(0, R);
            products(e, latents, w, id, ['latent', part === 'k' ? 'W_K' : 'W_V'], 'kv_a_mqa');
            e.sum = Exact.chained(latents, w, 1);
            e.say = `What head ${head} makes of the short row of ${HomeCell.word(e.r)}: ${part === 'k' ? 'a number of its key' : 'a number of its value'}. Neither is kept: the engine multiplies queries with the latents themselves.`;
        };
    }

    const HOW = { lt: latent, q: query, rk: expanded('k'), v: expanded('v') };
    const TITLE = { lt: 'Latent', rk: 'Key' };
    const EQ = { lt: 'c = norm(W_C h)', q: 'q = W_Q h', rk: 'k = W_K c, r turned by place · θ', v: 'v = W_V c' };
    const equation = (part, layer) => (part === 'q' && tensor(layer, 'q_a') ? 'q = W_Q norm(W_D h)' : EQ[part]);
    const NOTE = { s: 'The engine multiplies the latent with what W_K makes of the query: this sum over the key is near its number.', z: 'The engine mixes latents and makes the value of what it mixed: this sum of values is near its number.' };

    return { has, sizes, row, place, equation, HOW, TITLE, NOTE };
})();
