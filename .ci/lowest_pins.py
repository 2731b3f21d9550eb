"""Print the lowest versions that pyproject.toml allows, a pin a line: ``python .ci/lowest_pins.py [EXTRA ...]``.

    python .ci/lowest_pins.py plots test > lowest.txt
    python -m pip install -c lowest.txt -e '.[test]' && python -m pytest

Without extras only what the package itself needs. pip takes the newest of what is not pinned.
"""

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
FLOOR = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*\])?>=(?P<version>[0-9][0-9.]*)")


def lowest_pins(project, extras=()):
    """``name==version`` of every requirement of a project and of its extras, in their order.

    Parameters
    ----------
    project : dict
        The table ``[project]`` of a pyproject.toml.
    extras : iterable of str

    Raises
    ------
    ValueError
        If a requirement names no lowest version.
    """
    requirements = list(project["dependencies"])
    for extra in extras:
        requirements += project["optional-dependencies"][extra]
    own = project["name"].replace("-", "_")
    pins = []
    for requirement in requirements:
        if requirement.replace("-", "_").startswith(f"{own}["):  # the project with another of its extras
            continue
        floor = FLOOR.match(requirement)
        if floor is None:
            raise ValueError(f"{requirement!r} names no lowest version: write it as name>=version.")
        pins.append(f"{floor['name']}=={floor['version']}")
    return list(dict.fromkeys(pins))


def main(extras):
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    sys.stdout.write("".join(f"{pin}\n" for pin in lowest_pins(project, extras)))


if __name__ == "__main__":
    main(sys.argv[1:])
