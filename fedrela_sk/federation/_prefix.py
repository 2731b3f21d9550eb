"""Training up to the relabel round, kept on disk: a search over tau trains that part once."""

import platform
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy
import scipy
import sklearn
import skorch
import torch
from filelock import FileLock  # torch itself depends on it

from fedrela_sk._version import __version__
from fedrela_sk.exceptions import MemoryWarning
from fedrela_sk.federation._code import NotKeyable
from fedrela_sk.federation._fingerprint import fingerprint
from fedrela_sk.federation._store import CorruptEntry, read_state, write_state
from fedrela_sk.training import ENGINES

# Parameters of `FederatedClassifier` that change nothing before the relabel round, or stand in the key in
# another form: n_rounds and relabel_at as the relabel round, random_state as the seed, engine as what runs,
# clients as the rows of each.
NOT_IN_KEY = {
    "relabeler", "relabel_every", "relabel_posteriors", "n_jobs", "memory", "checkpoint", "verbose", "n_rounds",
    "relabel_at", "random_state", "engine", "clients",
}  # fmt: skip


def prefix_key(params, plan, net, engine, n_threads):
    """Name of the state at the relabel round: equal exactly where training up to it is.

    Parameters
    ----------
    params : dict
        Parameters of the estimator, not deep.
    plan : Plan
    net : initialised skorch net
        Before round 0: its module holds the initial weights.
    engine : running engine
    n_threads : int
        torch threads.

    Raises
    ------
    NotKeyable
        If some parameter has no stable description.
    """
    validation = plan.validation
    held = None if validation is None else vars(validation)
    own = params["engine"] if type(params["engine"]) not in (str, *ENGINES.values()) else None
    return fingerprint(
        {
            "versions": {
                "python": platform.python_version(),
                "fedrela_sk": __version__,
                "torch": torch.__version__,
                "numpy": numpy.__version__,
                "scipy": scipy.__version__,
                "sklearn": sklearn.__version__,
                "skorch": skorch.__version__,
            },
            "data": [plan.data.X, plan.codes, plan.classes, plan.weights, held],
            "clients": [plan.notes, [[spec.key, spec.train_rows] for spec in plan.specs]],
            "relabel_round": plan.first_relabel,
            "seed": plan.seed,
            # what a criterion that defers does depends on the share of rounds that are over
            "n_rounds": None if getattr(net.criterion_, "defer", None) is None else plan.n_rounds,
            "engine": [engine.name, engine.kind, engine.unit_size, engine.precision, n_threads, own],
            "module": net.module_,
            **({"recorded": True} if plan.records else {}),  # the state holds posteriors then
            "params": {name: value for name, value in params.items() if name not in NOT_IN_KEY},
        }
    )


class PrefixMemory:
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

        Yields
        ------
        entry : PrefixEntry or None
            None, with a warning, where the folder cannot be written.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.folder / f"{key}.lock")
            lock.acquire()
        except (OSError, NotImplementedError) as error:  # the latter where a file system has no locks
            warnings.warn(
                f"memory={str(self.folder)!r} cannot be written ({error}): the fit goes on without it.",
                MemoryWarning,
                stacklevel=2,
            )
            yield None
            return
        try:
            yield PrefixEntry(self.folder / key)
        finally:
            lock.release()


class PrefixEntry:
    """One state, read and written while its lock is held.

    Parameters
    ----------
    path : Path
        Without ending.
    """

    def __init__(self, path):
        self.path = path

    def read(self, fresh):
        """The stored state or None; a corrupt one is reported and counts as none."""
        try:
            return read_state(self.path, fresh)
        except (CorruptEntry, OSError) as error:
            warnings.warn(
                f"An entry of memory cannot be read, it is computed again: {error}.",
                MemoryWarning,
                stacklevel=2,
            )
            return None

    def write(self, state):
        """Store a state; where that fails, the fit goes on with a warning."""
        try:
            write_state(self.path, state)
        except (OSError, TypeError) as error:  # the latter for groups that JSON has no word for
            warnings.warn(
                f"{self.path} cannot be written ({error}): the fit goes on without it.",
                MemoryWarning,
                stacklevel=2,
            )


def key_or_warning(params, plan, net, engine, n_threads):
    """`prefix_key`, or None with one warning that says what has no stable description."""
    try:
        return prefix_key(params, plan, net, engine, n_threads)
    except NotKeyable as reason:
        warnings.warn(
            f"memory is not used: {reason}.",
            MemoryWarning,
            stacklevel=2,
        )
        return None
