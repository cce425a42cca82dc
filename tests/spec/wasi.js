/* node wasi.js PROGRAM.wasm ARGUMENT...: runs a program that was compiled for WASI. */
'use strict';
const {WASI} = require('wasi');
const [program, ...args] = process.argv.slice(2);
const wasi = new WASI({version: 'preview1', args: [program, ...args], preopens: {'/': '/'}});
WebAssembly.instantiate(require('fs').readFileSync(program), {wasi_snapshot_preview1: wasi.wasiImport})
    .then(({instance}) => process.exit(wasi.start(instance)));
