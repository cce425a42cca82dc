'use strict';
// The first room of a page that carries several steps of a training: one slider through them, and what the model writes, where it looks,
// what it guesses and what is in its weights at each. Every number is of `mgpt generate`, `score` (about.story) or of the step that is open.
const Story = (() => {
    const { h, fill, button, choice, table, bar } = Dom;
    const LONG = 20, STEP = 520, FIRST = 1600, PAUSE = 1500, SLOW = 1200; // milliseconds: of a step, before the first, where the alphabet falls into place, of a step for those who want no motion
    const SOON = 0.25, GUESSES = 5, FILM = 64, LIGHT = 4e6, WIDE = 1000, HIGH = 64; // nats; largest vocabulary and most bytes of a film's steps; of the curve
    const GPT = [['GPT-2', 124439808, 12, 768, 1024], ['GPT-3', 175e9, 96, 12288, 2048]]; // parameters, layers, width, context: their papers

    const el = {}, heads = [], film = [];
    let timer = 0, root = null, line = null, matrix = null, layer = null, kind = 'qk', own = 'own', chosen = [-1, -1], drawn = '', moved = false, filmed = '', strong = 0; // strong: what is drawn in full colour, of the last step's table

    const story = () => Engine.story;
    const last = () => story().steps.length - 1;
    const at = (state) => last() - state.ago;
    const unit = () => HomeText.unit();
    const torn = (nats) => Numbers.fixed(Math.exp(nats), Math.exp(nats) < 9.95 ? 1 : 0);
    const count = Numbers.count;
    const headed = (l) => Boolean(App.tensor(`blocks.${l}.attn.hook_pattern`)); // a short convolution has no heads

    // ---- sentences ----

    const NUMBERS = ['none', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight'];
    const capital = (word) => String(word).replace(/^[a-z]/, (c) => c.toUpperCase());

    function lead(k) {
        const { steps, blind, letters, pairs, held } = story(), { loss, texts } = steps[k], u = unit(), known = texts.filter((t) => t[1]).length;
        const tornText = loss === null ? '' : loss > blind ? 'It guesses worse than blindly' : `Before each ${u} it is torn between ${torn(loss)} of ${count(Engine.info.choices)} ${u}s`;
        if (k === last()) return `Training is over.${story().texts && texts.length ? ` ${capital(NUMBERS[known] || known)} of these ${NUMBERS[texts.length] || texts.length} texts ${known === 1 ? 'is' : 'are'} among those it has read; the others it made up.` : ''} ${tornText}${loss === null || loss > blind || steps[0].loss === null ? '' : `; at the start it was ${torn(steps[0].loss)}`}. Nobody told it a single rule.`;
        if (loss === null) return `A GPT is a program that guesses the next ${u}. This is step ${count(steps[k].step)} of its training.`;
        if (k === 0 && loss > blind - 0.1) return `A GPT is a program that guesses the next ${u}. This one is ${count(Engine.info.params)} numbers, and so far they are random: what it writes is noise${loss > blind ? ', and it guesses worse than blindly' : ''}.`;
        const judged = held ? 'on texts that it has not seen, ' : '';
        if (letters === null) return `${tornText}.`;
        if (loss > letters) return `It has hardly moved: someone who only counts ${u}s would do better. ${tornText}.`;
        if (loss > pairs) return `It has begun to see which ${u} follows which: it beats one who counts ${u}s. A plain table of pairs would still beat it. ${tornText}.`;
        return `It is better than any table of pairs, ${judged}${loss > pairs - SOON ? `so it must be looking further back` : 'by looking further back'}. ${tornText}.`;
    }

    function looks(state) {
        const a = App.line(App.ofLayer('attn.hook_pattern'), state.head, state.query), best = Numbers.best(a), even = 1 / a.length, name = `From “${HomeText.label(state.ids[state.query])}” head ${state.head}`;
        return a[best] < 1.35 * even ? `${name} looks everywhere about equally: ${Numbers.share(a[best])} at most, where an even look gives ${Numbers.share(even)}.`
            : `${name} looks most at “${HomeText.label(state.ids[best])}”${best === state.query ? ', itself' : ''}: ${Numbers.share(a[best])} of its attention, where an even look gives ${Numbers.share(even)}.`;
    }

    function sorts(c) {
        if (!c.classes) return [`In this order the table of head ${c.index} varies most: ${unit()}s that it treats alike are near each other.`];
        const f = Circuits.front(c), letters = h('b.hot', null, f.first.join(' ')), luck = f.tries >= 100 ? ` By luck a head does this once in ${count(f.tries)} tries.` : ' That is no more than luck would bring.';
        if (f.hits === f.m) return ['In this head’s own order the first ', NUMBERS[f.m], ' letters are ', letters, ': all vowels. Nobody told it.', luck];
        return ['In this head’s own order the first ', NUMBERS[f.m], ' letters are ', letters, `: ${NUMBERS[f.hits]} of the ${NUMBERS[f.m]} vowels.`, luck];
    }

    // ---- parts ----

    function showTexts(k) {
        const { texts } = story().steps[k], before = el.texts.querySelectorAll('li'), any = texts.some((t) => t[1]);
        if (before.length !== texts.length) fill(el.texts, texts.map(() => h('li')));
        el.texts.classList.toggle('long', texts.some((t) => t[0].length > LONG));
        texts.forEach(([text, known], i) => {
            const li = el.texts.children[i], shown = text.replace(/\n/g, '⏎') || '∅';
            if (li.textContent !== shown) fill(li, shown);
            li.className = known ? 'known' : '';
            li.title = known ? 'one of the texts that it learned from' : '';
        });
        fill(el.known, any ? ['Purple: one of the ', count(story().texts), ' texts that it learned from. The others it made up.'] : story().texts ? `None of them is among the ${count(story().texts)} texts of its training.` : '');
    }

    function showWord(state) {
        line.update(state);
        el.looks.textContent = App.ofLayer('attn.hook_pattern') ? looks(state) : 'This layer has no heads.';
        const p = Numbers.softmax(Engine.choices(state.query)), most = p[Numbers.best(p)];
        fill(el.guess, table(null, [`after “${HomeText.label(state.ids[state.query])}”`, '', 'share'], Numbers.top(p, GUESSES).map((id) => [Token.isEnd(id) ? 'end' : HomeText.label(id), bar(p[id] / Math.max(0.5, most)), Numbers.cell(p[id], 4, Numbers.share(p[id]))])));
    }

    function showHeads(state) {
        const t = App.ofLayer('attn.hook_pattern'), n = state.ids.length;
        heads.forEach(({ canvas, el: b }, head) => {
            Matrix.draw(canvas, { rows: n, cols: n, scale: Colour.sequential(0, 1), value: (i, j) => App.line(t, head, i)[j], masked: (i, j) => j > i });
            b.setAttribute('aria-pressed', head === state.head);
        });
    }

    // The letters along the table's two directions: the first from left to right, the second upwards. One that would cover another goes up or
    // down to the nearest place that is free; from left to right nothing moves.
    const MAP = 190, LETTER = 22, NEAR = 0.075, ROOT = 0.6; // pixels high; of a letter; shares of the width; small distances are drawn larger
    function showAlphabet(c) {
        const shown = c.order.filter((i) => !Token.of(c.ids[i]).control), low = c.along[shown[shown.length - 1]], high = c.along[shown[0]], up = Circuits.second(c), most = up ? Math.max(...shown.map((i) => Math.abs(up[i]))) || 1 : 1, placed = [];
        fill(el.alphabet, shown.map((i) => {
            const x = high > low ? (high - c.along[i]) / (high - low) : 0;
            const at = up ? (MAP / 2) * (1 - Math.sign(up[i]) * (Math.abs(up[i]) / most) ** ROOT) : 0, free = (y) => placed.every((p) => Math.abs(p.x - x) >= NEAR || Math.abs(p.y - y) >= LETTER);
            let y = at;
            for (let by = 0; !free(y); by += 2) y = free(Math.max(0, at - by)) ? Math.max(0, at - by) : at + by;
            placed.push({ x, y });
            return h('span' + (c.classes?.yes.includes(i) ? '.vowel' : ''), { style: { left: `${4 + 92 * x}%`, top: `${y + 4}px` } }, Circuits.word(c, i));
        }));
        el.alphabet.style.setProperty('height', `${Math.max(0, ...placed.map((p) => p.y)) + 34}px`);
        el.alphabet.setAttribute('aria-label', `in this order: ${shown.map((i) => Circuits.word(c, i)).join(' ')}`);
        fill(el.sorts, sorts(c));
        el.sorts.parentNode.hidden = !shown.length; // a model without a vocabulary
    }

    function sorted(c) {
        if (own === 'own') return c;
        const rest = c.order.filter((i) => Token.of(c.ids[i]).control), letters = c.order.filter((i) => !rest.includes(i)).sort((a, b) => (own === 'vowels' ? c.classes.no.includes(a) - c.classes.no.includes(b) : 0) || a - b);
        return { ...c, order: letters.concat(rest) };
    }

    function showTable(state) {
        const c = sorted(Circuits.of(kind, state.layer, state.head, state)), [best] = Circuits.strongest(c, 1), place = (i) => c.order.indexOf(i);
        const on = chosen[0] < 0 ? [place(best[0]), place(best[1])] : chosen.map((i) => place(i)), [i, j] = on.map((k) => c.order[k]), v = c.at(i, j);
        matrix.update(Circuits.matrix(c, state, { ...(filmable() && { scale: Colour.diverging(strong, state.dark) }), selected: on, onSelect: (a, b) => { chosen = [c.order[a], c.order[b]]; showTable(App.state); } }));
        const rank = c.data.reduce((n, x) => n + Number(Math.abs(x) > Math.abs(v)), 1);
        fill(el.cell, Circuits.KINDS[kind].says(h('b.hot', null, Circuits.word(c, i)), h('b.hot', null, Circuits.word(c, j)), v), `: ${Numbers.signed(v, 2)}. `, rank === 1 ? `The strongest of all ${count(c.data.length)}.` : `Number ${count(rank)} of ${count(c.data.length)} by size.`);
        fill(el.facts, Circuits.factsTable(c));
        fill(el.axes, `Down: ${Circuits.KINDS[kind].row}. Across: ${Circuits.KINDS[kind].col}. `, Circuits.product(kind), `${kind === 'direct' ? '' : `, head ${state.head}`}, ${unit()}s alone, without places${state.layer ? ' and without what the layers before add' : ''}.${Circuits.some(c)}`);
    }

    const filmable = () => Engine.info.choices <= FILM && Engine.info.file_bytes * story().steps.length <= LIGHT;

    // The table at every step, in the order of the last one: made when it is first wanted, by opening each step once.
    function showFilm(state) {
        if (!filmable()) return;
        const key = `${kind} ${state.layer} ${state.head} ${state.dark}`;
        if (key !== filmed) {
            const tables = story().steps.map((_, k) => {
                Engine.select(last() - k);
                return Circuits.of(kind, state.layer, state.head, { ...state, ago: last() - k });
            }), end = tables[last()], scale = Circuits.matrix(end, state).scale;
            strong = scale.high;
            Engine.select(state.ago);
            Engine.run(state.ids, state.edits, 0);
            if (state.edits.length) Engine.run(state.ids, [], 1);
            film.forEach(({ canvas }, k) => Matrix.draw(canvas, { rows: end.rows, cols: end.cols, scale, value: (i, j) => tables[k].at(end.order[i], end.order[j]) }));
        }
        filmed = key;
        film.forEach(({ el: b }, k) => b.setAttribute('aria-pressed', k === at(state)));
    }

    // ---- time ----

    // Where a loss is on the curve, from 0, the top, to 1.
    function height(loss) {
        const { steps, blind, letters, pairs } = story(), all = [...steps.map((s) => s.loss), blind, letters, pairs].filter((v) => v !== null), high = Math.max(...all), low = Math.min(...all);
        return 0.08 + (0.84 * (high - loss)) / (high - low || 1);
    }

    function curve() {
        const { steps, blind, letters, pairs } = story(), lines = [['knows nothing', blind], [`counts ${unit()}s`, letters], ['counts pairs', pairs]].filter((l) => l[1] !== null), losses = steps.map((s) => s.loss);
        if (losses.includes(null)) return null;
        const y = (v) => HIGH * height(v), x = (k) => (k / Math.max(1, last())) * WIDE;
        const svg = Dom.svg('svg', { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: 'none', 'aria-hidden': 'true' });
        svg.append(...lines.map(([, v]) => Dom.svg('line', { x1: 0, x2: WIDE, y1: y(v), y2: y(v) })), Dom.svg('polyline', { points: losses.map((v, k) => `${x(k)},${y(v)}`).join(' ') }));
        return [svg, lines.map(([name, v]) => h('span.ref', { title: `${Numbers.exact(v)} nats`, style: { top: `${(100 * y(v)) / HIGH}%` } }, `${name}: ${torn(v)}`))];
    }

    function showTime(k) {
        const { step, loss, texts } = story().steps[k], say = loss === null ? '' : `torn between ${Numbers.fixed(Math.exp(loss), 1)} ${unit()}s`;
        el.slider.value = k;
        el.slider.setAttribute('aria-valuetext', [`step ${count(step)}`, say, texts.length ? `writes ${texts.slice(0, 3).map((t) => t[0]).join(', ')}` : ''].filter(Boolean).join(', '));
        fill(el.now, h('b', null, `step ${count(step)}`), ' ', h('span', { title: loss === null ? '' : `${Numbers.exact(loss)} nats a ${unit()}` }, say));
        el.mark.style.setProperty('left', `${(100 * k) / Math.max(1, last())}%`);
        if (loss !== null) el.mark.style.setProperty('--y', `${100 * height(loss)}%`);
        fill(el.play, timer ? '❚❚ Pause' : k === 0 ? '▶ Train it' : k === last() ? '▶ Again' : '▶ Go on');
    }

    const go = (k, quiet) => App.set({ ago: last() - k, quiet });

    function stop() {
        clearTimeout(timer);
        timer = 0;
    }

    function next(seen = false) {
        const k = at(App.state);
        stop();
        if (App.state.view !== 'story' || k === last()) return showTime(at(App.state));
        timer = -1;
        go(k + 1, true);
        const { layer: l, head } = App.state, c = !seen && headed(l) && Circuits.of('qk', l, head, App.state), event = c && c.classes && Circuits.front(c).hits === c.classes.yes.length; // all vowels are in front for the first time
        timer = k + 1 === last() ? 0 : setTimeout(next, HomeCamera.still() ? SLOW : event ? PAUSE : STEP, seen || event);
        return showTime(k + 1);
    }

    function play() {
        moved = true;
        if (timer) {
            stop();
            return showTime(at(App.state));
        }
        if (at(App.state) === last()) go(0);
        return next();
    }

    // Without a link the page begins at the first step and, for those who want motion, plays once.
    function begin() {
        const first = Array.from({ length: Engine.info.layers }, (_, l) => l).find(headed) ?? -1, t = first < 0 ? [] : Array.from({ length: HomeData.heads(first).H }, (_, i) => Circuits.of('qk', first, i, App.state)), hits = t.map((c) => (c.classes ? Circuits.front(c).hits : 0));
        App.set({ view: 'story', layer: Math.max(0, first), head: t.length ? Numbers.best(hits) : 0, ago: last(), quiet: true });
        if (!HomeCamera.still()) timer = setTimeout(next, FIRST);
        showTime(0);
    }

    // Leaves for another room: with the finished model, unless a step was chosen by hand.
    function leaving(view) {
        if (!story() || view === 'story') return {};
        const part = timer || !moved ? { ago: 0 } : {};
        stop();
        moved = true;
        return part;
    }

    // ---- how big ----

    function scale() {
        const i = Engine.info, all = [[i.name || 'this GPT', i.params, i.layers, i.d_model, i.context], ...GPT].sort((a, b) => a[1] - b[1]), side = (n) => Math.sqrt(n / all[0][1]);
        const pixels = all.map((m) => (172 * side(m[1])) / side(all[1][1]));
        const times = (n) => (n / i.params >= 1.5 ? ` · ${count(Number((n / i.params).toPrecision(2)))} of this one` : '');
        return [h('div.squares', { 'aria-hidden': 'true' }, all.map((m, k) => h('i' + (m[1] === i.params ? '.this' : ''), { style: { width: `${Math.max(1, pixels[k])}px`, height: `${Math.max(1, pixels[k])}px` } }))),
            h('div.scroll', null, table(null, ['', 'numbers', 'layers', 'width', 'context'], all.map((m) => [m[0] + times(m[1]), ...m.slice(1).map((n) => Numbers.cell(n, 0, count(n)))]))),
            h('p.note', null, `The squares are drawn to one scale${pixels[2] > 200 ? `; that of ${all[2][0]} is ${count(Math.round(pixels[2]))} pixels wide and high, so only its lower left corner fits` : ''}. The same kinds of parts are in all three, and they are trained in the same way.`)];
    }

    // ---- the room ----

    function part(name, title, note, ...children) {
        return h(`section.part-${name}`, null, h('h2', null, title), note && h('p.note', null, note), children);
    }

    function mount(into) {
        root = into;
        const u = unit(), { heads: n, layers } = Engine.info, { steps, texts, held, seed, temperature } = story();
        root.classList.add('story');
        for (const [name, what] of [['lead', 'p.lead'], ['texts', 'ol.tries'], ['known', 'p.note'], ['looks', 'p.say'], ['guess', 'div'], ['alphabet', 'div.alphabet'], ['sorts', 'p.say'], ['cell', 'p.say'], ['facts', 'div'], ['axes', 'p.note'], ['now', 'p.moment'], ['mark', 'i.place']]) el[name] = h(what);
        el.alphabet.setAttribute('role', 'img');
        el.reads = h('div');
        line = TextLine.make(el.reads, { paint: () => 'attention', heads: (state) => [state.head], choose: (query) => App.set({ query }) });
        el.reads.append(line.run);
        const input = h('input', { type: 'text', 'aria-label': 'type your own', placeholder: 'type your own', autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false' });
        for (let i = 0; i < n && layers; i++) heads.push(Matrix.thumb(`head ${i}`, () => App.set({ head: i, key: 0 }), { kind: '.thumb' }));
        layer = Dom.select('layer', Array.from({ length: layers }, (_, l) => [l, String(l)]), 0, (v) => App.set({ layer: Number(v) }));
        steps.forEach((s, k) => film.push(Matrix.thumb(count(s.step), () => { halt(); go(k); }, { 'aria-label': `step ${count(s.step)}` })));
        matrix = layers ? Matrix.create(`which ${u} looks for which`, { id: 'who', picture: { square: true, most: 25 } }) : null;
        el.slider = h('input', { type: 'range', min: 0, max: last(), step: 1, 'aria-label': 'step of training', id: 'training' });
        el.slider.addEventListener('input', () => { halt(); go(Number(el.slider.value)); });
        el.play = button('', play, { kind: '.big', id: 'train' });
        const views = choice('what to multiply out', ['qk', 'ov', 'direct'].map((k) => [k, Circuits.KINDS[k].title(u)]), kind, (v) => { kind = v; chosen = [-1, -1]; update(App.state); });
        const classes = Circuits.alphabet(App.state), orders = choice('order', [['own', 'the model’s own order'], ['ids', classes ? 'a to z' : 'by number'], ...(classes ? [['vowels', 'vowels first']] : [])], own, (v) => { own = v; showTable(App.state); });
        root.append(h('h2.title', null, u === 'letter' ? 'A GPT learns to spell' : 'A GPT learns to write'), el.lead,
            h('div.thirds', null, part('writes', 'It writes', h('span', { title: `mgpt generate --samples ${steps[0].texts.length} --seed ${seed} --temp ${temperature}` }, `${capital(NUMBERS[steps[0].texts.length] || steps[0].texts.length)} tries, always the same dice.`), el.texts, el.known),
                part('reads', 'It looks back and guesses on', null, h('form.type', { on: { submit: (e) => { e.preventDefault(); Strip.type(input.value); } } }, input, h('button', { type: 'submit' }, 'Run')), el.reads, el.looks,
                    h('div.halves', null, h('div', null, h('h3', null, 'its guess at the next'), el.guess), layers ? h('div', null, h('h3', null, `where its ${n === 1 ? 'head looks' : `${n} heads look`}`), layers > 1 && layer.el, h('div.lookers', { role: 'group', 'aria-label': 'heads' }, heads.map((x) => x.el)), h('p.note', null, 'A head decides which earlier ', u, 's to look at.')) : null)),
                layers ? part('sorts', `It sorts ${classes ? 'the alphabet' : `its ${u}s`}`, `${capital(u)}s that the head treats alike are near each other: its own order from left to right, the second direction of its table upwards.${classes ? ' Purple: vowels, which the page knows and the model does not.' : ''}`, el.alphabet, el.sorts) : null),
            layers ? part('put', 'What training put there', null, h('p.say', null, `A head owns two small tables of numbers: one turns a ${u} into a question, one turns a ${u} into a label. Nobody can read them as they are. But try every question on every label, and you see which ${u} looks for which.`),
                h('div.row', null, views.el, orders.el), h('div.halves', null, h('div', null, matrix.el, el.axes), h('div', null, el.cell, el.facts)), filmable() ? h('div.film', { role: 'group', 'aria-label': 'the table at each step' }, film.map((x) => x.el)) : null) : null,
            part('scale', 'How big is this?', null, scale()),
            part('inside', 'Now look inside', `Everything so far came from ${count(Engine.info.params)} numbers. Here they are, all of them, at work.`, button('Look inside →', () => App.set({ view: 'home', cell: '', walk: 0 }), { kind: '.big', id: 'look-inside' })),
            h('div.time', { role: 'group', 'aria-label': 'training' }, el.play, h('div.curve', null, curve(), el.mark, el.slider), el.now,
                h('p.sr', null, held ? `The loss is that of ${count(held)} texts that training has not seen.` : 'The loss is that of the text of this page.', texts ? ` Counts are those of ${count(texts)} texts.` : '')));
    }

    // A hand has chosen a step.
    function halt() {
        moved = true;
        stop();
    }

    function update(state) {
        const k = at(state), layers = Engine.info.layers;
        fill(el.lead, h('b.hot', null, `Step ${count(story().steps[k].step)}. `), lead(k));
        showTexts(k);
        showWord(state);
        showTime(k);
        for (const e of root.querySelectorAll('.part-sorts, .part-put, .lookers')) e.hidden = !headed(state.layer);
        if (layers) layer.set(state.layer);
        if (!headed(state.layer)) return;
        showHeads(state);
        showAlphabet(Circuits.of('qk', state.layer, state.head, state));
        showFilm(state);
        const key = [state.ago, kind, own, state.layer, state.head, state.dark].join();
        if (key !== drawn) showTable(state);
        drawn = key;
    }

    // True: the key was for this room.
    function key(e) {
        const by = { '.': 1, ',': -1 }[e.key], plain = !/^(BUTTON|INPUT|SUMMARY)$/.test(e.target.tagName);
        if (by) {
            halt();
            go(Math.max(0, Math.min(last(), at(App.state) + by)));
        } else if (e.key === ' ' && plain) play();
        else if (e.key === '[' || e.key === ']') App.set({ head: Math.max(0, App.state.head + (e.key === ']' ? 1 : -1)) });
        else return false;
        return true;
    }

    // What other rooms say while the model is not the finished one.
    const tag = (state) => (story() && state.ago ? `step ${count(story().steps[at(state)].step)} of its training` : '');

    return { id: 'story', title: 'Story', mount, update, key, begin, leaving, tag, lead };
})();
