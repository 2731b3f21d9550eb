"""Which edition of this package runs: its version where it is installed, its source where it is worked on."""

import functools
import hashlib
import time
from pathlib import Path

from fedrela_sk._version import __version__
from fedrela_sk.federation.cache._not_keyable import NotKeyable

_ROOT = Path(__file__).parents[2]
_IMPORTED = time.time()


@functools.cache
def edition(root=_ROOT):
    """Version of the package; where it does not lie in site-packages, with a digest of its source files.

    Made once per process.
    """
    if {"site-packages", "dist-packages"} & {folder.name for folder in root.parents}:
        return f"fedrela_sk {__version__}"
    whole = hashlib.sha256()
    for file in _files(root):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        whole.update(f"{file.relative_to(root).as_posix()} {content}\n".encode())
    return f"fedrela_sk {__version__} with sources {whole.hexdigest()}"


def check_untouched(root=_ROOT, imported=_IMPORTED):
    """Refuse source files that are newer than the import: what runs is then not what they say.

    Parameters
    ----------
    root : Path
        Folder of the package.
    imported : float
        When it was imported, in seconds since the epoch.

    Raises
    ------
    NotKeyable
    """
    for file in _files(root):
        facts = file.stat()
        if max(facts.st_mtime, facts.st_ctime) > imported:
            raise NotKeyable(f"{file.name} of fedrela_sk was edited after its import: start Python again")


def _files(root):
    return sorted(root.rglob("*.py"))
