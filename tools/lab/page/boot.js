'use strict';
// Starts the page: its styles and scripts are carried packed, since they are most of a small page. The
// policy names their hashes, so nothing else can be started this way.
(async () => {
    async function unpacked(id) {
        const text = atob(document.getElementById(id).textContent), packed = new Blob([Uint8Array.from(text, (c) => c.charCodeAt(0))]);
        return new Response(packed.stream().pipeThrough(new DecompressionStream('gzip'))).text();
    }
    async function start(tag, into, id) {
        const element = document.createElement(tag);
        element.textContent = await unpacked(id);
        into.append(element);
    }
    try {
        if (typeof DecompressionStream === 'undefined')
            throw new Error('this browser is too old for the page: it has no DecompressionStream');
        await start('style', document.head, 'mgpt-style');
        await start('script', document.body, 'mgpt-page');
    } catch (e) {
        const message = document.getElementById('message');
        message.textContent = e.message;
        message.hidden = false;
    }
})();
