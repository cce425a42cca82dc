'use strict';
// One neuron of an MLP: where in a text it fires most, and which tokens it writes towards.
const Neurons = (() => {
    const { h, fill, table, bar, button, card, whole } = Dom;
    const MOST_TOKENS = 20000, SHOWN = 15, AROUND = 8, MOST_BYTES = 4 << 20;

    let layerInput, unitInput, text, file, goButton, stopButton, status, found, promoted, running = 0;

    const hookOf = (layer) => `blocks.${layer}.mlp.hook_post`;

    function chosen() {
        const layer = whole(layerInput, 'Layer', Engine.info.layers - 1);
        const post = Engine.hooks.find((hook) => hook.name === hookOf(layer));
        if (!post) throw new Error('This model shows no values of its neurons.');
        return { layer, unit: whole(unitInput, 'Neuron', post.dims[post.dims.length - 1] - 1) };
    }

    // ---- what it writes ----

    function showPromoted({ layer, unit }) {
        const logits = Trials.neuron(layer, unit), mean = logits.reduce((x, v) => x + v, 0) / logits.length, centred = logits.map((v) => v - mean);
        const up = Numbers.top(centred, 8), down = Numbers.top(centred.map((v) => -v), 4), high = Math.max(Math.abs(centred[up[0]]), Math.abs(centred[down[0]]), 1e-12);
        fill(promoted, h('div.scroll', null, table(`What layer ${layer}, neuron ${unit} writes, read by the head`, ['token', 'against the mean', ''],
            up.concat(down.reverse()).map((id) => [Token.el(id), Numbers.cell(centred[id], 4, Numbers.signed(centred[id], 4)), bar(centred[id] / high, true)]))));
    }

    // ---- where it fires ----

    // Windows of the context: {ids, first: the first token that is not BOS}.
    function windows(ids) {
        const { info } = Engine, bos = info.front, size = info.context - bos.length, out = [];
        for (let i = 0; i < ids.length && i < MOST_TOKENS; i += size) out.push({ at: i, first: bos.length, ids: bos.concat(ids.slice(i, i + size)) });
        return out;
    }

    // The lines of a file of names are texts of their own; in other models a text goes on over its lines.
    function encodeAll(all) {
        const lines = Engine.info.context <= 64 ? all.split('\n').filter((line) => line) : [all], parts = lines.length ? lines : [''], out = [];
        let bad = 0, why = '';
        for (const part of parts.slice(0, MOST_TOKENS)) {
            try {
                out.push(...windows(Array.from(Engine.encode(part))));
            } catch (e) {
                bad++;
                why = e.message;
            }
        }
        if (!out.length) throw new Error(bad ? `No line can be read by this model: ${why}` : 'There is no text: paste one, or choose a file.');
        return { out, note: bad ? ` ${bad} of ${parts.length} lines were left out: ${why}.` : '' };
    }

    // Keeps the SHOWN largest.
    function keep(best, w, i, value) {
        if (best.length === SHOWN && value <= best[SHOWN - 1].value) return;
        best.push({ value, before: w.ids.slice(Math.max(w.first, i - AROUND), i), token: w.ids[i], after: w.ids.slice(i + 1, i + 1 + AROUND) });
        best.sort((x, y) => y.value - x.value);
        best.length = Math.min(best.length, SHOWN);
    }

    function look(w, { layer, unit }, best) {
        Engine.run(w.ids, [], 1);
        const t = Engine.value(hookOf(layer), 1), d = t.dims[1];
        for (let i = w.first; i < w.ids.length; i++) keep(best, w, i, t.data[i * d + unit]);
    }

    // state: {out: the windows, at: how many are done, which, best}.
    Work.slices.neuron = (state, ms) => {
        for (const began = performance.now(); state.at < state.out.length && performance.now() - began < ms; state.at++) look(state.out[state.at], state.which, state.best);
        state.done = state.at === state.out.length;
        if (Work.onPage) Engine.run(App.state.ids, [], 1); // lane 1 is the shown text without changes
    };

    function showBest(best) {
        const high = Math.max(best.length ? best[0].value : 0, 1e-12);
        fill(found, h('div.scroll', null, table(null, ['fires', '', 'in the text'], best.filter((f) => f.value > 0).map((f) => [Numbers.cell(f.value, 4), bar(f.value / high),
            h('span.snippet', null, Running.ofTokens(f.before), h('mark', null, Token.of(f.token).control ? HomeText.label(f.token) : Running.textOf(f.token)), Running.ofTokens(f.after))]))));
        if (!best.some((f) => f.value > 0)) fill(found, h('p', null, 'It is silent everywhere in this text.'));
    }

    async function search() {
        const mine = ++running;
        await App.tried(() => {
            const which = chosen();
            showPromoted(which);
            const { out, note } = encodeAll(text.value);
            goButton.hidden = true;
            stopButton.hidden = false;
            App.say('');
            return Work.run('neuron', { out, which, best: [], at: 0 }, ({ at, best }) => {
                if (mine !== running) return false;
                status.textContent = `${at} of ${out.length} texts.${note}`;
                return showBest(best);
            });
        }, 'Neurons: ');
        Engine.run(App.state.ids, [], 1);
        goButton.hidden = false;
        stopButton.hidden = true;
    }

    // The strongest neuron after the chosen token.
    function strongest() {
        const { state } = App, layer = Math.min(Number(layerInput.value) || 0, Engine.info.layers - 1), t = App.tensor(hookOf(layer));
        if (!t) return;
        unitInput.value = Numbers.best(App.row(t, state.query));
        showPromoted({ layer, unit: Number(unitInput.value) });
    }

    function mount() {
        layerInput = h('input.cell#neuron-layer', { type: 'text', inputmode: 'numeric', value: '0' });
        unitInput = h('input.cell#neuron-unit', { type: 'text', inputmode: 'numeric', value: '0' });
        text = h('textarea#neuron-text', { rows: 4, 'aria-label': 'texts to search', spellcheck: 'false', placeholder: 'paste texts here, or choose a file' });
        file = Dom.file('neuron-file', 'text/*,.txt,.md,.csv,.json', MOST_BYTES, async (f) => { text.value = await f.text(); });
        goButton = button('Search the text', search, { id: 'neuron-go', kind: '.main' });
        stopButton = button('Stop', () => running++, { id: 'neuron-stop', hidden: true });
        status = h('span.note', { 'aria-live': 'polite' });
        found = h('div');
        promoted = h('div');
        return card('A neuron', 'Where in a text it fires most, and which tokens its row of the output matrix raises.', h('div.row', null,
            h('label.number', null, h('span', null, 'Layer'), layerInput), h('label.number', null, h('span', null, 'Neuron'), unitInput),
            button('The strongest here', strongest, { id: 'neuron-best' })), h('div', { hidden: !Engine.canEncode }, text,
            h('div.row', null, h('label.number', null, h('span', null, 'File'), file), goButton, stopButton, status)), found, promoted);
    }

    return { mount };
})();
