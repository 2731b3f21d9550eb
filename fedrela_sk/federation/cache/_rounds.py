"""Training up to the relabel round, kept on disk: a search over tau trains that part once."""

from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

from fedrela_sk._warnings import warn_user
from fedrela_sk.exceptions import MemoryWarning
from fedrela_sk.federation.cache._fingerprint import fingerprint
from fedrela_sk.federation.cache._key import key_entries
from fedrela_sk.federation.cache._not_keyable import NotKeyable
from fedrela_sk.federation.cache._state_file import CorruptEntry, read_state, write_state


class CachedRounds:
    """A folder of states at the relabel round.

    Parameters
    ----------
    folder : str or Path
        Made where it does not exist.
    """

    def __init__(self, folder):
        self.folder = Path(folder)

    @contextmanager
    def entry(self, key):
        """The entry of a key, held under a lock: whoever comes second waits for the first.

        A folder that exists but takes no lock is read without one: files are replaced as a whole, and a pair that
        does not fit together is seen.

        Parameters
        ----------
        key : dict of str
            As `key_entries` makes it.

        Yields
        ------
        entry : CacheEntry or None
            None, with a warning, where the folder can neither be written nor read.
        """
        name = fingerprint(key)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.folder / f"{name}.lock")
            lock.acquire()
        except (OSError, RuntimeError) as error:  # the latter also where a file system has no locks
            readable = self.folder.is_dir()
            if not readable:
                _warn_unwritable(self.folder, error)
            yield CacheEntry(self.folder / name, key, error) if readable else None
            return
        try:
            yield CacheEntry(self.folder / name, key)
        finally:
            lock.release()


class CacheEntry:
    """One state, read and written while its lock is held.

    Parameters
    ----------
    path : Path
        Without ending.
    key : dict of str
        What the state depends on; stored with it and compared.
    obstacle : Exception or None
        Why nothing can be written.
    """

    def __init__(self, path, key, obstacle=None):
        self.path = path
        self.key = key
        self.obstacle = obstacle

    def read(self, fresh, n_rounds):
        """The state after `n_rounds` rounds or None; one that cannot be used is reported and counts as none."""
        try:
            return read_state(self.path, fresh, self.key, n_rounds)
        except (CorruptEntry, OSError) as error:
            warn_user(f"An entry of memory cannot be read, it is computed again: {error}.", MemoryWarning)
            return None

    def write(self, state):
        """Store a state; where that fails, the fit goes on with a warning."""
        if self.obstacle is not None:
            _warn_unwritable(self.path.parent, self.obstacle)
            return
        try:
            write_state(self.path, state, self.key)
        except Exception as error:  # a full disk, groups that JSON has no word for, state that is no tensor
            warn_user(f"{self.path} cannot be written ({error}): the fit goes on without it.", MemoryWarning)


def key_or_warning(params, plan, net, engine, n_threads):
    """`key_entries`, or None with one warning that says what has no stable description."""
    try:
        return key_entries(params, plan, net, engine, n_threads)
    except NotKeyable as reason:
        warn_unused(reason)
        return None


def warn_unused(reason):
    """Say why a fit goes without memory."""
    warn_user(f"memory is not used: {reason}.", MemoryWarning)


def _warn_unwritable(folder, error):
    warn_user(
        f"memory={str(folder)!r} cannot be written ({error}): the fit goes on without it.", MemoryWarning
    )
