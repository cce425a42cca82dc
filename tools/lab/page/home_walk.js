'use strict';
// The walk: one token's pass in fourteen stops, told in words of this model. A stop has a title, a text,
// the paper's equation, the line of src/page/page.inc, the parts it shows (the others fade), regions
// with a frame and what the camera holds. Layers after the first are told in one stop each.
const HomeWalk = (() => {
    const SECONDS = 6.4, MOST = 6; // of a stop; layers told one by one
    const { word, CODE } = HomeCell;

    const count = Numbers.count;
    const plural = (n, one) => `${count(n)} ${one}${n === 1 ? '' : 's'}`;

    // ---- stops of the first layer; s: state, i: facts of the model ----

    const looks = () => HomeData.has(0, 'attn.hook_pattern'), short = () => HomeShort.has(0), latent = () => HomeLatent.has(0), mixes = () => HomeExperts.has(0);

    // [title, text, equation, line, parts, regions, more, numbers that are made one by one, whether the model has it]
    const FIRST = [
        ['Tokens become rows', (s, i) => `Every token picks its row of ${count(i.d_model)} numbers from a table${HomeData.tensor('pos') ? ', and a row of a second table says where it stands. Both are added' : ''}. Here ${word(s.query)} takes row ${s.ids[s.query]}${HomeData.tensor('pos') ? ` and place ${s.query}` : ''}.`,
            () => HomeCell.equation('x'), CODE.x, 'emb pos x@', 'x@', (s, i) => `The table has a row for each of the ${count(i.choices)} tokens that the model knows${HomeData.tensor('pos') ? `; there are ${count(i.context)} places` : '. Places come in later, when queries and keys are turned'}.`, 'x@'],
        ['The stream', (s) => `${s.step === 1 ? 'This row is' : `These ${s.step} rows are`} the residual stream. Everything that follows reads from it, and adds to it, negative numbers too: a part can erase what another wrote.`, 'x ← x + Δ', 'add(p, p->x, p->a);', 'x@ mid@ x', '', (s, i) => `The grey spine, top to bottom: ${count(i.d_model)} numbers for each token.`, 'mid@'],
        ['The same length', () => `Before a part reads the stream, it makes a copy in which each row has the same length${HomeCell.equation('h').includes('·') ? '; then each number gets a factor of its own, found by training' : ''}. What counts is which of its numbers are large beside the others.`, () => HomeCell.equation('h'), CODE.h, 'x@ h@', 'x@ h@',
            () => (App.tensor('ln_embed.hook_normalized') ? 'In this model the first rows were made this long already, so the copy looks the same. Further down it will not.' : 'Dividing by the root mean square keeps later numbers in a range in which training works.'), 'h@', () => HomeCell.equation('h') !== 'h = x'],
        ['Questions', (s) => `From its row, each token makes a query: what am I looking for? ${word(s.query)} makes its own, head by head.`, 'q = W_Q h', CODE.q, 'h@ wq@ q@', 'h@ q@', () => `The row meets one column of the matrix after the other, and each gives one number. ${HomeData.heads(0).d} of them belong to a head.`, 'q@', looks],
        ['One short row for all heads', latentText, () => HomeCell.equation('lt'), CODE.k, 'h@ wl@ lt@', 'h@ lt@',
            () => `Of the ${HomeLatent.sizes(0).R} numbers each head then makes a key and a value of its own.`, 'lt@', latent],
        ['Keys and values', () => 'And two more rows: a key, what the token offers to those who look, and a value, what it passes on to them.', () => (latent() ? 'k = W_K c,  v = W_V c' : 'k = W_K h,  v = W_V h'), CODE.k, 'h@ wk@ k@ lt@ wv@ v@', 'h@ k@ v@', () => `The same row goes in; two ${latent() ? '' : 'other '}matrices give it two ${latent() ? '' : 'other '}meanings.`, 'k@ v@', looks],
        ['What the cache holds', (s, i) => `${latent() ? 'The short rows' : 'Keys and values'} stay. When the next token comes, one row is added and nothing is computed again: ${plural(s.step, 'row')} kept, ${count(i.context - s.step)} free.`, () => (latent() ? 'C ← C and c' : 'K ← K and k,  V ← V and v'), 'kv_append(p);', 'lt@ k@ v@ rk@', () => (latent() ? 'lt@' : 'k@ v@'),
            (s, i) => `${count(i.kv_bytes)} bytes for each token in this page.`, 'grow', looks],
        ['Turned by their places', (s) => `How far apart are two tokens? Each pair of numbers of a query and of a key is a point in a plane, and is turned by an angle that grows with the place: ${word(s.query)} stands at place ${s.query}. Both turned alike, their product depends on the distance only.`,
            () => HomeCell.equation('rq'), CODE.rq, 'q@ rq@ k@ rk@', 'q@ rq@ rk@', () => 'Values are not turned: what a token passes on does not depend on where it stands.', 'rq@', () => HomeData.hook(0, 'attn.hook_rot_q')],
        ['Who fits the question?', scoresText, 's = q · k / √d', CODE.s, 'q@ k@ rq@ rk@ s@', 'q@h s@h', () => `The sum is divided by √${HomeData.heads(0).d}, so that longer vectors do not shout. Only tokens that came before are asked: that is the causal mask.`, 's@h', looks],
        ['Shares that add up to one', sharesText, 'a = softmax(s)', CODE.a, 's@ a@', 's@h a@h', () => 'Dark is much, pale is little; the empty corner is the future.', 'a@h', looks],
        ['Mixing', (s) => `Each head now collects: it takes that share of every token’s value and adds them up. What ${word(s.query)} saw is now one row.`, 'z = Σ a v', CODE.z, 'a@ v@ z@', 'a@h z@h', () => 'The values are above the mix: column by column, row by row.', 'z@h', looks],
        ['What is kept', (s) => `This layer has no heads. From its row each token makes three: x, what it may keep for those after it, B, which decides how much of each number is kept, and C, for later. ${word(s.query)} keeps B times x.`,
            'B x', 'kv_append(p);', 'h@ wk@ k@ wv@ v@ bx@', 'k@ v@ bx@', () => 'The same row goes in; three matrices give it three meanings.', 'bx@', short],
        ['A short memory', (s) => `It reads the last ${HomeShort.taps(0)} kept rows and no more. Each number of a row has a weight of its own for each of these places, a tap; they are added up, and C decides how much of it goes on.`,
            () => HomeCell.equation('z'), 'attend(p);', 'q@ bx@ wc@ z@ tp@', 'bx@ q@ z@', () => 'At the right: how much each token reads of which. Nothing further back can be seen here; layers with heads can.', 'z@', short],
        ['Back to the stream', (s) => `One more matrix turns what ${short() ? 'was read' : 'the heads found'} into the language of the stream, and it is added. The row of ${word(s.query)} now knows something of its neighbours.`, () => (Engine.info.arch === 'gpt1' ? 'x ← norm(x + W_O z)' : 'x ← x + W_O z'), CODE.ao, 'z@ wo@ ao@ mid@', 'ao@ mid@', (s) => direction(s, 'hook_attn_out', 'hook_resid_pre'), 'ao@ mid@'],
        ['The router', routerText, 's = W_r h,  w = softmax(s), the largest', CODE.rs, 'h2@ wr@ rs@ ew@', 'rs@ ew@', () => 'Experts that are not chosen are not computed: a mixture has many numbers and uses few of them for a token.', 'rs@', mixes],
        ['Experts answer', expertsText, () => HomeCell.equation('mo'), CODE.ew, 'ew@ ey@ mo@ x', 'ew@ mo@', (s) => direction(s, 'hook_mlp_out', HomeData.has(0, 'hook_resid_mid') ? 'hook_resid_mid' : 'hook_resid_pre'), 'mo@', mixes],
        ['Detectors', (s) => `Each of the ${count(HomeData.width(0, 'mlp.hook_post'))} neurons of the MLP looks for one pattern in the row; ${HomeLabels.act()} keeps what it found.`, () => HomeCell.equation('post'), CODE.post, 'h2@ wg@ w1@ pre@ lin@ post@', 'pre@ post@', silentText, 'pre@ post@', () => !mixes()],
        ['What they add', () => (HomeLabels.act() === 'ReLU' ? 'Every neuron that fired writes its own row of numbers into the stream.' : 'Every neuron writes its own row of numbers into the stream, as strongly as it answered.'), () => `x ← x + W_2 (${HomeCell.equation('post')})`, CODE.mo, 'post@ w2@ mo@ x', 'post@ mo@', (s) => direction(s, 'hook_mlp_out', HomeData.hook(0, 'hook_resid_mid') ? 'hook_resid_mid' : 'hook_resid_pre'), 'mo@', () => !mixes()],
    ];

    // Where what a part adds points, measured by the cosine with the row that was there.
    function direction(s, added, before) {
        const a = HomeData.layerRow(0, added, s.query), x = HomeData.layerRow(0, before, s.query), cosine = Numbers.dot(a, x) / Math.sqrt(Numbers.dot(a, a) * Numbers.dot(x, x));
        const say = cosine < -0.2 ? 'partly against the stream: it erases some of what was there' : cosine > 0.2 ? 'along the stream: it strengthens what was there' : 'elsewhere than the stream: it adds something new';
        return `What is added points ${say} (cosine ${Numbers.fixed(cosine, 2)}).`;
    }

    function latentText() {
        const { R, rot } = HomeLatent.sizes(0), { H, d, dv } = HomeData.heads(0);
        return `Keys and values of ${plural(H, 'head')} would be ${count(H * (d + dv))} numbers to keep for each token. This model first makes its row short: ${R} numbers, the latent, and ${rot} for the place.`;
    }

    function scoresText(s) {
        const line = App.line(HomeData.hook(0, 'attn.hook_attn_scores'), s.head, s.query), best = Numbers.best(line);
        return `${word(s.query)} now asks its question. In head ${s.head} the question is ${HomeData.heads(0).d} numbers long, and so is every key. Multiply them pair by pair and add: where both point the same way, the score is high. Here ${word(best)} at place ${best} fits best, with ${Numbers.fixed(line[best], 2)}.`;
    }

    function sharesText(s) {
        const line = App.line(HomeData.hook(0, 'attn.hook_pattern'), s.head, s.query), best = Numbers.best(line);
        return `Softmax turns a row of scores into shares of attention. Each row adds up to 1; ${word(s.query)} gives ${Numbers.share(line[best])} to ${word(best)} at place ${best}.`;
    }

    function routerText(s, i) {
        const w = HomeExperts.weights(0, s.query), on = HomeExperts.chosen(0, s.query), best = Numbers.best(w);
        return `In place of one MLP this layer has ${w.length}, its experts. A router scores each of them for ${word(s.query)}, and the ${on.length === 1 ? 'largest score is' : `${on.length} largest are`} chosen: expert ${on.join(', ')}. Expert ${best} counts most, ${Numbers.fixed(w[best], 2)}.`;
    }

    function expertsText(s) {
        const n = HomeExperts.chosen(0, s.query).length, shared = HomeData.has(0, 'mlp.hook_post');
        return `Each of the ${n} chosen experts is a small MLP with numbers of its own. What they write is added, each times its weight${shared ? '; one more expert answers for every token' : ''}.`;
    }

    function silentText(s) {
        const post = HomeData.layerRow(0, 'mlp.hook_post', s.query), silent = post.reduce((n, x) => n + (x === 0), 0);
        return silent ? `For ${word(s.query)} ${silent} of ${post.length} say nothing.` : 'Blue is below zero, rust is above.';
    }

    // ---- stops after it ----

    // What the model would say after layer l: [token, probability].
    function guessAfter(l, s) {
        const row = Engine.lens(0, s.query).find((r) => r.name === `blocks.${l}.hook_resid_post`), best = Numbers.best(row.logits);
        return [best, Math.exp(row.logits[best] - row.logsum)];
    }

    // The head of layers l to n whose shares are furthest from even.
    function decided(l, n, s) {
        const all = HomeData.allHeads(l, n).map((h) => ({ ...h, line: App.line(HomeData.hook(h.layer, 'attn.hook_pattern'), h.head, s.query) }));
        if (!all.length || s.query === 0) return '';
        const best = all.reduce((a, b) => (Numbers.entropy(b.line) < Numbers.entropy(a.line) ? b : a)), key = Numbers.best(best.line);
        return ` Head ${best.head}${n === l ? '' : ` of layer ${best.layer}`} is the most decided: ${Numbers.share(best.line[key])} on ${word(key)}.`;
    }

    function deeperText(l, n, s) {
        const [id, p] = guessAfter(n, s), [before, was] = guessAfter(l - 1, s), say = HomeText.candidate;
        return `${n === l ? `After layer ${l}` : `After layers ${l} to ${n}`} it ${id === before ? `stays with ${say(id)}, now ${Numbers.share(p)}; before, ${Numbers.share(was)}` : `would say ${say(id)} with ${Numbers.share(p)}; before, ${say(before)} with ${Numbers.share(was)}`}.${decided(l, n, s)}${n === l && HomeData.lender(l) >= 0 ? ` It has no keys and values of its own: it reads those of layer ${HomeData.lender(l)}.` : ''}`;
    }

    const deeper = (l, n, i) => ({ title: n === l ? `Layer ${l}` : `Layers ${l} to ${n}`, layer: l, text: (s) => deeperText(l, n, s),
        eq: 'x ← x + Δ', code: 'add(p, p->x, p->m);', parts: Array.from({ length: n - l + 1 }, (_, j) => l + j), regions: '', more: () => `The same parts with other weights: ${plural(i.heads, 'head')}, ${HomeExperts.has(l) ? plural(HomeExperts.count(l), 'expert') : plural(i.d_mlp, 'neuron')}. What it would say is the final norm and the head on the stream so far (the logit lens).`, made: '' });

    const last = (i) => [
        { title: `${count(i.choices)} candidates`, text: (s) => `The row of ${word(s.query)} is compared with each token of the vocabulary: one product with each column.`, eq: 'logits = W_U x', code: CODE.lg, parts: 'x fin wu lg', regions: 'x lg', made: 'lg',
            more: () => `${count(i.d_model)} numbers against ${count(i.choices)} columns: ${count(i.choices)} sums.` },
        { title: 'The next token', text: nextText, eq: 'p = softmax(logits)', code: 'scale_and_cap(p);', parts: 'lg', regions: 'lg', made: '', more: () => 'Press a candidate above the picture to append it. When the walk ends, the model writes on by itself.' },
    ];

    function nextText(s) {
        const p = HomeData.chances(s.query), [a, b] = Numbers.top(p, 2), say = (id) => `${HomeText.candidate(id)} with ${Numbers.share(p[id])}`;
        return `Softmax makes probabilities of it: ${say(a)}${b === undefined ? '' : `, ${say(b)}`}. One is drawn, and all begins again with one row more.`;
    }

    // Those of FIRST that this model has.
    const first = () => FIRST.filter((s) => !s[8] || s[8]());

    function stops() {
        const i = Engine.info, list = (i.layers ? first() : [[...FIRST[0].slice(0, 4), 'emb pos x', '', '', '']]).map((row) => {
            const [title, text, eq, code, parts, regions, more, made] = row;
            return { title, text, eq, code, parts, regions, more, made, layer: 0 };
        });
        for (let l = 1; l < i.layers; l++) {
            const to = i.layers > MOST + 1 && l === MOST ? i.layers - 1 : l;
            list.push(deeper(l, to, i));
            l = to;
        }
        return list.concat(last(i));
    }

    const call = (x, s) => (typeof x === 'function' ? x(s, Engine.info) : x);

    // ---- a stop in the picture ----

    // The layer that a stop needs unfolded; -1: none.
    const layerOf = (n) => (stops()[n - 1] && n <= first().length ? 0 : -1);

    function partsOf({ parts, layer }, scene) {
        const names = Array.isArray(parts) ? null : parts.split(' ').map((name) => (name === 'x' && layer === 0 && Engine.info.layers > 1 ? '1.x' : name.replace(/^(.*)@$/, '0.$1')));
        const shown = (m) => (names ? names.includes(m.id) || names.includes(m.id.replace(/^(0\.[sa])\d+$/, '$1')) : parts.includes(m.layer));
        return new Set([...scene.mats.values()].filter(shown).map((m) => m.id));
    }

    // The row of the chosen token in each of these parts (@: of the first layer; @h: what is the chosen head's in it).
    const rowsOf = (names, scene, s) => names.split(' ').map((name) => {
        const [, part, first, head] = /^(\w*)(@?)(h?)$/.exec(name), m = scene.mats.get(`${first && '0.'}${part}${head && /^[sa]$/.test(part) ? s.head : ''}`);
        if (!m || s.query >= m.rows) return null;
        const [from, to] = m.tri ? [0, s.query + 1] : head ? [s.head * m.group, (s.head + 1) * m.group] : [0, m.cols];
        return HomeScene.region(m, s.query, from, s.query + 1, to);
    }).filter((a) => a);

    // The number that is explained while nothing moves: the largest of those made last.
    function exampleOf(ranges) {
        const a = ranges[ranges.length - 1], values = a && Array.from({ length: a.c1 - a.c0 }, (_, i) => a.m.get(a.r0, a.c0 + i));
        return a && (a.m.kind !== 'w') ? [a.m, a.r0, a.c0 + Numbers.best(a.m.tri || a.m.part === 'lg' ? values : values.map(Math.abs))] : null;
    }

    // Stop n (from 1) for the panel and the picture, or null.
    function at(n, scene, s) {
        const all = stops(), stop = all[n - 1];
        if (!stop) return null;
        const parts = partsOf(stop, scene), regions = rowsOf(call(stop.regions, s), scene, s), grow = stop.made === 'grow', ranges = grow ? [] : rowsOf(stop.made, scene, s);
        const grows = grow ? (latent() && Engine.live ? ['lt'] : ['k', 'v', 'rk']).map((part) => scene.mats.get(`0.${part}`)).filter((m) => m) : null; // matrices that get row after row
        return { number: n, of: all.length, title: HomeText.inUnits(stop.title), text: HomeText.inUnits(call(stop.text, s)), eq: call(stop.eq, s), code: stop.code, more: HomeText.inUnits(call(stop.more, s)), ranges, grows, runs: Array.isArray(stop.parts), example: exampleOf(ranges), parts, regions, frame: frameOf(parts, scene) };
    }

    function frameOf(parts, scene) {
        const { x, y, w, h } = HomeScene.around([...parts].map((id) => scene.mats.get(id))), u = scene.u, low = parts.has('lg') ? 16 * u : 0;
        return { x: x - 8 * u, y: y - 8 * u, w: w + 14 * u, h: h + 14 * u + low };
    }

    const LINES = [...FIRST.map((s) => s[3]), 'add(p, p->x, p->m);', ...last({ choices: 1 }).map((s) => s.code)]; // of page.inc

    // Which stop tells of the cache, from 0; -1: none.
    const cache = () => first().findIndex((s) => s[7] === 'grow');

    return { at, cache, LINES, layerOf, titles: () => stops().map((s) => HomeText.inUnits(s.title)), SECONDS };
})();
