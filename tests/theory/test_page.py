"""docs/theory.md names tests that exist, all of this folder's, and its picture can be drawn again."""

import ast
import importlib.util
import re

from PIL import Image

from tests.theory.page import PATH

ROOT = PATH.parents[1]
TEXT = PATH.read_text(encoding="utf-8")


def names_in(path):
    """Names of the tests of a file, those of classes as `Class::name`."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        inside = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        for item in inside:
            if isinstance(item, ast.FunctionDef) and item.name.startswith("test_"):
                yield f"{path.relative_to(ROOT).as_posix()}::{prefix}{item.name}"


def test_every_test_that_is_named_exists_and_every_test_is_named():
    named = set(re.findall(r"`(tests/\S+?\.py::\S+?)`", TEXT))
    own = {name for path in (ROOT / "tests" / "theory").glob("test_*.py") for name in names_in(path)}
    elsewhere = set(names_in(ROOT / "tests" / "relabel" / "test_invariances.py"))
    assert named <= own | elsewhere
    assert {name for name in own - named if "/test_page.py" not in name} == set()


def test_links_and_sections():
    for link in re.findall(r"\]\(([^)]+)\)", TEXT):
        assert (PATH.parent / link).exists(), link
    for page in ("user_guide.md", "when_not.md"):
        assert "(theory.md)" in (PATH.parent / page).read_text(encoding="utf-8")


def test_the_picture_can_be_drawn_again(tmp_path):
    import matplotlib

    matplotlib.use("Agg")
    spec = importlib.util.spec_from_file_location(
        "make_theory_picture", PATH.parent / "make_theory_picture.py"
    )
    pictures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pictures)
    pictures.draw_theory(tmp_path / "theory.png")
    with Image.open(tmp_path / "theory.png") as new, Image.open(pictures.IMAGES / "theory.png") as old:
        assert new.size == old.size
