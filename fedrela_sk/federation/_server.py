"""What the server does by itself: it folds updates, takes its step, trains, and says how the model predicts."""

from contextlib import contextmanager

from fedrela_sk import _tree
from fedrela_sk._random import Purpose
from fedrela_sk.algorithms import Recipe, RoundFacts
from fedrela_sk.algorithms._records import trainable_names
from fedrela_sk.exceptions import ClientError, FedReLaError, NotFiniteError
from fedrela_sk.federation.relabeling._schedule import lr_factor
from fedrela_sk.training import Model
from fedrela_sk.training._net import write_tensors
from fedrela_sk.training.runtime._generator import forked_generators, seed_generators
from fedrela_sk.training.runtime._replica import private_copy


def server_round(algorithm, updates, params, server_state, facts, stretch=None):
    """What the server does with the updates of a round; it sees nothing else.

    Parameters
    ----------
    algorithm : Algorithm
    updates : iterable of ClientUpdate
        In the order in which they are folded.
    params, server_state : dict of tensors
    facts : callable of int
        `RoundFacts` of the round, given the number of updates.
    stretch : callable or None
        What becomes of the aggregated tensors before the method's step: weights of a rule of participation
        need not sum to 1.

    Returns
    -------
    params, server_state : dict of tensors
    """
    folded, n_updates = algorithm.server_aggregator(), 0
    for update in updates:
        update.fold_into(folded)
        n_updates += update.n_clients
    aggregated = folded.result() if stretch is None else stretch(folded.result())
    return algorithm.server_step(params, aggregated, server_state, facts(n_updates))


class Server:
    """The server of one fit.

    Parameters
    ----------
    plan : Plan
    net : initialised skorch net
        Its module is where the server computes.
    settings : LocalSettings
        How clients train, which methods may ask.
    n_clients : int
        Clients that have rows.
    """

    def __init__(self, plan, net, settings, n_clients):
        self.plan = plan
        self.net = net
        self.settings = settings
        self.n_clients = n_clients
        self._trainable = trainable_names(net.module_)

    @property
    def model(self):
        """The net's module as a function of tensors."""
        own = private_copy(self.net)
        return Model(own.module_, own.criterion_, len(self.plan.classes))

    def facts(self, round, n_updates, anchor):
        """`RoundFacts` of a round that started from the tensors `anchor`."""
        lr = self.settings.lr * lr_factor(self.plan.lr_schedule, round)
        return RoundFacts(round, n_updates, self.n_clients, lr, self._trainable, anchor, self._recipe())

    def _recipe(self):
        settings, options = self.settings, self.net.optimizer_.param_groups[0]
        momentum, decay = (float(options.get(name, 0.0)) for name in ("momentum", "weight_decay"))
        return Recipe(settings.epochs, settings.batch_size, momentum, decay)

    def fold(self, state, updates, round, stretch):
        """`server_round`, in place; what cannot be aggregated is an error that names the round."""
        started = state.params
        try:
            state.params, state.server = server_round(
                self.plan.algorithm,
                updates,
                state.params,
                state.server,
                lambda n_updates: self.facts(round, n_updates, started),
                stretch,
            )
        except FedReLaError:
            raise
        except ValueError as error:
            raise ClientError(f"The updates of round {round} could not be aggregated: {error}") from error
        self._check_model(state.params, started, "server_step", round)

    def _check_model(self, params, like, hook, round):
        """Refuse a global model that is none, or not finite, with the hook that made it and the round."""
        where = f"{type(self.plan.algorithm).__name__}.{hook} of round {round}"
        _tree.check_like(params, like, where)
        bad = _tree.first_not_finite(params)
        if bad is not None:
            raise NotFiniteError(
                f"{where} gave {bad!r} that is not finite. Lower the learning rates, of the server too, or scale the "
                "features."
            )

    def train(self, state, facts):
        """What the server trains by itself after a round, in place."""
        with self._computing(state.params, facts.round):
            params, server = self.plan.algorithm.server_train(self.model, state.params, state.server, facts)
        self._check_model(params, state.params, "server_train", facts.round)
        state.params, state.server = _tree.detach(params), _tree.detach(server)

    def predicting(self, state, relabeling=False):
        """The global tensors as they predict, or as they relabel."""
        algorithm = self.plan.algorithm
        if not algorithm.uses("predict_params"):
            return state.params
        with self._computing(state.params):
            params = _tree.detach(
                algorithm.predict_params(state.params, state.server, self.model, relabeling=relabeling)
            )
        _tree.check_like(params, state.params, f"{type(algorithm).__name__}.predict_params")
        return params

    @contextmanager
    def _computing(self, params, round=0):
        """A block in which the module holds `params` and draws are the server's own of that round."""
        device = self.net.device
        write_tensors(self.net.module_, params)
        with forked_generators(device):
            seed_generators(device, self.plan.seed, Purpose.SERVER, round)
            yield
