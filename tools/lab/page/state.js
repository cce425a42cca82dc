'use strict';
// What the page shows: the tokens, the changes in force and what is chosen. One object; views are
// told when it changed. Link turns it into the part of the address after '#' and back, with no page
// and no engine.
const Link = (() => {
    const NUMBER = /^\d+(\.\d+)?$/, IDS = /^\d+(\.\d+)*$/;
    const CELL = /^(?:next|stream|heads)$|^\d+$|^why\.\d+$|^(?:\d+\.)?[a-z]+\d*\.\d+\.\d+$/;
    const home = (s) => s.view === 'home', numbers = (value) => value.split('.').map(Number), dotted = (ids) => Array.from(ids).join('.');
    const index = (key) => [NUMBER, Number, (s) => (home(s) || s.view === 'lessons' ? '' : s[key])];
    // What an address has, in its order: its form, what it means, what is written of a state. The home room says where it is shorter.
    const PARTS = {
        view: [/^[a-z]+$/, String, (s) => (home(s) ? '' : s.view)],
        at: [/^\d+$/, Number, (s) => (home(s) ? s.query : '')],
        layer: index('layer'),
        head: [NUMBER, Number, (s) => (home(s) ? `${s.layer}.${s.head}` : index('head')[2](s))],
        query: index('query'),
        key: [NUMBER, Number, (s) => (home(s) && s.cell === 'heads' ? s.key : '')],
        cell: [CELL, String, (s) => (home(s) ? s.cell : '')],
        walk: [NUMBER, Number, (s) => (home(s) && s.walk) || ''],
        lesson: [/^[a-z]+$/, String, (s) => s.lesson],
        done: [/^[a-z]+(\.[a-z]+)*$/, String, (s) => s.done],
        ago: [NUMBER, Number, (s) => s.ago || ''],
        step: [NUMBER, Number, (s) => (s.step < s.ids.length ? s.step : '')],
        what: [/^(weights|rows|scores)$/, String, (s) => (s.cell === 'heads' ? s.what : '')],
        edits: [/./, (value) => value.split(',').map(parseEdit), (s) => kept(s).map(editText).join()],
        other: [IDS, numbers, (s) => (s.view === 'experiment' || kept(s).some((e) => e.scale === 'patch') ? dotted(s.other) : '')],
        was: [IDS, numbers, (s) => dotted(s.was)],
        ids: [IDS, numbers, (s) => dotted(s.ids)],
        temperature: [NUMBER, Number, () => ''],
    };
    const kept = (s) => s.edits.filter((e) => e.kind !== 'steer'); // no address holds a vector
    const PANELS = { predict: 'next', inside: 'stream', attention: 'heads' }; // rooms of former versions that are panels now
    const panel = (cell) => (Object.values(PANELS).includes(cell) ? cell : ''); // what stays open when another token is chosen

    function editText(e) {
        const what = { head: () => `${e.layer}.${e.head}`, mlp: () => `mlp.${e.layer}`, steer: () => 'steer',
            patch: () => `${e.over}.${e.layer}.${e.head}.${e.pos}` }[e.kind]();
        return `${what}:${e.scale}`;
    }

    // The texts of a patch that came by address: `other` is the clean one.
    function fill(edit, ids, other) {
        if (edit.kind !== 'patch' || edit.clean) return edit;
        return edit.scale === 'patch' ? { ...edit, clean: other, corrupt: ids.slice(0, other.length) } : { ...edit, clean: ids, corrupt: null };
    }

    // undefined: it is none. fill() gives a patched site its texts.
    function parseEdit(text) {
        const m = /^(?:mlp\.(\d+)|(\d+)\.(\d+)|([a-z_]+)\.(\d+)\.(\d+)\.(\d+)):(patch|zero|mean|-?\d+(?:\.\d+)?)$/.exec(text), n = (i) => Number(m[i]);
        if (!m || (!m[4] && /patch|zero/.test(m[8]))) return undefined;
        const scale = /[a-z]/.test(m[8]) ? m[8] : n(8);
        if (m[4]) return { kind: 'patch', over: m[4], layer: n(5), head: n(6), pos: n(7), scale };
        return m[1] ? { kind: 'mlp', layer: n(1), head: 0, scale } : { kind: 'head', layer: n(2), head: n(3), scale };
    }

    // What is not understood is left out: an address is typed by people.
    function parse(hash) {
        const out = {};
        for (const [key, value] of new URLSearchParams(hash.replace(/^#/, ''))) {
            const [form, read] = Object.hasOwn(PARTS, key) && PARTS[key][0].test(value) ? PARTS[key] : [];
            if (key === 'head' && /\./.test(value) && form) [out.layer, out.head] = numbers(value);
            else if (form) out[key === 'at' ? 'query' : key] = read(value);
        }
        if (out.edits && !out.edits.every(Boolean)) delete out.edits;
        if (!out.view && /[#&](at|cell|walk)=/.test(`#${hash.replace(/^#/, '')}`)) out.view = 'home';
        return moved(out.view === 'block' ? { ...out, view: 'home' } : out);
    }

    // A state that asks for a room of a former version.
    const moved = (s) => (PANELS[s.view] ? { ...s, view: 'home', cell: PANELS[s.view], walk: 0 } : s);

    const format = (s) => '#' + Object.entries(PARTS).map(([key, [, , write]]) => [key, write(s) ?? '']).filter((p) => p[1] !== '').map((p) => p.join('=')).join('&');

    return { parse, format, fill, editText, moved, panel };
})();

const App = (() => {
    // was: the text before one of its tokens was changed, or nothing. ago: how many steps of a story's training before the last.
    const state = { view: 'home', ago: 0, cell: '', walk: 0, lesson: '', done: '', ids: [], was: [], other: [], step: 0, layer: 0, head: 0, query: 0, key: 0, what: '',
        edits: [], temperature: 1, topK: 0, topP: 1, seed: 0, prompt: 0, dark: false };
    const listeners = [], undo = [];
    let hooks = new Set(), changed = 0, address = 0, moved = false, known = { list: [], ids: [], edits: null, ago: 0 };

    const clamp = (v, n) => Math.max(0, Math.min(n - 1, Number.isFinite(v) ? Math.floor(v) : 0));

    // Moves indices that are out of range to the nearest valid ones.
    function settle() {
        const info = Engine.info, n = state.ids.length;
        state.layer = clamp(state.layer, Math.max(1, info.layers));
        state.head = clamp(state.head, info.layers ? HomeData.heads(state.layer).H : 1);
        state.step = n ? clamp(state.step, n + 1) || 1 : 0;
        state.query = clamp(state.query, Math.max(1, state.step));
        state.key = clamp(state.key, state.query + 1);
    }

    function compute(ids, edits, ago) {
        if (!ids.length) throw new Error('No tokens: a model needs at least one to say what comes next.');
        Engine.select(ago);
        Engine.run(ids, edits, 0);
        if (edits.length) Engine.run(ids, [], 1);
    }

    function tell() {
        for (const fn of listeners) fn(state);
        clearTimeout(address);
        document.documentElement.classList.remove('settled'); // style.css
        address = setTimeout(rest, 200); // browsers allow a few changes a second
        if (moved) writeAddress();
    }

    function rest() {
        document.documentElement.classList.add('settled');
        Dom.reach();
        address = 0;
        writeAddress();
    }

    function writeAddress() {
        const link = Link.format(state), how = moved && parent === window ? 'pushState' : 'replaceState'; // Back of the page around a frame is its own
        moved = false;
        if (link === location.hash) return;
        try {
            history[how](null, '', link);
        } catch {
            // An address that cannot be changed (some viewers) only loses deep links.
        }
    }

    // What Back returns to: a room, a text, a stop, an opened panel.
    const placeOf = (s) => [s.view, s.walk, /^(why|next|stream|heads)/.test(s.cell) ? s.cell : Boolean(s.cell), s.ids.join('.')].join();

    // The next address is a new entry of the history. The last one is written as it is now.
    function leave() {
        if (address) writeAddress();
        moved = true;
    }

    // Takes part of a state. False, and nothing has changed, when the tokens or changes are
    // refused; the reason is shown. quiet: what the page does by itself, which Back skips.
    function set(asked) {
        let part = Link.moved(asked);
        const ids = part.ids || state.ids, ago = clamp(part.ago ?? state.ago, Engine.story ? Engine.story.steps.length : 1), wanted = part.edits || state.edits;
        const edits = ago !== state.ago && wanted.some((e) => e.kind === 'steer') ? wanted.filter((e) => e.kind !== 'steer') : wanted; // vectors were the last step's
        const changes = ids !== state.ids || edits !== state.edits;
        part = { ...part, ago, edits };
        if (changes || ago !== state.ago) {
            try {
                compute(ids, edits, ago);
            } catch (e) {
                say(e.message, true);
                if (state.ids.length) compute(state.ids, state.edits, state.ago);
                return false;
            }
            if (changes && !part.undoing && state.ids.length) undo.push({ ids: state.ids, was: state.was, edits: state.edits, prompt: state.prompt });
            if (undo.length > 100) undo.shift();
            changed++;
            say('');
            part = { was: [], ...part };
            if (ids !== state.ids && part.step === undefined) part = { ...part, step: ids.length };
        }
        const { undoing, quiet, ...rest } = part;
        if (rest.step !== undefined && rest.query === undefined) rest.query = rest.step - 1;
        if (!quiet && placeOf({ ...state, ...rest }) !== placeOf(state)) leave();
        Object.assign(state, rest);
        settle();
        tell();
        return true;
    }

    // New tokens typed or picked: what was drawn before is now prompt.
    const edit = (ids) => set({ ids, prompt: ids.length });

    function back() {
        const last = undo.pop();
        if (last) set({ ...last, undoing: true });
    }

    function say(text, bad = false) {
        const el = document.getElementById('message');
        el.textContent = text;
        el.className = bad ? 'bad' : '';
        el.hidden = !text;
    }

    // Does it, and says what goes wrong, after `before`.
    async function tried(work, before = '') {
        try {
            return await work();
        } catch (e) {
            return say(before + e.message, true);
        }
    }

    // Lane 1 holds the text as it was before one of its tokens was changed.
    function recall() {
        if (Engine.ids(1).join() !== state.was.join()) Engine.run(state.was, [], 1);
    }

    // A hook's values of all tokens: {dims, data}, or null where the model has no such point.
    function tensor(name, lane = 0) {
        return hooks.has(name) ? Engine.value(name, lane) : null;
    }

    // Losses of the shown run, position by position. Those of a prefix that has not changed are
    // kept.
    function losses() {
        const kept = known.edits === state.edits && known.ago === state.ago ? known.list : [];
        let n = 0;
        while (n < kept.length && n + 1 < state.ids.length && kept[n].next === state.ids[n + 1] && known.ids[n] === state.ids[n]) n++;
        const rest = Numbers.losses(state.ids.slice(n), (i) => Engine.logits(n + i, 0)).map((l) => ({ ...l, pos: l.pos + n }));
        known = { ago: state.ago, edits: state.edits, ids: state.ids, list: kept.slice(0, n).concat(rest) };
        return known.list;
    }

    const ofLayer = (name, lane = 0) => tensor(HomeData.nameOf(state.layer, name), lane);

    // Row `pos` (of head `head`) of [T, d] or [T, H, d].
    function row(t, pos, head = 0) {
        const d = t.dims[t.dims.length - 1], per = t.dims.length === 3 ? t.dims[1] : 1;
        const at = (pos * per + head) * d;
        return t.data.subarray(at, at + d);
    }

    // Scores or weights of query i, keys 0 to i.
    function line(t, head, i) {
        const at = (head * t.dims[1] + i) * t.dims[2];
        return t.data.subarray(at, at + i + 1);
    }

    function begin() {
        hooks = new Set(Engine.hooks.map((hook) => hook.name));
    }

    // The unablated run, when there is another.
    const other = () => (state.edits.length ? 1 : 0);

    return { state, set, edit, back, leave, recall, say, tried, tensor, losses, ofLayer, row, line, begin, other, on: (fn) => listeners.push(fn),
        get changed() { return changed; }, get canUndo() { return undo.length > 0; }, tell };
})();

// Tokens as people read them: spaces become visible; control tokens have names.
const Token = (() => {
    const cache = [];
    let endIds = null;

    const seen = (id, { text, bytes, end }) => ({ text: text.replace(/ /g, '␣') || `#${id}`, control: bytes.length === 0, end });
    const of = (id) => (cache[id] ??= seen(id, Engine.piece(id)));

    const text = (id) => of(id).text;
    const isEnd = (id) => of(id).end;

    // All tokens that end a text.
    const ends = () => (endIds ||= Array.from({ length: Engine.info.choices }, (_, id) => id).filter((id) => Engine.piece(id).end));

    // As what may come next; in a text the token that ends others is the start.
    const name = (id) => (isEnd(id) ? 'the end' : HomeText.label(id));
    const at = (pos) => `${pos} ${word(pos)}`;
    const word = (pos) => HomeText.label(App.state.ids[pos]);
    const head = (pos) => `${pos}\n${word(pos)}`;
    const el = (id) => Dom.h('span.token' + (of(id).control ? '.control' : ''), null, name(id));
    return { of, text, ends, isEnd, name, at, word, head, el };
})();
