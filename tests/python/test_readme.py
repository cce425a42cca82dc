"""The Python in the READMEs runs."""
import re

import pytest


@pytest.mark.parametrize("path", ["README.md", "tools/python/README.md"])
def test_blocks(root, path, monkeypatch):
    monkeypatch.chdir(root)
    for block in re.findall(r"^```python\n(.*?)^```$", (root / path).read_text(), re.M | re.S):
        exec(compile(block, path, "exec"), {})
