'use strict';
// A text as a row of tokens, or, if it is long, as running text: coloured by surprisal or attention, with arcs from
// the chosen token to those that it looks at. The picture has one, the strip above other rooms another.
const TextLine = (() => {
    const { h, fill, button } = Dom;
    const MANY = 14, LONG = 60; // letters

    // The share of attention that a head gives to token j from the chosen one; NaN: none.
    const share = (state, j, head = state.head, lane = 0) => {
        const t = App.ofLayer('attn.hook_pattern', lane);
        const at = lane ? HomeChange.former(state.query) : state.query;
        return t && at >= 0 && j <= at ? App.line(t, head, at)[j] : NaN;
    };

    // The colour of v from 0 to 1, so that letters stay readable; null if it is not a number.
    const tint = (v, dark) => (Number.isFinite(v) ? HomeBake.shareColour(v, dark) : null);

    const style = (rgb) => (rgb ? { 'background-color': Colour.css(rgb), color: Colour.ink(rgb) } : {});

    // root: the element whose classes say whether the text is long. how: paint(state), heads(state) with arcs, choose(pos), and, if it has
    // them, below(state, share, surprisal): what is under a token in place of its share, was(state, id, j): what it was before a change, before(state)
    // and after(state): elements around the tokens, drawn(state, height of arcs), isLong(): true or false if a person decided
    // it, and room: true if arrows mean something in the room.
    function make(root, how) {
        const arcs = Arcs.layer(), toks = h('div.toks', { role: 'group', 'aria-label': 'tokens' }), run = h('div.run', { on: { keydown: onKey } }, arcs, toks);
        let isLong = false, laidOut = false;

        function token(id, j, state, surprisal) {
            const a = share(state, j), text = HomeText.label(id), known = Number.isFinite(surprisal), on = j === state.query, was = how.was ? how.was(state, id, j) : '';
            const title = [`position ${j}, ${text}`, was, known ? `surprisal ${Numbers.fixed(surprisal, 2)} nats` : '',
                Number.isFinite(a) ? `attention ${Numbers.fixed(a, 2)}` : '', on && Engine.live ? `press to put another ${HomeText.unit()} in its place` : ''].filter(Boolean).join('; ');
            const press = () => (on && Engine.live ? Strip.pickers.replace(run.querySelector('.tok.on')) : how.choose(j));
            const made = [h('span.g', { style: style(tint(how.paint(state) === 'attention' ? 0.9 * a : 0.62 * Math.min(1, surprisal / 5), state.dark)) }, isLong ? text.replace(/␣/g, ' ') : text.replace(/␣/g, '\u00a0')), h('small', null, was || (how.below ? how.below(state, a, surprisal) : a > 0 && a < 0.001 ? '< 0.1 %' : Number.isFinite(a) ? Numbers.share(a) : ''))];
            const kind = '.tok' + (Token.of(id).control ? '.control' : '') + (on ? '.on' : '') + (was ? '.changed' : '') + (j >= state.step ? '.later' : ''), said = { title, 'aria-label': title, 'aria-current': on ? 'true' : null, 'data-pos': j };
            return isLong ? h(`span${kind}`, { role: 'button', tabindex: on ? 0 : -1, on: { click: press }, ...said }, made) : button(made, press, { kind, ...said }); // words of buttons would break at each
        }

        // Above the first line there is room for arcs, between lines there is little.
        function drawArcs(state) {
            const all = [...toks.querySelectorAll('.tok:not(.alt):not(.former) .g')], line = all[state.query] && all[state.query].getBoundingClientRect().top - run.getBoundingClientRect().top + run.scrollTop;
            const room = Math.min(46, Math.max(10, line < 90 ? line - 4 : 10)), heads = how.heads(state);
            Arcs.show(arcs, run, heads.length ? all : [], state.query, heads.map((head) => (j) => share(state, j, head)), room);
            how.drawn?.(state, room);
        }

        // Arrows choose a token; a letter takes the place of the one that has the focus.
        function onKey(e) {
            const pos = under(e), last = App.state.ids.length - 1, to = { ArrowLeft: pos - 1, ArrowRight: pos + 1, Home: 0, End: last }[e.key], typed = HomeText.unit() === 'letter' && e.key.length === 1 && Strip.idOf(e.key) >= 0;
            if (pos < 0 || e.ctrlKey || e.altKey || e.metaKey || ((typed || how.room) && !e.target.matches(':focus-visible'))) return; // after a press, keys are those of the room
            if (e.key === 'Enter' && e.target.tagName === 'SPAN') e.target.click();
            else if (to !== undefined) how.choose(Math.max(0, Math.min(last, to)));
            else if (Engine.live && (typed || e.key === 'Delete' || e.key === 'Backspace')) {
                App.set({ query: pos });
                if (typed) Strip.edits.replace(Strip.idOf(e.key));
                else Strip.edits.remove();
            } else return;
            e.preventDefault();
            e.stopPropagation();
            if (!typed) toks.querySelector('.tok.on')?.focus();
        }

        function update(state) {
            const s = [NaN].concat(App.losses().map((l) => l.nll)), kept = toks.contains(document.activeElement) && document.activeElement.dataset.pos;
            const size = [...(how.before ? state.was : []), ...state.ids].reduce((n, id) => n + HomeText.label(id).length + 0.5, 0);
            isLong = how.isLong?.() ?? size > LONG;
            root.classList.toggle('long', isLong);
            root.classList.toggle('many', size > MANY && !isLong);
            root.classList.toggle('arched', how.heads(state).length > 0);
            fill(toks, how.before?.(state), Array.from(state.ids).map((id, j) => [token(id, j, state, s[j]), HomeText.label(id) === '⏎' ? h('br') : null]), how.after?.(state));
            if (kept) toks.querySelector(`[data-pos="${kept}"]`)?.focus({ preventScroll: true });
            const chosen = run.scrollHeight > run.clientHeight && toks.querySelector('.tok.on');
            if (chosen) run.scrollTop = state.query === state.ids.length - 1 ? run.scrollHeight : chosen.offsetTop - run.clientHeight / 2; // a long text is seen at its end
            if (laidOut) drawArcs(state);
        }

        new ResizeObserver(() => {
            laidOut = true;
            drawArcs(App.state);
        }).observe(run);
        return { run, update, isLong: () => isLong };
    }

    // The token that a pointer or the focus is on, or -1.
    const under = (e) => Number(e.target.closest('[data-pos]')?.dataset.pos ?? -1);

    return { make, share, tint, style, under };
})();
