"""SCAFFOLD (Karimireddy et al. 2020): gradients corrected by what every client usually adds to them."""

from typing import Literal

import numpy as np
import torch

from fedrela_sk import _tree
from fedrela_sk._typing import Array, ClientData, Job, Local, LocalRun, Model, RoundFacts, Tensors
from fedrela_sk.algorithms._base import Algorithm
from fedrela_sk.algorithms._checks import check_at_least, check_choice
from fedrela_sk.algorithms._coefficients import check_sgd, coefficient_sum
from fedrela_sk.algorithms._displacement import displacement, moved
from fedrela_sk.algorithms._records import Broadcast
from fedrela_sk.algorithms._tags import tagged, untagged


class SCAFFOLD(Algorithm):
    """Clients descend along g_k - c_k + c; c_k and c are the usual gradients of a client and of all.

    ::

        c_k' = g_k(theta)                                         option "I"
        c_k' = c_k - c + (theta - theta_k) / (lr ||a_k||)         option "II"
        theta <- theta + server_lr mean_k (theta_k - theta)
        c <- c + (participants / clients) mean_k (c_k' - c_k)

    Means are plain: every client counts the same, whatever `client_weight` says, and the method minimizes the
    mean of the clients' losses, not that over all rows. All c start at zero, so that c is the mean of
    the c_k at all times. c - c_k enters the gradient before momentum. ||a_k|| is the number of steps for plain
    SGD, and the sum of the factors of the gradients with momentum (as in `FedNova`): c_k' is a mean of the
    client's own gradients, of the round's learning rate. BatchNorm's statistics have no c and are averaged.

    Where clients take many steps it wants lower learning rates than FedAvg: corrections that lag behind can
    outgrow the gradients. Clipped gradients (`skorch.callbacks.GradientNormClipping`) hold it too, although
    option "II" is then no longer exactly a mean of gradients.

    Clients keep c_k; c travels down and c_k' - c_k up with the model.

    Parameters
    ----------
    option : {"I", "II"}, default="II"
        Where c_k' comes from. "I" is the gradient of the client's loss on all of its rows at the model that it
        received, in evaluation mode and without weight decay: one more pass over the rows. "II", which the
        paper's experiments use, comes for free.
    server_lr : float >= 0, default=1.0

    Raises
    ------
    ClientError
        In the first round: with option "II" for optimizers other than SGD and for parameter groups that
        differ; with option "I" for criteria that sum over a batch.

    References
    ----------
    Karimireddy, Kale, Mohri, Reddi, Stich, Suresh, "SCAFFOLD: Stochastic Controlled Averaging for Federated
    Learning", ICML 2020, arXiv 1910.06378.
    """

    summary = "gradients corrected by what each client usually adds"
    keeps = "c: M, s: M"
    source = "Karimireddy et al. 2020"
    traffic = "2 * M / 2 * M"
    neutral_reason = "its corrections vanish only where all clients are alike"

    def __init__(self, option: Literal["I", "II"] = "II", server_lr: float = 1.0) -> None:
        self.option = option
        self.server_lr = server_lr

    def check(self) -> None:
        check_choice("option", self.option, ("I", "II"))
        check_at_least("server_lr", self.server_lr, 0)

    def unused_hooks(self) -> tuple[str, ...]:
        return () if self.option == "I" else ("client_begin",)

    def server_init(self, params: Tensors, job: Job) -> Tensors:
        return {name: torch.zeros_like(params[name]) for name in job.trainable}

    def client_init(self, params: Tensors) -> Tensors:
        return {name: torch.zeros_like(p) for name, p in params.items() if p.is_floating_point()}

    def server_broadcast(self, server_state: Tensors) -> Broadcast:
        return Broadcast(every_round=server_state)

    def server_weights(self, weights: Array, clients: Array, server_state: Tensors) -> Array:
        return np.ones_like(weights)

    def client_begin(self, model: Model, data: ClientData, local: Local) -> Tensors:
        if model.criterion.reduction != "mean":
            raise ValueError(
                f'SCAFFOLD(option="I") needs a criterion that averages over a batch; got reduction='
                f'{model.criterion.reduction!r}. Use option="II", or criterion__reduction="mean".'
            )
        leaves = _tree.copy(_tree.subset(local.anchor, local.server))
        for leaf in leaves.values():
            leaf.requires_grad_()
        for batch in data.batches(model.criterion):
            batch.criterion_loss(model.evaluate(batch.x, leaves)).backward()
        return {name: torch.zeros_like(p) if p.grad is None else p.grad for name, p in leaves.items()}

    def client_correct(self, grads: Tensors, params: Tensors, local: Local) -> Tensors:
        return {name: grad - local.state[name] + local.server[name] for name, grad in grads.items()}

    def client_finish(self, params: Tensors, local: Local, run: LocalRun) -> tuple[Tensors, Tensors]:
        new = local.start if self.option == "I" else self._mean_gradients(params, local, run)
        change = {name: control - local.state[name] for name, control in new.items()}
        return params | tagged("control", change), local.state | new

    def _mean_gradients(self, params, local, run):
        """c_k' of option "II"; the old ones where the client did not move."""
        check_sgd(run, 'SCAFFOLD(option="II")')
        length = run.lr * coefficient_sum(run)
        if not length:
            return _tree.subset(local.state, local.server)
        return {
            name: local.state[name] - control + (local.anchor[name] - params[name]) / length
            for name, control in local.server.items()
        }

    def server_step(
        self, params: Tensors, aggregated: Tensors, server_state: Tensors, facts: RoundFacts
    ) -> tuple[Tensors, Tensors]:
        delta = displacement(params, aggregated, facts.trainable)
        steps = {name: self.server_lr * d for name, d in delta.items()}
        share = facts.n_participants / facts.n_clients
        change = untagged("control", aggregated)
        controls = {name: c + share * change[name] for name, c in server_state.items()}
        return moved(params, aggregated, steps), controls
