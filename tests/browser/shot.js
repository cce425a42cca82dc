'use strict';
// The picture of the README: the story of the names model at step 100 (there reduced to 256 colours).
// node shot.js MGPT ROOT OUT.png
const { execFileSync } = require('child_process');
const fs = require('fs');
const os = require('os');
const path = require('path');
const { Chrome, find } = require('./chrome.js');

const [mgpt, root, out] = process.argv.slice(2);
const file = path.join(os.tmpdir(), `mgpt-shot-${process.pid}.html`);

async function main() {
    const steps = path.join(root, 'weights/names-steps'), models = fs.readdirSync(steps).filter((f) => f.endsWith('.gguf')).map((f) => path.join(steps, f));
    execFileSync(mgpt, ['lab', ...models, '-p', 'anna', '--held', path.join(steps, 'held.txt'), '--texts', path.join(steps, 'texts.txt'), '-o', file]);
    const chrome = new Chrome(find()), page = await chrome.open({ width: 1280, height: 800 });
    await page.go(file, '#view=story&head=0.2&ago=9');
    await page.until(`/115,115/.test(document.querySelector('.part-sorts').innerText)`);
    await page.shot(out, { full: false });
    await chrome.close();
}

main().finally(() => fs.rmSync(file, { force: true }));
