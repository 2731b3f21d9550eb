"""Fixtures that every room's tests may use."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Small jobs on a busy machine wait for each other's OpenMP threads, many times longer than they compute.
# Set before scikit-learn and torch are imported; a number set outside stays.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The same examples in every run; `--hypothesis-profile=default` looks for new ones.
settings.register_profile("steady", derandomize=True)
settings.load_profile("steady")


@pytest.fixture(scope="session")
def data_folder():
    """The folder of data that cannot be bundled; a test that needs it is skipped where it is not set."""
    folder = os.environ.get("FEDRELA_SK_DATA")
    if not folder:
        pytest.skip("FEDRELA_SK_DATA is not set: this test reads data that may not be bundled")
    return Path(folder)


def pytest_collection_modifyitems(config, items):
    """Leave out the one check of scikit-learn's that would only skip itself: no array API is claimed here."""
    left_out = [item for item in items if "check_array_api_input" in item.name]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if "check_array_api_input" not in item.name]
