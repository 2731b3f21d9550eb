"""Writes what docs/algorithms.md lists of every method, from class attributes: ``python docs/make_tables.py``.

Between a mark ``<!--[name]-->`` and the next ``<!--[end]-->`` stands what the function of that name in `PARTS` gives.
"""

import re
from pathlib import Path

from fedrela_sk.algorithms import ALGORITHMS

PAGE = Path(__file__).parent / "algorithms.md"
HEADER = (
    "| name | class | what it changes | kept | up / down | engines | source |\n"
    "| --- | --- | --- | --- | --- | --- | --- |\n"
)


def table_of_methods():
    """A line for each method."""
    return f"\n{HEADER}{''.join(map(line_of, sorted(ALGORITHMS)))}"


def line_of(name):
    """The line of one method."""
    kind = ALGORITHMS[name]
    engines = "both" if kind().loop_only is None else "loop"
    cells = [f"`{name}`", f"`{kind.__name__}`", kind.summary, kind.keeps, kind.traffic, engines, kind.source]
    return "".join(f"| {cell} " if cell else "| " for cell in cells) + "|\n"


def methods_without_models():
    """Methods whose clients do not send the model that they trained."""
    return listed(name for name, kind in ALGORITHMS.items() if not (kind.averages and kind.sends_model))


def methods_with_losses():
    """Methods whose loss needs the model, not only the rows' logits."""
    return listed(name for name, kind in ALGORITHMS.items() if kind().uses("client_loss"))


def listed(names):
    """Names in code marks, in alphabetical order."""
    return ", ".join(f"`{name}`" for name in sorted(names))


PARTS = {
    "table of methods": table_of_methods,
    "methods without models": methods_without_models,
    "methods with losses": methods_with_losses,
}


def written(text):
    """`text` with all parts between marks made anew."""
    for name, make in PARTS.items():
        mark = f"<!--[{name}]-->"
        text = re.sub(
            rf"{re.escape(mark)}.*?<!--\[end\]-->",
            lambda _, mark=mark, make=make: f"{mark}{make()}<!--[end]-->",
            text,
            count=1,
            flags=re.DOTALL,
        )
    return text


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
