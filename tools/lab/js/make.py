"""Makes the engine for programs in JavaScript: ninja -C build js.

usage: make.py VERSION FOLDER MODULE.wasm LOADER.js MGPT.js MGPT.d.ts

    mgpt.js, mgpt.wasm   an ES module and the engine that it loads
    mgpt.file.js         both as one script that sets `mgpt`, for pages that are opened from a file, where browsers load no modules
    mgpt.d.ts, package.json
"""
import base64
import json
import pathlib
import shutil
import sys

ES = '''
async function moduleBytes() {
    const url = new URL('mgpt.wasm', import.meta.url);
    if (url.protocol !== 'file:')
        return loaded(url);
    const {readFile} = await import('node:fs/promises');
    return readFile(url);
}

export {Model, Session, Sampler};
'''
SCRIPT = '''
const moduleBytes = async () => Uint8Array.from(atob('%s'), c => c.charCodeAt(0));
return {Model, Session, Sampler};
'''


def main():
    version, folder, module, loader, glue, types = sys.argv[1:]
    folder = pathlib.Path(folder)
    source = ''.join(pathlib.Path(p).read_text(encoding='utf-8') for p in (loader, glue))
    head = f'// mgpt {version}: a small GPT engine. mgpt.d.ts describes it.\n'
    (folder / 'mgpt.js').write_text(head + source + ES, encoding='utf-8')
    code = base64.b64encode(pathlib.Path(module).read_bytes()).decode()
    (folder / 'mgpt.file.js').write_text(f"{head}const mgpt = (() => {{\n'use strict';\n{source}{SCRIPT % code}}})();\n", encoding='utf-8')
    shutil.copyfile(module, folder / 'mgpt.wasm')
    shutil.copyfile(types, folder / 'mgpt.d.ts')
    package = {'name': 'mgpt', 'version': version, 'description': 'A small GPT engine: GGUF models with the same bits everywhere', 'type': 'module',
               'license': 'MIT', 'exports': {'.': {'types': './mgpt.d.ts', 'default': './mgpt.js'}},
               'files': ['mgpt.js', 'mgpt.wasm', 'mgpt.d.ts', 'mgpt.file.js']}
    (folder / 'package.json').write_text(json.dumps(package, indent=2) + '\n', encoding='utf-8')


if __name__ == '__main__':
    main()
