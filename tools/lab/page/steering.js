'use strict';
// Steering vectors: rows that are added to the residual stream after a layer, from a file or from the
// difference of two texts.
const Steering = (() => {
    const { h, fill, button, slider, card } = Dom;
    const MOST_BYTES = 64 << 20;

    let from, more, layerInput, factor, loaded, what = '';

    const put = (scale) => {
        const rest = App.state.edits.filter((e) => e.kind !== 'steer');
        return App.set({ edits: scale === 0 ? rest : rest.concat({ kind: 'steer', scale, name: what }) });
    };

    function layerOf() {
        return layerInput.value.trim() === '' ? -1 : Dom.whole(layerInput, 'Layer', Engine.info.layers - 1);
    }

    // From now on these vectors; nothing has changed when they are refused.
    function take(bytes, layer, name) {
        Trials.steerRead(bytes, layer);
        what = name;
        fill(loaded, 'Loaded: ', h('b', null, name));
        put(factor.input.valueAsNumber || 1);
        App.say('');
    }

    const HERE = 'Steering: '; // before what goes wrong

    async function fileChosen(file) {
        const bytes = new Uint8Array(await file.arrayBuffer());
        take(bytes, bytes[0] === 0x47 ? -1 : layerOf(), file.name);
    }

    // The residual after a layer at the last token of a text.
    function residual(text, layer) {
        const { ids } = Strip.read(text);
        if (!ids.length) throw new Error('A text is empty.');
        Engine.run(ids, [], 1);
        const t = Engine.value(`blocks.${layer}.hook_resid_post`, 1), d = t.dims[1];
        return t.data.slice((ids.length - 1) * d, ids.length * d);
    }

    function make() {
        App.tried(() => {
            const layer = layerOf() < 0 ? Math.floor((Engine.info.layers - 1) / 2) : layerOf();
            const x = residual(more.value, layer), y = residual(from.value, layer);
            take(Trials.npyOf(x.map((v, i) => v - y[i])), layer, `“${more.value}” − “${from.value}” after layer ${layer}`);
        }, HERE);
        if (App.state.ids.length) Engine.run(App.state.ids, [], 1);
    }

    function mount() {
        const text = (id, value) => h('input', { id, type: 'text', value, autocomplete: 'off', spellcheck: 'false' });
        const file = Dom.file('steer-file', '.npy,.gguf', MOST_BYTES, fileChosen, HERE);
        more = text('steer-more', '');
        from = text('steer-less', '');
        layerInput = h('input.cell#steer-layer', { type: 'text', inputmode: 'numeric', placeholder: 'auto' });
        loaded = h('p.note', { 'aria-live': 'polite' }, 'No vector yet.');
        factor = slider('Scale', { min: -8, max: 8, step: 0.1, value: 1, id: 'steer-scale', show: (v) => `× ${Numbers.fixed(v, 1)}`, on: (v) => what && put(v) });
        return card('Steer', 'A vector is added to the residual stream after a layer, at every token: a control vector from a file (.gguf, .npy), or what '
            + 'sets one text apart from another.', h('div.row', null, h('label.number', null, h('span', null, 'File'), file),
            h('label.number', null, h('span', null, 'Layer'), layerInput)),
        h('div.row' + (Engine.canEncode ? '' : '.hidden'), { hidden: !Engine.canEncode }, h('label.grow', null, h('span', null, 'More of'), more),
            h('label.grow', null, h('span', null, 'less of'), from), button('Make it', make, { id: 'steer-make' })),
        h('div.row', null, factor.el, button('Take it away', () => put(0), { kind: '.small', id: 'steer-off' })), loaded);
    }

    function update(state) {
        const edit = state.edits.find((e) => e.kind === 'steer');
        if (edit) factor.set(edit.scale);
    }

    return { mount, update };
})();
