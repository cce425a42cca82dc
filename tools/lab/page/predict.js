'use strict';
// What comes next: bars of the next token, drawing, and how well the text that is there was
// foreseen.
const Predict = (() => {
    const { h, fill, table, bar, button, slider, card } = Dom;
    const SHOWN = 12, MOST_DRAWN = 256, MANY = 1000, LISTED = 14;
    const EVERY = 100; // milliseconds between two looks at a thousand texts

    let bars, title, topK, topP, seed, drawnText, lossEl, stopButton, drawnNote, manyEl, writing = 0;

    const sampling = (s) => ({ temperature: s.temperature, topK: s.topK, topP: s.topP });

    // ---- next-token bars ----

    function rowOf(id, p, high, why, logit, state) {
        const next = state.ids[state.query + 1] === id, note = next ? 'is next in the text' : '';
        return { dim: Boolean(why), selected: next, cells: [Token.el(id), bar(p / high), Numbers.cell(p, 6, Numbers.percent(p)),
            Numbers.cell(logit), why ? `cut by ${why}` : note] };
    }

    function showBars(state) {
        const logits = Engine.choices(state.query, 0), { p, why, n } = Numbers.survivors(logits, sampling(state));
        const shown = Numbers.top(p, SHOWN), high = p[shown[0]] || 1;
        const named = shown.concat(Token.ends().filter((id) => !shown.includes(id)));
        const rows = named.map((id) => rowOf(id, p[id], high, why(id), logits[id], state));
        if (p.length > named.length) {
            const sum = p.reduce((a, b) => a + b, 0) - named.reduce((a, id) => a + p[id], 0);
            rows.push({ dim: true, cells: [`other (${Numbers.count(p.length - named.length)} tokens)`, bar(sum / high),
                Numbers.cell(Math.max(0, sum), 6, Numbers.percent(Math.max(0, sum))), '', ''] });
        }
        const undecided = Numbers.entropy(p);
        fill(title, 'After ', h('b', null, Token.at(state.query)), ' the likeliest is ', h('b', null, Token.name(shown[0])), '. ', Glossary.text(`Entropy ${Numbers.fixed(undecided, 2)} nats: ` +
            `as undecided as between ${Numbers.fixed(Math.exp(undecided), 1)} equally likely ones. ${Numbers.count(n)} of ${Numbers.count(p.length)} can be drawn.`));
        fill(bars, table(null, ['token', '', 'probability', 'logit', ''], rows, '.next'));
    }

    // ---- drawing ----

    // What comes after the last shown token: its id, or -1 when refused.
    function draw(greedy) {
        const s = App.state, n = s.step;
        return refused(n) ? -1 : Engine.sample(n - 1, { ...sampling(s), temperature: greedy ? 0 : s.temperature, seed: s.seed, counter: n - Math.min(s.prompt, n) });
    }

    // Draws it; what followed is replaced.
    function drawOne(greedy) {
        const s = App.state, ids = Array.from(s.ids).slice(0, s.step), id = draw(greedy);
        return id >= 0 && App.set({ ids: ids.concat(id), prompt: Math.min(s.prompt, ids.length) }) ? id : -1;
    }

    // True, and it is said: nothing can follow n tokens.
    function refused(n) {
        const why = !Engine.live ? Strip.NO : n >= Engine.info.context ? `The context is full: ${n} of ${n} positions.` : '';
        if (why) App.say(why, true);
        return why !== '';
    }

    // In slices, so that the page stays alive; another change of the text ends it.
    async function toTheEnd() {
        const s = App.state, ids = Array.from(s.ids).slice(0, s.step), prompt = Math.min(s.prompt, ids.length), changed = App.changed, mine = ++writing;
        if (refused(ids.length)) return;
        const show = (all) => {
            const alive = mine === writing && App.changed === changed;
            if (alive && stopButton) showDrawn(all.slice(prompt), `${all.length - ids.length} tokens …`);
            if (stopButton) stopButton.hidden = !alive;
            return alive;
        };
        await App.tried(async () => {
            const all = await Trials.extend(ids, s.edits, MOST_DRAWN, { ...sampling(s), seed: s.seed, counter: ids.length - prompt }, show);
            if (App.changed === changed) App.set({ ids: all, prompt });
        });
        if (stopButton) stopButton.hidden = true;
    }

    function resample() {
        const s = App.state;
        if (App.set({ ids: Array.from(s.ids).slice(0, s.prompt), prompt: s.prompt, seed: s.seed + 1 })) toTheEnd();
    }

    // ---- a thousand texts ----

    // Those that came most often, with how many came once only.
    function showMany({ found, n, tokens }, ms) {
        const order = [...found].sort((a, b) => b[1] - a[1]), once = order.filter((o) => o[1] === 1).length;
        fill(manyEl, h('p.note', { role: 'status' }, `${Numbers.count(n)} of ${Numbers.count(MANY)} texts, ${Numbers.count(found.size)} different, ${Numbers.count(once)} came once; ` +
            `${Numbers.fixed(tokens / Math.max(1, n), 1)} tokens each, ${Numbers.count(Math.round((1000 * tokens) / ms))} tokens a second`),
        order.length > 0 && h('div.scroll', null, table(null, ['text', '', 'times'], order.slice(0, LISTED).map(([text, times]) => [h('span.drawn', null, text || '(nothing)'), bar(times / order[0][1]), times]), '.many')));
    }

    async function drawMany() {
        const s = App.state, changed = App.changed, mine = ++writing, began = performance.now(), all = { found: new Map(), n: 0, tokens: 0 };
        let shown = began;
        if (refused(s.step)) return;
        const show = (texts, left) => {
            const alive = mine === writing && App.changed === changed, now = performance.now();
            for (const { times, drawn, ids } of texts) {
                const text = Running.ofTokens(ids);
                all.found.set(text, (all.found.get(text) || 0) + times);
                all.n += times;
                all.tokens += times * drawn;
            }
            stopButton.hidden = !alive || left === 0;
            if (App.changed !== changed || (alive && left > 0 && now - shown < EVERY)) return alive;
            showMany(all, now - began);
            shown = performance.now();
            return alive;
        };
        await App.tried(() => Trials.many(MANY, s.step, MOST_DRAWN, { ...sampling(s), seed: s.seed }, show));
        stopButton.hidden = true;
    }

    // ---- loss ----

    function showLoss(state) {
        const losses = App.losses().slice(0, Math.max(0, state.step - 1));
        if (!losses.length) return fill(lossEl, h('p', null, 'A loss needs a token that follows: two tokens at least.'));
        const worst = Math.max(...losses.map((l) => l.nll));
        const sum = losses.reduce((a, l) => a + l.nll, 0), mean = sum / losses.length;
        const rows = losses.map((l) => ({ selected: l.pos === state.query, cells: [Token.at(l.pos), Token.name(l.next),
            Numbers.cell(l.p, 6, Numbers.percent(l.p)), Numbers.count(l.rank), Numbers.cell(l.nll, 2), bar(l.nll / worst)] }));
        return fill(lossEl, h('div.scroll.tall', null, table(null, ['after', 'what came', 'probability', 'rank', 'surprisal', ''], rows)),
            h('p.sum', null, `Average surprisal of ${losses.length} tokens: `, h('b', { title: `all digits: ${mean}` }, Numbers.fixed(mean)),
                Glossary.text(` nats = ${Numbers.fixed(mean / Math.LN2)} bits; perplexity ${Numbers.fixed(Math.exp(mean), 2)}`)));
    }

    // As text: the prompt, then what was drawn.
    function showDrawn(drawn, note) {
        const { state } = App, before = Array.from(state.ids.slice(0, state.prompt));
        Running.show(drawnText, before.concat(drawn), (i) => (i < before.length ? { later: true } : {}));
        drawnNote.textContent = drawn.length ? note : 'Nothing drawn yet.';
    }

    // ---- the view ----

    const number = (name, id, props, on) => {
        const input = h('input', { type: 'number', id, inputmode: 'numeric', ...props });
        input.addEventListener('change', () => {
            const v = Math.floor(Number(input.value));
            if (input.value !== '' && Number.isSafeInteger(v) && v >= 0) on(v);
            else App.say(`${name}: expected a whole number from 0, found “${input.value}”.`, true);
        });
        return { el: h('label.number', null, h('span', null, name), input), input };
    };

    function mount(root) {
        title = h('p.lead');
        bars = h('div.scroll');
        lossEl = h('div');
        stopButton = button('Stop', () => writing++, { id: 'draw-stop', hidden: true });
        drawnText = h('p.running.drawn');
        manyEl = h('div');
        drawnNote = h('p.note', { 'aria-live': 'polite' });
        topP = slider('Top-p', { min: 0.05, max: 1, step: 0.05, value: 1, id: 'top-p', show: (v) => Numbers.fixed(v, 2),
            on: (v) => App.set({ topP: v }) });
        topK = number('Top-k (0: all)', 'top-k', { min: 0, value: 0 }, (v) => App.set({ topK: v }));
        seed = number('Seed', 'seed', { min: 0, value: 0 }, (v) => App.set({ seed: v }));
        root.append(h('div.columns', null,
            card('Next token', null, title, bars),
            h('div', null, card('Draw', 'The project’s own sampler: a seed draws here what mgpt generate --seed draws.',
                h('div.row.live', null, topK.el, topP.el, seed.el), h('div.row.live', null,
                    button('Sample next', () => drawOne(false), { id: 'sample', kind: '.main' }),
                    button('Likeliest', () => drawOne(true), { id: 'greedy' }), button('To the end', toTheEnd, { id: 'end' }), button('1,000 texts', drawMany, { id: 'many', title: 'the texts of mgpt generate --samples 1000' }), stopButton,
                    button('Resample', resample, { id: 'resample', title: 'back to the prompt, next seed' })), drawnText, drawnNote, manyEl),
            card('Loss', 'How well the model foresaw the text that is there: the surprisal of each token.', lossEl))));
    }

    function update(state) {
        topP.set(state.topP);
        if (document.activeElement !== topK.input) topK.input.value = state.topK;
        if (document.activeElement !== seed.input) seed.input.value = state.seed;
        showBars(state);
        showLoss(state);
        showDrawn(Array.from(state.ids.slice(state.prompt)), '');
    }

    return { title: 'Next token', mount, update, sampling, draw, drawOne, toTheEnd };
})();
