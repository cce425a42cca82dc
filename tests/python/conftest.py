"""What the tests of the package share."""
import os
import pathlib

import pytest

import mgpt

ROOT = pathlib.Path(os.environ["MGPT_SOURCE_ROOT"])


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def names():
    return mgpt.Model(ROOT / "weights/names.gguf")


@pytest.fixture(scope="session")
def shakespeare():
    return mgpt.Model(ROOT / "weights/shakespeare.gguf")
