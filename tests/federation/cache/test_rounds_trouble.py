"""`memory`: where it cannot be used the fit goes on without it, with a warning."""

import errno
import os
import re
import shutil
import warnings

import numpy as np
import pytest

from fedrela_sk.exceptions import MemoryWarning
from fedrela_sk.federation.cache import _rounds as room
from tests.federation.cache.test_rounds import assert_same, entries, fit


def test_a_lambda_is_not_cached_with_one_warning(tmp_path):
    with pytest.warns(
        MemoryWarning, match=r"memory is not used: a lambda has no stable description"
    ) as caught:
        found = fit(tmp_path / "memory", lr_schedule=lambda t: 0.5**t)
    assert len(caught) == 1
    assert not (tmp_path / "memory").exists()
    assert_same(found, fit(lr_schedule=0.5))


def halved(t):
    return 0.5**t


def test_a_named_function_is_cached(tmp_path):
    for _ in range(2):
        assert_same(fit(tmp_path, lr_schedule=halved), fit(lr_schedule=0.5))
    assert len(entries(tmp_path)) == 1


def test_a_folder_that_cannot_be_made_is_a_warning(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.warns(
        MemoryWarning, match=r"memory='.*file.*' cannot be written \(.*the fit goes on without it"
    ) as caught:
        found = fit(tmp_path / "file" / "memory")
    assert len(caught) == 1
    assert_same(found, fit())


# what a file system says where a lock file cannot be made: rights, read-only, a network share, a full one
LOCK_TROUBLE = [
    PermissionError("not yours"),
    OSError(errno.EROFS, "Read-only file system"),
    OSError(errno.ENOLCK, "No locks available"),
    OSError(errno.ENOSPC, "No space left on device"),
    NotImplementedError("no locks here"),
]


def without_locks(monkeypatch, error):
    def acquire(*args, **kwargs):
        raise error

    monkeypatch.setattr(room.FileLock, "acquire", acquire)


@pytest.mark.parametrize("error", LOCK_TROUBLE, ids=str)
def test_a_folder_without_locks_is_a_warning(tmp_path, monkeypatch, error):
    without_locks(monkeypatch, error)
    message = re.escape(f"cannot be written ({error}): the fit goes on")
    with pytest.warns(MemoryWarning, match=message) as caught:
        found = fit(tmp_path)
    assert len(caught) == 1
    assert entries(tmp_path) == []
    assert_same(found, fit())


@pytest.mark.parametrize("error", LOCK_TROUBLE, ids=str)
def test_a_warm_folder_without_locks_is_read(tmp_path, monkeypatch, caplog, error):
    """Without a warning, and without training those rounds; nothing in the folder changes."""
    plain = fit(tmp_path)
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    without_locks(monkeypatch, error)
    with caplog.at_level("INFO", "fedrela_sk"):
        assert_same(fit(tmp_path, verbose=1), plain)
    assert "rounds 1 to 2 from memory" in caplog.messages
    with pytest.warns(MemoryWarning, match="cannot be written"):
        fit(tmp_path, random_state=5)
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before


@pytest.mark.parametrize("how", ["renamed", "copied"])
def test_an_entry_under_another_name_is_refused_with_a_warning(tmp_path, how):
    (first,) = (fit(tmp_path), entries(tmp_path))[1]
    (other,) = (fit(tmp_path / "other", random_state=5), entries(tmp_path / "other"))[1]
    for ending in (".json", ".safetensors"):
        target = tmp_path / f"{other}{ending}"
        (os.rename if how == "renamed" else shutil.copy)(tmp_path / f"{first}{ending}", target)
    with pytest.warns(MemoryWarning, match=r"was stored for another fit: .*plan seed") as caught:
        found = fit(tmp_path, random_state=5)
    assert len(caught) == 1
    assert_same(found, fit(random_state=5))
    assert_same(fit(tmp_path, random_state=5), found)  # it was stored anew


def test_a_full_disk_is_a_warning(tmp_path, monkeypatch):
    def full(*args):
        raise OSError("no space left")

    monkeypatch.setattr("os.replace", full)
    with pytest.warns(MemoryWarning, match=r"cannot be written \(no space left\): the fit goes on"):
        found = fit(tmp_path)
    assert_same(found, fit())
    assert {file.suffix for file in tmp_path.iterdir()} <= {".lock"}


def test_names_of_clients_that_json_cannot_hold_are_a_warning(tmp_path):
    groups = np.repeat([b"b", b"a", b"c"], 30)
    with pytest.warns(MemoryWarning, match=r"cannot be written \(.*bytes is not JSON serializable\)"):
        found = fit(tmp_path, clients=None, groups=groups)
    assert_same(found, fit(clients=None, groups=groups))


def damaged(content):
    return content[:100] + bytes([content[100] ^ 1]) + content[101:]


@pytest.mark.parametrize(
    ("ending", "damage"),
    [
        (".json", lambda content: content[:-10]),
        (".json", lambda content: b"\x00 garbage"),
        (".json", lambda content: content.replace(b"format", b"farmat")),
        (".safetensors", lambda content: content[:-10]),
        (".safetensors", damaged),
        (".safetensors", lambda content: b""),
    ],
)
def test_a_damaged_entry_is_computed_again_with_a_warning(tmp_path, ending, damage):
    plain = fit(tmp_path)
    (name,) = entries(tmp_path)
    path = tmp_path / f"{name}{ending}"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.warns(MemoryWarning, match=rf"cannot be read, it is computed again: .*{ending}") as caught:
        assert_same(fit(tmp_path), plain)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same(fit(tmp_path), plain)  # it was stored anew


def test_an_entry_that_cannot_be_opened_is_a_warning(tmp_path):
    plain = fit(tmp_path)
    (name,) = entries(tmp_path)
    (tmp_path / f"{name}.json").unlink()
    (tmp_path / f"{name}.json").mkdir()
    with pytest.warns(MemoryWarning) as caught:
        assert_same(fit(tmp_path), plain)
    assert ["computed again" in str(w.message) for w in caught] == [True, False]
    assert "the fit goes on" in str(caught[1].message)
