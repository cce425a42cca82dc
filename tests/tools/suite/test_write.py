#!/usr/bin/env python3
"""tools/suite/write.py: a suite is whole, the same twice, and what cannot be written is one line."""
import contextlib
import hashlib
import io
import json
import os
import pathlib
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(os.environ.get('MGPT_SOURCE_ROOT') or pathlib.Path(__file__).parents[3])
sys.path.insert(0, str(ROOT / 'tools/suite'))
import write  # noqa: E402

MGPT = os.environ.get('MGPT', str(ROOT / 'build/tools/mgpt'))


def run(*args, mgpt=MGPT):
    """Exit code and error line of suite write."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = write.main([*map(str, args), '--mgpt', str(mgpt)])
    return code, err.getvalue()


class Whole(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory()
        cls.top = pathlib.Path(cls.place.name)
        cls.code = run(cls.top / 'suite', '--zip', cls.top / 'suite.zip')
        cls.cases = [json.loads(line) for line in (cls.top / 'suite/cases.jsonl').read_text().splitlines()]

    @classmethod
    def tearDownClass(cls):
        cls.place.cleanup()

    def test_files_of_cases(self):
        self.assertEqual(self.code, (0, ''))
        self.assertEqual(len({case['id'] for case in self.cases}), len(self.cases))
        self.assertGreaterEqual(len(self.cases), 71)
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
        self.assertEqual(run(self.top / 'again', '--zip', self.top / 'again.zip')[0], 0)
        archives = [(self.top / name).read_bytes() for name in ('suite.zip', 'again.zip')]
        self.assertTrue(archives[0] == archives[1])
        self.assertLessEqual(len(archives[0]), 10_000_000)
        with zipfile.ZipFile(self.top / 'suite.zip') as archive:
            self.assertIn('gpt-suite-%s/cases.jsonl' % write.VERSION, archive.namelist())


class Refused(unittest.TestCase):
    def test_lines(self):
        with tempfile.TemporaryDirectory() as place:
            top = pathlib.Path(place)
            (top / 'full').mkdir()
            (top / 'full/a').write_text('')
            self.assertEqual(run(top / 'full'), (2, 'suite write: %s is there already and not empty: name a new directory\n' % (top / 'full')))
            self.assertEqual(run(top / 'a', '--groups', 'archs')[0], 2)
            self.assertEqual(run(top / 'a', '--formats', 'onnx'), (2, 'suite write: --formats: "onnx" is not one of hf, hf4, gguf, pt, bin\n'))
            self.assertEqual(run(top / 'full/a/b')[0], 5)
            self.assertEqual(run(top / 'a', mgpt=top / 'none')[0], 2)
            self.assertEqual(os.listdir(top), ['full'])


if __name__ == '__main__':
    unittest.main()
