"""Fixtures that every room's tests may use, and the markers that are read from `tests/slow.txt`."""

import os
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

from tests import list_slow

# Small jobs on a busy machine wait for each other's OpenMP threads, many times longer than they compute.
# Set before scikit-learn and torch are imported; a number set outside stays.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The same examples in every run; `--hypothesis-profile=default` looks for new ones.
settings.register_profile("steady", derandomize=True)
settings.load_profile("steady")

# marker of the tests of an extra -> the module without which they are left out, whatever `-m` says
EXTRAS = {"flower": "flwr", "dask": "distributed", "ray": "ray"}


@pytest.fixture(scope="session")
def data_folder():
    """The folder of data that cannot be bundled; a test that needs it is skipped where it is not set."""
    folder = os.environ.get("FEDRELA_SK_DATA")
    if not folder:
        pytest.skip("FEDRELA_SK_DATA is not set: this test reads data that may not be bundled")
    return Path(folder)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark what the list names; leave out what cannot run here."""
    for item in items:
        for marker in list_slow.markers_of(item.nodeid):
            item.add_marker(marker)
    absent = {marker for marker, module in EXTRAS.items() if find_spec(module) is None}
    left_out = [item for item in items if _cannot_run(item, absent)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        left_out = set(left_out)
        items[:] = [item for item in items if item not in left_out]


def _cannot_run(item, absent):
    """A test of an extra that is not installed, or a check of scikit-learn's that would only skip itself."""
    claims_array_api = "check_array_api_input" in item.name  # no array API is claimed here
    return claims_array_api or any(item.get_closest_marker(marker) for marker in absent)


list_slow.watch_processes()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    """Note a test that starts processes in the junit report, for `python -m tests.list_slow`."""
    before = list_slow.processes_started()
    yield
    if list_slow.processes_started() > before:
        item.user_properties.append(("processes", "started"))
