"""torch keeps weights that autocast has cast until its block ends; weights that move would be used as they were."""

from contextlib import contextmanager

import torch


@contextmanager
def fresh_casts():
    """A block inside which autocast, where a caller has it on, casts the weights as they are at every use."""
    enabled = torch.is_autocast_cache_enabled()
    torch.clear_autocast_cache()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(enabled)
