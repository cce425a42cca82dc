'use strict';
// Starts the page: its scripts are carried packed, comments and all, since they are most of a small
// page. The policy names their hash, so nothing else can be started this way.
(async () => {
    try {
        if (typeof DecompressionStream === 'undefined')
            throw new Error('this browser is too old for the page: it has no DecompressionStream');
        const text = atob(document.getElementById('mgpt-page').textContent);
        const packed = new Blob([Uint8Array.from(text, (c) => c.charCodeAt(0))]);
        const script = document.createElement('script');
        script.textContent = await new Response(packed.stream().pipeThrough(new DecompressionStream('gzip'))).text();
        document.body.append(script);
    } catch (e) {
        const message = document.getElementById('message');
        message.textContent = e.message;
        message.hidden = false;
    }
})();
