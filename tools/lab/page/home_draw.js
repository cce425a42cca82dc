'use strict';
// Draws the plan on a canvas: only what is in view, words before digits. view: {g, w, h, scene, cam,
// state, dark, colours, chosen, stop, example, moving}; cam is {x, y, s}, s pixels to a cell.
const HomeDraw = (() => {
    const SERIF = "Charter, 'Charis SIL', 'Iowan Old Style', 'Source Serif 4', Cambria, Georgia, serif";
    const SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";
    const MONO = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace";
    const FADED = 0.42, GRID = 6.5, LETTERS = 9, DIGITS = 30, MANY_DIGITS = 64;

    let v, g, S, C, again; // the view, its context, scene and colours; an image was left out

    const sx = (x) => (x - v.cam.x) * v.cam.s, sy = (y) => (y - v.cam.y) * v.cam.s;
    const M = (layer, part) => S.mats.get(layer < 0 ? part : `${layer}.${part}`);
    const seen = (x, y, w, h) => x + w > 0 && y + h > 0 && x < v.w && y < v.h;
    const unit = () => v.cam.s * S.u; // pixels to a cell of a model as small as names

    // ---- strokes and words ----

    // The way that go() goes, as a line or as an area; what is drawn around it stays as pale as it was.
    function line(colour, width, go, alpha = g.globalAlpha) {
        const before = g.globalAlpha;
        Object.assign(g, { strokeStyle: colour, lineWidth: width, globalAlpha: alpha });
        g.beginPath();
        go();
        g.stroke();
        g.globalAlpha = before;
    }

    function area(colour, go) {
        g.fillStyle = colour;
        g.beginPath();
        go();
        g.fill();
    }

    function rect(colour, x, y, w, h) {
        g.fillStyle = colour;
        g.fillRect(x, y, w, h);
    }

    function frameOf(colour, width, x, y, w, h) {
        Object.assign(g, { strokeStyle: colour, lineWidth: width });
        g.strokeRect(x, y, w, h);
    }

    const bend = (x1, y1, a, b, x2, y2) => { g.moveTo(x1, y1); g.bezierCurveTo(a, y1, b, y2, x2, y2); };
    const to = (...points) => points.forEach((at, i) => (i ? g.lineTo(...at) : g.moveTo(...at)));
    const path = (points, colour, width = 1, alpha = 1) => line(colour, width, () => to(...points), alpha);

    const box = (r, colour, width, by) => frameOf(colour, width, sx(r.x) - by, sy(r.y) - by, r.w * v.cam.s + 2 * by, r.h * v.cam.s + 2 * by);

    function word(text, x, y, { size = 11, font = SANS, weight = 400, italic = false, colour = C.soft, align = 'left', base = 'alphabetic', alpha = g.globalAlpha } = {}) {
        const style = (px) => `${italic ? 'italic ' : ''}${weight} ${px}px ${font}`, [, main, sub] = /^(.*?)(?:_(.))?$/.exec(text), before = g.globalAlpha;
        Object.assign(g, { font: style(size), fillStyle: colour, textAlign: align, textBaseline: base, globalAlpha: alpha });
        g.fillText(main, x, y);
        const wide = sub && g.measureText(main).width;
        g.font = style(size * 0.72);
        if (sub) g.fillText(sub, x + wide + 0.5, y + size * 0.22);
        g.globalAlpha = before;
    }

    // ---- matrices ----

    // Rows and columns [r0, r1) x [c0, c1) of a matrix, one image for each group of heads.
    function blit(m, vivid, r0 = 0, c0 = 0, r1 = m.rows, c1 = m.cols) {
        const dpr = v.dpr, baked = !v.live && m.kind === 'w' ? null : HomeBake.image(m, m.cw * v.cam.s * dpr, m.rh * v.cam.s * dpr, vivid);
        const rs = m.rgroup || m.rows, cs = m.group || m.cols;
        if (!baked) {
            again = again || v.live || m.kind !== 'w';
            return rect(C.band, sx(m.x), sy(m.y), m.w * v.cam.s, m.h * v.cam.s);
        }
        g.imageSmoothingEnabled = baked.dr > 1 || baked.dc > 1;
        for (let a = Math.floor(r0 / rs) * rs; a < r1; a += rs)
            for (let b = Math.floor(c0 / cs) * cs; b < c1; b += cs)
                part(m, baked, Math.max(a, r0), Math.max(b, c0), Math.min(a + rs, r1), Math.min(b + cs, c1));
        return undefined;
    }

    function part(m, { image, dr, dc }, r0, c0, r1, c1) {
        const x = Math.round(sx(m.X(c0))), y = Math.round(sy(m.Y(r0)));
        const w = Math.round(sx(m.X(c1 - 1) + m.cw)) - x, h = Math.round(sy(m.Y(r1 - 1) + m.rh)) - y;
        if (w > 0 && h > 0 && seen(x, y, w, h)) g.drawImage(image, c0 / dc, r0 / dr, (c1 - c0) / dc, (r1 - r0) / dr, x, y, w, h);
    }

    // First and last row (column) of n that is in view.
    function inView(at, n, size, to, most) {
        let a = 0, b = n;
        while (a < n && to(at(a) + size) < 0) a++;
        while (b > a && to(at(b - 1)) > most) b--;
        return [a, b];
    }

    function grid(m, r0 = 0, c0 = 0, r1 = m.rows, c1 = m.cols) {
        const wide = m.cw * v.cam.s, high = m.rh * v.cam.s;
        if (wide < GRID) return;
        const [ca, cb] = inView(m.X, m.cols, m.cw, sx, v.w), [ra, rb] = inView(m.Y, m.rows, m.rh, sy, v.h);
        line(C.paper, wide > 16 ? 1.5 : 1, () => {
            for (let c = Math.max(c0 + 1, ca); c < Math.min(c1, cb); c++) to([Math.round(sx(m.X(c))), sy(m.Y(r0))], [Math.round(sx(m.X(c))), sy(m.Y(r1 - 1) + m.rh)]);
            for (let r = Math.max(r0 + 1, ra); high > 5 && r < Math.min(r1, rb); r++) to([sx(m.X(c0)), Math.round(sy(m.Y(r)))], [sx(m.X(c1 - 1) + m.cw), Math.round(sy(m.Y(r)))]);
        });
    }

    function digits(m, vivid) {
        const wide = m.cw * v.cam.s, high = m.rh * v.cam.s;
        if (wide < DIGITS || high < 14 || (m.kind === 'w' && !v.live)) return;
        const size = Math.min(13, wide * 0.27, high * 0.6);
        const [ca, cb] = inView(m.X, m.cols, m.cw, sx, v.w), [ra, rb] = inView(m.Y, m.rows, m.rh, sy, v.h);
        for (let r = ra; r < rb; r++)
            for (let c = ca; c < cb; c++)
                if (!HomeScene.empty(m, r, c) && !Number.isNaN(m.get(r, c))) word(Numbers.fixed(m.get(r, c), wide > MANY_DIGITS ? 4 : 2), sx(m.X(c) + m.cw / 2), sy(m.Y(r) + m.rh / 2),
                    { size, font: MONO, align: 'center', base: 'middle', colour: Colour.ink(HomeBake.rgb(m, r, c, vivid)) });
    }

    function alphaOf(m) {
        if (S.faint && m.kind === 'w') return 0.25;
        if (v.chosen) return m.id === v.chosen.m.id ? 1 : FADED;
        return v.stop && !v.stop.parts.has(m.id) ? 0.3 : 1;
    }

    function matrix(m) {
        if (!seen(sx(m.x), sy(m.y), m.w * v.cam.s, m.h * v.cam.s)) return;
        const vivid = Boolean(v.stop && v.stop.parts.has(m.id));
        rect(C.paper, sx(m.x) - 1, sy(m.y) - 1, m.w * v.cam.s + 2, m.h * v.cam.s + 2);
        g.globalAlpha = alphaOf(m);
        if (m.tri) area(C.band, () => to([sx(m.x), sy(m.y)], [sx(m.x + m.w), sy(m.y)], [sx(m.x + m.w), sy(m.y + m.h)]));
        blit(m, vivid);
        grid(m);
        digits(m, vivid);
        g.globalAlpha = 1;
    }

    // ---- the flow ----

    function lanes(x, right, y) {
        for (let t = 0; t < S.s.T; t++) {
            const on = t === v.state.query, Y = sy(y + (t + 0.5) * S.s.rh);
            if (on || S.s.rh * v.cam.s > 3) path([[sx(x), Y], [sx(right), Y]], on ? C.accent : C.line, on ? 1.5 : 1, on ? 0.9 : 1);
        }
    }

    function arrow(x, y, dx, dy, colour) {
        const n = 4;
        path(dy ? [[x - n, y - n * dy], [x, y], [x + n, y - n * dy]] : [[x - n * dx, y - n], [x, y], [x - n * dx, y + n]], colour, 1.25);
    }

    function curve(x1, y1, x2, y2, on) {
        const d = (x2 - x1) * 0.55, [a, b] = S.narrow ? [x1 + 11, x2 + 14] : [x1 + d, x2 - d];
        line(on ? C.accent : C.line, on ? 1.5 : 1, () => bend(x1, y1, a, b, x2, y2), on ? 0.9 : 1);
    }

    // From each token's rows in the tables to its row of the stream.
    function embedding() {
        const emb = M(-1, 'emb'), pos = M(-1, 'pos'), target = S.first ? M(S.first.layer, 'x') : M(-1, 'x');
        const end = sx(target.x + (S.narrow ? target.w : 0));
        for (let t = 0; t < S.s.T; t++) {
            const on = t === v.state.query, y = sy(target.Y(t) + target.rh / 2), row = S.s.used.indexOf(v.state.ids[t]);
            if (row >= 0) curve(sx(emb.x + emb.w), sy(emb.Y(row) + emb.rh / 2), end, y, on);
            if (pos && t < pos.rows) curve(sx(pos.x + pos.w), sy(pos.Y(t) + pos.rh / 2), end, y, on);
        }
    }

    function added(y) {
        const x = sx(S.at.s + S.s.D / 2), Y = sy(y), r = Math.max(7, Math.min(11, 1.9 * unit()));
        area(C.paper, () => g.arc(x, Y, r, 0, 7));
        Object.assign(g, { strokeStyle: C.soft, lineWidth: 1.25 }).stroke();
        path([[x - r * 0.5, Y], [x + r * 0.5, Y]], C.soft, 1.25);
        path([[x, Y - r * 0.5], [x, Y + r * 0.5]], C.soft, 1.25);
        path([[sx(S.at.s + S.s.D) + 2, Y], [x + r + 1, Y]], C.soft, 1.25);
        arrow(x + r + 2, Y, -1, 0, C.soft);
    }

    // Places of the cache that are free, as lines that fade under keys and values.
    function cache(rib) {
        const free = Math.min(12, Engine.info.context - S.s.T), u = S.u;
        for (const m of M(rib.layer, 'bx') ? [] : M(rib.layer, 'lt') ? [M(rib.layer, 'lt')] : [M(rib.layer, 'rk') || M(rib.layer, 'k'), M(rib.layer, 'v')])
            for (let i = 0; i < free; i++) {
                const y = sy(m.y + m.h + (0.9 + i * 0.62) * u);
                for (let c = 0; c < m.cols; c += m.group)
                    path([[sx(m.X(c)), y], [sx(m.X(c + m.group - 1) + 1), y]], C.line, 1, 1 - i / 13);
            }
    }

    function flow(rib) {
        const l = rib.layer, from = S.at.s + S.s.D, end = (part) => M(l, part).x;
        if (rib.form !== 'rib') return path([[sx(from), sy(rib.y + S.s.TH / 2)], [sx(rib.right), sy(rib.y + S.s.TH / 2)]], C.line);
        const { H } = HomeData.heads(l), last = H - 1, short = M(l, 'bx'), to = (...parts) => end(parts.find((part) => M(l, part)));
        lanes(from, to(`s${last}`, 'v'), rib.L1);
        lanes(from, to(`a${last}`, 'tp', 'z'), rib.L2);
        lanes(from, to('rs', 'lin', 'pre'), rib.M1);
        lanes(from, to('ew', 'post'), rib.M2);
        for (let h = 0; h < H && !short; h++) {
            const m = M(l, `s${h}`), x = sx(m.x + m.w / 2);
            path([[x, sy(m.y + m.h + S.u)], [x, sy(rib.L2) - 5]], C.line);
            arrow(x, sy(rib.L2) - 4, 0, 1, C.soft);
        }
        added(rib.L2 + S.s.TH / 2);
        added(rib.M2 + S.s.TH / 2);
        cache(rib);
        const mo = M(l, 'mo'), mirrored = M(l, 'w2') || M(l, 'ey');
        g.setLineDash([2, 3]);
        if (mirrored) path([[sx(mo.x), sy(mirrored.y)], [sx(mo.x + mo.w), sy(mirrored.y + mirrored.h)]], C.line);
        g.setLineDash([]);
        return undefined;
    }

    function spine() {
        area(C.band, () => g.roundRect(sx(S.at.s) - 3, sy(S.top) - 3, S.s.D * v.cam.s + 6, (S.bottom - S.top) * v.cam.s + 6, 6));
        embedding();
        for (const rib of S.ribs) if (sy(rib.bottom) > 0 && sy(rib.y) < v.h) flow(rib);
        lanes(S.at.s + S.s.D, M(-1, 'lg').x, S.HY);
    }

    // ---- what is chosen ----

    // The chosen head and the chosen token's row.
    function choice() {
        const { layer, head, query } = v.state, kv = S.s.n ? HomeData.heads(layer).kv(head) : 0;
        for (const part of ['s', 'a']) if (M(layer, part + head)) box(M(layer, part + head), C.accent, 1.5, 2.5);
        for (const [part, h] of [['q', head], ['rq', head], ['k', kv], ['rk', kv], ['v', kv], ['z', head]]) {
            const m = M(layer, part);
            if (m && m.group) path([[sx(m.X(h * m.group)), sy(m.y) - 2.5], [sx(m.X((h + 1) * m.group - 1) + 1), sy(m.y) - 2.5]], C.accent, 2);
        }
        if (v.fresh) for (const m of S.mats.values()) if (/^(r?k|v)$/.test(m.part)) rect(C.accent, sx(m.x) - 4, sy(m.Y(S.s.T - 1)), 3, Math.max(2, m.rh * v.cam.s)); // the row that the cache has just got
        answers(query);
        if (query < S.s.T) for (const m of S.mats.values())
            if (m.x === S.at.s && m.kind === 'x') box(HomeScene.region(m, query, 0, query + 1, m.cols), C.accent, 1.25, 1);
    }

    // Experts that the router chose for a token, and the rows that a short convolution reads for it.
    function answers(query) {
        for (const m of S.mats.values()) {
            if (query >= S.s.T) return;
            if (m.part === 'ew') for (const c of HomeExperts.chosen(m.layer, query)) box(HomeScene.region(m, query, c, query + 1, c + 1), C.accent, 1.25, 1);
            if (m.part === 'bx') box(HomeScene.region(m, Math.max(0, query + 1 - HomeShort.taps(m.layer)), 0, query + 1, m.cols), C.accent, 1.25, 1);
        }
    }

    // All that the model has of token t: its rows, and who looks at it as columns of attention.
    function pointed(t) {
        const light = (m, r0, c0, r1, c1) => {
            blit(m, true, r0, c0, r1, c1);
            box(HomeScene.region(m, r0, c0, r1, c1), C.accent, 1.5, 1);
        };
        g.globalAlpha = 0.62;
        rect(C.paper, 0, 0, v.w, v.h);
        g.globalAlpha = 1;
        for (const m of S.mats.values()) {
            const r = m.part === 'emb' ? S.s.used.indexOf(v.state.ids[t]) : 'wy'.includes(m.kind) && m.part !== 'pos' ? -1 : t;
            if (r < 0 || r >= m.rows) continue;
            light(m, r, 0, r + 1, m.tri ? r + 1 : m.cols);
            if (m.tri && r + 1 < m.rows) light(m, r + 1, r, m.rows, r + 1);
        }
    }

    // The line from a factor to the cell that it made.
    function join(f, cell) {
        const cx = sx(cell.x + cell.w / 2), cy = sy(cell.y + cell.h / 2), x = sx(f.x), right = sx(f.x + f.w), y = sy(f.y), low = sy(f.y + f.h);
        if (f.m.part === 'w2' || f.m.part === 'ey') path([[x, (y + low) / 2], [cx, (y + low) / 2], [cx, sy(cell.y + cell.h)]], C.accent, 1.5, 0.75);
        else if (cy >= y - 2 && cy <= low + 2) path([[right <= cx ? right : x, cy], [cx, cy]], C.accent, 1.5, 0.75);
        else if (cx >= x - 2 && cx <= right + 2) path([[cx, low <= cy ? low : y], [cx, cy]], C.accent, 1.5, 0.75);
        else if (f.m.part !== 'emb' && f.m.part !== 'pos') {
            const d = Math.abs(cx - right) * 0.4;
            line(C.accent, 1.5, () => bend(right, (y + low) / 2, right + d, cx - d, cx, cy));
        }
    }

    function highlight(e) {
        const cell = HomeScene.region(e.m, e.r, e.c, e.r + 1, e.c + 1);
        for (const f of e.factors) {
            blit(f.m, true, f.r0, f.c0, f.r1, f.c1);
            grid(f.m, f.r0, f.c0, f.r1, f.c1);
            box(f, C.accent, 1.75, 1);
            join(f, cell);
        }
        const live = v.live || e.m.kind !== 'w', colour = live ? HomeBake.rgb(e.m, e.r, e.c) : [128, 128, 128], s = v.cam.s;
        const w = Math.max(5, cell.w * s), h = Math.max(5, cell.h * s), x = sx(cell.x), y = sy(cell.y);
        rect(Colour.css(colour), x, y, w, h);
        frameOf(C.ink, 2, x - 2, y - 2, w + 4, h + 4);
        frameOf(C.paper, 1, x - 0.5, y - 0.5, w + 1, h + 1);
        if (live) tag(Numbers.fixed(e.m.get(e.r, e.c), w > MANY_DIGITS ? 4 : 3), x + w / 2, y, h);
    }

    function tag(text, x, y, h) {
        g.font = `600 12px ${MONO}`;
        const w = g.measureText(text).width + 14, left = Math.max(4, Math.min(v.w - w - 4, x - w / 2)), top = y - 30 < 4 ? y + h + 8 : y - 30;
        area(C.ink, () => g.roundRect(left, top, w, 22, 5));
        word(text, left + w / 2, top + 11.5, { font: MONO, weight: 600, size: 12, colour: C.paper, align: 'center', base: 'middle' });
    }

    // What is not computed yet, what is being computed, and where numbers are on their way.
    function moving({ covers, boxes, dots }) {
        for (const r of covers) rect(C.paper, sx(r.x) - 0.5, sy(r.y) - 0.5, r.w * v.cam.s + 1, r.h * v.cam.s + 1);
        for (const r of boxes) box(r, C.accent, 2, 1.5);
        for (const [x, y] of dots)
            for (const [size, alpha] of [[7, 0.2], [3.5, 1]]) {
                g.globalAlpha = alpha;
                area(C.accent, () => g.arc(sx(x), sy(y), size, 0, 7));
            }
        g.globalAlpha = 1;
    }

    // Draws; true: some images are not made yet.
    function frame(view) {
        v = view;
        ({ g, scene: S, colours: C } = view);
        again = false;
        rect(C.paper, 0, 0, v.w, v.h);
        HomeBake.begin(v.dark, v.budget);
        spine();
        for (const m of S.mats.values()) matrix(m);
        if (v.pointed >= 0) pointed(v.pointed);
        else choice();
        if (v.moving) moving(v.moving);
        HomeLabels.draw({ ...v, sx, sy, M, word, rect, unit: unit(), SERIF, SANS, LETTERS });
        if (v.stop && !v.chosen) for (const r of v.stop.regions) box(r, C.accent, 2, 2);
        if (v.chosen || v.example) highlight(v.chosen || v.example);
        return again;
    }

    return { frame };
})();
