"""Fixtures that every room's tests may use."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_folder():
    """The folder of data that cannot be bundled; a test that needs it is skipped where it is not set."""
    folder = os.environ.get("FEDRELA_SK_DATA")
    if not folder:
        pytest.skip("FEDRELA_SK_DATA is not set: this test reads data that may not be bundled")
    return Path(folder)
