"""The package over the conformance suite: texts of all lengths, behaviours of sessions (tests/suite/test_mgpt.py)."""
import os
import sys

import pytest


@pytest.mark.skipif("MGPT" not in os.environ, reason="MGPT names the program that writes the suite")
def test_suite(root, tmp_path):
    sys.path.insert(0, str(root / "tests/suite"))
    import test_mgpt
    cases, engine = tmp_path / "suite", f"'{sys.executable}' '{root}/tools/suite/adapters/mgpt_python.py'"
    assert test_mgpt.suite.main(["write", str(cases), "--mgpt", os.environ["MGPT"]]) == 0
    assert test_mgpt.status(cases, ["--serve", engine], "package", "gguf", []) == 0
