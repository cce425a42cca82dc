"""--json-schema: what is drawn is a document of its schema, by a validator of our own and by jsonschema, where there is one.

schemas.py MGPT [DRAWS]. Schemas are made at random, with what is drawn of each: lists of all keywords that are translated.
"""
import functools
import json
import math
import os
import random
import re
import sys
import tempfile

from checks import check, failed, run_program

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import large_vocab  # noqa: E402

try:
    import jsonschema
except ImportError:
    jsonschema = None

MGPT = sys.argv[1]
DRAWS = int(sys.argv[2]) if len(sys.argv) > 2 else 12
FORMATS = {'date': r'\d{4}-\d\d-\d\d', 'ipv4': r'\d{1,3}(\.\d{1,3}){3}', 'uuid': '[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}',
           'time': r'\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)', 'date-time': r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)'}


# ---- a validator ----

def same(a, b):
    """Equality of JSON: true is not 1, 1.0 is 1."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return a == b


def is_number(v):
    return isinstance(v, (int, float)) and not isinstance(v, bool) and math.isfinite(v)


TYPES = {'object': lambda v: isinstance(v, dict), 'array': lambda v: isinstance(v, list), 'string': lambda v: isinstance(v, str),
         'integer': lambda v: is_number(v) and v == int(v), 'number': is_number, 'boolean': lambda v: isinstance(v, bool), 'null': lambda v: v is None}


def is_valid(v, s, root):
    if '$ref' in s:
        at = root
        for name in s['$ref'].split('/')[1:]:
            at = at[name]
        return is_valid(v, at, root)
    kinds = s.get('type')
    if kinds is not None and not any(TYPES[k](v) for k in ([kinds] if isinstance(kinds, str) else kinds)):
        return False
    if ('const' in s and not same(v, s['const'])) or ('enum' in s and not any(same(v, x) for x in s['enum'])):
        return False
    if ('anyOf' in s and not any(is_valid(v, x, root) for x in s['anyOf'])) or not all(is_valid(v, x, root) for x in s.get('allOf', [])):
        return False
    if is_number(v):
        return (v >= s.get('minimum', -math.inf) and v <= s.get('maximum', math.inf) and v > s.get('exclusiveMinimum', -math.inf) and
                v < s.get('exclusiveMaximum', math.inf))
    if isinstance(v, str):
        return (s.get('minLength', 0) <= len(v) <= s.get('maxLength', math.inf) and bool(re.search(s.get('pattern', ''), v)) and
                bool(re.fullmatch(FORMATS.get(s.get('format'), '(?s:.*)'), v)))
    if isinstance(v, list):
        first = s.get('prefixItems', [])
        return (s.get('minItems', 0) <= len(v) <= s.get('maxItems', math.inf) and all(is_valid(x, p, root) for x, p in zip(v, first)) and
                (len(v) <= len(first) or s.get('items') is not False) and
                all(is_valid(x, s['items'], root) for x in v[len(first):] if isinstance(s.get('items'), dict)))
    if isinstance(v, dict):
        known = s.get('properties', {})
        return all(k in v for k in s.get('required', [])) and all(is_valid(x, known[k], root) if k in known else s.get('additionalProperties', True)
                                                                   for k, x in v.items())
    return True


# ---- schemas ----

NAMES = ['a', 'b c', 'é"', 'x\\y', 'n\nl', 'long_name', '1', '$']
PATTERNS = ['^[a-z]{2,4}$', '["\\\\\n]', 'a|b', '^(x|é)+', '[^\\s"]{3}$', r'\d{1,3}\.\d', '^.{2}$', r'^\u00e9[!-~]{2}$', r'^\S\W\D$', r'^[^\S]{2}$', '']


def random_value(rng, depth=0):
    kind = rng.randrange(8 if depth < 2 else 6)
    if kind < 6:
        return [True, None, rng.randint(-500, 500), rng.choice([0.5, -1e-7, 123.456, 1e300]), rng.choice(NAMES), '\t\x01ü😀/'][kind]
    if kind == 6:
        return [random_value(rng, depth + 1) for _ in range(rng.randrange(3))]
    return {name: random_value(rng, depth + 1) for name in rng.sample(NAMES, rng.randrange(3))}


def random_bounds(rng):
    low = rng.choice([-10 ** rng.randrange(6), -rng.randrange(2000), 0, rng.randrange(3000), rng.random() * 90])
    high = low + rng.choice([0, 1, 7, 98, 12345]) + 1
    bounds = {rng.choice(['minimum', 'exclusiveMinimum']): low, rng.choice(['maximum', 'exclusiveMaximum']): high + 1}
    return {k: v for k, v in bounds.items() if rng.random() < 0.9}


def random_schema(rng, depth=0):
    kind = rng.randrange(12 if depth < 3 else 8)
    if kind == 0:
        least = rng.randrange(4)
        return {'type': 'string', 'minLength': least, 'maxLength': least + rng.randrange(5)}
    if kind == 1:
        return {'type': 'string', 'pattern': rng.choice(PATTERNS)}
    if kind == 2:
        return {'type': 'string', 'format': rng.choice(list(FORMATS))}
    if kind == 3:
        return {'type': 'integer', **random_bounds(rng)}
    if kind == 4:
        return {'type': rng.sample(['number', 'boolean', 'null', 'integer'], rng.randint(1, 3)), 'title': 'x'}
    if kind == 5:
        return {'enum': [random_value(rng) for _ in range(rng.randint(1, 4))]}
    if kind == 6:
        return {'const': random_value(rng)}
    if kind == 7:
        return {'$ref': '#/$defs/' + rng.choice(['one~1', 'two'])}
    if kind == 8:
        return {'anyOf': [random_schema(rng, depth + 1) for _ in range(rng.randint(1, 3))]}
    if kind == 9:
        least = rng.randrange(3)
        return {'type': 'array', 'items': random_schema(rng, depth + 1), 'minItems': least, 'maxItems': least + rng.randrange(3)}
    if kind == 10:
        return {'type': 'array', 'prefixItems': [random_schema(rng, depth + 1) for _ in range(rng.randint(1, 2))], 'items': False}
    names = rng.sample(NAMES, rng.randrange(5))
    return {'type': 'object', 'properties': {n: random_schema(rng, depth + 1) for n in names}, 'required': [n for n in names if rng.random() < 0.5],
            'additionalProperties': rng.random() < 0.5}


DEFS = {'one/': {'type': 'string', 'maxLength': 3}, 'two': {'type': ['integer', 'null'], 'maximum': 99, 'minimum': -5}}


def to_ref(schema):
    """The validator looks names up as they are."""
    return json.loads(json.dumps(schema).replace('one~1', 'one/'))


def draw(model, schema, folder, n, seed, temperature='1.5'):
    with open(folder + '/s.json', 'w', encoding='utf-8') as file:
        json.dump(schema, file, ensure_ascii=seed % 2 == 0)
    done = run_program(MGPT, 'generate', model, '--json-schema', folder + '/s.json', '--samples', str(n), '--temp', temperature, '-s', str(seed), '--json',
                       '--no-prompt', '-n', '400', timeout=600)
    records = [json.loads(line) for line in done.stdout.splitlines()]
    return [r['text'] for r in records if r['finish_reason'] == 'stop'], len(records)


def test_random(model, folder):
    n_drawn = n_ended = 0
    for seed in range(DRAWS):
        schema = {**random_schema(random.Random(seed)), '$defs': DEFS}
        texts, n = draw(model, schema, folder, 40, seed)
        n_drawn, n_ended = n_drawn + n, n_ended + len(texts)
        for text in texts:
            value = json.loads(text)
            if not is_valid(value, to_ref(schema), {'$defs': {**DEFS, 'one': {'': DEFS['one/']}}}):
                check('schema %d: %s' % (seed, json.dumps(schema)), text, 'a valid document')
                break
            if jsonschema:
                jsonschema.validate(value, schema)
    check('documents', (n_drawn, n_ended > n_drawn * 0.9), (40 * DRAWS, True))


def test_all_occur(model, folder):
    """Each property is there and absent, each choice is drawn."""
    schema = {'properties': {'a': {'enum': [1, 2]}, 'b': {'type': 'boolean'}, 'c': {'const': None}, 'd': {'type': 'integer', 'minimum': 8, 'maximum': 11}},
              'required': ['c']}
    texts, _ = draw(model, schema, folder, 6000, 1, '8')
    found = {re.sub(' ', '', t) for t in texts}
    expected = {'{%s}' % ','.join(p for p in (a, b, '"c":null', d) if p) for a in ('', '"a":1', '"a":2') for b in ('', '"b":true', '"b":false')
                for d in ('', '"d":8', '"d":9', '"d":10', '"d":11')}
    check('all documents', found, expected)
    check('a space or none', {t[4:6] for t in texts if t.startswith('{"a":')} >= {':1', ': '}, True)


REFUSED = [({'type': 'array', 'items': {'type': 'null'}, 'uniqueItems': True}, '#: uniqueItems is not supported'),
           ({'properties': {'a': {'oneOf': []}}}, '#/properties/a: oneOf is not supported'), ({}, 'expected type, enum, const, anyOf'),
           ({'type': 'object', 'patternProperties': {}}, 'patternProperties is not supported'), ({'type': 'text'}, 'type: expected object, array'),
           ({'$ref': '#'}, "'#' contains itself"), ({'$ref': '#/$defs/x'}, "$ref: expected the place of a schema in this file"),
           ({'type': 'array'}, 'items is missing'), ({'type': 'string', 'pattern': '(?=a)'}, 'pattern: a group (?'), ({'type': 'string', 'pattern': '^a|b'}, '^ and $ with a |'), ({'type': 'string', 'pattern': 'a|b$'}, '^ and $ with a |'),
           ({'type': 'string', 'pattern': 'a)(b'}, 'pattern: a ) without its ('),
           ({'type': 'string', 'format': 'email'}, "format: expected date"), ({'type': 'string', 'minLength': 3, 'maxLength': 2}, 'maxLength is less'),
           ({'type': 'string', 'minLength': -1}, 'minLength: expected a whole number from 0'), ({'type': 'string', 'maxLength': 3, 'pattern': 'a'}, 'only one of them'),
           ({'type': 'integer', 'minimum': 5, 'maximum': 4}, 'no whole number'), ({'type': 'number', 'minimum': 5}, 'minimum is not supported'),
           ({'type': ['number', 'integer'], 'minimum': 5}, 'not whole are not supported'),
           ({'type': 'object', 'required': ['x']}, "required: 'x' is not one of"), ({'type': 'object', 'additionalProperties': {'type': 'null'}}, 'additionalProperties: a schema'),
           ({'enum': [1], 'type': 'string'}, 'no value of the type'), ({'allOf': [{'type': 'null'}, {}]}, 'allOf with more than one'), (True, 'bad JSON'),
           ({'type': 'string', 'minLength': 10000}, 'a repetition that is too large'), ({'type': 'integer', 'multipleOf': 2}, 'multipleOf is not supported'),
           ({'anyOf': [{'type': 'null'}], 'type': 'null'}, 'type is not supported with anyOf'),
           # keywords whose values are of another kind
           ({'type': 'array', 'items': {'type': 'null'}, 'minItems': 3, 'maxItems': 2}, 'maxItems is less than minItems'),
           ({'prefixItems': {'type': 'null'}}, 'prefixItems: expected an array'), ({'prefixItems': [{'type': 'null'}], 'items': {'type': 'null'}}, 'besides it only items: false'),
           ({'properties': []}, 'properties: expected an object'), ({'properties': {}, 'required': 'a'}, 'required: an array'), ({'properties': {'a': 3}}, '#/properties/a: expected a schema'),
           ({'enum': []}, 'no value of the type'), ({'anyOf': 3}, 'anyOf: expected an array with elements'), ({'allOf': {}}, 'allOf: expected an array with elements'),
           ({'type': 'string', 'pattern': 3}, 'pattern: expected a string'), ({'type': 'integer', 'minimum': '3'}, 'minimum: expected a number'),
           ({'type': 'integer', 'exclusiveMaximum': None}, 'exclusiveMaximum: expected a number'), ([{'type': 'null'}], 'expected a schema'),
           ({'properties': {'a': {'type': []}}}, '#/properties/a: type: expected object'), ({'type': ['null', 'null']}, 'type: expected object'), ({'type': ['null', 3]}, 'type: expected object'),
           ({'type': 'string', 'minLength': 1.5}, 'minLength: expected a whole number'), ({'type': 'string', 'maxLength': 10001}, 'maxLength: expected a whole number from 0 to 10000'),
           ({'type': 'string', 'maxLength': '3'}, 'maxLength: expected a whole number'), ({'type': 'string', 'format': 'date', 'minLength': 1}, 'only one of them'),
           ({'type': 'string', 'format': 'date', 'pattern': 'a'}, 'only one of them'), ({'type': 'string', 'format': 3}, 'format: expected date'),
           ({'type': 'object', 'requir': []}, 'requir is not supported'), ({'type': 'array', 'Items': {}}, 'Items is not supported'), ({'type': 'integer', 'exclusive': 1}, 'exclusive is not supported'),
           ({'$ref': 'x'}, "found 'x'"), ({'$ref': '#x'}, "found '#x'"), ({'$ref': 3}, '$ref: expected the place'), ({'$ref': '#/$defs/a', '$defs': {'a': {'type': 'null'}}, 'type': 'null'}, 'type is not supported with $ref'),
           ({'$ref': '#/$defs/' + 'a' * 130, '$defs': {'a' * 127: {'type': 'null'}, 'a' * 130: {'type': 'null'}}}, '$ref: expected the place'),
           ({'$ref': '#/$defs/a', '$defs': {'a': {'anyOf': [{'type': 'null'}, {'$ref': '#/$defs/a'}]}}}, 'contains itself'), ({'type': 'object', 'required': [3]}, "required: ''"),
           ({'prefixItems': [{'type': 'null'}], 'minItems': 1}, 'prefixItems: expected an array, and'), ({'prefixItems': [{'type': 'null'}], 'maxItems': 1}, 'prefixItems: expected an array, and'),
           ({'type': ['number', 'integer'], 'maximum': 5}, 'not whole are not supported'), ({'type': ['number', 'integer'], 'exclusiveMinimum': 5}, 'not whole are not supported'),
           ({'type': ['number', 'integer'], 'exclusiveMaximum': 5}, 'not whole are not supported'), ({'type': 'integer', 'exclusiveMinimum': 4, 'exclusiveMaximum': 5}, 'no whole number'),
           ({'type': 'integer', 'minimum': 1e300}, 'no whole number'), ({'const': 1, 'enum': [1]}, 'enum is not supported with const'), ({'enum': [True, None], 'type': 'integer'}, 'no value of the type'),
           ({'$ref': '#/$defs/d14', '$defs': {'d0': {'type': 'null'}, **{'d%d' % i: {'prefixItems': [{'$ref': '#/$defs/d%d' % (i - 1)}] * 4} for i in range(1, 15)}}}, 'more than 4194304 bytes'),
           ({'const': functools.reduce(lambda v, _: [v], range(33), 1)}, 'a value is nested more than 32 deep')]


def test_refused(model, folder):
    for schema, words in REFUSED:
        with open(folder + '/s.json', 'w') as file:
            json.dump(schema, file)
        found = run_program(MGPT, 'generate', model, '--json-schema', folder + '/s.json', code=3, timeout=60).stderr.decode()
        check('refused %s' % json.dumps(schema), words in found and '/s.json' in found, True)
        if words not in found:
            print(found)
    deep = {'type': 'null'}
    for _ in range(40):
        deep = {'type': 'array', 'items': deep}
    with open(folder + '/s.json', 'w') as file:
        json.dump(deep, file)
    found = run_program(MGPT, 'generate', model, '--json-schema', folder + '/s.json', code=3, timeout=60).stderr.decode()
    check('too deep', 'more than 32 deep' in found or 'more than 4194304 bytes' in found, True)
    run_program(MGPT, 'generate', model, '--json-schema', folder + '/none.json', code=5, timeout=60)
    run_program(MGPT, 'generate', model, '--json-schema', folder + '/s.json', '--regex', 'a', code=2, timeout=60)


def test_repl(model, folder):
    with open(folder + '/s.json', 'w') as file:
        json.dump({'properties': {'a': {'enum': ['x', 'y']}}, 'required': ['a']}, file)
    found = run_program(MGPT, 'repl', model, '--json-schema', folder + '/s.json', '--temp', '1', timeout=60, text=b'/g\n').stdout.decode()
    check('repl', found.splitlines()[0] in ['{"a":%s"%s"}' % (space, x) for space in ('', ' ') for x in 'xy'], True)


with tempfile.TemporaryDirectory() as folder:
    model = folder + '/m.gguf'
    large_vocab.write(large_vocab.llama_vocab(3000), model)
    for test in (test_random, test_all_occur, test_refused, test_repl):
        test(model, folder)
print('%d failed' % len(failed))
sys.exit(bool(failed))
