'use strict';
// Two prompts and the sweep between them: which value inside the model makes the difference (mgpt patch).
const Patching = (() => {
    const { h, fill, button, select, card } = Dom;
    const POINTS = [['resid_pre', 'the stream before a layer'], ['resid_mid', 'the stream after attention'], ['resid_post', 'the stream after a layer'], ['attn_out', 'what attention adds'], ['mlp_out', 'what the MLP adds'],
        ['z', 'what a head mixed'], ['pattern', 'the shares of a head'], ['q', 'queries'], ['k', 'keys'], ['v', 'values']];
    const MODES = [['patch', 'from the clean text'], ['zero', 'zero'], ['mean', 'mean of the text'], ['scale', 'times']];

    let input, cleanText, corruptText, between, over, mode, measure, a, b, factor, goButton, stopButton, status, map, hover, result, stopped;

    // ---- the two prompts ----

    // The shown text with another token in the middle: the likeliest that is not there.
    function suggest(state) {
        const ids = Array.from(state.ids.slice(0, state.step)), blank = (id) => Token.of(id).control || Token.isEnd(id) || /^(␣|\\n)*$/.test(Token.text(id));
        if (ids.length < 2) return [];
        let at = Math.ceil(ids.length / 2);
        while (at > 1 && (at >= ids.length || blank(ids[at]))) at--;
        const others = Numbers.top(Engine.choices(at - 1, 0), 12).filter((id) => id !== ids[at] && !blank(id));
        ids[at] = others[0] === undefined ? (ids[at] + 1) % Engine.info.choices : others[0];
        return ids;
    }

    function readClean() {
        if (!Engine.canEncode) {
            const { info } = Engine, ids = input.value.trim().split(/[\s,]+/).filter(Boolean).map(Number), bad = ids.find((id) => !Number.isInteger(id) || id < 0 || id >= info.vocab);
            if (!ids.length || bad !== undefined)
                throw new Error(`This model has no text: write token ids from 0 to ${info.vocab - 1}, with spaces between them.`);
            return { ids, note: '' };
        }
        const read = Strip.read(input.value);
        Engine.checkIds(read.ids);
        return read;
    }

    const typed = () => App.tried(() => {
        const { ids, note } = readClean();
        App.set({ other: ids });
        App.say(note);
    }, 'The clean text: ');

    function showPrompts(state) {
        const clean = state.other, text = Array.from(state.ids.slice(0, state.step)), same = (i) => clean[i] === text[i];
        const look = (i) => (same(i) ? {} : { chosen: true, title: 'differs' });
        Running.show(cleanText, clean, look);
        Running.show(corruptText, text, look);
        const n = text.filter((id, i) => !same(i)).length, lengths = clean.length !== text.length;
        fill(between, lengths ? `The clean text has ${clean.length} tokens, this one ${text.length}: a patch needs the same number.`
            : n ? `${text.length} tokens each; ${n === 1 ? 'one differs' : `${n} differ`}.` : 'Both texts are the same: there is nothing to patch.');
        between.classList.toggle('bad', lengths);
    }

    function promptsCard() {
        input = h('textarea#clean', { rows: 1, 'aria-label': 'clean text', autocapitalize: 'off', spellcheck: 'false' });
        input.addEventListener('keydown', (e) => { // Shift and Enter is a line of the text
            if (e.key !== 'Enter' || e.shiftKey) return;
            e.preventDefault();
            typed();
        });
        cleanText = h('p.running');
        corruptText = h('p.running');
        between = h('p.note', { 'aria-live': 'polite' });
        const form = h('form.row', { on: { submit: (e) => { e.preventDefault(); typed(); } } }, h('label.grow', null, h('span', null, 'Clean'), input),
            h('button', { type: 'submit' }, 'Take'));
        return card('Two texts', 'The model goes on differently after each. The corrupted one is the text above; the clean one has the same number of tokens and differs '
            + 'in what matters. Where inside the model does the difference live?', h('div.worlds', null,
            h('div.world', null, h('h4', null, 'Clean'), cleanText, form, button('Swap both', swap, { kind: '.small', id: 'swap' })),
            h('div.world', null, h('h4', null, 'Corrupted (the text above)'), corruptText, between)));
    }

    function swap() {
        const { other, ids, step } = App.state;
        if (App.edit(Array.from(other))) App.set({ other: Array.from(ids.slice(0, step)), edits: [] });
    }

    // ---- what is measured ----

    const pieceOf = (id) => (Engine.canEncode ? Token.text(id) : String(id));

    // What each text goes on with.
    function suggestTokens(state) {
        const first = (ids) => (Engine.live && ids.length ? Numbers.top(lastLogits(ids), 3) : [0]);
        const x = first(state.other), y = first(Array.from(state.ids.slice(0, state.step)));
        a.value = pieceOf(x[0]);
        b.value = pieceOf(y.find((id) => id !== x[0]) ?? y[0]);
    }

    // Lane 1 is the run without changes: it is given back its tokens.
    function lastLogits(ids) {
        Engine.run(ids, [], 1);
        const logits = Engine.choices(ids.length - 1, 1);
        Engine.run(App.state.ids, [], 1);
        return logits;
    }

    const scaleOf = (m) => (m === 'scale' ? Number(factor.value) : m);

    function settings() {
        const { state } = App, m = mode.el.querySelector('select').value, ids = Array.from(state.ids.slice(0, state.step));
        if (m === 'scale' && !Number.isFinite(scaleOf(m))) throw new Error(`Times: expected a number, found “${factor.value}”.`);
        if (m === 'patch' && state.other.length !== ids.length)
            throw new Error(`The clean text has ${state.other.length} tokens and the corrupted one ${ids.length}: a patch needs the same number.`);
        return { over: over.el.querySelector('select').value, mode: m === 'scale' ? `scale:${scaleOf(m)}` : m, scale: scaleOf(m),
            metric: { difference: `${a.value} - ${b.value}`, logprob: `logprob:${a.value}`, kl: 'kl' }[measure.el.querySelector('select').value].replace(/␣/g, ' '), clean: m === 'patch' ? state.other : ids, corrupt: m === 'patch' ? ids : null };
    }

    // ---- the sweep ----

    async function sweep() {
        let what;
        stopped = false;
        try {
            App.set({ edits: App.state.edits.filter((e) => e.kind !== 'patch') });
            what = settings();
            result = Object.assign(Trials.begin(what), what, { at: [-1, -1], into: Array.from(what.corrupt || what.clean) });
            result.goal = Trials.metricOf('clean');
            result.base = what.corrupt ? Trials.metricOf('corrupt') : result.goal;
            showProgress();
        } catch (e) {
            return App.say(e.message, true);
        }
        App.say('');
        const mine = result;
        goButton.hidden = true;
        stopButton.hidden = false;
        await App.tried(() => Trials.run(() => mine === result && !stopped && showProgress()));
        if (mine === result) finish();
        return undefined;
    }

    function showProgress() {
        status.textContent = `${result.total - result.left} of ${result.total} runs`;
        showMap();
        return true;
    }

    function finish() {
        goButton.hidden = false;
        stopButton.hidden = true;
        status.textContent = result.left > 0 ? `Stopped after ${result.total - result.left} of ${result.total} runs: dots are not known.` : `${result.values.length} sites, ${result.total} runs.`;
        showMap();
    }

    // Rows of the map are layers, or all of their heads; columns are positions.
    const siteOf = (i, j) => ({ layer: Math.floor(i / (result.heads || 1)), head: i % (result.heads || 1), pos: j });

    const valueOf = (s) => result.values[(s.layer * (result.heads || 1) + s.head) * result.n + s.pos];

    function say(i, j) {
        const s = siteOf(i, j), v = valueOf(s), whole = result.goal - result.base, d = v - result.base;
        fill(hover, h('b', null, `${result.over} of layer ${s.layer}${result.heads ? `, head ${s.head}` : ''}, ${s.pos} ${HomeText.label(result.into[s.pos])}`), Number.isNaN(v) ? ': not known' : [`: measure ${Numbers.fixed(v, 4)}, change ${Numbers.signed(d, 4)}`,
            result.corrupt && Math.abs(whole) > 1e-12 && `, ${Numbers.fixed((100 * d) / whole, 0)} % of the way to the clean text`]);
    }

    function showMap() {
        const heads = result.heads || 1;
        const change = (i, j) => valueOf(siteOf(i, j)) - result.base, known = Array.from(result.values, (v) => Math.abs(v - result.base)).filter((v) => v >= 0);
        const high = Math.max(1e-12, ...known), digits = Math.max(0, Math.min(6, 1 - Math.floor(Math.log10(high))));
        map.update({ rows: result.layers * heads, cols: result.n, rowName: result.heads ? 'layer.head' : 'layer', colName: 'after',
            rowLabel: (i) => (result.heads ? `${Math.floor(i / heads)}.${i % heads}` : String(i)), colLabel: (j) => `${j}\n${HomeText.label(result.into[j])}`,
            value: change, masked: (i, j) => Number.isNaN(change(i, j)), scale: Colour.diverging(high, App.state.dark),
            format: (v) => Numbers.fixed(v, digits), selected: result.at, onHover: say,
            onSelect: (i, j) => { result.at = [i, j]; say(i, j); showMap(); }, onChoose: patch });
    }

    // This site is changed from now on, in every room.
    function patch(i, j) {
        const s = siteOf(i, j), { state } = App, rest = state.edits.filter((e) => e.kind !== 'patch');
        const text = result.into.join() === Array.from(state.ids).join() ? {} : { ids: result.into, prompt: result.into.length };
        App.set({ ...text, edits: rest.concat({ kind: 'patch', over: result.over, ...s, scale: result.scale, clean: result.clean, corrupt: result.corrupt }) });
    }

    function sweepCard() {
        over = select('Site', POINTS.map(([p, words]) => [p, `${p}: ${words}`]), Engine.info.layers < 3 ? 'z' : 'resid_pre', () => {});
        mode = select('becomes', MODES, 'patch', (v) => { factor.hidden = v !== 'scale'; });
        factor = h('input.cell', { type: 'text', inputmode: 'decimal', value: '0.5', 'aria-label': 'factor', hidden: true });
        measure = select('Measure', [['difference', 'logit of A − logit of B'], ['logprob', 'log-probability of A'], ['kl', 'KL from the clean text']], 'difference', (v) => {
            a.parentNode.hidden = v === 'kl';
            b.parentNode.hidden = v !== 'difference';
        });
        a = h('input.cell#token-a', { type: 'text', autocomplete: 'off', spellcheck: 'false' });
        b = h('input.cell#token-b', { type: 'text', autocomplete: 'off', spellcheck: 'false' });
        goButton = button('Sweep', sweep, { kind: '.main', id: 'patch' });
        stopButton = button('Stop', () => { stopped = true; }, { id: 'patch-stop', hidden: true });
        status = h('span.note', { 'aria-live': 'polite' });
        hover = h('p.note');
        map = Matrix.create('change of the measure by site', { id: 'sweep-map', maxRows: 12 });
        map.el.hidden = true;
        return card('Where does the difference live', 'The corrupted text runs again for every layer, head and position, each time with one value of the clean run put in. Where the measure moves, '
            + 'the difference passes. Click a cell (or Enter) to keep its change and see what the model says. The numbers are those of mgpt patch, to the bit.',
        h('div.row', null, over.el, mode.el, factor, measure.el, h('label.number', null, h('span', null, 'A'), a), h('label.number', null, h('span', null, 'B'), b)),
        h('div.row', null, goButton, stopButton, status), map.el, hover);
    }

    // ---- the view ----

    let suggestedFor = '', suggested = null;

    function update(state) {
        const valid = state.other.length && state.other.every((id) => id < Engine.info.vocab) && state.other.length <= Engine.info.context;
        const text = Array.from(state.ids.slice(0, state.step)).join(), kept = state.edits.some((e) => e.kind === 'patch');
        if (!valid || (state.other === suggested && !kept && !suggestedFor.endsWith(`|${text}`))) suggested = state.other = suggest(state);
        const key = `${state.other.join()}|${text}`;
        if (key !== suggestedFor && state.other.length) {
            suggestedFor = key;
            input.value = Engine.canEncode ? Running.ofTokens(state.other.slice(Engine.info.front.length)) : state.other.join(' ');
            suggestTokens(state);
        }
        showPrompts(state);
        map.el.hidden = !result;
        if (result) showMap();
    }

    return { promptsCard, sweepCard, update };
})();
