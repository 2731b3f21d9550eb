"""Settings of one table, read from its TOML file: what is common, and what a preset changes."""

import itertools
import tomllib
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "settings"
PRESETS = ("full", "cpu")


@dataclass(frozen=True)
class Cell:
    """One cell: a method at one setting, and the arms that branch off its common rounds.

    Attributes
    ----------
    table, preset : str
    key : str
        The grid's values, as text; names the cell in results.
    values : dict
        The grid's values: method, alpha, ...
    settings : dict
        Everything else, sections as dictionaries.
    arms : list of dict
    """

    table: str
    preset: str
    key: str
    values: dict
    settings: dict
    arms: list


def tables():
    """Names of all settings files."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def read_table(name, preset):
    """The settings of a table under a preset: sections of the preset replace single entries.

    Raises
    ------
    ValueError
        If the preset has a section or an entry of the wrong name.
    """
    with open(FOLDER / f"{name}.toml", "rb") as file:
        raw = tomllib.load(file)
    changes = raw["preset"][preset]
    common = {key: value for key, value in raw.items() if key != "preset"}
    for section, entries in changes.items():
        known = common.get(section)
        if isinstance(entries, dict) and not isinstance(known, dict):
            raise ValueError(
                f"{name}.toml: preset {preset!r} changes the section {section!r}, which is not there."
            )
        common[section] = known | entries if isinstance(entries, dict) else entries
    return common


def cells(name, preset):
    """All cells of a table, in the order of its grids."""
    settings = read_table(name, preset)
    grids, arms = settings.pop("grid"), settings.pop("arm")
    found = []
    for grid in grids:
        grid = dict(grid)
        wanted = grid.pop("arms", None)
        own = [arm for arm in arms if wanted is None or arm["name"] in wanted]
        for combination in itertools.product(*grid.values()):
            values = dict(zip(grid, combination, strict=True))
            key = ", ".join(
                f"{name} {value}" if name != "method" else str(value) for name, value in values.items()
            )
            found.append(Cell(name, preset, key, values, settings, own))
    return found
