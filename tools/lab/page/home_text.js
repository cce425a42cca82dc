'use strict';
// The text above the picture: tokens as they are read, with surprisal or attention as colour, arcs
// from the chosen one to those that it looks at, and the likeliest next ones, which a click appends.
const HomeText = (() => {
    const { h, fill, button, choice } = Dom;
    const NEXT = 5, MANY = 14, LONG = 60;

    let root, run, arcs, arcsBefore, paint = 'surprisal', painter, heads, headOut, input, writeButton, says, warmth, small = null, laidOut = false, every = -1; // every: the head that was chosen before all of them

    const kept = () => Link.panel(App.state.cell);

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

    const share = (state, j, head = state.head, lane = 0) => {
        const t = App.ofLayer('attn.hook_pattern', lane);
        const at = lane ? HomeChange.former(state.query) : state.query;
        return t && at >= 0 && j <= at ? App.line(t, head, at)[j] : NaN;
    };

    function colours(state, j, surprisal) {
        const v = paint === 'attention' ? 0.9 * share(state, j) : 0.62 * Math.min(1, surprisal / 5);
        return tint(v, state.dark);
    }

    function tint(v, dark) {
        if (!Number.isFinite(v)) return {};
        const rgb = HomeBake.shareColour(v, dark);
        return { 'background-color': Colour.css(rgb), color: Colour.ink(rgb) };
    }

    function token(id, j, state, surprisal) {
        const a = share(state, j), text = label(id), known = Number.isFinite(surprisal), on = j === state.query, from = state.was.length ? HomeChange.former(j) : j, old = state.was.length > 0 && (from < 0 || state.was[from] !== id), was = old && (from < 0 ? 'new' : `was ${label(state.was[from])}`);
        const title = [`position ${j}, ${text}`, old ? was : '', known ? `surprisal ${Numbers.fixed(surprisal, 2)} nats` : '',
            Number.isFinite(a) ? `attention ${Numbers.fixed(a, 2)}` : '', on && Engine.live ? `press to put another ${unit()} in its place` : ''].filter(Boolean).join('; ');
        const long = root.classList.contains('long'), press = () => (on && Engine.live ? Strip.pickers.replace(run.querySelector('.tok.on')) : App.set({ query: j, cell: kept() }));
        const made = [h('span.g', { style: colours(state, j, surprisal) }, long ? text.replace(/␣/g, ' ') : text.replace(/␣/g, '\u00a0')), h('small', null, old ? was : Number.isFinite(a) ? Numbers.share(a) : '')];
        const kind = '.tok' + (Token.of(id).control ? '.control' : '') + (on ? '.on' : '') + (old ? '.changed' : '') + (j >= state.step ? '.later' : ''), said = { title, 'aria-label': title, 'aria-current': on ? 'true' : null, 'data-pos': j };
        return long ? h(`span${kind}`, { role: 'button', tabindex: on ? 0 : -1, on: { click: press }, ...said }, made) : button(made, press, { kind, ...said }); // words of buttons would break at each
    }

    // The text as it was before a letter was changed, in the colours of what was looked at then.
    function former(state) {
        if (!state.was.length) return null;
        App.recall();
        const all = Array.from(state.was, (id, j) => h('span.tok.former' + (Token.of(id).control ? '.control' : '') + (j === HomeChange.former(state.query) ? '.on' : ''), null, h('span.g', { style: tint(0.9 * share(state, j, state.head, 1), state.dark) }, label(id).replace(/␣/g, '\u00a0')), h('small')));
        return h('span.formers', { role: 'img', 'aria-label': `before: ${Array.from(state.was, label).join(' ')}` }, all, h('span.then', null, '→'));
    }

    function next(state) {
        const p = HomeData.chances(state.query), before = HomeChange.chances(state.query), end = state.query === state.ids.length - 1;
        const [first, ...rest] = Numbers.top(p, NEXT).filter((id, i) => !i || p[id] >= 0.005).map((id, i) => {
            const text = Token.isEnd(id) ? 'end' : label(id), percent = `${before ? `${Numbers.share(before[id]).replace(' %', '')} → ` : ''}${Numbers.share(p[id])}`;
            return button([h('span.g', null, text), h('small', null, percent)], () => append(id), { disabled: !Engine.live || !end,
                kind: '.tok.alt' + (i ? '' : '.likeliest') + (Token.isEnd(id) ? '.control' : ''), title: end ? `append ${text}` : `${text}, ${percent}` });
        });
        return [h('span.nexts', null, button('next', () => App.set({ cell: 'next', walk: 0 }), { kind: '.then.goback', id: 'open-next', title: 'all candidates, drawing, the loss of the text' }), first), rest];
    }

    function append(id) {
        App.set({ ids: Array.from(App.state.ids).concat(id), prompt: App.state.ids.length, cell: kept() });
    }

    // Above the first line there is room, between lines there is little.
    function drawArcs(state) {
        const all = [...run.querySelectorAll('.tok:not(.alt):not(.former) .g')], line = all[state.query] && all[state.query].getBoundingClientRect().top - run.getBoundingClientRect().top + run.scrollTop;
        const shown = every < 0 ? [state.head] : Array.from({ length: Engine.info.heads }, (_, i) => i);
        const room = Math.min(46, Math.max(10, line < 90 ? line - 4 : 10));
        Arcs.show(arcs, run, all, state.query, shown.map((head) => (j) => share(state, j, head)), room);
        if (state.was.length) App.recall();
        Arcs.show(arcsBefore, run, state.was.length && HomeChange.former(state.query) >= 0 ? [...run.querySelectorAll('.former .g')] : [], HomeChange.former(state.query), shown.map((head) => (j) => share(state, j, head, 1)), room);
    }

    // Arrows choose a letter; a letter takes the place of the one that has the focus.
    function onKey(e) {
        const pos = under(e), by = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
        if (pos < 0 || e.ctrlKey || e.altKey || e.metaKey || !e.target.matches(':focus-visible')) return;
        if (e.key === 'Enter' && e.target.tagName === 'SPAN') e.target.click();
        else if (by) App.set({ query: Math.max(0, Math.min(App.state.ids.length - 1, pos + by)), cell: kept() });
        else if (unit() === 'letter' && e.key.length === 1 && Strip.idOf(e.key) >= 0 && Engine.live) {
            App.set({ query: pos });
            Strip.edits.replace(Strip.idOf(e.key));
        } else return;
        e.preventDefault();
        e.stopPropagation();
        if (by) run.querySelector('.tok.on')?.focus();
    }

    function typed() {
        const text = input.value;
        if (Strip.type(text)) App.set({ cell: kept() });
    }

    // The token that a pointer or the focus is on.
    const under = (e) => Number(e.target.closest('[data-pos]')?.dataset.pos ?? -1);

    // `pictured`: what the buttons next to the text save. point(pos): a hand points at a token, or at none.
    function mount(into, pictured, point) {
        root = into;
        [arcs, arcsBefore] = [Arcs.layer(), Arcs.layer()];
        run = h('div.run', { on: { keydown: onKey } }, arcs, arcsBefore, h('div.toks', { role: 'group', 'aria-label': 'tokens' }), says = h('p.says'));
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
        writeButton = button('Write on', () => HomeWrite.write(), { id: 'write', title: `the model draws the next ${unit()}, and the next, until its text ends` });
        root.append(run, h('div.ctl', null, h('form.type.live', { on: { submit: (e) => { e.preventDefault(); typed(); } } }, input, h('button', { type: 'submit' }, 'Run'), button('Compare', () => { if (input.value) Strip.type(input.value, App.state.was.length ? App.state.was : App.state.ids); }, { id: 'compare', title: 'run it and keep the text that is there, to see both' }), writeButton, button('»', () => HomeWrite.all(), { id: 'write-all', 'aria-label': 'write to the end', title: 'write to the end' })),
            h('div', null, h('span.hide', null, 'colour '), painter.el), Engine.info.layers ? h('div', null, h('span.hide', null, 'arcs: '), 'head ', picker) : null, h('div', null, warmth.el, Share.row(pictured))));
        new ResizeObserver(() => {
            laidOut = true;
            drawArcs(App.state);
        }).observe(run);
    }

    function update(state) {
        const s = [NaN].concat(App.losses().map((l) => l.nll)), toks = run.querySelector('.toks'), kept = toks.contains(document.activeElement) && document.activeElement.dataset.pos;
        const size = [...state.was, ...state.ids].reduce((n, id) => n + label(id).length + 0.5, 0);
        root.classList.toggle('long', size > LONG);
        root.classList.toggle('many', size > MANY && size <= LONG);
        fill(says, App.ofLayer('attn.hook_pattern') ? `Under each ${unit()}: how much head ${state.head} of “${label(state.ids[state.query])}” looks at it. ` : '', 'Right: what may come next.');
        fill(toks, former(state), Array.from(state.ids).map((id, j) => [token(id, j, state, s[j]), label(id) === '⏎' ? h('br') : null]), next(state));
        if (kept) toks.querySelector(`[data-pos="${kept}"]`)?.focus({ preventScroll: true });
        if (every !== state.head) every = -1;
        const chosen = root.classList.contains('long') && run.querySelector('.tok.on');
        if (chosen) run.scrollTop = state.query === state.ids.length - 1 ? run.scrollHeight : chosen.offsetTop - run.clientHeight / 2; // a long text is seen at its end
        if (heads) heads.set(every < 0 ? state.head : Engine.info.heads);
        root.classList.toggle('every', every >= 0);
        warmth.set(state.temperature);
        headOut.textContent = state.head;
        if (laidOut) drawArcs(state);
    }

    return { mount, update, label, candidate, unit, inUnits, setWriting, focus: () => input.focus() };
})();
