"""The changelog and the page on stability name what the code renames and exports."""

import importlib.util
import re
from importlib import import_module
from pathlib import Path

import pytest

import fedrela_sk
from fedrela_sk import _deprecation
from fedrela_sk.algorithms._derived import FORMER_HOOKS

ROOT = Path(__file__).parents[1]
CHANGES = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
STABILITY = (ROOT / "docs" / "stability.md").read_text(encoding="utf-8")
WORKFLOW = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize("place", sorted(_deprecation.RENAMED))
def test_every_new_name_is_in_the_changelog(place):
    for old, new in _deprecation.RENAMED[place].items():
        assert f"| `{place}` | `{old}` | `{new}` |" in CHANGES


def test_every_name_that_is_no_longer_public_is_in_the_changelog():
    for names in _deprecation.PRIVATE.values():
        for name in names:
            assert f"`{name}`" in CHANGES


def test_every_hook_of_another_name_is_in_the_changelog():
    rows = dict(re.findall(r"^  \| `(\w+)` \| `(\w+)`", CHANGES, flags=re.MULTILINE))
    assert rows == {old: re.match(r"\w+", new).group() for old, new in FORMER_HOOKS.items()}


def test_the_version_of_the_changelog_is_the_packages():
    newest = re.search(r"^## \[(\d\S+)\]", CHANGES, flags=re.MULTILINE).group(1)
    assert newest == fedrela_sk.__version__


def test_every_room_is_on_the_page_on_stability_and_says_what_is_public():
    (rooms,) = re.findall(r"of each of its rooms: (.*?)\.\n", STABILITY, flags=re.DOTALL)
    named = {name.removeprefix("fedrela_sk.") for name in re.findall(r"`([\w.]+)`", rooms)}
    assert named == set(fedrela_sk._ROOMS)
    for room in named:
        module = import_module(f"fedrela_sk.{room}")
        assert module.__all__
        assert not any(name.startswith("_") for name in module.__all__)


def test_the_helpers_of_the_page_on_stability_exist():
    helpers = re.findall(r"^\| `(\w+)` \| ", STABILITY, flags=re.MULTILINE)
    own = {
        name
        for name, thing in vars(_deprecation).items()
        if getattr(thing, "__module__", "") == _deprecation.__name__ and not name.startswith("_")
    }
    assert set(helpers) == own | {"RENAMED", "PRIVATE"}


def test_the_workflow_runs_the_script_and_the_lowest_and_coming_versions():
    assert re.search(r'python: \["3\.11", "3\.12", "3\.13"\]', WORKFLOW)
    assert "run: .ci/run" in WORKFLOW
    assert "python .ci/lowest_pins.py plots test > lowest.txt" in WORKFLOW
    assert "--pre" in WORKFLOW
    assert "scientific-python-nightly-wheels" not in WORKFLOW  # a pre-release comes from the ordinary index


def test_the_page_of_public_names_is_what_the_rooms_export():
    spec = importlib.util.spec_from_file_location("make_api", ROOT / "docs" / "make_api.py")
    make_api = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_api)
    assert make_api.PAGE.read_text(encoding="utf-8") == make_api.page(), "run python docs/make_api.py"
    listed = set(re.findall(r"^\| `(\w+)` \|", make_api.page(), flags=re.MULTILINE))
    exported = {name for room in fedrela_sk._ROOMS for name in import_module(f"fedrela_sk.{room}").__all__}
    assert listed >= exported - {kind.__name__ for kind in fedrela_sk.algorithms.ALGORITHMS.values()}


def test_the_readme_names_public_things_only():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    exported = {name for room in fedrela_sk._ROOMS for name in import_module(f"fedrela_sk.{room}").__all__}
    named = set(re.findall(r"`([A-Z]\w+)`", text)) | set(re.findall(r"from fedrela_sk\S* import (\w+)", text))
    assert named
    assert named <= exported | set(fedrela_sk.__all__)
