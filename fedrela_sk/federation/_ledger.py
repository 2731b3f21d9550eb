"""Bytes that the server sends: what every client gets in a round, and what new ones get once."""

from fedrela_sk import _tree


def model_nbytes(algorithm, state):
    """Bytes that every chosen client receives before it trains."""
    shared = _tree.subset(state.params, algorithm.shared(state.params))
    return _tree.nbytes(shared) + _tree.nbytes(algorithm.broadcast(state.server))


def once_nbytes(algorithm, state, tasks):
    """Bytes of what clients receive when they take part for the first time, all new ones together."""
    if not algorithm.overrides("once"):
        return 0
    known = {key for record in state.history for key in record.participants}
    n_new = sum(task.client.key not in known for task in tasks)
    return n_new * _tree.nbytes(algorithm.once(state.server))
