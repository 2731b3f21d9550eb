"""Mistakes are planted where they are said to be, and the committed score is that of its rows."""

import ast
import json

import pytest

from benchmarks import mutants

SOURCE = '''def f(a, b=3):
    """Docstring."""
    if not a:
        raise ValueError(f"{a + 1}" + str(1 - 2))
    return g(a, b) if a < b and -a > 0 else a + 1
'''


def planted(source=SOURCE):
    """Mistake to the lines that it makes."""
    found = {}
    for _, number, mistake in mutants.sites_of(source):
        change = mutants._difference(source, mutants.mutate(source, number, mistake))
        found.setdefault(mistake, []).append(change["is"])
    return found


def test_every_mistake_by_hand():
    found = planted()
    assert found["drop_not"] == ["if a:"]
    assert found["compare"] == [
        "return g(a, b) if a <= b and -a > 0 else a + 1",
        "return g(a, b) if a < b and -a >= 0 else a + 1",
    ]
    assert found["other_connective"] == ["return g(a, b) if a < b or -a > 0 else a + 1"]
    assert found["operate"] == ["return g(a, b) if a < b and -a > 0 else a - 1"]
    assert found["swap_arguments"] == ["return g(b, a) if a < b and -a > 0 else a + 1"]
    assert found["swap_branches"] == ["return a + 1 if a < b and -a > 0 else g(a, b)"]
    assert found["drop_minus"] == ["return g(a, b) if a < b and a > 0 else a + 1"]
    assert sorted(found["change_constant"]) == [
        "return g(a, b) if a < b and -a > 0 else a + 2",
        "return g(a, b) if a < b and -a > 1 else a + 1",
    ]


def test_every_mutant_parses_and_differs():
    source = (mutants.ROOT / "fedrela_sk" / "aggregation" / "_mean.py").read_text(encoding="utf-8")
    plain = ast.unparse(ast.parse(source)) + "\n"
    sites = mutants.sites_of(source)
    assert len(sites) > 20
    for _, number, mistake in sites:
        mutated = mutants.mutate(source, number, mistake)
        ast.parse(mutated)
        assert mutated != plain


def test_the_sample_follows_the_seed_and_is_even_over_rooms():
    rooms = ("aggregation",)
    assert mutants.sample(5, 0, rooms=rooms) == mutants.sample(5, 0, rooms=rooms)
    assert mutants.sample(5, 0, rooms=rooms) != mutants.sample(5, 1, rooms=rooms)
    assert len(set(mutants.sample(5, 0, rooms=rooms))) == 5


@pytest.mark.parametrize(("passes", "verdict"), [(False, "killed"), (True, "survived"), (None, "timeout")])
def test_the_verdict_is_that_of_the_tests_and_the_file_is_put_back(passes, verdict, tmp_path, monkeypatch):
    file = "fedrela_sk/room/_file.py"
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(SOURCE, encoding="utf-8")
    seen = []

    def run(arguments, tree, limit):
        seen.append((arguments, limit, (tree / file).read_text(encoding="utf-8")))
        return passes

    monkeypatch.setattr(mutants, "_passes", run)
    row = mutants.judge(file, 0, tmp_path, 7)
    assert (row["verdict"], row["was"], row["is"], row["line"]) == (verdict, "if not a:", "if a:", 3)
    ((arguments, limit, mutated),) = seen
    assert arguments[0] == "tests/room"
    assert limit == 7
    assert "if a:" in mutated
    assert (tmp_path / file).read_text(encoding="utf-8") == SOURCE


@pytest.mark.parametrize(("passes", "verdict"), [(False, "killed"), (None, "timeout")])
def test_nothing_is_judged_by_tests_that_fail_anyway(passes, verdict, tmp_path, monkeypatch):
    monkeypatch.setattr(mutants, "_passes", lambda *arguments: passes)
    with pytest.raises(RuntimeError, match=f"tests of relabel end as '{verdict}' without any mistake"):
        mutants.check_unmutated(tmp_path, 1)
    monkeypatch.setattr(mutants, "_passes", lambda *arguments: True)
    mutants.check_unmutated(tmp_path, 1)


def test_the_committed_page_and_score_are_those_of_the_rows():
    found = json.loads((mutants.RESULTS / "mutants.json").read_text(encoding="utf-8"))
    assert len(found["mutants"]) >= 20
    assert found["score"] == round(mutants.score(found["mutants"]), 4)
    assert mutants.report(found) == (mutants.RESULTS / "mutants.md").read_text(encoding="utf-8")
