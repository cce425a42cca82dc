'use strict';
// Attention as arcs from the chosen token to those that it looks at. Keys of the same line have an arc above the
// line; those of other lines a line to them and a bar under them, as thick as their share.
const Arcs = (() => {
    const MOST = 32, LEAST = 0.01; // arcs, share

    // boxes: {x, y, w, h} of each token up to the query. [{curve: two ends with their handles, width, alpha}] and
    // [{bar: [x, y, w, h]}]. room: pixels above a line. by: pixels to the right.
    function of(boxes, query, share, room, by = 0) {
        const from = boxes[query], out = [], all = boxes.slice(0, query + 1).map((_, j) => share(j));
        for (const j of Numbers.top(all, MOST)) {
            const a = all[j], b = boxes[j];
            if (!(a >= LEAST)) continue;
            const x1 = from.x + from.w / 2 + by, x2 = b.x + b.w / 2 + by, y1 = from.y - 3, y2 = b.y - 3, d = x1 - x2, width = 1 + 7 * a, alpha = 0.35 + 0.5 * a;
            const up = Math.min(room, 14 + Math.abs(d) * 0.2) * 1.33;
            if (j === query) out.push({ curve: [x1 - 6, y1, x1 - 18, y1 - Math.min(room, 24), x1 + 18, y1 - Math.min(room, 24), x1 + 6, y1], width, alpha });
            else if (Math.abs(y1 - y2) < 4) out.push({ curve: [x1, y1, x1 - d * 0.14, y1 - up, x2 + d * 0.14, y2 - up, x2, y2], width, alpha });
            else {
                const y = b.y + b.h;
                out.push({ curve: [x1, y1, x1, (y + y1) / 2, x2, (y + y1) / 2, x2, y + 2], width: Math.max(1, 4 * a), alpha: alpha / 1.6 }, { bar: [b.x, y, b.w, 1 + 7 * a] });
            }
        }
        return out;
    }

    // A picture to lie over the tokens; for the eye alone, since each token says its share.
    const layer = () => Dom.svg('svg', { 'aria-hidden': 'true', class: 'arcs' });

    // Fills it. `host` holds the elements of the tokens and the layer. shares: of one head or of several, which
    // have colours of their own.
    function show(svg, host, tokens, query, shares, room) {
        const base = host.getBoundingClientRect(), boxes = tokens.slice(0, query + 1).map((el) => {
            const r = el.getClientRects()[0] || el.getBoundingClientRect(); // a line break of its own has two
            return { x: r.left - base.left + host.scrollLeft, y: r.top - base.top + host.scrollTop, w: r.width, h: r.height };
        });
        const colour = (i) => (shares.length > 1 ? { class: `of${i}` } : {});
        svg.replaceChildren(...(boxes[query] ? shares.flatMap((share, i) => of(boxes, query, share, room, 4 * (i - (shares.length - 1) / 2)).map(({ curve: c, bar: b, width, alpha }) => (b ? Dom.svg('rect', { x: b[0], y: b[1], width: b[2], height: b[3], ...colour(i) })
            : Dom.svg('path', { d: `M${c[0]} ${c[1]}C${c.slice(2).join(' ')}`, 'stroke-width': width, opacity: alpha, ...colour(i) })))) : []));
    }

    return { layer, show };
})();
