'use strict';
// Tokens as running text, with the line breaks and spaces that they have. Every token can be coloured.
const Running = (() => {
    const { h, fill } = Dom;
    const MARKS = { '\\n': '\n', '\\t': '\t', '\\"': '"', '\\\\': '\\' };

    // A token's text: only plain escapes are undone, what hides on a screen stays an escape.
    const known = [];
    const textOf = (id) => (known[id] ??= Engine.piece(id).text.replace(/\\[nt"\\]/g, (m) => MARKS[m]) || `#${id}`);

    const ofTokens = (ids) => Array.from(ids, (id) => textOf(id)).join('');

    // The text before and after token pos in one line, n characters each at most; `end`: no token from there on.
    function around(ids, pos, n, end = ids.length) {
        const text = (a, b) => ofTokens(ids.slice(a, b)).replace(/\s/g, ' ');
        return [text(Math.max(Engine.info.add_bos, pos - n), pos).slice(-n), text(pos + 1, Math.min(end, pos + 1 + n)).slice(0, n)];
    }

    // Shares of 0 to 1; 62 % of the colours, so that letters stay readable.
    const shade = (share, dark) => HomeBake.shareColour(0.62 * Math.max(0, Math.min(1, share)), dark);

    function span(id, i, { rgb, title, chosen, later }) {
        const { control } = Token.of(id);
        return h(`span.t${chosen ? '.chosen' : ''}${later ? '.later' : ''}${control ? '.control' : ''}`, { title, style: TextLine.style(rgb) },
            control ? (i > 0 && Token.isEnd(id) ? 'end' : HomeText.label(id)) : textOf(id));
    }

    // Fills `el`; look(i) says {rgb, title, chosen, later} of token i.
    function show(el, ids, look = () => ({})) {
        fill(el, Array.from(ids, (id, i) => span(id, i, look(i))));
    }

    // The surprisal of each token but the first, as looks.
    function surprisals(ids, lane, dark) {
        const losses = Numbers.losses(ids, (i) => Engine.logits(i, lane)); // 5 nats and more are full
        return (i) => (i > 0 && i <= losses.length ? { rgb: shade(losses[i - 1].nll / 5, dark),
            title: `${Token.name(ids[i])}: surprisal ${Numbers.fixed(losses[i - 1].nll, 2)} nats` } : {});
    }

    return { show, surprisals, shade, textOf, ofTokens, around };
})();
