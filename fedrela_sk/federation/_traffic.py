"""Bytes that the server sends: what every client gets in a round, and what new ones get once."""

from fedrela_sk import _tree


def model_nbytes(algorithm, state, frozen=()):
    """Bytes that every chosen client receives before it trains; it has `frozen` tensors from its first round on."""
    shared = _tree.subset(state.params, [n for n in algorithm.shared(state.params) if n not in frozen])
    return _tree.nbytes(shared) + _tree.nbytes(algorithm.server_broadcast(state.server).every_round)


def once_nbytes(algorithm, state, tasks, frozen=()):
    """Bytes of what clients receive when they take part for the first time, all new ones together."""
    first_time = algorithm.server_broadcast(state.server).first_time
    if not (frozen or first_time):
        return 0
    known = {key for record in state.history for key in record.participants}
    n_new = sum(task.client.key not in known for task in tasks)
    fixed = _tree.subset(state.params, [n for n in algorithm.shared(state.params) if n in frozen])
    return n_new * (_tree.nbytes(first_time) + _tree.nbytes(fixed))
