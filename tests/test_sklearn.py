"""Where scikit-learn moved a private helper, one message says which version was found and which is supported."""

import runpy
import sys
import tomllib
from pathlib import Path

import pytest
import sklearn

from fedrela_sk import _sklearn

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "module",
    [
        "sklearn.callback._transport",
        "sklearn.utils._param_validation",
        "sklearn.utils._tags",
        "sklearn.utils.validation",
    ],
)
def test_a_helper_that_moved(module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(sklearn, "__version__", "9.8.dev0")
    with pytest.raises(ImportError) as caught:
        runpy.run_path(_sklearn.__file__)
    message = str(caught.value)
    assert f"private helpers of scikit-learn {_sklearn.SUPPORTED} and found scikit-learn 9.8.dev0" in message
    assert module in message
    assert f"pip install 'scikit-learn=={_sklearn.SUPPORTED}.*'" in message


def test_a_name_that_is_gone_is_named(monkeypatch):
    monkeypatch.delattr("sklearn.utils.metaestimators._safe_split")
    with pytest.raises(ImportError, match=r"_safe_split.*Install a supported version"):
        runpy.run_path(_sklearn.__file__)


def test_the_supported_version_is_the_one_that_pyproject_asks_for_and_the_tests_run_with():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"scikit-learn>={_sklearn.SUPPORTED}" in project["dependencies"]
    assert f"scikit-learn=={_sklearn.SUPPORTED}." in (ROOT / "constraints.txt").read_text(encoding="utf-8")


def test_every_name_of_the_door_is_listed_and_nothing_else():
    own = {
        name
        for name, thing in vars(_sklearn).items()
        if not name.startswith("__") and not _of_typing(name, thing)
    }
    assert own - {"sklearn"} == set(_sklearn.__all__)


def _of_typing(name, thing):
    """What annotations need."""
    return name == "TYPE_CHECKING" or getattr(thing, "__module__", "") in ("typing", "collections.abc")
