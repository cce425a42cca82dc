'use strict';
// The words in the picture: names of matrices, letters at rows, the bars of the next token. A word is
// left out where it has no room.
const HomeLabels = (() => {
    const SYMBOL = { wq: 'W_Q', wk: 'W_K', wv: 'W_V', wo: 'W_O', wl: 'W_C', wg: 'W_G', w1: 'W_1', w2: 'W_2', wu: 'W_U', wr: 'W_r' };
    const NAMES = { h: 'norm', q: 'queries', k: 'keys', lt: 'latent, kept', v: 'values', rq: 'queries, turned', rk: 'keys, turned', z: 'mixed values', ao: 'added back',
        h2: 'norm', lin: 'linear part', mo: 'added back', bx: 'B x, kept', rs: 'router', fin: 'norm', lg: 'logits' };
    const symbolOf = (part, layer) => (HomeShort.has(layer) && HomeShort.SYMBOL[part]) || SYMBOL[part];

    const LETTER = 7.5; // pixels of a row that has a letter
    const BAR = 34; // pixels at the top that buttons and breadcrumbs need: no title is half under them
    let d; // what HomeDraw gives

    const dimmed = (m) => (d.stop && !d.chosen && !d.stop.parts.has(m.id) ? 0.35 : 1);
    const tiny = () => d.unit < 3.1;

    // Pixels between a matrix and the one above it.
    function room(m) {
        m.above ??= Math.max(-Infinity, ...[...d.scene.mats.values()].filter((o) => o !== m && o.x < m.x + m.w && o.x + o.w > m.x && o.y + o.h <= m.y).map((o) => o.y + o.h));
        return (m.y - m.above) * d.cam.s;
    }

    // Above a matrix. Without room there, a symbol is at its left and other words are left out.
    function caption(m, text, more = {}) {
        if (!m) return;
        const free = room(m), symbol = Boolean(more.italic);
        d.g.font = `11px ${d.SANS}`;
        if (!more.font && !more.loose && d.g.measureText(text).width > m.w * d.cam.s + 16) return; // it would run into the next one
        if (free < 9 && !symbol) return;
        if (free < 12 && symbol) d.word(text, d.sx(m.x) - 16, d.sy(m.y + m.h / 2), { ...more, size: 11, alpha: dimmed(m) });
        else d.word(text, d.sx(m.x) - 0.5, d.sy(m.y) - (free < 16 ? 2.5 : 5), { ...more, alpha: dimmed(m) });
    }

    function symbol(m, more) {
        const size = Math.max(11, Math.min(13.5, 4.2 * d.unit));
        if (m && m.w * d.cam.s + 8 > 1.5 * size) caption(m, symbolOf(m.part, m.layer), { font: d.SERIF, italic: true, size, colour: d.colours.ink, ...more });
    }

    function title(text, lines, x, y) {
        const size = Math.max(12, Math.min(22, 3.9 * d.unit)), C = d.colours;
        if (d.unit < 1.7 || d.unit > 16 || y - size < BAR) return;
        d.word(text, x, y, { font: d.SERIF, weight: 600, size, colour: C.ink });
        if (d.unit > 3 && d.scene.s.D * d.cam.s > 0.95 * size + 33) lines.forEach((line, i) => d.word(line, x, y + size * 0.95 + 16 * i, { size: 12 }));
    }

    const act = () => ({ relu: 'ReLU', relu2: 'ReLU²', silu: 'SiLU', gelu_tanh: 'GELU', gelu_erf: 'GELU' }[Engine.info.activation] || Engine.info.activation);

    function headNames(l, S) {
        const first = d.M(l, 's0');
        if (!first) return;
        const { H } = HomeData.heads(l), pitch = H > 1 ? d.M(l, 's1').x - first.x : first.w, wide = pitch * d.cam.s;
        for (let h = 0; h < H && wide > 12; h++) {
            const on = h === d.state.head && l === d.state.layer;
            caption(d.M(l, `s${h}`), wide > 44 ? `head ${h}` : String(h), { colour: on ? d.colours.accent : d.colours.soft, weight: on ? 600 : 400 });
        }
    }

    function kept(rib, S) {
        const k = d.M(rib.layer, d.M(rib.layer, 'rk') ? 'v' : 'k'), n = S.s.T, x = d.sx(k.x) - 8, y = d.sy(k.y + k.h + 3.6 * S.u), context = Engine.info.context;
        [`KV cache: ${n} ${n === 1 ? 'row' : 'rows'} kept,`, `${Numbers.count(context - n)} free${d.fresh ? ', one new' : ''}`].forEach((text, i) => d.word(text, x, y + 14 * i, { align: 'right', alpha: dimmed(k) }));
    }

    function rib(r, S) {
        const l = r.layer, u = S.u, M = (part) => d.M(l, part);
        for (const part of ['wq', 'wk', 'wv', 'wl', 'wc', 'wg', 'w1', 'w2', 'wr']) symbol(M(part));
        const wo = M('wo');
        if (d.unit > 2.9) d.word('W_O', d.sx(wo.x + wo.w) + 5, d.sy(wo.y + wo.h / 2) + 4, { font: d.SERIF, italic: true, size: 13.5, colour: d.colours.ink });
        if (d.unit > 2.2) headNames(l, S);
        const few = M('bx') && HomeShort.taps(l), X = M('ew') && M('ew').cols;
        title(few ? 'Short memory' : 'Attention', few ? [HomeText.inUnits('every token reads'), HomeText.inUnits(`the last ${few} tokens`)] : [HomeText.inUnits('every token looks back'), 'at those before it'], d.sx(r.sx), d.sy(r.L1 - 0.4 * u - S.s.D));
        title(X ? 'Experts' : 'MLP', X ? [HomeText.inUnits('a router sends every token'), `to ${HomeExperts.chosen(l, d.state.query).length} of ${X} experts`] : [HomeText.inUnits('every token thinks'), 'for itself'], d.sx(r.mx) + (d.unit > 3 ? 30 : 10), d.sy(r.M1 + 0.6 * u - S.s.D));
        if (d.unit < 2.5) return;
        for (const part of ['h', 'q', 'k', 'lt', 'v', 'z', 'ao', 'h2', 'lin', 'mo', 'bx', 'rs', ...(d.unit > 2.8 ? ['rq', 'rk'] : [])]) caption(M(part), (HomeShort.has(l) && HomeShort.NAMES[part]) || NAMES[part], part === 'rs' ? { loose: true } : {});
        experts(M, l);
        if (M('pre')) caption(M('pre'), `${Numbers.count(M('pre').cols)} ${X ? 'shared ' : ''}neurons, before`);
        caption(M('post'), `after ${act()}`);
        const s0 = M('s0');
        if (M('tp')) caption(M('tp'), HomeText.inUnits('read of which token'), { loose: true });
        if (!tiny() && s0) {
            d.word('softmax', d.sx(s0.x + s0.w / 2) - 8, d.sy((r.L1 + S.s.TH + r.L2) / 2), { base: 'middle', align: 'right' });
            kept(r, S);
        }
        if (S.s.n > 1) d.word(`layer ${l}`, d.sx(S.at.s) - 12, d.sy(r.L1) - 10, { size: 12, weight: 600, colour: d.colours.ink, align: 'right' });
    }

    // Weights of the experts, and their numbers over what each would write.
    function experts(M, l) {
        const w = M('ew'), y = M('ey'), on = w && HomeExperts.chosen(l, d.state.query);
        if (!w) return;
        caption(w, `weights: ${on.length} answer`, { loose: true });
        if (y) caption(y, `what ${on.length === 1 ? `expert ${on[0]} writes` : `experts ${on.join(', ')} write`}`, { loose: true });
    }

    function line(r, S) {
        const C = d.colours, on = r.layer === d.state.layer;
        if ((r.bottom - r.y) * d.cam.s > 9)
            d.word(String(r.layer), d.sx(S.at.s) - 10, S.s.rh * d.cam.s < LETTER ? d.sy(r.y + S.s.TH / 2) + 4 : d.sy(r.y) - 6, { size: 12, align: 'right', weight: on ? 700 : 400, colour: on ? C.accent : C.soft });
        if (r !== S.ribs.find((x) => x.form === r.form)) return;
        if (d.unit > 1.6) for (const part of ['wq', 'wk', 'wv', 'wo', 'wg', 'w1', 'w2', 'wr']) symbol(d.M(r.layer, part), { size: 12.5 });
        if (d.M(r.layer, 'a0')) caption(d.M(r.layer, 'a0'), HomeData.heads(r.layer).H === 1 ? 'one head' : `${HomeData.heads(r.layer).H} heads`, { font: d.SERIF, italic: true, size: 12.5 });
        for (const [part, text] of [['post', 'neurons'], ['ew', 'experts'], ['tp', 'reads']]) caption(d.M(r.layer, part), text, { font: d.SERIF, italic: true, size: 12.5 });
    }

    // ---- letters ----

    function tables(S) {
        const C = d.colours, emb = d.M(-1, 'emb'), high = emb.rh * d.cam.s, inText = new Set(d.state.ids);
        caption(emb, S.narrow ? HomeText.inUnits('tokens') : HomeText.inUnits('each token’s row'), { loose: !S.narrow });
        caption(d.M(-1, 'pos'), S.narrow ? 'places' : 'each place’s row', { loose: !S.narrow });
        let last = -Infinity;
        S.s.used.forEach((id, r) => {
            const y = d.sy(emb.Y(r) + emb.rh / 2), on = id === d.state.ids[d.state.query];
            if (!(on || ((high > 7.5 || inText.has(id)) && y - last > 9))) return;
            last = y;
            d.word(HomeText.label(id).slice(0, 9), d.sx(emb.x) - 5, y, { align: 'right', base: 'middle', size: Math.max(10, Math.min(14, high)), font: d.SERIF,
                weight: on ? 700 : 400, colour: on ? C.accent : C.soft });
        });
    }

    const short = (id) => (Token.of(id).control ? '·' : HomeText.label(id).slice(0, 9));

    // Letters at the rows of the stream, and from LETTERS pixels on at both sides of attention.
    function letters(S) {
        const high = S.s.rh * d.cam.s, C = d.colours;
        if (high < LETTER) return;
        const size = Math.max(9, Math.min(18, high * 0.9));
        const style = (t) => ({ align: 'right', base: 'middle', size, font: d.SERIF, weight: t === d.state.query ? 700 : 500, colour: t === d.state.query ? C.accent : C.ink });
        for (const m of S.mats.values()) {
            const stream = m.x === S.at.s && m.kind === 'x', head = m.tri && high > d.LETTERS * 2;
            if (!stream && !head) continue;
            for (let t = 0; t < S.s.T; t++) d.word(short(d.state.ids[t]).slice(0, head ? 2 : 9), d.sx(m.x) - 5, d.sy(m.Y(t) + m.rh / 2), style(t));
            for (let t = 0; head && t < S.s.T; t++)
                d.word(short(d.state.ids[t]).slice(0, 3), d.sx(m.X(t) + m.cw / 2), d.sy(m.y + m.h) + size * 0.8, { ...style(t), align: 'center' });
        }
    }

    // Probabilities of what comes next, as bars under the logits.
    function bars(S) {
        const m = d.M(-1, 'lg'), C = d.colours, u = S.u, s = d.cam.s, p = HomeData.chances(d.state.query), before = HomeChange.chances(d.state.query);
        const best = Numbers.best(p), base = d.sy(m.y + m.h + 11.5 * u), high = 8.2 * u * s, wide = m.cw * s;
        d.rect(C.line, d.sx(m.x), base, m.w * s, 1);
        m.ids.forEach((id, i) => {
            const x = d.sx(m.X(i)), on = id === best, was = before ? (Math.min(1, before[id] / p[best])) * high : 0;
            if (was) d.rect(C.line, x, base - was, wide, was);
            d.g.globalAlpha = on ? 1 : 0.6;
            d.rect(on ? C.accent : C.soft, x + wide * 0.14, base - (p[id] / p[best]) * high, Math.max(0.7, wide * 0.72), (p[id] / p[best]) * high);
            d.g.globalAlpha = 1;
            const text = Token.isEnd(id) ? '∎' : short(id), size = Math.max(8, Math.min(14, wide * 1.25));
            if (wide > 4.6 && text.length * size * 0.45 < wide * 1.6) d.word(text, x + wide / 2, base + 4, { align: 'center', base: 'top', size, font: d.SERIF,
                colour: on ? C.accent : C.soft, weight: on ? 700 : 400 });
        });
        const i = m.ids.indexOf(best), text = `${Token.isEnd(best) ? 'end' : HomeText.label(best)} ${(100 * p[best]).toFixed(0)} %`, right = i > m.ids.length * 0.75;
        if (i >= 0) d.word(text, d.sx(m.X(i) + m.cw / 2) + (right ? -1 : 1) * (wide * 0.36 + 5), base - high * 0.85, { font: d.SERIF, size: tiny() ? 11 : 14, weight: 700, colour: C.accent, base: 'middle',
            align: right ? 'right' : 'left' });
    }

    function draw(view) {
        d = view;
        const S = d.scene, visible = (r) => d.sy(r.bottom) > -20 && d.sy(r.y) < d.h + 20;
        for (const r of S.ribs) if (visible(r)) (r.form === 'rib' ? rib : line)(r, S);
        if (d.unit > 2) tables(S);
        letters(S);
        symbol(d.M(-1, 'wu'));
        if (d.unit > 2) {
            caption(d.M(-1, 'lg'), NAMES.lg);
            caption(d.M(-1, 'fin'), NAMES.fin);
            if (d.unit > 2.5 && S.first && S.first.form === 'rib' && S.s.n === 1) d.word('residual', d.sx(S.at.s), d.sy(S.top) - 10, { size: 11 });
        }
        bars(S);
    }

    return { draw, symbolOf, act };
})();
