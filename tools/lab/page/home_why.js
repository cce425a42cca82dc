'use strict';
// Why a candidate comes next: what each part of the model adds to its logit, and its probability without this part,
// and without each letter. Each of these is a run of its own; they follow each other in slices, so that the page stays alive.
const HomeWhy = (() => {
    const { h, fill, bar, button } = Dom;
    const LETTERS = 10, PARTS = 9, OTHERS = 4, AROUND = 6, BEGIN = 250; // rows, rows, candidates to switch to, characters shown next to a letter; milliseconds in which the picture is drawn first

    let known = { key: '', el: null }, running = 0;

    const share = (logits, id) => Numbers.softmax(logits, App.state.temperature)[id];
    const percent = (p) => `${(100 * p).toFixed(p < 0.0995 ? 1 : 0)} %`;
    const asked = (cell) => (/^why\.\d+$/.test(cell) ? Number(cell.slice(4)) : -1);

    // ---- what can be taken away ----

    // {name, adds, edit: how it is silenced, cell: where its numbers are}, the largest first.
    function parts(id, s) {
        const many = Engine.info.layers > 1, NAMES = { embed: `${HomeCell.word(s.query)} itself`, pos_embed: `its place, ${s.query}` };
        const list = Engine.dla(0, s.query, id).filter((p) => p.name !== 'rounding' && Math.abs(p.value) > 5e-4).map(({ name, value }) => {
            const m = /^(?:L(\d+)H(\d+)|mlp(\d+))$/.exec(name), layer = m && Number(m[1] ?? m[3]), head = m && m[2] !== undefined ? Number(m[2]) : -1;
            if (!m) return { name: NAMES[name] || name, adds: value, edit: null, cell: () => ['x', s.query, 0] };
            const best = (row) => Numbers.best(row.map(Math.abs));
            return head < 0 ? { name: `${HomeExperts.has(layer) ? 'the experts' : 'the MLP'}${many ? ` of layer ${layer}` : ''}`, adds: value, edit: { kind: 'mlp', layer, head: 0, scale: 0 }, cell: () => (HomeExperts.has(layer) ? [`${layer}.ew`, s.query, Numbers.best(HomeExperts.weights(layer, s.query))] : [`${layer}.post`, s.query, best(HomeData.layerRow(layer, 'mlp.hook_post', s.query))]) }
                : HomeShort.has(layer) ? { name: `short memory${many ? ` of layer ${layer}` : ''}, part ${head}`, adds: value, edit: { kind: 'head', layer, head, scale: 0 }, cell: () => [`${layer}.z`, s.query, head * HomeData.heads(layer).dv] }
                : { name: `head ${head}${many ? ` of layer ${layer}` : ''}`, adds: value, edit: { kind: 'head', layer, head, scale: 0 }, cell: () => [`${layer}.a${head}`, s.query, best(App.line(HomeData.hook(layer, 'attn.hook_pattern'), head, s.query))] };
        });
        return list.sort((a, b) => Math.abs(b.adds) - Math.abs(a.adds));
    }

    // The text around a token that is crossed out.
    function without(s, j) {
        const [before, after] = Running.around(s.ids, j, AROUND, s.query + 1);
        return h('span.lost', null, before, h('s', null, HomeText.label(s.ids[j])), after);
    }

    // ---- runs ----

    // The candidate's probability after token `at` of another text, or with other changes.
    function instead(ids, edits, at, id, s) {
        Engine.run(ids, edits, 0);
        const p = share(Engine.choices(at, 0), id);
        Engine.run(s.ids, s.edits, 0);
        return p;
    }

    // What was taken away that changed it most, in words.
    function verdict(el, rows, p) {
        const by = (r) => Math.abs(Math.log(r.p / p)), [part, letter] = ['edit', 'pos'].map((k) => rows.filter((r) => r[k] !== undefined && r.p >= 0).sort((a, b) => by(b) - by(a))[0]);
        const say = (r, name) => (r ? [' Without ', h('b', null, name), ` it would have ${percent(r.p)}.`] : '');
        fill(el, say(part, part && part.name), letter ? say(letter, [`the ${HomeText.unit()} `, without(App.state, letter.pos)]) : '');
    }

    function work(rows, id, s, told) {
        const mine = ++running, changed = App.changed;
        const next = (i) => {
            if (mine !== running || App.changed !== changed || i === rows.length) return;
            const r = rows[i];
            try {
                r.p = r.pos === undefined ? instead(s.ids, s.edits.concat(r.edit), s.query, id, s) : instead(Array.from(s.ids.slice(0, s.query + 1)).filter((_, i) => i !== r.pos), s.edits, s.query - 1, id, s);
            } catch {
                r.p = -1; // a text that cannot be run
            }
            told(r);
            setTimeout(next, 0, i + 1);
        };
        setTimeout(next, BEGIN, 0);
    }

    // ---- the panel ----

    function row(r, high, p) {
        r.out = h('td.n', null, r.edit || r.pos !== undefined ? '…' : '');
        r.bar = bar((r.adds ?? 0) / high, r.adds !== undefined);
        const name = r.pos === undefined ? r.cell ? button(r.name, () => Home.choose(r.cell()), { kind: '.goback' }) : r.name : button(without(App.state, r.pos), () => App.set({ query: r.pos, cell: '' }), { kind: '.goback', 'aria-label': `without ${Token.at(r.pos)}` });
        r.told = () => {
            r.out.textContent = r.p < 0 ? '–' : percent(r.p);
            r.out.className = r.p < p * 0.75 ? 'n less' : r.p > p * 1.33 ? 'n more' : 'n';
            if (r.pos !== undefined) r.bar.firstChild.style.setProperty('width', `${100 * Math.max(0, r.p)}%`);
        };
        return h('tr', null, h('th', { scope: 'row' }, name), h('td.n', null, r.adds === undefined ? '' : Numbers.signed(r.adds, 2)), h('td', null, r.bar), r.out);
    }

    const tableOf = (heads, rows, high, p) => h('table.terms.why', null, h('thead', null, h('tr', null, heads.map((t) => (t ? h('th', { scope: 'col' }, t) : h('td'))))), h('tbody', null, rows.map((r) => row(r, high, p))));

    function make(id, s) {
        const all = HomeData.chances(s.query), p = all[id], order = parts(id, s), shown = order.slice(0, PARTS), rest = order.slice(PARTS), sum = order.reduce((a, r) => a + r.adds, 0);
        const letters = Engine.live ? Array.from({ length: s.query + 1 }, (_, j) => j).filter((j) => !Token.of(s.ids[j]).control && s.query > 0).slice(-LETTERS).reverse().map((pos) => ({ pos })) : [];
        const say = h('p.say.verdict', { role: 'status' }, Engine.live ? 'Each part and each letter is taken away …'.replace('letter', HomeText.unit()) : ''), unit = HomeText.unit(), rank = Numbers.rank(Engine.choices(s.query), id), word = HomeText.candidate(id), high = Math.max(...shown.map((r) => Math.abs(r.adds))) || 1;
        if (rest.length) shown.push({ name: `${rest.length} others`, adds: rest.reduce((a, r) => a + r.adds, 0), edit: null });
        const rows = (Engine.live ? shown.filter((r) => r.edit) : []).concat(letters), el = h('div', null, h('p.eyebrow', null, `after ${HomeCell.word(s.query)}`), h('h2', null, h('span', null, `Why ${word}?`), h('span.value', null, percent(p))),
            say, h('p.small', null, Glossary.text(`Number ${rank} of ${Numbers.count(all.length)} candidates. What each part of the model adds to its logit${Engine.live ? ', and its probability without that part' : ''}:`)),
            tableOf(['part', 'adds', '', Engine.live ? 'without' : ''], shown, high, p), h('div.sum', null, h('span', null, 'logit, added up'), h('b', null, Numbers.signed(sum, 2))),
            letters.length > 0 && [h('p.small', null, `And its probability if one ${unit} were not in the text:`), tableOf([`without the ${unit}`, '', '', ''], letters, 1, p)],
            h('p.acts', null, button('The sum, number by number', () => Home.choose(['lg', s.query, Home.columnOf(id)]), { id: 'why-sum' })),
            Engine.live && h('p.small', null, 'Why not ', Numbers.top(all, OTHERS + 1).filter((x) => x !== id).slice(0, OTHERS).map((x, i) => [i ? ', ' : '', button(HomeText.candidate(x), () => App.set({ cell: `why.${x}` }), { kind: '.goback' })]), '?'));
        work(rows, id, s, (r) => {
            r.told();
            if (rows.every((x) => x.p !== undefined)) verdict(say, rows, p);
        });
        return el;
    }

    function show(el, id, s) {
        const key = [App.changed, s.query, id, s.temperature].join();
        try {
            if (key !== known.key) known = { key, el: make(id, s) };
        } catch (e) { // a recorded page knows the parts of few candidates
            known = { key, el: h('p.say', null, `${e.message}.`) };
        }
        fill(el, known.el);
    }

    return { asked, show };
})();
