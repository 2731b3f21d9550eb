"""The README, the map of rooms and the user guide are true of the code."""

import ast
import csv
import importlib
import importlib.util
import json
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import fedrela_sk

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "docs" / "user_guide.md").read_text(encoding="utf-8")
# heading of the results table -> column of the main job's file
METRICS = {
    "balanced accuracy": "balanced_accuracy",
    "recall of bad": "recall",
    "F1 of bad": "f1",
    "average precision": "average_precision",
}


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def test_the_two_commands():
    assert blocks(README, "bash") == [
        "python -m pip install -c constraints.txt '.[plots]' && python -m fedrela_sk\n",
        "python -m pip install -c constraints.txt -e '.[test]' && python -m pytest\n",
    ]


def test_it_fits_on_a_page():
    assert len(README.splitlines()) <= 90


def test_ten_lines_run_and_print_what_the_text_says(capsys):
    (code,) = blocks(README, "python")
    (printed,) = blocks(README, "text")
    statements = [node for node in ast.parse(code).body if not isinstance(node, ast.Import | ast.ImportFrom)]
    lines = {line for node in statements for line in range(node.lineno, node.end_lineno + 1)}
    assert len(lines) <= 10
    names = {}
    exec(compile(code, "README.md", "exec"), names)
    words, numbers = "balanced accuracy: ", re.findall(r"\d\.\d+", printed)
    assert capsys.readouterr().out.startswith(words)
    assert printed == words + " ".join(numbers) + "\n"
    scores = names["search"].cv_results_["mean_test_score"]
    np.testing.assert_allclose(scores, [float(number) for number in numbers], atol=0.006)
    assert f"{100 * names['payments'].target.mean():.1f} % is fraud" in code


def rows_of_the_table():
    """Cells of the results table without bold type, the line of dashes left out."""
    (table,) = re.findall(r"(?:^\|.*\n)+", README, flags=re.MULTILINE)
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.replace("**", "").splitlines()
    ]
    return [rows[0], *rows[2:]]


def scores_of_the_main_job():
    """Model to metric to scores over folds, as ``python -m fedrela_sk`` saved them."""
    scores = defaultdict(lambda: defaultdict(list))
    with open(ROOT / "benchmarks" / "results" / "main_job.csv", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            for metric in METRICS.values():
                scores[row["model"]][metric].append(float(row[metric]))
    return scores


def test_the_results_table_is_that_of_the_main_job():
    (_, *columns), *rows = rows_of_the_table()
    scores = scores_of_the_main_job()
    assert columns == list(METRICS)
    assert len(rows) <= 8
    for model, *cells in rows:
        folds = [scores[model][METRICS[column]] for column in columns]
        assert cells == [f"{np.mean(one):.3f} ± {np.std(one, ddof=1):.3f}" for one in folds], model


def test_the_results_table_has_every_model_that_beats_the_best_tau():
    scores = scores_of_the_main_job()
    mean = {model: np.mean(found["balanced_accuracy"]) for model, found in scores.items()}
    best = max(mean[model] for model in mean if "tau" in model)
    assert {model for model in mean if mean[model] >= best} <= {row[0] for row in rows_of_the_table()}


def test_bold_is_the_best_of_a_column():
    (_, *columns), *rows = rows_of_the_table()
    bold = re.findall(r"\*\*(\d\.\d+)\*\*", README)
    best = [max(row[1 + column][:5] for row in rows) for column in range(len(columns))]
    assert set(bold) == set(best)


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


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/when_not.md", "docs/stability.md"])
def test_what_is_linked_is_there(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    assert len(links) >= 3
    for link in links:
        assert ((ROOT / page).parent / link).exists(), link


def test_what_is_on_the_map_is_there():
    (table,) = re.findall(r"^## What is where\n(.*?)\n## ", CONTRIBUTING, flags=re.MULTILINE | re.DOTALL)
    places = [
        place for row in re.findall(r"^\| (`.*?) \|", table, flags=re.MULTILINE) for place in row.split(", ")
    ]
    assert len(places) >= 12
    for place in places:
        assert (ROOT / place.strip("`")).exists(), place


def test_every_public_room_is_on_the_map():
    rooms = {path.parent.name for path in (ROOT / "fedrela_sk").glob("[a-z]*/__init__.py")}
    assert rooms
    for room in rooms:
        assert f"`fedrela_sk/{room}`" in CONTRIBUTING


def drawing(name):
    """A script of `docs` as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_chart_of_speed_can_be_drawn_again(tmp_path):
    pictures = drawing("make_speed_picture")
    pictures.draw_speed(tmp_path / "speed.png")
    with Image.open(tmp_path / "speed.png") as new, Image.open(pictures.PICTURE) as old:
        assert new.size == old.size


def test_the_chart_of_speed_says_where_we_lose():
    pictures = drawing("make_speed_picture")
    found = pictures.seconds_a_round(json.loads(pictures.RESULTS.read_text(encoding="utf-8")))
    faster = {
        job: {engine for engine in found[job] if found[job][engine] < found[job]["fedrela_sk"]}
        for job in found
    }
    assert faster == {"tab": set(), "even": set(), "cnn": {"pfl"}}
    assert "a net of convolutions is slower here than in pfl" in " ".join(README.split())


def test_the_picture_can_be_drawn_again(tmp_path):
    import matplotlib

    matplotlib.use("Agg")
    pictures = drawing("make_pictures")
    pictures.draw_steps(tmp_path / "steps.png", n_rounds=2)
    with Image.open(tmp_path / "steps.png") as new, Image.open(pictures.IMAGES / "steps.png") as old:
        assert new.size == old.size
    matplotlib.pyplot.close("all")
