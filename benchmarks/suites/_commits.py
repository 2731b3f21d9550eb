"""Which commit made a result, and how a page says so."""

import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


@cache
def commit():
    """The commit of this checkout, with "+" if code was changed since; "unknown" outside a checkout.

    Asked once, so a long run names the code that it started with.

    Returns
    -------
    commit : str
        The first ten digits.
    """
    head = _git("rev-parse", "--short=10", "HEAD")
    if head is None:
        return "unknown"
    changed = _git("status", "--porcelain", "--", "fedrela_sk", "benchmarks", ":!benchmarks/results")
    return head + ("+" if changed else "")


def _git(*arguments):
    try:
        ran = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return ran.stdout.strip()


def made_by(lines):
    """One sentence: the commits of some results, and how many each made.

    Parameters
    ----------
    lines : iterable of dict
        Results with an entry "commit"; those that have none are counted as of an unknown commit.
    """
    counts = Counter(line.get("commit", "unknown") for line in lines)
    if len(counts) == 1:
        return f"Made by the code of commit {_named(*counts)}."
    parts = [f"{_named(name)} ({n} results)" for name, n in sorted(counts.items())]
    return f"Made by the code of the commits {', '.join(parts)}."


def _named(name):
    return f"{name.removesuffix('+')} and changes on top of it" if name.endswith("+") else name
