"""The hooks of a federated method; FedAvg is the default of every one of them."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from fedrela_sk._typing import (
    Array,
    Batch,
    ClientData,
    Job,
    Local,
    LocalRun,
    Model,
    Module,
    Query,
    RoundFacts,
    Tensor,
    Tensors,
)
from fedrela_sk.aggregation import WeightedMean
from fedrela_sk.algorithms._derived import (
    Derived,
    keeps_tensors,
    replaces_loss,
    sends_models,
    why_in_turn,
)
from fedrela_sk.algorithms._records import Broadcast


class Algorithm(BaseEstimator):
    """Base of all methods.

    A method is a `BaseEstimator`: its constructor stores hyper-parameters, so that
    `GridSearchCV` over ``algorithm__...`` works. Hooks are pure functions of named tensors: they return
    new ones and write nothing to `self`. State that lives longer than a round is passed in and returned.
    Hooks whose name starts with ``client_`` run at a client and see only its own rows; those that start with
    ``server_`` run at the server and see no row at all.

    `params` are named tensors, ``{name: tensor}``. `client_penalty`, `client_correct` and `client_decoupled` see
    trainable ones only; `client_finish`, `shared`, `server_step` and all anchors hold buffers too. `local` is a
    `Local`, `facts` a `RoundFacts`. `fedrela_sk.testing.check_algorithm` tells whether a method keeps all of this.

    Attributes
    ----------
    averages : bool
        Whether there is one global model. False: clients predict for themselves.
    personal : bool
        Whether `personal_params` gives each client a model of its own beside the global one. Derived: it does where
        `personal_params` or `shared` is overridden.
    loop_only : str or None
        Why the method runs only in the loop engine, None where it runs in both. Derived: a reason where a hook of
        training reads ``local.stream``. A method whose `client_loss` returns a state must state one.
    sends_model : bool
        Whether what clients send under the model's names is their model: rules of participation that chain
        clients or weigh them by their displacement need that. Derived: not where `client_finish` or
        `server_aggregator` is overridden; a method that still sends the model as it is states True.
    own_loss : bool
        Whether `client_loss` or `client_row_losses` takes the place of the net's criterion, which must then be plain
        `torch.nn.CrossEntropyLoss` or `NLLLoss`. Derived: where one of them is overridden.
    bare_loss : bool
        Whether that loss takes neither class weights nor label smoothing nor an ignored class from it; they are
        then refused. Derived: as `own_loss`; a method whose `client_loss` goes by `Batch.row_losses` or
        `Batch.criterion_loss` states False.
    auxiliary : int, pair (X, y) or None
        Labeled rows that the server holds: ``job.auxiliary`` of `server_init`. An int: so many first rows of
        each class of the training data (all, where a class has fewer). A pair: rows of every class that no
        client has.
    neutral : dict or None
        Hyper-parameters under which the method equals FedAvg; None where `neutral_reason` says why there
        are none.
    neutral_reason : str
        Why there are none; or, beside `neutral`, why it does not hold with BatchNorm.
    neutral_weights : {"size", "uniform"}
        `client_weight` of the FedAvg that the neutral setting equals.
    telling : dict
        Hyper-parameters under which the method differs from FedAvg within a few rounds, where its own do not.
    traffic : str
        Bytes that a client sends and receives in a round, "up / down", its first round aside and without the 8 of its
        weight: sums of products of numbers with M (the tensors of the model that travel and learn), C (one number for
        each class), H (the head) and K (classes of which the client has rows); " or " between what rounds may cost.
    summary, keeps, source : str
        For tables of methods: what it changes, in a line; what clients (c) and the server (s) keep from round to
        round; authors and year.
    """

    averages = True
    personal = Derived(keeps_tensors)
    loop_only = Derived(why_in_turn)
    sends_model = Derived(sends_models)
    own_loss = Derived(replaces_loss)
    bare_loss = Derived(replaces_loss)
    auxiliary = None
    neutral: dict[str, Any] | None = None
    neutral_reason = "not stated"
    neutral_weights = "size"
    telling: dict[str, Any] = {}
    traffic = "M / M"
    summary = ""
    keeps = ""
    source = ""

    # --- before round 0 ---------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise a ValueError where a hyper-parameter is out of its range; called at every fit."""

    def caution(self, lr: float, n_steps: float) -> str | None:
        """What a user should know before training with these hyper-parameters, a sentence; None: nothing.

        It becomes a note in ``history_.notes`` and one warning.

        Parameters
        ----------
        lr : float
            The net's learning rate.
        n_steps : float
            Optimizer steps of the median client in a round.
        """
        return None

    def prepare_module(self, module: Module, n_classes: int) -> Module:
        """The module to train, perhaps with another head.

        Runs under the stream of the initial weights: what it draws from torch's generator is reproducible.
        """
        return module

    def shared(self, names: Iterable[str]) -> tuple[str, ...]:
        """Names of the tensors that travel; all others stay at their client between rounds."""
        return tuple(names)

    def server_init(self, params: Tensors, job: Job) -> Tensors:
        """State of the server before round 0, a dictionary of tensors; `job` is a `Job`."""
        return {}

    def client_init(self, params: Tensors) -> Tensors:
        """State of a client before it first takes part, a dictionary of tensors."""
        return {}

    # --- at the start of a round -----------------------------------------------------------------------------

    def server_query(self, round: int) -> Query | None:
        """A `Query` that clients answer before they train in this round; None: no question."""
        return None

    def server_broadcast(self, server_state: Tensors) -> Broadcast:
        """What travels to clients beside the model, a `Broadcast`.

        Hooks at a client find what it sends every round and the first time in ``local.server``.
        """
        return Broadcast()

    def server_weights(self, weights: Array, clients: Array, server_state: Tensors) -> Array:
        """Aggregation weights of the clients of a round.

        Parameters
        ----------
        weights : ndarray of shape (n_chosen,), float64
            As `client_weight` gives them.
        clients : ndarray of shape (n_chosen,), int64
            Their numbers.
        server_state : dict of tensors
        """
        return weights

    # --- at a client -----------------------------------------------------------------------------------------

    def client_begin(self, model: Model, data: ClientData, local: Local) -> Tensors:
        """Tensors computed before a client's first step, ``local.start`` of every later hook.

        Parameters
        ----------
        model : fedrela_sk.training.Model
            Holds the model that the client received.
        data : fedrela_sk.training.ClientData
            The client's own rows.
        local : Local
        """
        return {}

    def client_order(
        self, y: Array, n_epochs: int, n_classes: int, stream: np.random.Generator
    ) -> Array | None:
        """Rows of every epoch, ndarray of shape (n_epochs, n_rows); None for the usual order.

        Parameters
        ----------
        y : ndarray of shape (n_rows,), int64
            The client's current labels.
        n_epochs, n_classes : int
        stream : numpy.random.Generator
        """
        return None

    def client_row_losses(self, logits: Tensor, y: Tensor, local: Local) -> Tensor:
        """Loss of every row from its logits, in the place of the criterion's.

        Engines call it where a method overrides it, and no other caller does: without it, and without
        `client_loss`, a batch has the loss of the net's criterion.

        Parameters
        ----------
        logits : tensor of shape (n_rows, n_classes)
        y : tensor of shape (n_rows,), int64
        local : Local

        Returns
        -------
        losses : tensor of shape (n_rows,)

        Raises
        ------
        NotImplementedError
            Here in the base: a method without losses of its own trains by the criterion.
        """
        raise NotImplementedError(self._no_loss("client_row_losses"))

    def client_loss(self, model: Model, batch: Batch, local: Local) -> Tensor | tuple[Tensor, Tensors]:
        """Loss of a batch where the rows' logits alone do not give it, in the place of the criterion's.

        Called as `client_row_losses` is; a method overrides one of the two at most.

        Parameters
        ----------
        model : fedrela_sk.training.Model
            Holds the client's current parameters.
        batch : fedrela_sk.training.Batch
        local : Local

        Returns
        -------
        loss : scalar tensor, or (scalar tensor, dict of tensors)
            The dictionary becomes ``local.state`` of the next step (only in the loop engine).

        Raises
        ------
        NotImplementedError
            As in `client_row_losses`.
        """
        raise NotImplementedError(self._no_loss("client_loss"))

    def _no_loss(self, hook):
        """Why a hook of the loss has no default."""
        return (
            f'{type(self).__name__} has no {hook} of its own. Call it where uses("{hook}") is true, as engines do; a '
            "method with neither client_row_losses nor client_loss trains by the net's criterion."
        )

    def client_penalty(self, params: Tensors, local: Local) -> Tensor | float:
        """A scalar tensor that is added to the loss of every batch."""
        return 0.0

    def client_correct(self, grads: Tensors, params: Tensors, local: Local) -> Tensors:
        """The gradients that the optimizer sees, ``{name: tensor}``."""
        return grads

    def client_decoupled(self, params: Tensors, local: Local) -> Tensors:
        """Directions ``{name: tensor}`` that a step takes beside the optimizer, past its momentum.

        `params` are those before the step; the learning rate times a direction is taken off after it.
        """
        return {}

    def client_finish(self, params: Tensors, local: Local, run: LocalRun) -> tuple[Tensors, Tensors]:
        """(tensors to send, new client state) after local training; `run` is a `LocalRun`.

        Tensors beside the model's own may be sent; they are aggregated and counted like the others.
        """
        return params, local.state

    # --- at the server ---------------------------------------------------------------------------------------

    def server_aggregator(self) -> Any:
        """A new object with `add(tensors, weight)` and `result()`."""
        return WeightedMean()

    def server_step(
        self, params: Tensors, aggregated: Tensors, server_state: Tensors, facts: RoundFacts
    ) -> tuple[Tensors, Tensors]:
        """(new global tensors, new server state) from what `server_aggregator` gave."""
        return params | {name: tensor for name, tensor in aggregated.items() if name in params}, server_state

    def server_train(
        self, model: Model, params: Tensors, server_state: Tensors, facts: RoundFacts
    ) -> tuple[Tensors, Tensors]:
        """(new global tensors, new server state) after `server_step`: training on what the server itself holds.

        Runs under the stream (seed, "server", round): what it draws from torch's generator is reproducible.
        """
        return params, server_state

    def predict_params(
        self, params: Tensors, server_state: Tensors, model: Model, relabeling: bool = False
    ) -> Tensors:
        """The tensors that predict, from the global ones.

        Parameters
        ----------
        params : dict of tensors
        server_state : dict of tensors
        model : fedrela_sk.training.Model
            Runs the module with any tensors.
        relabeling : bool, default=False
            Whether their posteriors are to relabel, which may call for other tensors.
        """
        return params

    def personal_params(self, params: Tensors, own: Tensors) -> Tensors:
        """The tensors that predict for one client, from those that predict globally and its `own`.

        `own` are the model's tensors that stay at the client.
        """
        return params | {name: tensor for name, tensor in own.items() if name in params}

    @property
    def has_own_models(self) -> bool:
        """Whether clients predict with tensors of their own: personal ones, or because there is no global model."""
        return self.personal or not self.averages

    # --- which of them are used ------------------------------------------------------------------------------

    def unused_hooks(self) -> tuple[str, ...]:
        """Names of own hooks that change nothing under these hyper-parameters; engines skip them."""
        return ()

    def uses(self, hook: str) -> bool:
        """Whether engines call this method's own `hook`: it overrides the base's, and is not among the unused."""
        own = getattr(type(self), hook) is not getattr(Algorithm, hook)
        return own and hook not in self.unused_hooks()
