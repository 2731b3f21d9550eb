"""Reports before training: small tensors that the server asks clients for."""

from fedrela_sk import _tree
from fedrela_sk._random import Purpose, numpy_stream
from fedrela_sk.algorithms import Local
from fedrela_sk.exceptions import ClientError, NotFiniteError
from fedrela_sk.training import Model
from fedrela_sk.training._criterion import use_counts
from fedrela_sk.training._model import client_data
from fedrela_sk.training._net import write_tensors
from fedrela_sk.training.runtime._replica import private_copy


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


class Reporter:
    """Runs a method's `Query.report` at clients.

    Parameters
    ----------
    algorithm : Algorithm
    net : initialized skorch net
        Copies of it hold the clients' models.
    n_classes, seed : int
    """

    def __init__(self, algorithm, net, n_classes, seed):
        self.algorithm = algorithm
        self.net = net
        self.n_classes = n_classes
        self.seed = seed

    def report(self, query, data, task, instructions):
        """The report of one client.

        Parameters
        ----------
        query : Query
        data : LocalData
        task : LocalTask
            Its rows, labels and model; the weight is not read.
        instructions : Instructions

        Returns
        -------
        report : dict of tensors

        Raises
        ------
        ClientError
            Whatever went wrong, with client and round; `NotFiniteError` for a report that is not finite.
        """
        where = f"The report of client {task.client.key!r} before round {instructions.round}"
        own = private_copy(self.net)
        write_tensors(own.module_, task.params)
        use_counts(own.criterion_, task.counts, instructions.progress)
        local = self._local(query, task, instructions)
        try:
            report = query.report(self._model(query, own), client_data(data, task), local)
        except Exception as error:
            raise ClientError(f"{where} failed: {type(error).__name__}: {error}") from error
        report = _tree.detach(_tree.check_tensors(report, where))
        bad = _tree.first_not_finite(report)
        if bad is not None:
            raise NotFiniteError(
                f"{where} is not finite in {bad!r}. Lower the learning rate or scale the features."
            )
        return report

    def _model(self, query, net):
        if query.needs_model:
            return Model(net.module_, net.criterion_, self.n_classes)
        return _NotSent(self.n_classes, net.criterion_)

    def _local(self, query, task, instructions):
        round = instructions.round
        return Local(
            anchor=task.params if query.needs_model else {},
            state=task.state or self.algorithm.client_init(task.params),
            server=instructions.server,
            counts=task.counts,
            round=round,
            stream=numpy_stream(self.seed, Purpose.REPORT, round, task.client.stream_id),
        )
