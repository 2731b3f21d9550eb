"""One fit at a time on an accelerator, however many worker processes a search starts."""

import functools
import logging
import multiprocessing
import os
import tempfile
from contextlib import contextmanager

from filelock import FileLock, Timeout

logger = logging.getLogger("fedrela_sk")


@contextmanager
def device_turn(device):
    """Run a block alone on its device where it runs in a worker process.

    A search with ``n_jobs > 1`` and one card would put all its fits on the card at once and run out of
    memory; here they take turns, and each worker that has to wait says so once. On the CPU, and in the main
    process, nothing is held.

    Parameters
    ----------
    device : str or torch.device
    """
    if str(device) == "cpu" or multiprocessing.current_process().name == "MainProcess":
        yield
        return
    name = f"fedrela_sk_{_user()}_{str(device).replace(':', '_')}.lock"
    lock = FileLock(os.path.join(tempfile.gettempdir(), name))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        _say_once(str(device))
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@functools.cache
def _say_once(device):
    """Log it the first time that this process has to wait."""
    logger.warning("Several worker processes share device %s: their fits run one after the other.", device)


def _user():
    return os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "")
