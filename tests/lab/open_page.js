/* Opens a lab page in node: takes engine.js and the data blocks out of the HTML, gives the script the one
 * function of a document that it uses, and starts it. */
'use strict';
const fs = require('fs');
const path = require('path');
const zlib = require('zlib');

/* The parts of a page's scripts that are engine.js and, as Engine.Trials, trials.js. */
function engineOf(scripts) {
    const found = ['Engine', 'Trials'].map(name =>
        new RegExp(`const ${name} = \\(\\(\\) => \\{[^]*?\\n\\}\\)\\(\\);`).exec(scripts));
    if (!found[0])
        throw new Error('the page holds no engine.js');
    return `'use strict';${found.map(f => f ? f[0] : '').join('')}Engine.Trials = typeof Trials === 'undefined' ? null : Trials;return Engine;`;
}

/* {html, blocks, Engine} of a page; Engine is not started yet. */
function readPage(file) {
    const html = fs.readFileSync(file, 'utf8'), blocks = new Map();
    for (const [, id, text] of html.matchAll(/<script type="application\/octet-stream" id="([^"]*)">([^<]*)</g))
        blocks.set(id, text);
    const document = {getElementById: id => blocks.has(id) ? {textContent: blocks.get(id)} : null};
    const scripts = zlib.gunzipSync(Buffer.from(blocks.get('mgpt-page'), 'base64')).toString();
    return {html, blocks, Engine: new Function('document', engineOf(scripts))(document)};
}

async function openPage(file) {
    const {Engine} = readPage(file);
    await Engine.start();
    return Engine;
}

/* What only engine.js itself uses. */
function internals() {
    const source = fs.readFileSync(path.join(__dirname, '../../tools/lab/page/engine.js'), 'utf8');
    return new Function(engineOf(source).replace('return api;', 'return {translated};'))();
}

module.exports = {readPage, openPage, internals};
