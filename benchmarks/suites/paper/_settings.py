"""Settings of one table, read from its TOML file.

Sections ``data``, ``federation``, ``net``, ``relabel``, ``method.<name>`` (parameters of a method); ``grid`` (each
combination of a grid's lists is a cell; ``arms`` limits its arms), ``arm`` (what branches off at the relabel round),
``when.<value>`` (sections that hold only for cells with that value, ``when."<value> <value>"`` only with both),
``preset.<name>`` (what a preset changes). ``printed`` is the number of the paper's table, an arm's ``printed`` what
the table calls it.
"""

import itertools
import tomllib
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "settings"
PRESETS = ("full", "cpu")
# entries of a grid that belong to a section
OF_SECTIONS = {"data": ("name", "cut", "amount", "minority"), "federation": ("n_clients", "participation")}


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
    """The settings of a table under a preset, whose entries replace the common ones; its lists replace lists.

    Raises
    ------
    ValueError
        If the preset has an entry that the table has not.
    """
    with open(FOLDER / f"{name}.toml", "rb") as file:
        raw = tomllib.load(file)
    changes = raw.pop("preset")[preset]
    unknown = sorted(set(changes) - set(raw) - {"when", "method"})
    if unknown:
        raise ValueError(f"{name}.toml: preset {preset!r} changes {unknown[0]!r}, which is not there.")
    return _merged(raw, changes)


def _merged(common, changes):
    both = {
        key: _merged(common[key], value)
        for key, value in changes.items()
        if _are_sections(common.get(key), value)
    }
    return common | changes | both


def _are_sections(first, second):
    return isinstance(first, dict) and isinstance(second, dict)


def cells(name, preset):
    """All cells of a table, in the order of its grids."""
    settings = read_table(name, preset)
    grids, arms, when = settings.pop("grid"), settings.pop("arm"), settings.pop("when", {})
    found = []
    for grid in grids:
        grid = dict(grid)
        wanted = grid.pop("arms", None)
        own = [arm for arm in arms if wanted is None or arm["name"] in wanted]
        for combination in itertools.product(*grid.values()):
            values = dict(zip(grid, combination, strict=True))
            found.append(Cell(name, preset, _key(values), values, _settings_of(settings, when, values), own))
    return found


def _key(values):
    return ", ".join(str(value) if name == "method" else f"{name} {value}" for name, value in values.items())


def _settings_of(settings, when, values):
    """The settings of one cell: with what holds for its values alone, and its values that sections have."""
    own = {str(value) for value in values.values()}
    for names in sorted(when, key=lambda names: len(names.split())):  # two values after each of them
        if set(names.split()) <= own:
            settings = _merged(settings, when[names])
    own = {
        section: {name: values[name] for name in names if name in values}
        for section, names in OF_SECTIONS.items()
    }
    return _merged(settings, own)
