'use strict';
// A text that was changed, by a letter or as a whole (App.state.was: the text before): what the picture shows of both runs, and what the panel
// says of the difference. The run before is read from lane 1.
const HomeChange = (() => {
    const { h, fill, bar, button, choice } = Dom;
    const HOLD = 2000; // milliseconds that the difference is shown where motion is allowed

    let shown = 'difference', timer = 0, made = { key: '', before: null, difference: null }, told = '';

    // Whether an address may ask for the comparison.
    const valid = ({ ids, was, edits }) => Boolean(was) && Engine.live && !edits.length && was.length <= Engine.info.context && was.every((id) => id < Engine.info.vocab) && (was.length !== ids.length || was.some((id, j) => id !== ids[j]));

    const on = (s) => s.was.length > 0;

    // How many tokens both texts begin with, and of texts of different lengths with how many both end.
    const common = ({ ids, was }) => HomeData.once(['ends', ids, was.length, was], () => {
        const n = Math.min(ids.length, was.length);
        let front = 0, back = 0;
        while (front < n && ids[front] === was[front]) front++;
        while (back < n - front && ids[ids.length - 1 - back] === was[was.length - 1 - back]) back++;
        return { front, back };
    });

    // Where token pos of the text was in the text before; -1: it is new. Texts of one length are compared place by place.
    function former(pos) {
        const { ids, was } = App.state, { front, back } = common(App.state);
        return ids.length === was.length || pos < front ? pos : pos >= ids.length - back ? pos - ids.length + was.length : -1;
    }

    // Probabilities before the change; null: nothing is changed.
    function chances(pos) {
        if (!on(App.state) || former(pos) < 0) return null;
        App.recall();
        return Numbers.softmax(Engine.choices(former(pos), 1), App.state.temperature);
    }

    // ---- the picture ----

    // The plan with the numbers before the change, or with what was added to them.
    function plans(key, scene, build) {
        if (made.key === key) return made;
        App.recall();
        const before = HomeData.inLane(1, build), at = Array.from({ length: scene.s.T }, (_, r) => former(r)), changed = (m, get, kind, of) => ({ ...m, kind, get, of: (m.of || '') + of });
        const old = (m, from) => (r, c) => {
            const a = m.kind === 'y' ? r : at[r], b = m.tri ? at[c] : c;
            return !from || a < 0 || b < 0 ? NaN : from.get(a, b);
        };
        const all = (fn) => ({ ...scene, mats: new Map([...scene.mats].map(([id, m]) => [id, m.kind === 'w' ? m : fn(m, before.mats.get(id))])) });
        made = { key, before: all((m, from) => changed(m, old(m, from), m.kind, ' before')), difference: { ...all((m, from, was = old(m, from)) => changed(m, (r, c) => m.get(r, c) - was(r, c), m.kind === 'y' ? 'y' : 'x', ' difference')), faint: true } };
        return made;
    }

    // What is drawn of `scene`; build() makes it of the run in a lane.
    function picture(key, scene, build) {
        if (!on(App.state)) return scene;
        return { now: scene, ...plans(key, scene, build) }[shown];
    }

    // What a number was before the change; undefined: nothing is changed, or it is a weight.
    const was = ({ m, r, c }) => (on(App.state) && m.kind !== 'w' && made.before ? made.before.mats.get(m.id)?.get(r, c) : undefined);

    // ---- what is shown of both ----

    const brief = (ids) => { const text = HomePanel.textOf(ids); return text.length > 14 ? `…${text.slice(-13)}` : text || 'before'; };

    function turn(to, redraw) {
        clearTimeout(timer);
        shown = to;
        redraw(true);
    }

    // The switch above the picture. A new change begins with the difference; with motion it goes over to what is now.
    function update(el, s, redraw) {
        const key = on(s) ? `${s.was.join('.')} ${s.ids.join('.')}` : '';
        el.hidden = !key;
        if (key === told) return;
        told = key;
        shown = 'difference';
        clearTimeout(timer);
        redraw();
        if (!key) return;
        const picker = choice('what is shown', [['before', brief(s.was)], ['difference', 'difference'], ['now', brief(s.ids)]], shown, (v) => turn(v, redraw));
        if (!HomeCamera.still()) timer = setTimeout(() => { turn('now', redraw); picker.set('now'); }, HOLD);
        fill(el, picker.el);
    }

    // ---- the panel ----

    const rowsOf = (hook, lane, pos) => HomeData.flatRow(App.tensor(hook, lane), pos);

    // How far row `pos` moved: the length of the difference in terms of the length before.
    const moved = (now, was) => Numbers.length(now.map((v, i) => v - was[i])) / (Numbers.length(was) || 1);

    // [name, how far] of each part.
    function parts(s) {
        const { layers, heads, choices } = Engine.info, list = [], many = layers > 1, add = (name, hook, cut = (row) => row) => {
            if (App.tensor(hook)) list.push([name, moved(cut(rowsOf(hook, 0, s.query)), cut(rowsOf(hook, 1, former(s.query))))]);
        };
        add('its row in the stream', layers ? 'blocks.0.hook_resid_pre' : 'hook_embed');
        for (let l = 0; l < layers; l++) {
            for (let a = 0; a < heads && !many; a++) add(`what head ${a} brings`, `blocks.${l}.attn.hook_z`, (row) => row.subarray((a * row.length) / heads, ((a + 1) * row.length) / heads));
            add(many ? `attention of layer ${l}` : 'what attention adds', `blocks.${l}.hook_attn_out`);
            add(many ? `MLP of layer ${l}` : 'what the MLP adds', `blocks.${l}.hook_mlp_out`);
        }
        add(`scores of the ${Numbers.count(choices)}`, 'logits', (row) => row.subarray(0, choices));
        return list;
    }

    // The head whose look moved most: the share that went elsewhere.
    function movedHead(s) {
        let best = { share: 0 };
        for (const { layer, head } of HomeData.allHeads()) {
            const hook = `blocks.${layer}.attn.hook_pattern`, a = App.line(App.tensor(hook), head, s.query), b = Array.from(App.line(App.tensor(hook, 1), head, former(s.query)));
            let share = a.reduce((sum, v, i) => sum + Math.abs(v - (b[former(i)] ?? 0)), 0) / 2;
            a.forEach((_, i) => { if (former(i) >= 0) b[former(i)] = 0; });
            share += b.reduce((sum, v) => sum + v, 0) / 2; // what is no longer there
            if (share > best.share) best = { share, layer, head };
        }
        return best.share > 0 ? ` Head ${best.head}${Engine.info.layers > 1 ? ` of layer ${best.layer}` : ''} moved its look most: ${Numbers.share(best.share)} of it went elsewhere.` : '';
    }

    function guesses(s) {
        const p = HomeData.chances(s.query), was = chances(s.query), [now, old] = [Numbers.best(p), Numbers.best(was)], say = (id) => `${HomeText.candidate(id)} (${Numbers.share(was[id])} → ${Numbers.share(p[id])})`;
        return now === old ? `After the framed ${HomeText.unit()} it still guesses ${say(now)}.` : `After the framed ${HomeText.unit()} it no longer guesses ${say(old)} but ${say(now)}.`;
    }

    // Whether all rows of the run before the first changed token have the same bits.
    function sameBefore(s, at) {
        return Engine.hooks.every(({ name }) => {
            const a = App.tensor(name), b = App.tensor(name, 1);
            return /pattern|scores/.test(name) || Numbers.same(a.data.subarray(0, (at * a.data.length) / a.dims[0]), b.data.subarray(0, (at * b.data.length) / b.dims[0]));
        });
    }

    function panel(el, s) {
        App.recall();
        const { front: at, back } = common(s), longer = s.ids.length !== s.was.length, found = former(s.query) >= 0, list = found ? parts(s) : [], high = Math.max(...list.map((x) => x[1])) || 1, unit = HomeText.unit();
        fill(el, h('p.eyebrow', null, longer ? 'two texts' : `one ${unit} changed`), h('h2', null, `${brief(s.was)} → ${brief(s.ids)}`), h('p.say', null, found ? [guesses(s), movedHead(s)] : `The framed ${unit} is not in the text before: there is nothing to compare its row with.`),
            longer && h('p.say', null, `Now ${s.ids.length} ${unit}s in place of ${s.was.length}. Compared are the first ${at}${back ? ` and, counted from the end, the last ${back}` : ''}: what both texts begin and end with.`),
            at > 0 && sameBefore(s, at) && h('p.say', null, at === 1 ? 'The row before the change is the same to the last digit: a GPT never looks ahead.' : `All ${at} rows before the change are the same to the last digit: a GPT never looks ahead.`),
            found && h('figure', null, h('figcaption', null, `how far the framed ${unit}’s row moved`), list.map(([name, v]) => h('div.strip.far', null, h('span', null, name), bar(v / high), h('span.n', null, Numbers.share(v))))),
            found && h('p.small', null, '100 %: the change is as large as the row itself was.'),
            h('p.acts', null, button('Swap', () => App.set({ ids: s.was, was: s.ids, query: found ? former(s.query) : s.was.length - 1 }), { id: 'swap' }), button(`Back to “${brief(s.was)}”`, () => App.edit(s.was), { id: 'unchange' }), button('More ways to compare', () => App.set({ view: 'experiment', other: Array.from(s.was), was: [] }))));
    }

    return { valid, on, former, chances, was, picture, update, panel, get differs() { return on(App.state) && shown === 'difference'; } };
})();
