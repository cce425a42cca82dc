#!/usr/bin/env python3
"""tools/suite/write.py: a suite is whole, the same twice, and what cannot be written is one line."""
import contextlib
import hashlib
import io
import json
import math
import os
import pathlib
import struct
import sys
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(os.environ.get('MGPT_SOURCE_ROOT') or pathlib.Path(__file__).parents[3])
sys.path.insert(0, str(ROOT / 'tools/suite'))
import dialect  # noqa: E402
import made  # noqa: E402
import shapes  # noqa: E402
import write  # noqa: E402

MGPT = os.environ.get('MGPT', str(ROOT / 'build/tools/mgpt'))


def run(*args, mgpt=MGPT):
    """Exit code and error line of suite write."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = write.main([*map(str, args), '--mgpt', str(mgpt)])
    return code, err.getvalue()


class Whole(unittest.TestCase):
    """A suite: the groups that need few conversions, or all (MGPT_SUITE=all)."""
    options = () if os.environ.get('MGPT_SUITE') == 'all' else ('--groups', 'types,tokenizers')

    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory()
        cls.top = pathlib.Path(cls.place.name)
        cls.code = run(cls.top / 'suite', '--archive', cls.top / 'suite.tar.xz', *cls.options)
        cls.cases = [json.loads(line) for line in (cls.top / 'suite/cases.jsonl').read_text().splitlines()]

    @classmethod
    def tearDownClass(cls):
        cls.place.cleanup()

    def test_files_of_cases(self):
        self.assertEqual(self.code, (0, ''))
        self.assertEqual(len({case['id'] for case in self.cases}), len(self.cases))
        self.assertGreaterEqual(len(self.cases), 512 if not self.options else 37)
        if not self.options:
            kinds = {kind: sum(kind in case['files'] for case in self.cases) for kind in write.FORMATS}
            self.assertEqual(kinds, {'hf': 509, 'hf4': 145, 'gguf': 537, 'pt': 2, 'bin': 5, 'llmc': 6})
        for case in self.cases:
            paths = [*case['files'].values(), case['ref'], *(a['ref'] for a in case.get('also', ()))]
            paths.append(case['texts' if case.get('kind') == 'tokenizer' else 'ids'])
            for path in paths:
                self.assertTrue((self.top / 'suite' / path).exists(), '%s: %s' % (case['id'], path))

    def test_sums(self):
        sums = dict(reversed(line.split('  ')) for line in (self.top / 'suite/SHA256SUMS').read_text().splitlines())
        files = {str(p.relative_to(self.top / 'suite')): p for p in (self.top / 'suite').rglob('*') if p.is_file()}
        self.assertEqual(set(files) - {'SHA256SUMS'}, set(sums))
        for name, total in sums.items():
            self.assertEqual(hashlib.sha256(files[name].read_bytes()).hexdigest(), total, name)

    def test_same_twice_and_small(self):
        self.assertEqual(run(self.top / 'again', '--archive', self.top / 'again.tar.xz', *self.options)[0], 0)
        archives = [(self.top / name).read_bytes() for name in ('suite.tar.xz', 'again.tar.xz')]
        self.assertTrue(archives[0] == archives[1])
        self.assertLessEqual(len(archives[0]), 11_500_000)
        with tarfile.open(self.top / 'suite.tar.xz') as archive:
            names = archive.getnames()
        self.assertIn('gpt-suite-%s/cases.jsonl' % write.VERSION, names)
        models = [name.split('/')[2:3] for name in names]
        self.assertEqual(models, sorted(models), 'what a model has in several folders is together')


class Made(unittest.TestCase):
    def test_matrix(self):
        """A matrix by the formula of made.py's header, value by value."""
        b, (first, step) = made.stream('m', 400), struct.unpack('<II', made.stream('m/3', 8))
        while math.gcd(step, 70) != 1:
            step += 1
        data = made.tensor_bytes('m', 3, [7, 10, 33], 0.5, -9)
        for r in range(70):
            for c in range(33):
                want = 0.5 + (2 * b[(r * step + first) % 70 + c] - 255) / 512
                got = struct.unpack('<f', b'\0\0' + data[2 * (33 * r + c):][:2])[0]
                self.assertLessEqual(abs(got - want), abs(want) / 256)
        self.assertEqual(len({data[66 * r:66 * r + 66] for r in range(70)}), 70)
        self.assertEqual(made.tensor_bytes('m', 4, [33], 0, 0)[:6], b''.join(map(made.bf16, (2.0 * b - 255 for b in made.stream('m/4', 11)[8:]))))

    def test_bf16(self):
        for value, want in ((1.0, '803f'), (-255.0, '7fc3'), (1 + 2**-8, '803f'), (1 + 3 * 2**-8, '823f'), (1.00391, '813f'), (0.0, '0000')):
            self.assertEqual(made.bf16(value).hex(), want, value)

    def test_config_of_4(self):
        rope = {'rope_type': 'llama3', 'rope_theta': 5e5, 'factor': 8.0}
        self.assertEqual(dialect.config_of_4({'model_type': 'llama', 'dtype': 'bfloat16', 'rope_parameters': rope}), {
            'model_type': 'llama', 'torch_dtype': 'bfloat16', 'transformers_version': '4.57.6', 'rope_theta': 5e5,
            'rope_scaling': {'rope_type': 'llama3', 'factor': 8.0}})
        two = {'full_attention': {'rope_type': 'default', 'rope_theta': 1e6}, 'sliding_attention': {'rope_type': 'default', 'rope_theta': 1e4}}
        gemma = dialect.config_of_4({'model_type': 'gemma3_text', 'rope_parameters': two})
        self.assertEqual((gemma['rope_theta'], gemma['rope_local_base_freq'], gemma['rope_scaling']), (1e6, 1e4, None))
        self.assertIsNone(dialect.config_of_4({'model_type': 'olmo3', 'rope_parameters': two}))
        self.assertIsNone(dialect.config_of_4({'model_type': 'opt'}))

    def test_bugs_change_keys(self):
        """The keys with which logits must be wrong are not those of the case."""
        rows = [(row[0], row[1], row[3], row[5]) for row in shapes.PRECISE] + [(row[0], row[1], row[2], row[5]) for row in shapes.FAR]
        for name, base, changes, bug in rows:
            own = {**shapes.golden_keys(base), **changes}
            for key, value in (bug or {}).items():
                self.assertNotEqual(own.get(key), value, name)


class Refused(unittest.TestCase):
    def test_lines(self):
        with tempfile.TemporaryDirectory() as place:
            top = pathlib.Path(place)
            (top / 'full').mkdir()
            (top / 'full/a').write_text('')
            self.assertEqual(run(top / 'full'), (2, 'suite write: %s is there already and not empty: name a new directory\n' % (top / 'full')))
            self.assertEqual(run(top / 'a', '--groups', 'archs')[0], 2)
            self.assertEqual(run(top / 'a', '--formats', 'onnx'), (2, 'suite write: --formats: "onnx" is not one of hf, hf4, gguf, pt, bin, llmc\n'))
            self.assertEqual(run(top / 'full/a/b')[0], 5)
            self.assertEqual([run(top / 'a', '--groups', group)[0] for group in ('behaviours', 'hooks')], [2, 2])
            self.assertEqual(run(top / 'a', mgpt=top / 'none')[0], 2)
            self.assertEqual(os.listdir(top), ['full'])


if __name__ == '__main__':
    unittest.main()
