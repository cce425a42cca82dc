'use strict';
// The home room: one picture of the whole model, the text above it, how a number arises at its side, and
// the walk. What is chosen (token, head, cell, stop) is in App.state, so an address can name it.
const Home = (() => {
    const { h, fill, button } = Dom;
    const NARROW = 560, SPEEDS = [0.5, 1, 1.5, 2], RUN = 2400; // milliseconds that a row runs through the picture
    const BUDGET = { moved: 5, flows: 8, still: 40 }, MOVED = 150; // milliseconds of a frame that make images; how long a camera has moved

    let canvas, g, camera, panel, crumbs, changes, dots, playButton, legend, spoken, stage, root;
    let scene = null, full = null, sceneKey = '', shown = '', hovered = null, chosen = null, stop = null, size = { w: 0, h: 0, dpr: 1 }, waiting = false;
    let pointed = -1, timer = 0, speed = 1, colours = {}, themed = null, flow = null, example = null, before = null, scrolled = false, seen = null, movedAt = -MOVED;

    const state = () => App.state;
    const roomOf = (cell) => ({ next: Predict, stream: Inside, heads: Attention })[cell]; // panels that are as large as rooms
    const rooms = new Map();

    // ---- cells as text: "0.s2.4.3", "lg.4.11" (the last number of logits is a token) ----

    const named = (m) => (m.part === 'lg' || m.part === 'wu' ? scene.s.ids : null);

    function cellOf(text, from) {
        const match = /^((?:\d+\.)?[a-z]+\d*)\.(\d+)\.(\d+)$/.exec(text), m = match && from.mats.get(match[1]);
        if (!m) return null;
        const r = Number(match[2]), c = named(m) ? from.s.ids.indexOf(Number(match[3])) : Number(match[3]);
        return r < m.rows && c >= 0 && c < m.cols && !HomeScene.empty(m, r, c) ? [m, r, c] : null;
    }

    // Whether a row of a matrix is a token's.
    const ofTokens = (m) => 'xa'.includes(m.kind);

    const layerOf = (text) => (/^\d+(\.|$)/.test(text) ? Number.parseInt(text, 10) : -1);

    function choose([id, r, c]) {
        const m = everything().mats.get(id), part = { view: 'home', cell: `${id}.${r}.${named(m) ? scene.s.ids[c] : c}` };
        if (ofTokens(m)) part.query = r;
        if (m.layer >= 0) part.layer = m.layer;
        if (m.head !== undefined) part.head = m.head;
        else if (m.group && m.kind === 'x') part.head = (Math.floor(c / m.group) * HomeData.heads(m.layer).H * m.group) / m.cols;
        stopPlaying();
        HomeWrite.halt();
        App.set(part);
    }

    // ---- the plan ----

    function openLayer(s) {
        const layer = layerOf(s.cell), needed = layer >= 0 ? layer : s.walk ? HomeWalk.layerOf(s.walk) : -1;
        return needed < Engine.info.layers && HomeScene.form(needed, Engine.info.layers, -1) !== 'rib' ? needed : -1;
    }

    const narrow = () => size.w > 0 && size.w <= NARROW;

    const keyOf = (s) => [App.changed, s.step, openLayer(s), narrow(), Engine.info.choices > HomeScene.WHOLE ? `${s.query} ${s.cell}` : HomeExperts.any() ? s.query : ''].join();

    const build = () => HomeScene.build(state(), narrow(), openLayer(state()));

    function plan(s) {
        const key = keyOf(s);
        if (key === sceneKey) return false;
        const before = scene;
        scene = build();
        sceneKey = key;
        return !before || before.world.w !== scene.world.w || before.world.h !== scene.world.h;
    }

    // The plan with every layer unfolded, for numbers of layers that are folded in the picture, and for other rooms.
    function everything() {
        const key = keyOf(state());
        if (Engine.info.layers <= HomeScene.RIBS && key === sceneKey) return scene;
        if (!full || full.key !== key) full = { key, ...HomeScene.build(state(), narrow(), 'all') };
        return full;
    }

    function explain([id, r, c]) {
        const m = everything().mats.get(id);
        return m && r >= 0 && r < m.rows && c < m.cols ? HomeCell.explain(everything(), m, r, c) : null;
    }

    const columnOf = (id) => Math.max(0, everything().s.ids.indexOf(id)); // of logits

    // ---- drawing ----

    function theme() {
        if (themed === document.documentElement.dataset.theme) return;
        themed = document.documentElement.dataset.theme;
        const css = getComputedStyle(document.documentElement);
        for (const name of ['paper', 'ink', 'soft', 'line', 'accent', 'band']) colours[name] = css.getPropertyValue(`--${name}`).trim();
    }

    function paint() {
        waiting = false;
        if (!scene || root.hidden) return;
        theme();
        g.setTransform(size.dpr, 0, 0, size.dpr, 0, 0);
        const moving = flow && flow.at(performance.now());
        if (moving && moving.over) {
            flow = null;
            if (stop) showPanel();
        }
        const { x, y, s } = camera.cam;
        if (seen && (seen.x !== x || seen.y !== y || seen.s !== s)) movedAt = performance.now();
        seen = { x, y, s };
        if (HomeDraw.frame(shownView(g, flow && moving)) || flow) redraw();
        const gradient = (name) => `linear-gradient(90deg, ${HomeBake.scale(name)})`;
        for (const el of legend.querySelectorAll('i')) el.style.setProperty('background', gradient(el.dataset.scale));
    }

    const budget = () => (performance.now() - movedAt < MOVED ? BUDGET.moved : flow ? BUDGET.flows : BUDGET.still);

    const shownView = (on, moving = null) => ({ g: on, ...size, fresh: HomeWrite.on, budget: budget(), scene: HomeChange.picture(sceneKey, scene, build), cam: camera.cam, state: state(), dark: state().dark, live: Engine.live, colours, chosen: hovered || chosen, stop: hovered ? null : stop, moving, pointed: pointed < scene.s.T ? pointed : -1, example: hovered || chosen ? null : moving ? moving.e : example });

    // What is in view, and every value that the text made.
    function figure() {
        const rows = [...scene.mats.values()].filter(ofTokens).flatMap((m) => Array.from({ length: m.rows * m.cols }, (_, i) => [m.id, Math.floor(i / m.cols), i % m.cols])
            .filter(([, r, c]) => !(m.tri && c > r)).map(([id, r, c]) => [id, r, named(m) ? scene.s.ids[c] : c, m.get(r, c)]));
        return { title: stop ? stop.title : 'The whole model', columns: ['part', 'token', 'column', 'value'], rows, draw: (to, width) => {
            while (HomeDraw.frame(shownView(Pen.create(1, 1))));
            const k = width / size.w;
            to.save();
            to.scale(k, k);
            to.beginPath();
            to.roundRect(0, 0, size.w, size.h, 0);
            to.clip();
            HomeDraw.frame(shownView(to));
            to.restore();
            return size.h * k;
        } };
    }

    function redraw() {
        if (!waiting) requestAnimationFrame(paint);
        waiting = true;
    }

    function resized() {
        const r = stage.getBoundingClientRect(), dpr = Math.min(3, window.devicePixelRatio || 1);
        if (!r.width || (r.width === size.w && r.height === size.h && dpr === size.dpr)) return;
        size = { w: r.width, h: r.height, dpr };
        canvas.width = Math.round(r.width * dpr);
        canvas.height = Math.round(r.height * dpr);
        if (!scene) return;
        plan(state());
        refresh(state());
        camera.jump(camera.holding(view()));
    }

    // What the camera holds when nothing else is asked for.
    function view() {
        if (stop) return stop.frame;
        const rib = scene.ribs.find((x) => x.layer === scene.open);
        return rib ? { x: scene.world.x, y: rib.y - 4 * scene.u, w: Math.max(rib.right, rib.mx) + 6 * scene.u - scene.world.x, h: rib.bottom - rib.y + 8 * scene.u } : scene.world;
    }

    // ---- hands ----

    const under = (x, y) => HomeScene.pick(scene, ...camera.toPlan(x, y));

    // p: the number that a hand points at, or null.
    function hover(p) {
        const old = hovered;
        if (old && p && old.m === p.m && old.r === p.r && old.c === p.c) return;
        hovered = p ? HomeCell.explain(scene, p.m, p.r, p.c) : null;
        if (!old && !hovered) return;
        showPanel();
        redraw();
    }

    function over(x, y) {
        const p = under(x, y);
        canvas.classList.toggle('on', Boolean(p));
        hover(p);
    }

    function pick(x, y) {
        const p = under(x, y);
        canvas.focus({ preventScroll: true });
        hovered = null;
        if (p) choose([p.m.id, p.r, p.c]);
        else if (state().cell) App.set({ cell: '' });
    }

    // What holds a number together with its factors.
    const frameOf = (e) => HomeScene.around([HomeScene.region(e.m, e.r, e.c, e.r + 1, e.c + 1), ...e.factors]);

    function frameCell(x, y) {
        const p = under(x, y);
        return p ? camera.fly(frameOf(HomeCell.explain(scene, p.m, p.r, p.c)), 0.12) : camera.fly(view());
    }

    function step(dr, dc) {
        const { m, r, c } = chosen, to = [(r + dr + m.rows) % m.rows, (c + dc + m.cols) % m.cols];
        choose([m.id, to[0], m.tri ? Math.min(to[0], to[1]) : to[1]]);
    }

    // Chooses the place in the part before or after that corresponds to the chosen one.
    function part(by) {
        const all = [...scene.mats.values()].filter((m) => m.kind !== 'w' || Engine.live), at = chosen ? all.indexOf(chosen.m) : by > 0 ? -1 : 0, m = all[(at + by + all.length) % all.length];
        const r = Math.min(m.rows - 1, ofTokens(m) ? state().query : 0);
        choose([m.id, r, m.tri ? 0 : Math.min(m.cols - 1, chosen ? chosen.c : 0)]);
    }

    // One level up: from a number, from a stop, from a layer, from a close look.
    function up() {
        const s = state();
        if (s.cell) App.set({ cell: '' });
        else if (s.walk) walkTo(0);
        camera.fly(view());
    }

    // ---- the walk ----

    function walkTo(n, quiet = false) {
        const of = HomeWalk.titles().length;
        HomeWrite.halt();
        App.set({ walk: Math.max(0, Math.min(of, n)), cell: '', quiet });
    }

    function stopPlaying() {
        clearTimeout(timer);
        timer = 0;
        if (root) showPlayer();
    }

    function play() {
        if (state().walk >= HomeWalk.titles().length || !state().walk) walkTo(1);
        wait();
    }

    function wait() {
        timer = setTimeout(tick, (1000 * HomeWalk.SECONDS) / speed);
        showPlayer();
    }

    function tick() {
        if (state().view !== 'home') return stopPlaying();
        if (state().walk >= HomeWalk.titles().length) return HomeWrite.write(); // all begins again
        walkTo(state().walk + 1, true);
        return wait();
    }

    const walk = () => { walkTo(1); play(); }; // from its beginning

    const toggle = () => (timer ? stopPlaying() : play());

    // ---- what moves ----

    // The row of a token that is new, the numbers of a stop; not for those who want no motion.
    function begin(s, arrived) {
        const grown = before && s.ids.length === before.length + 1 && before.every((id, i) => id === s.ids[i]), first = !before;
        if (first || s.ids !== before || arrived) flow = null;
        before = s.ids;
        if (HomeCamera.still() || s.cell) return;
        const was = flow;
        if (stop && arrived) flow = stop.grows ? HomeFlow.grow(stop.grows, speed) : stop.ranges.length ? HomeFlow.cells(stop.ranges, (m, r, c) => HomeCell.explain(scene, m, r, c), speed, (e, i) => HomePanel.now(panel, e, i)) : stop.runs ? HomeFlow.row(scene, s.query, RUN, stop.parts) : null;
        else if ((grown || first) && !s.walk && !HomeWrite.on) flow = HomeFlow.row(scene, s.query, RUN);
        if (stop && flow !== was) showPanel();
        if (flow) redraw();
    }

    // Number i of a stop, chosen by hand: what is explained then.
    function scrub(i) {
        const { a, c } = HomeFlow.numbersOf(stop.ranges)[i];
        stopPlaying();
        flow = null;
        example = HomeCell.explain(scene, a.m, a.r0, c);
        redraw();
        return example;
    }

    // A word of the text that a hand points at; -1: none.
    function point(pos) {
        if (pos !== pointed) redraw();
        pointed = pos;
    }

    const stepWalk = (by) => {
        stopPlaying();
        walkTo(state().walk + by);
    };

    function showPlayer() {
        const n = state().walk;
        [...dots.children].forEach((b, i) => {
            b.className = i + 1 < n ? 'done' : i + 1 === n ? 'on' : '';
            b.setAttribute('aria-current', i + 1 === n ? 'step' : 'false');
        });
        fill(playButton, timer ? '❚❚' : '▶');
        playButton.setAttribute('aria-label', timer ? 'pause' : 'play the walk');
    }

    function player() {
        dots = h('div.dots', { role: 'group', 'aria-label': 'stops of the walk' }, HomeWalk.titles().map((t, i) => button('', () => { stopPlaying(); walkTo(i + 1); }, { title: `${i + 1}. ${t}`, 'aria-label': `stop ${i + 1}, ${t}` })));
        playButton = button('▶', toggle, { kind: '.ic.play', id: 'play' });
        const rate = Dom.select('speed', SPEEDS.map((s) => [s, `${s}×`]), 1, (v) => { speed = Number(v); });
        return h('div.player', null, button('‹', () => stepWalk(-1), { kind: '.ic', 'aria-label': 'stop before' }), playButton, button('›', () => stepWalk(1), { kind: '.ic', 'aria-label': 'next stop', id: 'next-stop' }), dots, rate.el);
    }

    // ---- words at the side ----

    // fresh: what is shown has changed.
    function showRoom(id, fresh) {
        if (!rooms.has(id)) {
            rooms.set(id, h('div.inner', { role: 'region', 'aria-label': roomOf(id).title }));
            roomOf(id).mount(rooms.get(id));
        }
        if (panel.firstChild !== rooms.get(id)) fill(panel, rooms.get(id));
        if (fresh) roomOf(id).update(state());
    }

    function showPanel(fresh = false) {
        const e = hovered || chosen, why = HomeWhy.asked(state().cell);
        if (e) HomePanel.number(e, panel);
        else if (roomOf(state().cell)) showRoom(state().cell, fresh);
        else if (why >= 0 && why < Engine.info.choices) HomeWhy.show(panel, why, state());
        else if (stop) HomePanel.stop(stop, panel, flow ? null : example);
        else if (HomeChange.on(state())) HomeChange.panel(panel, state());
        else HomePanel.intro(state(), panel);
        if (scrolled && !roomOf(state().cell)) panel.scrollTop = 0; // it makes the browser lay out the page at once
        scrolled = false;
    }

    function showCrumbs() {
        const e = chosen, layer = e ? e.layer : layerOf(state().cell), list = [];
        const attention = e && /^(h|w[qkvoc]|r?[qk]|v|[sa]\d+|bx|tp|z|ao)$/.test(e.m.part);
        list.push([narrow() ? 'Model' : 'The whole model', () => { App.set({ cell: '', walk: 0 }); camera.fly(scene.world); }]);
        if (layer >= 0) list.push([`layer ${layer}`, () => { App.set({ cell: scene.open >= 0 ? String(layer) : '' }); camera.fly(view()); }]);
        if (e && e.layer >= 0 && e.m.part !== 'x' && e.m.part !== 'mid') list.push([attention ? (HomeShort.has(e.layer) ? 'short memory' : 'attention') : HomeExperts.has(e.layer) ? 'experts' : 'MLP', null]);
        if (HomeWhy.asked(state().cell) >= 0) list.push([`why ${HomeText.candidate(HomeWhy.asked(state().cell))}?`, null]);
        if (roomOf(state().cell)) list.push([roomOf(state().cell).title.toLowerCase(), null]);
        if (e) list.push([e.title.toLowerCase().replace('mlp', 'MLP'), null]);
        else if (stop) list.push([stop.title, null]);
        crumbs.hidden = list.length < 2;
        fill(crumbs, list.map(([text, fn], i) => [i ? h('span', { 'aria-hidden': 'true' }, ' › ') : '', fn ? button(text, fn) : i === list.length - 1 ? h('b', null, text) : h('span', null, text)]));
    }

    // On a phone a chosen number is told on a sheet over the picture, which stays where it is.
    function sheet(on) {
        const aside = panel.parentNode, was = root.classList.contains('sheet');
        if (!on) aside.style.removeProperty('min-height');
        else if (!was && innerWidth <= 820) aside.style.setProperty('min-height', `${aside.offsetHeight}px`);
        root.classList.toggle('sheet', on);
        if (on && !was && innerWidth <= 820) stage.scrollIntoView({ block: 'start' });
    }

    // Everything that follows from the state and the plan, but the camera.
    function refresh(s) {
        const cell = s.cell && cellOf(s.cell, scene);
        chosen = cell ? HomeCell.explain(scene, ...cell) : null;
        hovered = null;
        root.classList.toggle('walking', s.walk > 0);
        sheet(Boolean(chosen));
        stop = s.walk && !s.cell ? HomeWalk.at(s.walk, scene, s) : null;
        example = stop && stop.example ? HomeCell.explain(scene, ...stop.example) : null;
        HomeChange.picture(sceneKey, scene, build); // what the panel compares with
        root.classList.toggle('wide', Boolean(roomOf(s.cell)));
        showPanel(true);
        showCrumbs();
        showPlayer();
        spoken.textContent = chosen ? `${chosen.title}, ${chosen.where}: ${Numbers.fixed(chosen.value, 4)}. ${chosen.say || ''}` : stop ? `Stop ${stop.number}: ${stop.title}.` : '';
        redraw();
    }

    function inSight({ m, r, c }) {
        const a = HomeScene.region(m, r, c, r + 1, c + 1), k = camera.cam;
        return a.x >= k.x && a.y >= k.y && a.x + a.w <= k.x + size.w / k.s && a.y + a.h <= k.y + size.h / k.s;
    }

    function update(s) {
        HomeText.update(s);
        HomeChange.update(changes, s, (turned) => {
            if (turned && size.w && !HomeCamera.still()) HomeFlow.fade(canvas);
            legend.classList.toggle('signed', HomeChange.differs);
            redraw();
        });
        if (!size.w) resized();
        const moved = plan(s), now = `${s.walk} ${scene.open}`, arrived = now !== shown;
        refresh(s);
        if (!shown) camera.jump(camera.holding(view()));
        else if (moved || (now !== shown && (s.walk || !s.cell)) || (chosen && !inSight(chosen))) camera.fly(view());
        shown = now;
        begin(s, arrived);
    }

    // ---- keys ----

    const middle = () => [size.w / 2, size.h / 2];
    const KEYS = { '+': () => camera.zoom(...middle(), 1.4), '=': () => camera.zoom(...middle(), 1.4), '-': () => camera.zoom(...middle(), 1 / 1.4), 0: () => camera.fly(scene.world),
        '[': () => App.set({ head: Math.max(0, state().head - 1) }), ']': () => App.set({ head: state().head + 1 }), n: () => stepWalk(1), p: () => stepWalk(-1), ' ': () => toggle(), Escape: () => up(),
        PageDown: () => part(1), PageUp: () => part(-1), Enter: () => chosen ? camera.fly(frameOf(chosen), 0.12) : choose(['lg', state().query, columnOf(Numbers.best(Engine.choices(state().query)))]) };
    const HELP = [['arrows', 'move to the next number; without one, move the picture'], ['Page Down  Page Up', 'the part after, before'], ['Enter', 'choose the likeliest logit; then frame a number with its factors'], ['+  −  0', 'closer, further, whole'],
        ['[  ]', 'head before, after'], ['n  p', 'next stop, stop before'], ['space', 'play, pause'], ['Esc', 'one level up']];

    // True: the key was for this room.
    function key(e) {
        const onButton = /^(BUTTON|SUMMARY|DFN)$/.test(e.target.tagName), arrow = Dom.ARROWS[e.key];
        if ((onButton && (e.key === 'Enter' || e.key === ' ')) || (e.key !== 'Escape' && roomOf(state().cell) && panel.contains(e.target))) return false;
        if (arrow && chosen) step(...arrow);
        else if (arrow && e.target === canvas) camera.pan(-40 * arrow[1], -40 * arrow[0]);
        else if (KEYS[e.key] && !arrow) KEYS[e.key]();
        else return false;
        return true;
    }

    // ---- the room ----

    function stageOf() {
        canvas = h('canvas#picture', { tabindex: 0, role: 'application', 'aria-describedby': 'spoken',
            'aria-label': 'The whole model: tables at the left, the residual stream as a vertical spine, attention and MLP as ribs to its right, logits at the lower right. Arrows move between numbers, Page Down between parts.' });
        g = canvas.getContext('2d');
        crumbs = h('nav.crumbs', { 'aria-label': 'where this is' });
        changes = h('div.changes', { hidden: true });
        legend = h('div.legend', { 'aria-hidden': 'true' }, [['signs', [h('span', null, 'this text, − to +'), h('span.less', null, 'less, the same, more')]], ['pale', 'weights, fixed'], ['shares', 'attention, 0 to 1']].map(([s, t]) => h('div', null, h('i', { 'data-scale': s }), t)));
        const tools = h('div.zoom', null, button('−', () => KEYS['-'](), { kind: '.ic', 'aria-label': 'further' }), button('⤢', () => camera.fly(scene.world), { kind: '.ic', 'aria-label': 'whole picture', id: 'whole' }), button('+', () => KEYS['+'](), { kind: '.ic', 'aria-label': 'closer' }));
        legend.classList.toggle('right', Engine.info.layers > HomeScene.RIBS); // where the picture is empty
        return Share.figure(h('div.scene', null, canvas, crumbs, changes, tools, legend), figure);
    }

    function mount(into) {
        root = into;
        root.classList.add('home');
        const text = h('section.text', { 'aria-label': 'the text' });
        stage = stageOf();
        panel = h('div.panel', { tabindex: -1, on: { scroll: () => { scrolled = true; } } });
        spoken = h('p.sr#spoken', { 'aria-live': 'polite' });
        root.append(text, stage, h('aside', { 'aria-label': 'explanation' }, panel, button('✕', () => App.set({ cell: '' }), { kind: '.ic.shut', 'aria-label': 'close' }), player()), spoken);
        HomeText.mount(text, stage, point);
        camera = HomeCamera.create(canvas, { size: () => size, world: () => scene.world, changed: redraw, hover: over, leave: () => hover(null), pick, frame: frameCell });
        new ResizeObserver(resized).observe(stage);
    }

    return {
        id: 'home', title: 'Look inside', mount, update, key, HELP, focusText: () => HomeText.focus(), choose, explain, scrub, columnOf, walk, walkTo, stopPlaying,
        get speed() { return speed; }, get scene() { return scene; }, get full() { return everything(); }, get told() { return flow ? undefined : example; }, get cam() { return camera.cam; }, get drawn() { return HomeChange.picture(sceneKey, scene, build); }, paint,
    };
})();
