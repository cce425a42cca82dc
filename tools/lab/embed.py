"""Joins the files of the lab's page to one template and writes it, with the engine's module, as C arrays.

usage: embed.py OUTPUT.c MODULE.wasm PAGE.html LICENCES.txt STYLE.css... SCRIPT.js...

The template has the marks {{csp}}, {{style}}, {{boot}}, {{script}}, {{licences}}, which are filled in here, and {{title}} and
{{data}}, in this order, which mgpt lab fills in: the page comes out in three parts. Styles and scripts are
made smaller (minify.py) and joined in the order given. They are constant, so their hashes in the Content-Security-Policy are, too.
"""
import base64
import gzip
import hashlib
import html
import json
import pathlib
import re
import struct
import sys

from minify import minify

try:
    import lzma
except ImportError:
    lzma = None


def read(path):
    with open(path, 'rb') as file:
        return file.read()


def joined(paths, ending, change=lambda text: text):
    """Browsers hash what is between the tags with line ends made \\n."""
    return b'\n'.join(change(read(p).replace(b'\r\n', b'\n')) for p in paths if p.endswith(ending))


def colours():
    """common/colours.h for scripts: of light and of dark themes, {signs, shares} in hexadecimal digits."""
    path = pathlib.Path(__file__).parent.parent / 'common/colours.h'
    tables = {'LIGHT': {}, 'DARK': {}}
    for name, theme, points in re.findall(r'^#define COLOURS_(\w+)_(LIGHT|DARK) (.*)', path.read_text(), re.M):
        tables[theme][name.lower()] = re.findall('0x([0-9a-f]{6})', points)
    return json.dumps(list(tables.values()))


def minified(script):
    return minify(script.decode().replace('= COLOURS;', f'= {colours()};')).encode()


def hash_of(text):
    return b"'sha256-" + base64.b64encode(hashlib.sha256(text).digest()) + b"'"


def fill(page, mark, text):
    if page.count(mark) != 1:
        sys.exit(f'embed.py: the template has {page.count(mark)} marks {mark.decode()}, expected 1')
    return page.replace(mark, text)


def without_spaces(style):
    """Styles without comments and without spaces that mean nothing."""
    style = re.sub(rb'\s+', b' ', re.sub(rb'/\*.*?\*/', b'', style, flags=re.S))
    return re.sub(rb' ?([{};,>]) ?', rb'\1', style).replace(b': ', b':')


def zipped(data):
    return gzip.compress(data, 9, mtime=0)


def packed(data):
    """An .lzma file with its size in the header; gzip, a tenth larger, where Python has no lzma. Both depend on the data only."""
    if not lzma:
        return zipped(data)
    filters = [{'id': lzma.FILTER_LZMA1, 'preset': 9 | lzma.PRESET_EXTREME, 'pb': 0, 'nice_len': 273}]
    file = lzma.compress(data, lzma.FORMAT_ALONE, filters=filters)
    return file[:5] + struct.pack('<Q', len(data)) + file[13:]


def characters(data):
    """Bytes as the characters of a block (page_out.h)."""
    digits = bytes(range(35, 126)).replace(b'<', b'!')
    out, bits, n = bytearray(), 0, 0
    for byte in data + bytes(2):
        bits |= byte << n
        n += 8
        if n >= 13:
            out += bytes((digits[bits % 8192 % 91], digits[bits % 8192 // 91]))
            bits, n = bits >> 13, n - 13
    whole, rest = divmod(8 * len(data), 13)
    out += bytes((digits[bits % 91], digits[bits // 91]))
    return bytes(out[:2 * whole + (2 if rest > 6 else 1 if rest else 0)])


def template(paths):
    """The page in three parts. boot.js is in it unpacked and starts the styles and the other scripts, which are packed."""
    boots = [p for p in paths if p.endswith('boot.js')]
    style, boot = without_spaces(joined(paths, '.css')), joined(boots, '.js', minified)
    script = joined([p for p in paths if p not in boots], '.js', minified)
    if b'</script' in boot.lower() or b'<!--' in boot:
        sys.exit('embed.py: the script would end its own element')
    policy = (b"default-src 'none'; script-src " + hash_of(boot) + b' ' + hash_of(script)
              + b" 'wasm-unsafe-eval'; worker-src blob:; style-src " + hash_of(style) + b"; base-uri 'none'; form-action 'none'")
    licences = html.escape(joined(paths, '.txt').decode()).encode()
    page = joined(paths, '.html')
    for mark, text in ((b'{{csp}}', policy), (b'{{style}}', characters(packed(style))), (b'{{boot}}', boot),
                       (b'{{licences}}', licences), (b'{{script}}', characters(packed(script)))):
        page = fill(page, mark, text)
    head, body = fill(page, b'{{title}}', b'\0').split(b'\0')
    body, tail = fill(body, b'{{data}}', b'\0').split(b'\0')
    return head, body, tail


def array(name, data):
    lines = [', '.join(str(b) for b in data[i:i + 32]) for i in range(0, len(data), 32)]
    return f'static const unsigned char {name}[] = {{\n' + ',\n'.join(lines or ['0']) + '};\n'


def main():
    output, module, *paths = sys.argv[1:]
    parts = dict(zip(('head', 'body', 'tail'), template(paths)))
    parts['module'] = packed(read(module))
    with open(output, 'w', encoding='ascii') as file:
        file.write('/* Made by embed.py. */\n#include "lab/parts.h"\n\n')
        for name, data in parts.items():
            file.write(array(name, data))
        for name, data in parts.items():
            file.write(f'const struct lab_part lab_{name} = {{{name}, {len(data)}}};\n')


if __name__ == '__main__':
    main()
