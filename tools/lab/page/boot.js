'use strict';
// The bytes that the page carries under this id, unpacked; null: there is none. page_out.h has the format.
async function carried(id) {
    const element = document.getElementById(id);
    if (!element)
        return null;
    if (typeof DecompressionStream === 'undefined')
        throw new Error('this browser is too old for the page: it has no DecompressionStream');
    const text = element.textContent.trim(), bytes = new Uint8Array(Math.floor(text.length * 13 / 16));
    const digit = (i) => (text.charCodeAt(i) === 33 ? 25 : text.charCodeAt(i) - 35);
    let bits = 0, n = 0, to = 0;
    for (let i = 0; i < text.length; i += 2) {
        const two = i + 1 < text.length;
        bits |= (two ? digit(i) + 91 * digit(i + 1) : digit(i)) << n;
        for (n += two ? 13 : 6; n > 7; n -= 8, bits >>= 8)
            bytes[to++] = bits;
    }
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
    return new Uint8Array(await new Response(stream).arrayBuffer());
}
// Starts the page: its styles and scripts are carried packed, since they are most of a small page. The
// policy names their hashes, so nothing else can be started this way.
(async () => {
    async function start(tag, into, id) {
        const element = document.createElement(tag);
        element.textContent = new TextDecoder().decode(await carried(id));
        into.append(element);
    }
    try {
        await start('style', document.head, 'mgpt-style');
        await start('script', document.body, 'mgpt-page');
    } catch (e) {
        const message = document.getElementById('message');
        message.textContent = e.message;
        message.hidden = false;
    }
})();
