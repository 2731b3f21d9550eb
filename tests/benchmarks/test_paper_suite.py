"""The suite of the paper's tables: its settings files, its controls, a run and its page on a handful of images."""

from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.suites import paper
from benchmarks.suites._jsonl import append_line
from benchmarks.suites.paper import _run
from benchmarks.suites.paper._controls import CONTROLS, pairs
from benchmarks.suites.paper._data import Images, _minority
from benchmarks.suites.paper._figures import draw_tau_curves
from benchmarks.suites.paper._nets import NETS
from benchmarks.suites.paper._report import _title, gains, group_recalls, write_report
from benchmarks.suites.paper._settings import PRESETS, Cell, cells, read_table, tables
from fedrela_sk import FedReLaRelabeler
from fedrela_sk.algorithms import ALGORITHMS

ROUNDS_OF_CLIMB = {"fashion_mnist": 2000, "cifar10": 2000, "cifar100": 1000}
EVERY = [(table, preset) for table in tables() for preset in PRESETS]


@pytest.mark.parametrize(("table", "preset"), EVERY)
def test_settings_name_things_that_exist(table, preset):
    found = cells(table, preset)
    assert len({cell.key for cell in found}) == len(found)
    for cell in found:
        assert cell.values["method"] in ALGORITHMS
        assert cell.settings["net"]["kind"] in NETS
        assert cell.arms[0]["name"] == "baseline"
        assert all(arm.get("control") in {None, *CONTROLS} for arm in cell.arms)


def test_a_minority_given_as_a_share_are_every_second_class():
    assert _minority(0.3, 10) == [0, 2, 4]
    assert _minority(0.1, 100) == list(range(0, 20, 2))
    assert _minority((7, 8), 10) == [7, 8]


@pytest.mark.parametrize("table", tables())
def test_the_full_preset_has_the_papers_rounds_and_the_reduced_one_at_least_sixty(table):
    assert read_table(table, "full")["federation"]["n_rounds"] == 500
    assert read_table(table, "cpu")["federation"]["n_rounds"] >= 60
    assert len(read_table(table, "cpu")["seeds"]) == 3


def test_a_preset_cannot_name_an_unknown_section(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.suites.paper._settings.FOLDER", tmp_path)
    (tmp_path / "odd.toml").write_text("[preset.cpu.nett]\nlr = 1\n")
    with pytest.raises(ValueError, match="'nett', which is not there"):
        read_table("odd", "cpu")


def test_what_holds_for_one_value_alone():
    by_method = {cell.key: cell.settings for cell in cells("table_02", "full")}
    assert by_method["fedloge, alpha 0.3"]["method"]["fedloge"] == {"etf_norm": 0.1}
    assert by_method["fedloge, alpha 0.3, heads sparse"]["method"]["fedloge"] == {
        "etf_norm": 0.1,
        "relabel_head": "sparse",
        "predict_head": "sparse",
    }
    assert by_method["fedetf, alpha 10, name cifar100, amount 50"]["data"]["n_max"] == 500
    assert by_method["fedetf, alpha 10, amount 50"]["data"]["amount"] == 50
    assert {cell.settings["federation"]["n_clients"] for cell in cells("table_08", "full")} == {50, 100}


def test_climb_has_the_rounds_that_the_paper_gives_it():
    found = {
        (cell.table, cell.settings["data"]["name"]): cell.settings["federation"]["n_rounds"]
        for table in ("table_01", "table_07", "table_14")
        for cell in cells(table, "full")
        if cell.values["method"] == "climb"
    }
    expected = {(table, name): n for table in ("table_01", "table_07") for name, n in ROUNDS_OF_CLIMB.items()}
    assert found == expected | {("table_14", "fashion_mnist"): 2000}
    others = [cell for table in tables() for cell in cells(table, "full") if cell.values["method"] != "climb"]
    assert {cell.settings["federation"]["n_rounds"] for cell in others} == {500}
    assert {cell.settings["federation"]["n_rounds"] for cell in cells("table_14", "cpu")} == {60}


@pytest.fixture
def client():
    """Posteriors and labels of one client that lacks class 3."""
    generator = np.random.default_rng(0)
    y = generator.choice([0, 1, 2], 200, p=[0.7, 0.2, 0.1])
    Q = generator.dirichlet(np.ones(4), 200)
    return Q, y, generator.random((200, 4))


def fitted(control, Q, y, uniforms):
    return (
        CONTROLS[control](0.1, classes=np.arange(4), random_state=1)
        .fit(Q, y)
        .relabel(Q, y, uniforms=uniforms)
    )


@pytest.mark.parametrize("control", ["random_flips", "top_posteriors"])
def test_controls_match_fedrela_pair_by_pair(client, control):
    Q, y, uniforms = client
    ours = FedReLaRelabeler(0.1, classes=np.arange(4)).fit(Q, y).relabel(Q, y, uniforms=uniforms)
    other = fitted(control, Q, y, uniforms)
    assert pairs(y, other) == pairs(y, ours) != []
    assert (other != ours).any()


def test_top_posteriors_takes_the_highest_of_each_class(client):
    Q, y, uniforms = client
    new = fitted("top_posteriors", Q, y, uniforms)
    old, target, n = pairs(y, new)[0]
    own = y == old
    highest = np.flatnonzero(own)[np.argsort(-Q[own, target])[:n]]
    assert (new[highest] == target).all()


def test_dropping_the_same_rows_changes_no_label(client):
    Q, y, uniforms = client
    ours = FedReLaRelabeler(0.1, classes=np.arange(4)).fit(Q, y).relabel(Q, y, uniforms=uniforms)
    labels, keep = fitted("drop_same_rows", Q, y, uniforms)
    np.testing.assert_array_equal(labels, y)
    np.testing.assert_array_equal(keep, ours == y)


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Tiny images, whose runs go to a folder of the test."""
    generator = np.random.default_rng(0)
    counts = [60, 30, 10]
    y, y_test = np.repeat([0, 1, 2], counts), np.repeat([0, 1, 2], 10)
    draw = lambda y: (generator.normal(size=(len(y), 1, 8, 8)) + y[:, None, None, None]).astype(np.float32)  # noqa: E731
    images = Images(draw(y), y, draw(y_test), y_test, np.arange(len(y)))
    monkeypatch.setattr(_run, "images_of", lambda cell: images)
    monkeypatch.setattr(paper, "RESULTS", tmp_path)
    return tmp_path


def tiny_cell():
    cell = next(cell for cell in cells("fair_ablation", "cpu"))
    federation = cell.settings["federation"] | {"n_clients": 3, "n_rounds": 12}
    arms = [arm for arm in cell.arms if "cleanlab" not in arm["name"]]
    return Cell(
        cell.table, cell.preset, cell.key, cell.values, cell.settings | {"federation": federation}, arms
    )


def test_a_run_its_line_and_its_page(results):
    cell = tiny_cell()
    paper._one(cell, 0)
    done = paper.read(cell.table, cell.preset)
    arms = {arm["arm"]: arm for arm in done[cell.key, 0]["arms"]}
    assert arms["baseline"]["relabeled"] == 0 < arms["+ FedReLa"]["relabeled"]
    assert arms["random flips, matched"]["flows"] == arms["+ FedReLa"]["flows"]
    assert arms["the same rows dropped"]["dropped"] == arms["+ FedReLa"]["relabeled"]
    shared = arms["+ FedReLa"]["relabel_round"]
    branching = [arms[own["name"]] for own in cell.arms if "criterion" not in own]
    assert {tuple(arm["accuracy"][:shared]) for arm in branching} == {
        tuple(arms["baseline"]["accuracy"][:shared])
    }

    page = results / "page.md"
    write_report(page, cell.table, cell.preset, done)
    text = page.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith(("| fedavg", "|  |"))]
    assert len(lines) == len(arms)
    assert f"{100 * np.mean(arms['+ FedReLa']['recall']):.1f}" in lines[1]


def test_a_baseline_that_diverged_has_a_row_of_its_own(results):
    cell = cells("table_14", "cpu")[0]
    arms = [{"arm": "baseline", "diverged": "nan"}]
    line = {"cell": cell.key, "seed": 0, "arms": arms, "minutes": 1.0, "machine": {"cores": 2}}
    write_report(results / "page.md", cell.table, cell.preset, {(cell.key, 0): paper.put_together([line])})
    text = (results / "page.md").read_text(encoding="utf-8")
    head, _, row = text[: text.index("## Beside the paper")].strip().splitlines()[-3:]
    assert "**diverged** with every seed" in row
    assert row.count("|") == head.count("|")
    assert "The paper prints no number for these cells." in text


def line_of(cell, seed, arms, **facts):
    return {"cell": cell.key, "seed": seed, "arms": [{"arm": name} for name in arms], **facts}


def test_a_finished_run_is_not_repeated(results):
    (cell,) = cells("fair_ablation", "cpu")
    append_line(
        results / "fair_ablation.cpu.jsonl",
        line_of(cell, 0, [arm["name"] for arm in cell.arms], commit="abc"),
    )
    options = SimpleNamespace(table=["fair_ablation"], preset="cpu", method=None, cell=None, seeds=None)
    assert [seed for seed, _ in paper._todo(options)] == [1, 2]
    options.seeds = [0, 7]
    assert [seed for seed, _ in paper._todo(options)] == [7]
    options.cell = "alpha 0.1"
    assert paper._todo(options) == []


def test_an_arm_that_was_added_later_is_run_alone(results):
    (cell,) = cells("fair_ablation", "cpu")
    names = [arm["name"] for arm in cell.arms]
    path = results / "fair_ablation.cpu.jsonl"
    append_line(path, line_of(cell, 0, names[:-1], commit="abc", minutes=2, machine={"cores": 2}))
    options = SimpleNamespace(table=["fair_ablation"], preset="cpu", method=None, cell=None, seeds=[0])
    ((seed, left),) = paper._todo(options)
    assert (seed, [arm["name"] for arm in left.arms]) == (0, names[-1:])
    append_line(path, line_of(cell, 0, names[-1:], commit="def", minutes=1, machine={"cores": 4}))
    assert paper._todo(options) == []
    line = paper.read("fair_ablation", "cpu")[cell.key, 0]
    assert [arm["commit"] for arm in line["arms"]] == ["abc"] * (len(names) - 1) + ["def"]
    assert (line["minutes"], len(line["machines"])) == (3, 2)


def test_gains_are_paired_by_seed():
    base = {"seeds": [0, 1, 2], "overall": np.array([0.1, 0.2, 0.3])}
    arm = {"seeds": [2, 0], "overall": np.array([0.35, 0.2])}
    np.testing.assert_allclose(gains(arm, base, "overall"), [0.05, 0.1])


def test_groups_go_by_true_counts():
    run = {"counts": [100, 100, 5], "recall": [0.9, 0.7, 0.1]}
    assert group_recalls(run, "step") == {"majority": pytest.approx(0.8), "minority": pytest.approx(0.1)}


def test_up_with_one_seed_and_down_with_another_is_not_converged():
    cell = cells("table_14", "cpu")[0]
    assert "**not converged** (2.0)" in _title(cell, {"moved": np.array([0.02, -0.02, 0.02])}, 3)
    assert "converged" not in _title(cell, {"moved": np.array([0.004, -0.004, 0.0])}, 3)


def test_the_tau_curve_is_drawn(tmp_path):
    arm = {
        "recall": [0.9, 0.5, 0.1],
        "recall_adjusted": [0.8, 0.6, 0.3],
        "accuracy": [0.5] * 12,
        "counts": [80, 15, 5],
        "relabeled": 3,
        "dropped": 0,
    }
    arms = [arm | {"arm": name} for name in ("baseline", "tau 1 %", "tau 5 %")]
    cell = next(cell for cell in cells("ablations", "cpu"))
    done = {(cell.key, 0): {"cell": cell.key, "seed": 0, "arms": arms}}
    draw_tau_curves(tmp_path / "tau.png", [cell], done, "tail")
    assert (tmp_path / "tau.png").stat().st_size > 1000
