/* Opens a lab page in node: takes engine.js and the data blocks out of the HTML, gives the script the one
 * function of a document that it uses, and starts it. */
'use strict';
const fs = require('fs');
const path = require('path');

const engine = fs.readFileSync(path.join(__dirname, '../../tools/lab/page/engine.js'), 'utf8');

/* As embed.py writes it: without indentation and comments. */
const lean = engine.replace(/^\/\*[^]*?\*\//, '').replace(/^ +/gm, '').replace(/^\/\/ .*\n/gm, '').replace(/\n+/g, '\n').trim();

/* {Engine, blocks} of a page; Engine is not started yet. */
function readPage(file) {
    const html = fs.readFileSync(file, 'utf8'), blocks = new Map();
    for (const [, id, text] of html.matchAll(/<script type="application\/octet-stream" id="([^"]*)">([^<]*)</g))
        blocks.set(id, text);
    const document = {getElementById: id => blocks.has(id) ? {textContent: blocks.get(id)} : null};
    if (!html.includes(lean))
        throw new Error(`${file}: does not hold tools/lab/page/engine.js`);
    return {html, blocks, Engine: new Function('document', `'use strict';${engine}return Engine;`)(document)};
}

/* What only engine.js itself uses. */
function internals() {
    return new Function(`'use strict';${engine.replace('return api;', 'return {translated};')}return Engine;`)();
}

async function openPage(file) {
    const {Engine} = readPage(file);
    await Engine.start();
    return Engine;
}

module.exports = {readPage, openPage, internals};
