"""FedAdagrad, FedAdam, FedYogi (Reddi et al. 2021): adaptive optimizers at the server."""

from typing import Any

import torch

from fedrela_sk.algorithms._base import Algorithm
from fedrela_sk.algorithms._checks import check_at_least, check_flag
from fedrela_sk.algorithms._displacement import displacement, moved, zeros
from fedrela_sk.algorithms._tags import tagged, untagged


class _FedOpt(Algorithm):
    """What the three share: m, v and the step from them, entry by entry. A child writes `_second`.

    ::

        m <- beta_1 m + (1 - beta_1) D        D: the clients' mean displacement
        v <- second(v, D^2)
        theta <- theta + server_lr m / (sqrt(v) + epsilon)
    """

    neutral_reason = "its steps have a length of their own whatever the clients' displacement"

    def check(self):
        check_at_least("server_lr", self.server_lr, 0)
        check_at_least("beta_1", self.beta_1, 0, 1, below=True)
        check_at_least("epsilon", self.epsilon, 0, above=True)
        if self.initial_accumulator is not None:
            check_at_least("initial_accumulator", self.initial_accumulator, 0)

    def server_init(self, params, job):
        start = self.epsilon**2 if self.initial_accumulator is None else self.initial_accumulator
        first = zeros(params, job.trainable)
        second = {name: torch.full_like(tensor, start) for name, tensor in first.items()}
        n_steps = torch.zeros((), dtype=torch.float64, device=job.like.device)
        return {"n_steps": n_steps} | tagged("first", first) | tagged("second", second)

    def server_step(self, params, aggregated, server_state, facts):
        delta = displacement(params, aggregated, facts.trainable)
        n_steps = server_state["n_steps"] + 1
        first, second = untagged("first", server_state), untagged("second", server_state)
        first = {name: self.beta_1 * first[name] + (1 - self.beta_1) * d for name, d in delta.items()}
        second = {name: self._second(second[name], d**2) for name, d in delta.items()}
        grown, spread = self._corrections(n_steps)
        steps = {
            name: self.server_lr * (m / grown) / ((second[name] / spread).sqrt() + self.epsilon)
            for name, m in first.items()
        }
        state = {"n_steps": n_steps} | tagged("first", first) | tagged("second", second)
        return moved(params, aggregated, steps), state

    def _corrections(self, n_steps):
        """What m and v are divided by before the step."""
        return 1.0, 1.0


class FedAdagrad(_FedOpt):
    """Adagrad at the server: v <- v + D^2.

    D is the mean displacement of the round's clients, m <- beta_1 m + (1 - beta_1) D, and
    theta <- theta + server_lr m / (sqrt(v) + epsilon), entry by entry. BatchNorm's statistics are averaged.

    Parameters
    ----------
    server_lr : float >= 0, default=0.1
        Length of a step. The paper tunes it with the clients' rate.
    beta_1 : float in [0, 1), default=0.0
    epsilon : float > 0, default=1e-3
        The paper's tau: how far the step adapts.
    initial_accumulator : float >= 0 or None, default=None
        v before round 0. None is epsilon^2, as the paper states; the authors' experiments start at 0.

    References
    ----------
    Reddi, Charles, Zaheer, Garrett, Rush, Konečný, Kumar, McMahan, "Adaptive Federated Optimization",
    ICLR 2021, arXiv 2003.00295, Algorithm 2.
    """

    summary = "Adagrad at the server"
    keeps = "s: 2 M"
    source = "Reddi et al. 2021"

    def __init__(
        self,
        server_lr: float = 0.1,
        beta_1: float = 0.0,
        epsilon: float = 1e-3,
        initial_accumulator: float | None = None,
    ) -> None:
        self.server_lr = server_lr
        self.beta_1 = beta_1
        self.epsilon = epsilon
        self.initial_accumulator = initial_accumulator

    def _second(self, v, square):
        return v + square


class FedAdam(_FedOpt):
    """Adam at the server: v <- beta_2 v + (1 - beta_2) D^2.

    D, m and the step from m and v are as in `FedAdagrad`.

    Parameters
    ----------
    server_lr, beta_1, epsilon, initial_accumulator
        As in `FedAdagrad`, with the defaults 0.01, 0.9, 1e-3 and None.
    beta_2 : float in [0, 1), default=0.99
    bias_correction : bool, default=False
        Divide m by 1 - beta_1^t and v by 1 - beta_2^t in the t-th round, as Adam itself does; the paper
        does not.

    References
    ----------
    Reddi et al. 2021, as in `FedAdagrad`.
    """

    summary = "Adam at the server"
    keeps = "s: 2 M"
    source = "Reddi et al. 2021"

    def __init__(
        self,
        server_lr: Any = 0.01,
        beta_1: Any = 0.9,
        beta_2: float = 0.99,
        epsilon: Any = 1e-3,
        initial_accumulator: Any = None,
        bias_correction: bool = False,
    ) -> None:
        self.server_lr = server_lr
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.initial_accumulator = initial_accumulator
        self.bias_correction = bias_correction

    def check(self) -> None:
        super().check()
        check_at_least("beta_2", self.beta_2, 0, 1, below=True)
        check_flag("bias_correction", self.bias_correction)

    def _corrections(self, n_steps):
        if not self.bias_correction:
            return super()._corrections(n_steps)
        return 1 - self.beta_1**n_steps, 1 - self.beta_2**n_steps

    def _second(self, v, square):
        return self.beta_2 * v + (1 - self.beta_2) * square


class FedYogi(FedAdam):
    """Yogi at the server: v <- v - (1 - beta_2) D^2 sign(v - D^2).

    Everything else, the parameters too, is as in `FedAdam`; where displacements become small, v
    shrinks more slowly than there.

    References
    ----------
    Reddi et al. 2021, as in `FedAdagrad`.
    """

    summary = "Yogi at the server"
    keeps = "s: 2 M"
    source = "Reddi et al. 2021"

    def _second(self, v, square):
        return v - (1 - self.beta_2) * square * torch.sign(v - square)
