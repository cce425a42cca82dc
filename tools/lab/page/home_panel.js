'use strict';
// The panel next to the picture: what the model is, how the chosen number arises, or a stop of the walk.
const HomePanel = (() => {
    const { h, fill, bar, button } = Dom;
    const SHOWN = 20, FEW = 16; // products listed of a long sum; longest list that is shown whole

    // ---- words and formulas ----

    const formula = (text) => h('p.eq', null, Dom.math(text));

    // The number that is made right now, with its largest products in their order.
    const LARGEST = 4;
    function now(el, e, i = -1) {
        const order = e.terms ? Numbers.top(e.terms.map((t) => Math.abs(t.p)), LARGEST).sort((a, b) => a - b) : [];
        const out = el.querySelector('.now'), terms = order.map((n) => Numbers.fixed(e.terms[n].p, 2)).join(' + ').replace(/\+ −/g, '− ') + (order.length && e.terms.length > LARGEST ? ' + …' : '');
        const whole = e.terms ? e.terms.reduce((sum, t) => sum + t.p, 0) : e.value, same = Math.abs(whole - e.value) <= 1e-3 * Math.max(1, Math.abs(e.value)); // else steps follow the sum
        if (out) fill(out, h('span', null, !terms ? e.title : same ? `${terms} =` : /^[÷×]/.test(e.sumName) ? `(${terms}) ${e.sumName} =` : `${terms} →`), h('b', null, Numbers.fixed(e.value, 3)));
        const scrub = el.querySelector('.scrub'); // a stop of one number has none
        if (scrub && i >= 0) scrub.value = i;
    }

    // The numbers of a stop one by one, by hand.
    function scrubber(s, el) {
        const n = s.ranges.reduce((all, a) => all + a.c1 - a.c0, 0), input = h('input.scrub', { type: 'range', min: 0, max: n - 1, value: n - 1, 'aria-label': `number of this stop, of ${n}` });
        input.addEventListener('input', () => told(el, Home.scrub(Number(input.value))));
        return n > 1 && input;
    }

    // A stop's number at rest: all that it is made of.
    function told(el, e, i) {
        now(el, e, i);
        fill(el.querySelector('.made'), e.terms && products(e), e.shares && shares(e), e.rows.map(line), sum(e));
    }

    const code = (line, hook) => h('p.code', null, h('em', null, 'src/page/page.inc'), h('br'), line, hook && [h('br'), h('em', null, `${hook} [${App.tensor(hook).dims.join(', ')}]`)]);
    const say = (text) => h('p.say', null, Glossary.text(text));

    // ---- a number ----

    // The products that are listed: all, or the largest; null for the rest.
    function listed(terms) {
        const spoken = terms.filter((t) => t.a !== 0 && t.p !== 0), all = spoken.length ? spoken : terms;
        if (all.length <= FEW + 8) return [all, null];
        const order = new Set(Numbers.top(all.map((t) => Math.abs(t.p)), SHOWN));
        const rest = all.filter((_, i) => !order.has(i));
        return [all.filter((_, i) => order.has(i)), { n: rest.length, p: rest.reduce((a, t) => a + t.p, 0) }];
    }

    function products(e) {
        const [terms, rest] = listed(e.terms), high = Math.max(...terms.map((t) => Math.abs(t.p))) || 1, silent = e.terms.length - terms.length - (rest ? rest.n : 0);
        const row = (t) => h('tr', null, h('th', { scope: 'row' }, t.from ? button(t.name, () => Home.choose(t.from), { kind: '.goback', 'aria-label': `back to factor ${t.name}` }) : t.name),
            h('td', null, Numbers.fixed(t.a, 3)), h('td.op', null, '×'), h('td', null, Numbers.fixed(t.b, 3)), h('td.op', null, '='), h('td', null, Numbers.fixed(t.p, 3)), h('td', null, bar(t.p / high, true)));
        const [a, b] = e.names || ['', ''];
        return [h('table.terms', null, h('thead', null, h('tr', null, h('th', { scope: 'col' }, h('span.sr', null, 'factor')), h('th', { scope: 'col', colspan: 2 }, a), h('th', { scope: 'col', colspan: 2 }, Dom.math(b)),
            h('th', { scope: 'col' }, 'product'), h('td'))), h('tbody', null, terms.map(row))),
        rest && h('p.small', null, `and ${Numbers.count(rest.n)} smaller ones, together ${Numbers.fixed(rest.p, 3)}`),
        silent > 0 && h('p.small', null, e.part === 'mo' ? `${silent} of ${e.terms.length} neurons are silent.` : `${silent} products are 0.`)];
    }

    function shares(e) {
        const shown = e.shares.length > FEW + 8 ? e.shares.filter((s) => s.on || s.share >= [...e.shares].sort((a, b) => b.share - a.share)[FEW].share) : e.shares;
        return h('table.terms', null, h('thead', null, h('tr', null, (e.heads || ['key', 'score', '', 'e^…', '', 'share']).map((t) => (t ? h('th', { scope: 'col' }, t) : h('td'))), h('td'))), h('tbody', null, shown.map((s) =>
            h('tr' + (s.on ? '.on' : ''), null, h('th', { scope: 'row' }, s.from ? button(s.name || HomeText.label(App.state.ids[s.pos]), () => Home.choose(s.from), { kind: '.goback' }) : s.name), h('td', null, Numbers.fixed(s.score, 2)), h('td.op', null, '→'),
                h('td', null, Numbers.fixed(s.e, 3)), h('td.op', null, '→'), h('td', null, Numbers.fixed(s.share, 3)), h('td', null, bar(s.share))))));
    }

    const line = ([name, value, from]) => h('div.line', null, from && from[1] >= 0 ? button(name, () => Home.choose(from), { kind: '.goback' }) : h('span', null, name), h('span.n', null, Numbers.fixed(value, 6)));

    function sum(e) {
        if (e.sum === null) return null;
        const near = Math.abs(e.sum - e.value) <= 0.01 * Math.max(1e-3, Math.abs(e.value)), further = near ? 'the engine' : 'the engine, which scales or limits it';
        return [h('div.sum' + (e.exact ? '' : '.near'), null, h('span', null, e.sumName), h('b', { title: `all digits: ${Numbers.exact(e.sum)}` }, `${near && !e.exact ? '≈ ' : ''}${Numbers.fixed(e.sum, 6)}`)),
            !e.exact && h('div.line', null, h('span', null, further), h('span.n', null, Numbers.fixed(e.value, 6))),
            e.order && h('p.small', null, e.order)];
    }

    function number(e, el) {
        const known = Number.isFinite(e.value);
        fill(el, h('p.eyebrow', null, e.where), h('h2', null, h('span', null, Glossary.text(e.title)), known && h('span.value', { title: `all digits: ${Numbers.exact(e.value)}` }, Numbers.fixed(e.value, 4))),
            e.say && say(e.say), e.eq && formula(e.eq), e.terms && products(e), e.shares && shares(e), e.rows.map(line), sum(e), Number.isFinite(HomeChange.was(e)) && line(['before the change', HomeChange.was(e)]), e.note && h('p.small', null, e.note), e.circuit && App.state.cell.startsWith(`${e.m.id}.`) && Circuits.panel(e.circuit, App.state), e.code && code(e.code, e.hook));
    }

    // ---- the beginning ----

    const NAMES = ['emma', 'olivia', 'christopher', 'zoe'], TEXTS = ['ROMEO:\nI will not', 'Once upon a time', 'The cat sat down', 'The capital of France is'];
    let known = null;

    // Texts to try that the model can read.
    function texts() {
        const { context } = Engine.info, fits = (n) => n > 0 && n < context;
        known ??= (context <= 32 ? NAMES : TEXTS).filter((text) => fits(Strip.idsOf(text).length));
        return known.length > 0 && h('p.small.texts', null, 'Other texts: ', known.map((text) => button(text.replace('\n', ' '), () => Strip.type(text), { kind: '.goback' })));
    }

    function tries(state) {
        const i = Engine.info, best = Numbers.best(Engine.choices(state.query)), list = [];
        const layer = HomeData.attends();
        if (layer >= 0) {
            const head = Math.min(2, HomeData.heads(layer).H - 1), a = App.line(HomeData.hook(layer, 'attn.hook_pattern'), head, state.query), key = Numbers.best(a);
            list.push([`What does head ${head} look at?`, `Most at ${HomeCell.word(key)}, ${Numbers.share(a[key])}.`, () => Home.choose([`${layer}.a${head}`, state.query, key])]);
        }
        list.push([`Why does it guess ${HomeText.candidate(best)}?`, `Which ${HomeText.unit()}s and which parts speak for it.`, () => App.set({ cell: `why.${best}`, walk: 0 })]);
        if (HomeWalk.cache() >= 0) list.push(['What does the cache hold?', 'Keys and values that never change again.', () => Home.walkTo(HomeWalk.cache() + 1)]);
        if (HomeShort.has(0)) list.push(['How far back does it look?', `In its first layer the last ${HomeShort.taps(0)} ${HomeText.unit()}s only.`, () => Home.choose(['0.tp', state.query, state.query])]);
        if (HomeExperts.any()) list.push(['Which experts were chosen?', 'And how much each of them counts.', () => Home.choose(HomeExperts.first(state.query))]);
        if (Engine.live && state.ids.length > 1) list.push([`What if a ${HomeText.unit()} were another?`, `Press the framed ${HomeText.unit()}, or this.`, () => Strip.pickers.replace(document.querySelector('.tok.on'))]);
        list.push(['What may come next?', 'All candidates; draw one, or a thousand texts.', () => App.set({ cell: 'next', walk: 0 })]);
        if (i.layers) list.push(['What does each layer add?', 'What it would say after every half layer.', () => App.set({ cell: 'stream', walk: 0 })]);
        if (layer >= 0) list.push(['What do all heads do?', 'Their patterns side by side, and one of them in numbers.', () => App.set({ cell: 'heads', walk: 0 })]);
        return h('div.try', null, list.map(([q, a, fn], n) => button([h('i', null, n + 1), h('span', null, h('b', null, q), h('span', null, a))], fn)));
    }

    const textOf = (ids) => Array.from(ids).filter((id) => !Token.of(id).control).map((id) => Token.of(id).text.replace(/␣|\\n/g, ' ')).join('').trim();

    function intro(state, el) {
        const i = Engine.info, p = HomeData.chances(state.query), best = Numbers.best(p), unit = HomeText.unit(), seconds = HomeWalk.SECONDS * HomeWalk.titles().length;
        const text = textOf(state.ids);
        const last = i.layers === 0 ? 'It has no layers: the row goes straight to the guess.' : `${i.layers === 1 ? 'Twice' : `In each of ${i.layers} layers, twice,`} a part reads the spine, works something out to the right, and adds what it found: first ${HomeData.attends() < 0 ? 'a short memory' : HomeShort.any() ? 'attention, or a short memory of a few rows' : 'attention'}, where ${unit}s look at each other, then ${HomeExperts.any() ? 'a few experts out of many' : 'the MLP'}, where each thinks for itself.`;
        fill(el, h('p.eyebrow', null, `${i.name || i.arch} · ${Numbers.count(i.params)} numbers, all of them ${i.layers > HomeScene.LINES || i.vocab > HomeScene.WHOLE || i.vocab > i.choices ? 'in this model' : 'in this picture'}`),
            h('h2', null, `A whole GPT${text ? `, reading “${text.length > 26 ? `${text.slice(0, 25)}…` : text}”` : ''}`),
            say(`${unit === 'letter' ? 'Letters come' : 'Text comes'} in at the left. Each ${unit} becomes a row of ${Numbers.count(i.d_model)} numbers, and the rows run down the grey spine, the residual stream.`), say(last),
            h('p.say', null, 'At the lower right the row of the chosen ', unit, ' becomes a guess at the next: ', h('b.hot', null, `${HomeText.candidate(best)}, ${Numbers.share(p[best])}`.replace(/ /g, '\u00a0')), '.'),
            h('p.acts', null, button(`▶ Walk through it in ${seconds < 105 ? '90 seconds' : `${Math.round(seconds / 60)} minutes`}`, () => Home.walk(), { kind: '.big', id: 'walk' }), Engine.live && button('Let it write', () => HomeWrite.write(), { id: 'let-write' })), h('p.eyebrow', null, 'Or try'), tries(state), texts(),
            !Engine.live && h('p.small', null, Engine.info.params ? 'This page holds a recorded run: weights are shown as empty boxes.' : ''));
    }

    // example: what the picture explains; null while numbers are made one by one.
    function stop(s, el, example) {
        fill(el, h('p.eyebrow', null, `Stop ${s.number} of ${s.of}`), h('h2', null, s.title), say(s.text), s.eq && formula(s.eq), s.ranges.length > 0 && [h('p.now', { 'aria-hidden': 'true' }), scrubber(s, el), h('div.made')], s.more && h('p.small', null, Glossary.text(s.more)), s.code && code(s.code));
        if (example) told(el, example, HomeFlow.numbersOf(s.ranges).findIndex((n) => n.a.m === example.m && n.a.r0 === example.r && n.c === example.c));
    }

    return { number, intro, stop, now, textOf };
})();
