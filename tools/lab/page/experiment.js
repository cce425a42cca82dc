'use strict';
// The experiment room: heads and MLPs ablated or scaled, values patched, vectors added, and what that does
// to the model, compared with the run without.
const Experiment = (() => {
    const { h, fill, table, bar, button, choice, slider, card } = Dom;
    const TOP = 5;

    let grid, factor, kindChoice, effect, chosen = { kind: 'head', layer: 0, head: 0 };

    const same = (a, b) => a.kind === b.kind && a.layer === b.layer && (a.kind === 'mlp' || a.head === b.head);
    const find = (edits, part) => edits.find((e) => same(e, part));
    const touches = (state, layer, head) => Boolean(find(state.edits, { kind: 'head', layer, head }));
    const name = (part) => (part.kind === 'mlp' ? `mlp.${part.layer}` : `${part.layer}.${part.head}`);
    const PATCHED = { patch: 'from the clean text', zero: 'off', mean: 'mean' };
    const showScale = (s) => (s === 'mean' ? 'mean' : s === 0 ? 'off' : `× ${Numbers.fixed(s, 2)}`);

    // A change in words.
    function editName(e) {
        if (e.kind === 'steer') return `steering × ${Numbers.fixed(e.scale, 1)}`;
        if (e.kind !== 'patch') return `${name(e)} ${showScale(e.scale)}`;
        return `${e.over} ${e.layer}.${e.head} at ${e.pos} ${PATCHED[e.scale] || showScale(e.scale)}`;
    }

    // scale 1 takes the change away.
    function put(part, scale) {
        const rest = App.state.edits.filter((e) => !same(e, part));
        App.set({ edits: scale === 1 ? rest : rest.concat({ ...part, scale }) });
    }

    // ---- the parts ----

    function cell(part, state) {
        const edit = find(state.edits, part), on = same(part, chosen);
        return button([h('b', null, name(part)), h('span', null, edit ? showScale(edit.scale) : 'as it is')], () => {
            if (same(part, chosen)) put(part, find(App.state.edits, part) ? 1 : 0);
            chosen = part;
            update(App.state);
        }, { kind: '.part' + (edit ? '.edited' : '') + (on ? '.chosen' : ''), 'aria-pressed': Boolean(edit),
            tabindex: on ? 0 : -1, 'data-part': name(part),
            'aria-label': `${name(part)} ${edit ? showScale(edit.scale) : 'as it is'}` });
    }

    function parts(layer) {
        const heads = Array.from({ length: HomeData.heads(layer).H }, (_, head) => ({ kind: 'head', layer, head }));
        return heads.concat({ kind: 'mlp', layer, head: 0 });
    }

    function onKey(e) {
        const by = Dom.arrow(e);
        if (!by) return;
        const layer = Math.max(0, Math.min(Engine.info.layers - 1, chosen.layer + by[0])), list = parts(layer), last = list.length - 1;
        chosen = list[Math.max(0, Math.min(last, (chosen.kind === 'mlp' ? last : chosen.head) + by[1]))];
        update(App.state);
    }

    // ---- the effect ----

    function showEffect(state) {
        if (!state.edits.length) return fill(effect, h('p', null, 'Nothing is changed. Sweep two texts and click a cell; or choose a head or an MLP, then take it out or scale it.'));
        const before = Engine.choices(state.query, 1), after = Engine.choices(state.query, 0);
        if (Numbers.same(before, after)) return fill(effect, h('p', null, 'The next token’s logits are the same, to the bit.'));
        const tops = Numbers.top(after, TOP), rows = tops.concat(Numbers.top(before, TOP).filter((id) => !tops.includes(id)));
        const zb = Numbers.logSum(before), za = Numbers.logSum(after);
        return fill(effect, h('p.lead', null, 'After ', h('b', null, Token.at(state.query)), Glossary.text(': KL(before ‖ after) '),
            h('b#kl', null, Numbers.fixed(Numbers.kl(Engine.logits(state.query, 1), Engine.logits(state.query, 0)), 6)), ' nats'),
        h('div.scroll', null, table(null, ['token', 'was', 'now', 'probability', 'now', 'change', ''], rows.map((id) => {
            const b = Math.exp(before[id] - zb), a = Math.exp(after[id] - za);
            return [Token.el(id), Numbers.rank(before, id), Numbers.rank(after, id), Numbers.cell(b, 6), Numbers.cell(a, 6),
                Numbers.cell(a - b, 6, Numbers.signed(a - b, 6)), bar(a - b, true)];
        }))));
    }

    // ---- the view ----

    function mount(root) {
        if (!Engine.live) return root.append(h('p', null, 'This page holds a trace of one text and does not recompute: changes need '
            + 'a page that carries the model.'));
        if (!Engine.info.layers) return root.append(h('p', null, 'This model has no layers: there is nothing to take out.'));
        grid = h('div.parts', { role: 'group', 'aria-label': 'heads and MLPs', on: { keydown: onKey } });
        effect = h('div');
        factor = slider('Factor', { min: -2, max: 3, step: 0.05, value: 1, id: 'factor', show: (v) => `× ${Numbers.fixed(v, 2)}`,
            on: (v) => put(chosen, v) });
        kindChoice = choice('the chosen part', [['1', 'as it is'], ['0', 'off'], ['mean', 'mean'], ['other', 'scaled']], '1',
            (v) => put(chosen, v === 'mean' ? 'mean' : v === 'other' ? 0.5 : Number(v)));
        const many = Engine.info.layers * (Engine.info.heads + 1) > 12, steer = Steering.mount(); // where the left column is long
        return root.append(Patching.promptsCard(), h('div.columns', null, Patching.sweepCard(), Worlds.mount()), h('div.columns', null,
            h('div', null, card('Parts of the model', 'A click chooses, another takes out. Off: its output is zero. '
                + 'Mean: its output is replaced by its average over this text.', grid, h('div.row', null, kindChoice.el, factor.el,
                button('Clear all', () => App.set({ edits: [] }), { id: 'clear' }))),
            !many && steer),
            h('div', null, card('The next token, before and after', null, effect), Neurons.mount(), many && steer)));
    }

    function update(state) {
        if (!Engine.live || !Engine.info.layers) return;
        const focused = grid.contains(document.activeElement), edit = find(state.edits, chosen);
        fill(grid, Array.from({ length: Engine.info.layers }, (_, l) => h('div.layer', null, parts(l).map((p) => cell(p, state)))));
        if (focused) grid.querySelector('.chosen').focus({ preventScroll: true });
        const scale = edit ? edit.scale : 1;
        kindChoice.set(scale === 'mean' ? 'mean' : scale === 1 || scale === 0 ? String(scale) : 'other');
        if (scale !== 'mean') factor.set(scale);
        showEffect(state);
        Patching.update(state);
        Steering.update(state);
        Worlds.update(state);
    }

    return { editName, id: 'experiment', title: 'Experiment', mount, update, touches };
})();
