"""Private words that a newcomer would have to learn stay out of the code: one word, one thing, and the field's."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = [path for tree in ("fedrela_sk", "tests") for path in sorted((ROOT / tree).rglob("*.py"))]
TEXTS = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in FILES
    if path != Path(__file__)
}

# (pattern, what to write, where the word is the field's own and stays)
BANNED = [
    (r"\bcrews?\b", "worker pool", ()),
    (r"\bledgers?\b", "traffic", ()),
    (r"\bside[- ]tables?\b", "resampled data", ()),
    (r"\bmass(es)?\b", "total weight", ()),
    (r"\bboundar(y|ies)\b", "inputs", ("tests/theory/", "tests/relabel/", "tests/federation/setup/")),
    (r"\b(cached|trained|the) prefix(es)?\b", "cached rounds", ()),
    (r"\bfold(s|ing)? (it|one|an update|updates) in\b|\bfolded\b", "aggregate, add", ()),
    (r"\bcohort_size\b", "chunk_size", ("fedrela_sk/_deprecation.py", "tests/test_deprecation.py")),
]


def places(pattern, elsewhere):
    """``file:line: text`` of every use of a word."""
    return [
        f"{name}:{number}: {line.strip()}"
        for name, text in TEXTS.items()
        if not name.startswith(elsewhere)
        for number, line in enumerate(text.splitlines(), 1)
        if re.search(pattern, line, flags=re.IGNORECASE)
    ]


@pytest.mark.parametrize(("pattern", "instead", "elsewhere"), BANNED, ids=[row[1] for row in BANNED])
def test_private_words_are_not_used(pattern, instead, elsewhere):
    found = places(pattern, elsewhere)
    assert not found, f"write {instead}: {found}"


USES = [
    "a crew of two",
    "the ledger",
    "a side table",
    "equal mass",
    "the boundary",
    "cached prefix",
    "folds it in",
]


@pytest.mark.parametrize("text", USES)
def test_every_word_is_found(text, monkeypatch):
    monkeypatch.setitem(TEXTS, "fedrela_sk/_new.py", f"# {text}\n")
    assert f"fedrela_sk/_new.py:1: # {text}" in [place for row in BANNED for place in places(row[0], row[2])]


def test_the_files_were_found():
    assert len(TEXTS) > 300
