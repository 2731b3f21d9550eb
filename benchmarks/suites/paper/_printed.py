"""The paper's printed numbers beside our own: a cell is matched on one declared tuple, and on nothing else."""

import csv
from functools import cache
from pathlib import Path
from typing import NamedTuple

NUMBERS = Path(__file__).parents[2] / "paper"
SETS = {
    "fashion_mnist": ("Fashion-MNIST", 10),
    "cifar10": ("CIFAR-10", 10),
    "cifar100": ("CIFAR-100", 100),
    "imagenet_lt": ("ImageNet", 1000),
}
# Clients of each set where a table does not print them (Section 5; CIFAR-100-LT also B.2)
CLIENTS = {
    "Fashion-MNIST": "100",
    "CIFAR-10": "100",
    "CIFAR-100": "10",
    "CIFAR-10-LT": "40",
    "CIFAR-100-LT": "10",
}
# What a table leaves out, and its other cells imply (benchmarks/paper/README.md)
IMPLIED = {"4": {"alpha": "10"}, "6": {"setting": "minority 50%"}}
CUT = "step-wise"
BASELINE, PLAIN = "baseline", "FedReLa"


class Place(NamedTuple):
    """Where a number of the paper stands; everything as text.

    Attributes
    ----------
    table : str
        Number of the table.
    dataset : str
        As printed; long-tailed sets end with "-LT".
    setting : str
        "minority 30%; IR 20", "IF 100", or nothing.
    clients, participation, alpha : str
    method : str
        In lower case, as in our settings files.
    arm : str
        "baseline", "FedReLa", or what the table says of the arm: "tau 5%", "period 1".
    """

    table: str
    dataset: str
    setting: str
    clients: str
    participation: str
    alpha: str
    method: str
    arm: str


def place_of_row(row):
    """The place of one row of a printed table."""
    parts = {"setting": [], "clients": [], "participation": [], "arm": []}
    for part in filter(None, row["setting"].split("; ")):
        if part != CUT:
            parts[_kind(part)].append(part)
    implied = IMPLIED.get(row["table"], {})
    setting = [implied["setting"], *parts["setting"]] if "setting" in implied else parts["setting"]
    return Place(
        table=row["table"],
        dataset=row["dataset"],
        setting="; ".join(setting),
        clients=parts["clients"][0].split()[0] if parts["clients"] else CLIENTS[row["dataset"]],
        participation=parts["participation"][0].split()[1] if parts["participation"] else "1",
        alpha=row["alpha"] or implied["alpha"],
        method=row["method"].lower(),
        arm=BASELINE if row["with_fedrela"] == "0" else "; ".join(parts["arm"]) or PLAIN,
    )


def _kind(part):
    """Which entry of a `Place` a part of a printed setting belongs to."""
    words = part.split()
    if words[-1] == "clients":
        return "clients"
    if words[0] == "participation":
        return "participation"
    return "setting" if words[0] in {"minority", "IR", "IF"} else "arm"


def place_of_arm(cell, arm):
    """The place that an arm of a cell has in the paper; None where its settings file declares none.

    A settings file declares its table as `printed`, an arm what the table calls it.
    """
    if "printed" not in cell.settings or "printed" not in arm:
        return None
    data, federation = cell.settings["data"], cell.settings["federation"]
    name, n_classes = SETS[data["name"]]
    return Place(
        table=str(cell.settings["printed"]),
        dataset=name if data["cut"] == "step" else f"{name}-LT",
        setting=_setting(data, n_classes),
        clients=str(federation["n_clients"]),
        participation=f"{federation['participation']:g}",
        alpha=f"{cell.values['alpha']:g}",
        method=cell.values["method"],
        arm=arm["printed"],
    )


def _setting(data, n_classes):
    if data["cut"] == "step":
        minority = data["minority"]
        share = minority if isinstance(minority, float) else len(minority) / n_classes
        return f"minority {share:.0%}; IR {data['amount']:g}"
    return f"IF {data['amount']:g}" if data["cut"] == "tail" else ""


def index(rows):
    """{place: {metric: row}} of printed rows; gains are left out, since they are differences of the others.

    Raises
    ------
    ValueError
        If two rows have the same place and metric, so that a match would be a choice.
    """
    found = {}
    for row in rows:
        if row["metric"].startswith("delta_"):
            continue
        own = found.setdefault(place_of_row(row), {})
        if row["metric"] in own:
            first = own[row["metric"]]["mean"]
            raise ValueError(
                f"Two printed cells match {place_of_row(row)}, {row['metric']!r}: {first} and {row['mean']}. "
                "A match must be the only one: say in `setting` what sets them apart."
            )
        own[row["metric"]] = row
    return found


@cache
def printed(table):
    """`index` of one table, by its number."""
    with open(NUMBERS / f"table_{int(table):02d}.csv", newline="", encoding="utf-8") as file:
        return index(csv.DictReader(file))


def printed_cells(cell, arm):
    """{metric: row} of what the paper prints for an arm; empty where it prints nothing."""
    place = place_of_arm(cell, arm)
    return {} if place is None else printed(place.table).get(place, {})
