'use strict';
// The text above the picture: tokens as they are read, with surprisal or attention as colour, arcs
// from the chosen one to those that it looks at, and the likeliest next ones, which a click appends.
const HomeText = (() => {
    const { h, fill, button, choice } = Dom;
    const NEXT = 5, MANY = 14, LONG = 60;

    let root, run, arcs, paint = 'surprisal', painter, heads, headOut, input, writeButton, says, warmth, small = null, laidOut = false, every = -1; // every: the head that was chosen before all of them

    // A token as a word: marks for what cannot be seen.
    function label(id) {
        const t = Token.of(id);
        if (id === Engine.info.bos && t.control) return 'start';
        return t.text === '\\n' ? '⏎' : t.text;
    }

    // What the model reads: letters, if all of its tokens are single characters.
    function unit() {
        if (small === null) small = Array.from({ length: Math.min(2000, Engine.info.vocab) }, (_, id) => Token.of(id)).every((t) => t.control || [...t.text].length <= 1 || t.text[0] === '\\');
        return small ? 'letter' : 'token';
    }

    // Words about tokens, as words about letters where tokens are letters.
    const inUnits = (text) => (unit() === 'token' ? text : text.replace(/\btoken/g, 'letter').replace(/\bToken/g, 'Letter'));

    function setWriting(on) {
        if (writeButton) writeButton.textContent = on ? 'Stop' : 'Write on';
    }

    // One that may come next, in a sentence.
    const candidate = (id) => (Token.isEnd(id) ? 'the end' : { '⏎': 'a new line', '␣': 'a space' }[label(id)] || `“${label(id)}”`);

    const share = (state, j, head = state.head) => {
        const t = App.ofLayer('attn.hook_pattern');
        return t && j <= state.query ? App.line(t, head, state.query)[j] : NaN;
    };

    function colours(state, j, surprisal) {
        const v = paint === 'attention' ? 0.9 * share(state, j) : 0.62 * Math.min(1, surprisal / 5);
        if (!Number.isFinite(v)) return {};
        const rgb = HomeBake.shareColour(v, state.dark);
        return { 'background-color': Colour.css(rgb), color: Colour.ink(rgb) };
    }

    function token(id, j, state, surprisal) {
        const a = share(state, j), text = label(id), known = Number.isFinite(surprisal);
        const title = [`position ${j}, ${text}`, known ? `surprisal ${Numbers.fixed(surprisal, 2)} nats` : '',
            Number.isFinite(a) ? `attention ${Numbers.fixed(a, 2)}` : ''].filter(Boolean).join('; ');
        return button([h('span.g', { style: colours(state, j, surprisal) }, text.replace(/␣/g, '\u00a0')), h('small', null, Number.isFinite(a) ? Numbers.share(a) : '')],
            () => App.set({ query: j, cell: '' }), { kind: '.tok' + (Token.of(id).control ? '.control' : '') + (j === state.query ? '.on' : '') + (j >= state.step ? '.later' : ''),
                title, 'aria-label': title, 'aria-current': j === state.query ? 'true' : null, 'data-pos': j });
    }

    function next(state) {
        const p = HomeData.chances(state.query), end = state.query === state.ids.length - 1;
        const [first, ...rest] = Numbers.top(p, NEXT).filter((id, i) => !i || p[id] >= 0.005).map((id, i) => {
            const text = Token.isEnd(id) ? 'end' : label(id), percent = Numbers.share(p[id]);
            return button([h('span.g', null, text), h('small', null, percent)], () => append(id), { disabled: !Engine.live || !end,
                kind: '.tok.alt' + (i ? '' : '.likeliest') + (Token.isEnd(id) ? '.control' : ''), title: end ? `append ${text}` : `${text}, ${percent}` });
        });
        return [h('span.nexts', null, h('span.then', null, 'next'), first), rest];
    }

    function append(id) {
        App.set({ ids: Array.from(App.state.ids).concat(id), prompt: App.state.ids.length, cell: '' });
    }

    // Above the first line there is room, between lines there is little.
    function drawArcs(state) {
        const all = [...run.querySelectorAll('.tok:not(.alt) .g')], line = all[state.query] && all[state.query].getBoundingClientRect().top - run.getBoundingClientRect().top + run.scrollTop;
        const shown = every < 0 ? [state.head] : Array.from({ length: Engine.info.heads }, (_, i) => i);
        Arcs.show(arcs, run, all, state.query, shown.map((head) => (j) => share(state, j, head)), Math.min(46, Math.max(10, line < 90 ? line - 4 : 10)));
    }

    function typed() {
        const text = input.value;
        if (Strip.type(text)) App.set({ cell: '' });
    }

    // The token that a pointer or the focus is on.
    const under = (e) => Number(e.target.closest('[data-pos]')?.dataset.pos ?? -1);

    // `pictured`: what the buttons next to the text save. write(): the model goes on, or stops. point(pos): a hand points at a token, or at none.
    function mount(into, pictured, write, point) {
        root = into;
        arcs = Arcs.layer();
        run = h('div.run', null, arcs, h('div.toks', { role: 'group', 'aria-label': 'tokens' }), says = h('p.says'));
        for (const event of ['pointerover', 'focusin']) run.addEventListener(event, (e) => point(event === 'focusin' && !e.target.matches(':focus-visible') ? -1 : under(e)));
        for (const event of ['pointerleave', 'focusout']) run.addEventListener(event, () => point(-1));
        input = h('input', { type: 'text', 'aria-label': 'text', placeholder: 'type your own', autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false' });
        painter = choice('colour', [['surprisal', 'surprisal'], ['attention', 'attention']], paint, (v) => {
            paint = v;
            update(App.state);
        });
        const n = Engine.info.heads, step = (by) => App.set({ head: (App.state.head + by + n) % n });
        headOut = h('output', null, '0');
        heads = n <= 6 ? choice('head', Array.from({ length: n }, (_, i) => [i, String(i)]).concat(n > 1 ? [[n, 'all']] : []), 0, (v) => {
            every = v === n ? App.state.head : -1;
            App.set(v === n ? {} : { head: v });
        }) : null;
        warmth = Dom.slider('temperature', { min: 0.1, max: 2, step: 0.1, value: 1, id: 'warmth', show: (v) => Numbers.fixed(v, 1), on: (temperature) => App.set({ temperature }) });
        const picker = heads ? heads.el : h('span.stepper', null, button('‹', () => step(-1), { 'aria-label': 'head before' }), headOut, button('›', () => step(1), { 'aria-label': 'head after' }));
        writeButton = button('Write on', write, { id: 'write', title: `the model draws the next ${unit()}, and the next, until its text ends` });
        root.append(run, h('div.ctl', null, h('form.type.live', { on: { submit: (e) => { e.preventDefault(); typed(); } } }, input, h('button', { type: 'submit' }, 'Run'), writeButton),
            h('div', null, h('span.hide', null, 'colour '), painter.el), Engine.info.layers ? h('div', null, h('span.hide', null, 'arcs: '), 'head ', picker) : null, h('div', null, warmth.el, Share.row(pictured))));
        new ResizeObserver(() => {
            laidOut = true;
            drawArcs(App.state);
        }).observe(run);
    }

    function update(state) {
        const s = [NaN].concat(App.losses().map((l) => l.nll)), toks = run.querySelector('.toks'), kept = toks.contains(document.activeElement) && document.activeElement.dataset.pos;
        const size = Array.from(state.ids).reduce((n, id) => n + label(id).length + 0.5, 0);
        root.classList.toggle('long', size > LONG);
        root.classList.toggle('many', size > MANY && size <= LONG);
        fill(says, App.ofLayer('attn.hook_pattern') ? `Under each ${unit()}: how much head ${state.head} of “${label(state.ids[state.query])}” looks at it. ` : '', 'Right: what may come next.');
        fill(toks, Array.from(state.ids).map((id, j) => [token(id, j, state, s[j]), label(id) === '⏎' ? h('br') : null]), next(state));
        if (kept) toks.querySelector(`[data-pos="${kept}"]`)?.focus({ preventScroll: true });
        if (every !== state.head) every = -1;
        if (heads) heads.set(every < 0 ? state.head : Engine.info.heads);
        root.classList.toggle('every', every >= 0);
        warmth.set(state.temperature);
        headOut.textContent = state.head;
        if (laidOut) drawArcs(state);
    }

    return { mount, update, label, candidate, unit, inUnits, setWriting, focus: () => input.focus() };
})();
