"""The README and the user guide are true of the code."""

import ast
import importlib
import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import fedrela_sk

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "docs" / "user_guide.md").read_text(encoding="utf-8")


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def test_the_two_commands():
    assert blocks(README, "bash") == [
        "python -m pip install -c constraints.txt '.[plots]' && python -m fedrela_sk\n",
        "python -m pip install -c constraints.txt -e '.[test]' && python -m pytest\n",
    ]


def test_ten_lines_run_and_give_what_the_text_says():
    (code,) = blocks(README, "python")
    statements = [node for node in ast.parse(code).body if not isinstance(node, ast.Import | ast.ImportFrom)]
    lines = {line for node in statements for line in range(node.lineno, node.end_lineno + 1)}
    assert len(lines) <= 10
    names = {}
    exec(compile(code, "README.md", "exec"), names)
    said = re.search(r"are then about ([\d.]+), ([\d.]+) and ([\d.]+):", README)
    scores = names["search"].cv_results_["mean_test_score"]
    np.testing.assert_allclose(scores, [float(number) for number in said.groups()], atol=0.006)
    assert names["tau"] == [0, 0.02, 0.05][scores.argmax()]
    assert f"({100 * names['payments'].target.mean():.1f} % of the payments)" in README
    assert set(names["changed"].new.tolist()) == {1}


@pytest.mark.parametrize("text", [README, GUIDE], ids=["readme", "guide"])
def test_code_compiles_and_imports_what_exists(text):
    for code in blocks(text, "python"):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom):
                module = importlib.import_module(node.module)
                assert all(hasattr(module, alias.name) for alias in node.names)


@pytest.mark.parametrize("text", [README, GUIDE], ids=["readme", "guide"])
def test_named_estimators_exist(text):
    named = re.findall(r"`(FedReLa\w+|Federated\w+|Relabeling\w+|Dirichlet\w+|Shard\w+|Quantity\w+)", text)
    assert named
    for name in named:
        assert hasattr(fedrela_sk, name) or hasattr(fedrela_sk.plots, name), name


def test_what_is_linked_or_listed_is_there():
    links = [link for link in re.findall(r"\]\(([^)]+)\)", README) if "://" not in link]
    table = re.search(r"## What is where\n(.*?)\n## ", README, flags=re.DOTALL).group(1)
    places = [
        place for row in re.findall(r"^\| (`.*?) \|", table, flags=re.MULTILINE) for place in row.split(", ")
    ]
    assert len(links) >= 3
    assert len(places) >= 12
    for path in links + [place.strip("`") for place in places]:
        assert (ROOT / path).exists(), path


def test_every_public_room_is_listed():
    rooms = {path.parent.name for path in (ROOT / "fedrela_sk").glob("[a-z]*/__init__.py")}
    assert rooms
    for room in rooms:
        assert f"`fedrela_sk/{room}`" in README


def test_the_picture_can_be_drawn_again(tmp_path):
    import matplotlib

    matplotlib.use("Agg")
    spec = importlib.util.spec_from_file_location("make_pictures", ROOT / "docs" / "make_pictures.py")
    pictures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pictures)
    pictures.draw_steps(tmp_path / "steps.png", n_rounds=2)
    with Image.open(tmp_path / "steps.png") as new, Image.open(pictures.IMAGES / "steps.png") as old:
        assert new.size == old.size
    matplotlib.pyplot.close("all")
