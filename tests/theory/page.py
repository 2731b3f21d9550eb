"""The page that these tests prove."""

import re
from pathlib import Path

PATH = Path(__file__).parents[2] / "docs" / "theory.md"


def table(first_column):
    """Rows of the table whose head begins so, as lists of numbers (words and signs for bold are left out)."""
    lines = PATH.read_text(encoding="utf-8").split(f"\n| {first_column} |")[1].splitlines()[2:]
    rows = [line for line in lines[: lines.index("")] if line.startswith("|")]
    return [[float(number) for number in re.findall(r"-?\d+\.?\d*", row)] for row in rows]
