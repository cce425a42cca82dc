'use strict';
// The picture of the README: mgpt lab on the names model (there reduced to 256 colours).
// node shot.js MGPT ROOT OUT.png
const { execFileSync } = require('child_process');
const fs = require('fs');
const os = require('os');
const path = require('path');
const { Chrome, find } = require('./chrome.js');

const [mgpt, root, out] = process.argv.slice(2);
const file = path.join(os.tmpdir(), `mgpt-shot-${process.pid}.html`);

async function main() {
    execFileSync(mgpt, ['lab', path.join(root, 'weights/names.gguf'), '-p', 'anna', '-o', file]);
    const chrome = new Chrome(find()), page = await chrome.open({ width: 1280, height: 800 });
    await page.go(file, '#at=4&head=0.0&cell=why.11');
    await page.until(`/Without/.test(document.querySelector('.panel').innerText)`);
    await page.eval('for (let i = 0; i < 99; i++) Home.paint()'); // parts are drawn as they are made
    await page.shot(out, { full: false });
    await chrome.close();
}

main().finally(() => fs.rmSync(file, { force: true }));
