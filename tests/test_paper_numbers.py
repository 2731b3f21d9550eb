"""The paper's printed numbers as data: the relations between cells that the README beside them lists."""

import csv
import re
from collections import Counter, defaultdict
from itertools import product
from pathlib import Path

import numpy as np
import pytest

PAPER = Path(__file__).parents[1] / "benchmarks" / "paper"
COLUMNS = ["table", "dataset", "setting", "alpha", "method", "with_fedrela", "metric", "mean", "std", "note"]
METRICS = {
    "accuracy": {"overall", "majority", "minority", "head", "medium", "tail", "overall_best"},
    "count": {"relabelled"},
    "gain": {"delta_overall", "delta_majority", "delta_minority", "delta_medium_plus_tail"},
}
GROUPS = ("head", "medium", "tail")
# classes of CIFAR-10-LT in head, medium and tail
SIZES = {"IF 50": (4, 3, 3), "IF 100": (3, 3, 4)}


def read(name):
    with (PAPER / name).open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file, strict=True)
        return reader.fieldnames, list(reader)


def cells(table):
    return read(f"table_{table:02d}.csv")[1]


def rows(table, **wanted):
    """{(dataset, setting, alpha, method, with_fedrela): {metric: number}} of the cells that agree with `wanted`."""
    found = defaultdict(dict)
    for cell in cells(table):
        if all(cell[name] == value for name, value in wanted.items()):
            key = tuple(cell[name] for name in ("dataset", "setting", "alpha", "method", "with_fedrela"))
            found[key][cell["metric"]] = float(cell["mean"])
    assert found
    return dict(found)


def gain_misses(table):
    """By how much each printed gain misses the difference of the two cells it is the gain of."""
    found, misses = rows(table), []
    for key, row in found.items():
        for metric in [name for name in row if name.startswith("delta_")]:
            name = metric.removeprefix("delta_")
            misses.append(round(row[metric] - (row[name] - found[*key[:-1], "0"][name]), 6))
    return misses


def group_misses(table, sizes_of, metrics=GROUPS, **wanted):
    """By how much each Overall misses the mean of its groups, weighted by their numbers of classes."""
    return {
        key: abs(row["overall"] - np.average([row[name] for name in metrics], weights=sizes_of(key)))
        for key, row in rows(table, **wanted).items()
        if all(name in row for name in metrics)
    }


def best_fit(table, **wanted):
    """The smallest largest miss over all sizes of three groups of 100 classes, one choice for all rows."""
    found = [[row["overall"], *(row[name] for name in GROUPS)] for row in rows(table, **wanted).values()]
    overall, groups = np.array(found)[:, 0], np.array(found)[:, 1:]
    sizes = np.array([(a, b, 100 - a - b) for a, b in product(range(15, 60), range(15, 60)) if a + b < 90])
    return np.abs(groups @ sizes.T / 100 - overall[:, None]).max(axis=0).min()


def doubtful(table):
    return [cell for cell in cells(table) if cell["note"].startswith("doubtful")]


@pytest.mark.parametrize("table", range(1, 15))
def test_a_file_has_the_cells_of_its_table_once_each(table):
    columns, found = read(f"table_{table:02d}.csv")
    assert columns == COLUMNS
    assert all(None not in cell and cell["table"] == str(table) and not cell["std"] for cell in found)
    keys = [tuple(cell[name] for name in COLUMNS[1:7]) for cell in found]
    assert len(set(keys)) == len(keys)
    for cell in found:
        number = float(cell["mean"])
        if cell["metric"] in METRICS["accuracy"]:
            assert 0 < number < 100
        elif cell["metric"] in METRICS["count"]:
            assert number == int(cell["mean"]) >= 0
        else:
            assert cell["metric"] in METRICS["gain"]
            assert cell["mean"][0] in "+-"


@pytest.mark.parametrize("table", range(1, 15))
def test_the_readme_counts_the_cells_of_each_table(table):
    text = (PAPER / "README.md").read_text(encoding="utf-8")
    (counted,) = re.findall(rf"^\| {table} \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", text, flags=re.MULTILINE)
    found = cells(table)
    gains = sum(cell["metric"] in METRICS["gain"] for cell in found)
    marks = Counter(cell["note"].split(":")[0] for cell in found)
    expected = [len(found) - gains, gains, marks["ambiguous"], marks["doubtful"]]
    assert [int(number) for number in counted] == expected


class TestTable1:
    def test_gains_are_differences(self):
        misses = gain_misses(1)
        assert len(misses) == 180
        assert sorted(map(abs, misses))[-2:] == [0.0, pytest.approx(0.01)]  # -4.05 for -4.06

    def test_overall_is_the_mean_over_the_classes_of_both_groups(self):
        def sizes(key):
            share = int(re.search(r"minority (\d+)%", key[1])[1])
            return 100 - share, share

        misses = group_misses(1, sizes, ("majority", "minority"))
        assert len(misses) == 120
        assert max(misses.values()) < 0.0101

    def test_the_largest_gain_of_the_minority_is_that_of_the_abstract(self):
        gains = {key: row["delta_minority"] for key, row in rows(1, with_fedrela="1").items()}
        best = max(gains, key=gains.get)
        assert gains[best] == 38.30
        assert best[:4] == ("CIFAR-10", "step-wise; minority 10%; IR 20", "0.3", "FedProx")


class TestTable2:
    def test_overall_is_the_mean_of_the_groups_of_cifar_10(self):
        misses = group_misses(2, lambda key: SIZES[key[1]], dataset="CIFAR-10-LT")
        assert len(misses) == 24
        assert max(misses.values()) < 0.0061

    @pytest.mark.parametrize("setting", ["IF 50", "IF 100"])
    @pytest.mark.parametrize("alpha", ["0.1", "0.3", "10"])
    def test_some_sizes_of_the_groups_fit_all_rows_of_cifar_100(self, setting, alpha):
        assert best_fit(2, dataset="CIFAR-100-LT", setting=setting, alpha=alpha) < 0.09

    def test_the_largest_gain_of_the_tail_is_that_of_the_text(self):
        found = rows(2)
        gains = {
            key: row["tail"] - found[*key[:-1], "0"]["tail"] for key, row in found.items() if key[-1] == "1"
        }
        best = max(gains, key=gains.get)
        assert gains[best] == pytest.approx(30.17)
        assert best == ("CIFAR-10-LT", "IF 50", "0.1", "FedETF", "1")


def test_table_3_gains_overall_and_on_the_tail():
    found = rows(3)
    gained = {
        (key[3], metric): round(row[metric] - found[*key[:-1], "0"][metric], 2)
        for key, row in found.items()
        for metric in ("overall", "tail")
        if key[-1] == "1"
    }
    assert gained == {
        ("FedYoYo", "overall"): 0.63,
        ("FedYoYo", "tail"): 2.63,
        ("FedLoGe", "overall"): 1.18,
        ("FedLoGe", "tail"): 3.00,
    }


def test_table_4_has_the_cells_of_table_11_at_alpha_10():
    both = {"IF 100": "IF 100", "IF 100; tau 5%; normalization z-score + tanh": "IF 100; Trelabel 80%R"}
    later = {key[1]: row for key, row in rows(11, dataset="CIFAR-100-LT", alpha="10").items()}
    own = {key[1]: row for key, row in rows(4).items()}
    compared = [
        (own[name][metric], later[other][metric]) for name, other in both.items() for metric in own[name]
    ]
    assert len(compared) == 8
    assert all(here == there for here, there in compared)
    assert {cell["alpha"] for cell in cells(4)} == {""}


def test_table_5_is_the_notation():
    assert cells(5) == []
    columns, symbols = read("notation.csv")
    assert columns == ["group", "symbol", "meaning"]
    assert all(all(row.values()) for row in symbols)
    assert len(symbols) > 0


def test_table_6_has_as_many_minority_as_majority_classes():
    misses = group_misses(6, lambda key: (1, 1), ("majority", "minority"))
    assert len(misses) == 16
    assert sum(miss < 0.0101 for miss in misses.values()) == 12
    assert sum(miss < 0.0301 for miss in misses.values()) == 15
    (cell,) = doubtful(6)
    key = tuple(cell[name] for name in ("dataset", "setting", "alpha", "method", "with_fedrela"))
    assert misses[key] == pytest.approx(0.135, abs=0.01)
    row = rows(6)[key]
    assert (row["majority"], row["minority"], row["overall"]) == (83.74, 82.75, 83.11)


class TestTable7:
    def test_gains_are_differences(self):
        misses = gain_misses(7)
        assert len(misses) == 30
        assert not any(misses)

    def test_climb_on_cifar_10_needs_an_impossible_majority(self):
        needed = {
            key: 2 * row["overall"] - row["minority"] for key, row in rows(7, with_fedrela="0").items()
        } | {key: 2 * row["overall"] - row["minority"] for key, row in rows(7, with_fedrela="1").items()}
        impossible = {key: round(value, 2) for key, value in needed.items() if value > 100}
        assert {(key[0], key[3]): value for key, value in impossible.items() if key[-1] == "0"} == {
            ("CIFAR-10", "CLIMB"): 108.01
        }
        assert {(key[0], key[3]): value for key, value in impossible.items() if key[-1] == "1"} == {
            ("CIFAR-10", "CLIMB"): 101.17
        }

    def test_fednova_on_cifar_is_copied_from_table_1(self):
        first = rows(1, setting="step-wise; minority 30%; IR 10")
        copied = {}
        for key, row in rows(7).items():
            other = first[key[0], "step-wise; minority 30%; IR 10", *key[2:]]
            copied[key[0], key[3], key[-1]] = all(row[name] == other[name] for name in row)
        expected = {(name, "FedNova", arm) for name in ("CIFAR-10", "CIFAR-100") for arm in "01"}
        assert {key for key, same in copied.items() if same} == expected
        marked = {(cell["dataset"], cell["method"]) for cell in doubtful(7)}
        assert marked == {("CIFAR-10", "CLIMB"), ("CIFAR-10", "FedNova"), ("CIFAR-100", "FedNova")}


class TestTable8:
    def test_gains_of_both_numbers_of_clients(self):
        found = rows(8)
        settings = {key[1] for key in found}
        assert settings == {
            "IF 100; 50 clients; participation 0.2",
            "IF 100; 100 clients; participation 0.1",
        }
        for metric, low, high in (("overall", 0.42, 2.79), ("tail", 0.71, 7.47)):
            gained = [
                row[metric] - found[*key[:-1], "0"][metric] for key, row in found.items() if key[-1] == "1"
            ]
            assert len(gained) == 8
            assert (min(gained), max(gained)) == (pytest.approx(low), pytest.approx(high))

    @pytest.mark.parametrize("setting", sorted({cell["setting"] for cell in cells(8)}))
    def test_no_sizes_of_the_groups_fit_all_methods(self, setting):
        assert best_fit(8, setting=setting) > 2.1


def test_table_9_is_made_of_differences_in_table_2():
    found = rows(2)
    compared = []
    for key, row in rows(9).items():
        after, before = found[key], found[*key[:-1], "0"]
        gained = {name: after[name] - before[name] for name in ("overall", "medium", "tail")}
        compared.append((row["delta_overall"], gained["overall"]))
        compared.append((row["delta_medium_plus_tail"], gained["medium"] + gained["tail"]))
    assert len(compared) == 24
    assert all(printed == pytest.approx(made) for printed, made in compared)


class TestTable10:
    def test_overall_is_the_mean_of_the_groups_but_at_tau_1(self):
        misses = group_misses(10, lambda key: (33, 33, 34))
        assert len(misses) == 8
        off = {key[1]: miss for key, miss in misses.items() if miss > 0.2}
        assert off == {"IF 50; tau 1%": pytest.approx(1.65, abs=0.05)}
        assert [cell["setting"] for cell in doubtful(10)] == list(off)

    def test_without_and_at_tau_5_it_is_table_2_rounded(self):
        second = rows(2, dataset="CIFAR-100-LT", setting="IF 50", alpha="0.1", method="FedETF")
        own = {key[1]: row for key, row in rows(10).items()}
        compared = 0
        for key, row in second.items():
            setting = "IF 50; tau 5%" if key[-1] == "1" else "IF 50"
            for name in ("overall", *GROUPS):
                assert own[setting][name] == pytest.approx(row[name], abs=0.0501)
                compared += 1
        assert compared == 8

    def test_more_rows_are_relabelled_as_tau_rises(self):
        moved = [float(cell["mean"]) for cell in cells(10) if cell["metric"] == "relabelled"]
        assert moved == sorted(set(moved))
        assert len(moved) == 8
        assert moved[1] / 1261 == pytest.approx(0.04, abs=0.001)  # of a client's rows, if counted per client


class TestTable11:
    def test_overall_is_the_mean_of_the_groups_of_cifar_10(self):
        misses = group_misses(11, lambda key: (3, 3, 4), dataset="CIFAR-10-LT")
        assert len(misses) == 8
        assert max(misses.values()) < 0.0061

    @pytest.mark.parametrize("alpha", ["1", "10"])
    def test_some_sizes_of_the_groups_fit_all_rows_of_cifar_100(self, alpha):
        assert best_fit(11, dataset="CIFAR-100-LT", alpha=alpha) < 0.09

    def test_its_baselines_at_alpha_10_are_not_those_of_table_2(self):
        for dataset in ("CIFAR-10-LT", "CIFAR-100-LT"):
            key = (dataset, "IF 100", "10", "FedETF", "0")
            assert rows(11)[key]["overall"] > rows(2)[key]["overall"] + 3

    def test_relabelling_at_40_percent_harms_cifar_100(self):
        found = {key[1:3]: row for key, row in rows(11, dataset="CIFAR-100-LT").items()}
        for alpha, loss in (("1", -2.60), ("10", -2.01)):
            early, base = found["IF 100; Trelabel 40%R", alpha], found["IF 100", alpha]
            assert early["overall"] - base["overall"] == pytest.approx(loss)


class TestTable12:
    def test_overall_is_the_mean_of_the_groups(self):
        misses = group_misses(12, lambda key: (4, 3, 3))
        assert len(misses) == 3
        assert max(misses.values()) < 0.0501

    def test_it_is_not_table_2(self):
        key = ("CIFAR-10-LT", "IF 50", "0.1", "FedLoGe")
        tails = [rows(table)[*key, arm]["tail"] for table in (12, 2) for arm in "01"]
        assert tails == [19.8, 59.4, 59.74, 53.09]


def test_table_13_begins_with_the_cells_of_table_2():
    second, compared = rows(2), 0
    for key, row in rows(13).items():
        if "overall" in row:
            setting = key[1].removesuffix("; one-shot")
            assert row["overall"] == second[key[0], setting, *key[2:]]["overall"]
            compared += 1
    assert compared == 4
    best = {cell["setting"] for cell in cells(13) if cell["metric"] == "overall_best"}
    assert {name.split("; ")[1] for name in best} == {f"period {n}" for n in range(1, 6)}


class TestTable14:
    def test_gains_are_differences(self):
        misses = gain_misses(14)
        assert len(misses) == 50
        assert not any(misses)

    def test_at_alpha_03_it_is_table_1_but_for_climb(self):
        first = rows(1, dataset="Fashion-MNIST", setting="step-wise; minority 30%; IR 20")
        differ, same = set(), 0
        for key, row in rows(14, alpha="0.3").items():
            other = first[key[0], "step-wise; minority 30%; IR 20", *key[2:]]
            for name in row:
                if row[name] == other[name]:
                    same += 1
                else:
                    differ.add((key[3], key[-1], name))
        assert same == 24
        assert {method for method, *_ in differ} == {"CLIMB"}
        assert differ == {(cell["method"], cell["with_fedrela"], cell["metric"]) for cell in doubtful(14)}

    def test_gains_of_the_minority_do_not_grow_as_alpha_falls(self):
        gains = defaultdict(list)
        for key, row in rows(14, with_fedrela="1").items():
            gains[key[2]].append(row["delta_minority"])
        means = {alpha: round(np.mean(of), 2) for alpha, of in gains.items()}
        assert means == {"10": 27.97, "5": 29.16, "1": 22.69, "0.3": 22.92, "0.1": 22.30}


def test_numbers_and_claims_of_the_text_name_their_place():
    columns, numbers = read("numbers_in_text.csv")
    assert columns == ["number", "claim", "value", "section", "table", "check"]
    assert [int(row["number"]) for row in numbers] == list(range(1, 95))
    assert all(row["claim"] and row["value"] and row["section"] for row in numbers)
    columns, claims = read("claims_in_words.csv")
    assert columns == ["number", "claim", "section", "table", "check"]
    assert [int(row["number"]) for row in claims] == list(range(1, 24))
    assert all(row["claim"] and row["section"] and row["check"] for row in claims)


def test_every_file_is_in_the_readme():
    text = (PAPER / "README.md").read_text(encoding="utf-8")
    tables = {f"table_{n:02d}.csv" for n in range(1, 15)}
    assert {path.name for path in PAPER.glob("*.csv")} == tables | set(re.findall(r"`(\w+\.csv)`", text))
    assert "`protocol.md`" in text
