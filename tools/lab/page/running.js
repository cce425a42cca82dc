'use strict';
// Tokens as running text, with the line breaks and spaces that they have. Every token can be coloured and
// chosen.
const Running = (() => {
    const { h, fill } = Dom;
    const MARKS = { '\\n': '\n', '\\t': '\t', '\\"': '"', '\\\\': '\\' };

    // A token's text: only plain escapes are undone, what hides on a screen stays an escape.
    const textOf = (id) => Engine.piece(id).text.replace(/\\[nt"\\]/g, (m) => MARKS[m]) || `#${id}`;

    const ofTokens = (ids) => ids.map(textOf).join('');

    // Sizes from paper to ink through the accent, of which surprisal uses 62 %: letters stay readable.
    const LIGHT = Colour.ramp(['ffffff', 'cfc2f2', '9a7fe3', '6a3fd0', '35187f']);
    const DARK = Colour.ramp(['1a1c22', '43357a', '7256c9', 'a78cff', 'efe9ff']);
    const shade = (share, dark) => (dark ? DARK : LIGHT)[Math.round(158 * Math.max(0, Math.min(1, share)))];

    function span(id, i, { rgb, title, chosen, later }) {
        const control = Token.of(id).control, style = rgb ? { 'background-color': Colour.css(rgb), color: Colour.ink(rgb) } : {};
        return h(`span.t${chosen ? '.chosen' : ''}${later ? '.later' : ''}${control ? '.control' : ''}`, { 'data-i': i, title, style },
            control ? Token.text(id) : textOf(id));
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

    return { show, surprisals, shade, textOf, ofTokens };
})();
