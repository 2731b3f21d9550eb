"""The hooks of a federated method; FedAvg is the default of every one of them."""

from sklearn.base import BaseEstimator

from fedrela_sk.aggregation import WeightedMean
from fedrela_sk.algorithms._facts import (
    Derived,
    has_own,
    keeps_tensors,
    replaces_loss,
    sends_models,
    why_in_turn,
)


class Algorithm(BaseEstimator):
    """Base of all methods.

    A method is a `BaseEstimator`: its constructor stores hyper-parameters, so that
    `GridSearchCV` over ``algorithm__...`` works. Hooks are pure functions of named tensors: they return
    new ones and write nothing to `self`. State that lives longer than a round is passed in and returned.

    `params` are named tensors, ``{name: tensor}``. `penalty`, `correct` and `decoupled` see trainable ones only;
    `finish`, `shared`, `step` and all anchors hold buffers too. `local` is a `Local`, `facts` a `RoundFacts`.

    Attributes
    ----------
    averages : bool
        Whether there is one global model. False: clients predict for themselves.
    personal : bool
        Whether `personal_params` gives each client a model of its own beside the global one. Derived: it does where
        `personal_params` or `shared` is overridden.
    loop_only : str or None
        Why the method runs in the loop engine alone, None where it runs in both. Derived: a reason where a hook of
        training reads ``local.stream``. A method whose `loss` returns a state must state one.
    sends_model : bool
        Whether what clients send under the model's names is their model: rules of participation that chain
        clients or weigh them by their displacement need that. Derived: not where `finish` or `aggregate` is
        overridden; a method that still sends the model as it is states True.
    own_loss : bool
        Whether `loss` or `row_losses` take the place of the net's criterion, which must then be plain
        `torch.nn.CrossEntropyLoss` or `NLLLoss`. Derived: where one of them is overridden.
    bare_loss : bool
        Whether that loss takes neither class weights nor label smoothing nor an ignored class from it; they are
        then refused. Derived: as `own_loss`; a method whose `loss` goes by `Batch.row_losses` or
        `Batch.criterion_loss` states False.
    report_needs_model : bool
        Whether a client that answers `report` receives the model for it, which counts as traffic. A method that
        states False gets no model there.
    auxiliary : int, pair (X, y) or None
        Labelled rows that the server holds: ``job.auxiliary`` of `init_server`. An int: so many first rows of
        each class of the training data (all, where a class has fewer). A pair: rows of every class that no
        client has.
    neutral : dict or None
        Hyper-parameters under which the method equals FedAvg; None where `neutral_reason` says why there
        are none.
    neutral_weights : {"size", "uniform"}
        `client_weight` of the FedAvg that the neutral setting equals.
    """

    averages = True
    personal = Derived(keeps_tensors)
    loop_only = Derived(why_in_turn)
    sends_model = Derived(sends_models)
    own_loss = Derived(replaces_loss)
    bare_loss = Derived(replaces_loss)
    report_needs_model = True
    auxiliary = None
    neutral = None
    neutral_reason = "not stated"
    neutral_weights = "size"

    # --- before round 0 ---------------------------------------------------------------------------------------

    def check(self):
        """Raise a ValueError where a hyper-parameter is out of its range; called at every fit."""

    def caution(self, lr, n_steps):
        """What a user should know before training with these hyper-parameters, a sentence; None: nothing.

        It becomes a note in ``history_.notes`` and one warning.

        Parameters
        ----------
        lr : float
            The net's learning rate.
        n_steps : float
            Optimiser steps of the median client in a round.
        """
        return None

    def prepare(self, module, n_classes):
        """The module to train, perhaps with another head.

        Runs under the stream of the initial weights: what it draws from torch's generator is reproducible.
        """
        return module

    def shared(self, names):
        """Names of the tensors that travel; all others stay at their client between rounds."""
        return tuple(names)

    def init_server(self, params, job):
        """State of the server before round 0, a dictionary of tensors; `job` is a `Job`."""
        return {}

    def init_client(self, params):
        """State of a client before it first takes part, a dictionary of tensors."""
        return {}

    # --- at the start of a round -----------------------------------------------------------------------------

    def asks(self, round):
        """Whom the server asks for a report before training: "nobody", "chosen" or "all" clients."""
        return "nobody"

    def report(self, model, data, local):
        """What an asked client answers, a dictionary of small tensors; all of it is counted as traffic.

        Parameters
        ----------
        model : fedrela_sk.training.Model
            Holds the global model.
        data : fedrela_sk.training.ClientData
            The client's own rows.
        local : Local
        """
        return {}

    def gather(self, reports, server_state, facts):
        """New server state from reports, a dictionary ``{client: {name: tensor}}`` by client number.

        It is empty where no asked client has a row left. `facts` are those of the round that is about to train,
        whose participants are here the clients that answered.
        """
        return server_state

    def broadcast(self, server_state):
        """The part of the server state that travels to clients with the model, a dictionary of tensors."""
        return {}

    def once(self, server_state):
        """The part that travels only to a client that takes part for the first time, and stays there.

        A dictionary of tensors; hooks find them in ``local.server`` beside those of `broadcast`.
        """
        return {}

    def for_relabeling(self, server_state):
        """The part that travels to clients that relabel in a round, beside what they train with.

        A dictionary of tensors, empty where clients can work out the model that predicts by themselves.
        """
        return {}

    def weigh(self, weights, clients, server_state):
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

    def begin(self, model, data, local):
        """Tensors computed before a client's first step, ``local.start`` of every later hook.

        Parameters as in `report`.
        """
        return {}

    def order(self, y, n_epochs, n_classes, stream):
        """Rows of every epoch, ndarray of shape (n_epochs, n_rows); None for the usual order.

        Parameters
        ----------
        y : ndarray of shape (n_rows,), int64
            The client's current labels.
        n_epochs, n_classes : int
        stream : numpy.random.Generator
        """
        return None

    def row_losses(self, logits, y, local):
        """Loss of every row from its logits, in the place of the criterion's.

        Engines call it where a method overrides it, and no other caller does: without it, and without `loss`,
        a batch has the loss of the net's criterion.

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
        raise NotImplementedError(self._no_loss("row_losses"))

    def loss(self, model, batch, local):
        """Loss of a batch where the rows' logits alone do not give it, in the place of the criterion's.

        Called as `row_losses` is; a method overrides one of the two at most.

        Parameters
        ----------
        model : fedrela_sk.training.Model
            Holds the client's current parameters.
        batch : fedrela_sk.training.Batch
        local : Local

        Returns
        -------
        loss : scalar tensor, or (scalar tensor, dict of tensors)
            The dictionary becomes ``local.state`` of the next step (loop engine alone).

        Raises
        ------
        NotImplementedError
            As in `row_losses`.
        """
        raise NotImplementedError(self._no_loss("loss"))

    def _no_loss(self, hook):
        """Why a hook of the loss has no default."""
        return (
            f'{type(self).__name__} has no {hook} of its own. Call it where overrides("{hook}") is true, as engines '
            "do; a method with neither row_losses nor loss trains by the net's criterion."
        )

    def penalty(self, params, local):
        """A scalar tensor that is added to the loss of every batch."""
        return 0.0

    def correct(self, grads, params, local):
        """The gradients that the optimiser sees, ``{name: tensor}``."""
        return grads

    def decoupled(self, params, local):
        """Directions ``{name: tensor}`` that a step takes beside the optimiser, past its momentum.

        `params` are those before the step; the learning rate times a direction is taken off after it.
        """
        return {}

    def finish(self, params, local, run):
        """(tensors to send, new client state) after local training; `run` is a `LocalRun`.

        Tensors beside the model's own may be sent; they are aggregated and counted like the others.
        """
        return params, local.state

    # --- at the server ---------------------------------------------------------------------------------------

    def aggregate(self):
        """A new object with `add(tensors, weight)` and `result()`."""
        return WeightedMean()

    def step(self, params, aggregated, server_state, facts):
        """(new global tensors, new server state) from what `aggregate` gave."""
        return params | {name: tensor for name, tensor in aggregated.items() if name in params}, server_state

    def server_train(self, model, params, server_state, facts):
        """(new global tensors, new server state) after `step`: training on what the server itself holds.

        Runs under the stream (seed, "server", round): what it draws from torch's generator is reproducible.
        """
        return params, server_state

    def predict_params(self, params, server_state, model):
        """The tensors that predict, from the global ones; `model` runs the module with any tensors."""
        return params

    def relabel_params(self, params, server_state, model):
        """The tensors whose posteriors re-label, where there is one global model: by default those that predict."""
        return self.predict_params(params, server_state, model)

    def personal_params(self, params, own):
        """The tensors that predict for one client, from those that predict globally and its `own`.

        `own` are the model's tensors that stay at the client.
        """
        return params | {name: tensor for name, tensor in own.items() if name in params}

    def overrides(self, hook):
        """Whether this method has its own `hook`: engines skip those that would change nothing."""
        return has_own(type(self), hook)
