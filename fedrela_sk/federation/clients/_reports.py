"""Reports before training: small tensors that the server asks clients for."""

from dataclasses import dataclass

from fedrela_sk import _tree
from fedrela_sk._random import Purpose, numpy_stream
from fedrela_sk.algorithms import Local
from fedrela_sk.exceptions import ClientError, NotFiniteError
from fedrela_sk.training import Model, client_data
from fedrela_sk.training._criterion import use_counts
from fedrela_sk.training._net import write_tensors
from fedrela_sk.training.runtime._replica import private_copy


@dataclass(frozen=True)
class Answers:
    """What asked clients sent.

    Attributes
    ----------
    reports : dict
        Number of a client to its named tensors.
    nbytes : int
        Bytes of all of them.
    """

    reports: dict
    nbytes: int


class _NotSent:
    """What `report` gets of a model that did not travel: what is known without its tensors."""

    def __init__(self, n_classes, criterion):
        self.n_classes = n_classes
        self.criterion = criterion

    def __getattr__(self, name):
        raise TypeError(
            f"report asks for model.{name}, but the query states needs_model = False: no model is sent for "
            "it, nor counted as traffic. Leave that out."
        )

    def __call__(self, x):
        return self.logits(x)


def ask_clients(algorithm, query, net, data, tasks, numbers, broadcast, round, seed, n_classes, progress=0.0):
    """The reports of some clients.

    Parameters
    ----------
    algorithm : Algorithm
    query : Query
    net : initialised skorch net
        Gets each client's model in turn.
    data : LocalData
    tasks : list of LocalTask
        One for each asked client.
    numbers : dict
        Position of a client to its number.
    broadcast : dict of tensors
        What the server sends along with the model.
    round, seed, n_classes : int
    progress : float in [0, 1)
        Share of all rounds that are over, for criteria that change with it.

    Returns
    -------
    answers : Answers

    Raises
    ------
    ClientError
        Whatever went wrong, with client and round; `NotFiniteError` for a report that is not finite.
    """
    reports = {}
    sent = query.needs_model
    for task in tasks:
        where = f"The report of client {task.client.key!r} before round {round}"
        own = private_copy(net)
        write_tensors(own.module_, task.params)
        use_counts(own.criterion_, task.counts, progress)
        model = Model(own.module_, own.criterion_, n_classes) if sent else _NotSent(n_classes, own.criterion_)
        local = Local(
            anchor=task.params if sent else {},
            state=task.state or algorithm.client_init(task.params),
            server=broadcast,
            counts=task.counts,
            round=round,
            stream=numpy_stream(seed, Purpose.REPORT, round, task.client.stream_id),
        )
        try:
            report = _tree.detach(query.report(model, client_data(data, task), local))
        except Exception as error:
            raise ClientError(f"{where} failed: {type(error).__name__}: {error}") from error
        bad = _tree.first_not_finite(report)
        if bad is not None:
            raise NotFiniteError(
                f"{where} is not finite in {bad!r}. Lower the learning rate or scale the features."
            )
        reports[numbers[task.client.position]] = report
    return Answers(reports, sum(_tree.nbytes(report) for report in reports.values()))
