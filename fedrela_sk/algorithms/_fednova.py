"""FedNova (Wang et al. 2020): clients that take more steps do not pull harder."""

from typing import Any, Literal

import torch

from fedrela_sk import _tree
from fedrela_sk._typing import Job, Local, LocalRun, RoundFacts, Tensor, Tensors
from fedrela_sk.algorithms._base import Algorithm
from fedrela_sk.algorithms._checks import check_at_least, check_choice
from fedrela_sk.algorithms._coefficients import check_sgd, coefficient_sum
from fedrela_sk.algorithms._displacement import moved, zeros

STEPS = "effective steps"  # no name of a parameter: it has a space


class FedNova(Algorithm):
    """theta <- theta + tau_eff sum_k p_k (theta_k - theta) / ||a_k||, p_k the clients' weights.

    A client's displacement is a sum of its gradients with factors a; ||a_k|| is their sum, exact for SGD with
    or without momentum, Nesterov's form, dampening and a proximal pull, whose buffers start empty in every
    round. FedAvg is the case of p_k ||a_k|| in place of p_k: with equal ||a_k|| the two are the same. Weights
    run over the clients that took part. BatchNorm's statistics are averaged with p_k.

    Clients send their displacement divided by ||a_k||, and their part of tau_eff (8 bytes).

    Parameters
    ----------
    mu : float >= 0, default=0.0
        Strength of a pull ``(mu / 2) ||theta_k - theta||^2``, as in `FedProx`.
    prox : {"inside", "outside"}, default="inside"
        Whether the pull's gradient enters the momentum buffer, as in `FedProx`, or goes past it, as the paper
        derives. Without momentum they are the same. The released code counts both at once and its normalizer
        fits neither.
    tau_eff : {"without_pull", "coefficients", "steps"}, default="without_pull"
        Which mean over the clients, sum_k p_k (...), the normalized step is multiplied by.

        - "without_pull": of what ||a_k|| would be at mu=0. That is the paper's choice: sum_k p_k ||a_k||
          where nothing pulls, and the number of steps for SGD with a pull, which makes up for its slowness;
        - "coefficients": of ||a_k|| itself;
        - "steps": of the number of steps, the released code's choice for mu > 0.
    momentum : float in [0, 1), default=0.0
        Of the server: u <- momentum u + g, theta <- theta - lr u with g the step above over -lr.

    Raises
    ------
    ClientError
        In the first round, for optimizers other than SGD and for parameter groups that differ: their factors
        are not known.

    References
    ----------
    Wang, Liu, Liang, Joshi, Poor, "Tackling the Objective Inconsistency Problem in Heterogeneous Federated
    Optimization", NeurIPS 2020, arXiv 2007.07481.
    """

    summary = "displacements divided by what local steps amount to"
    source = "Wang et al. 2020"
    traffic = "M + 8 / M"
    neutral_reason = "it is FedAvg where all clients take equally many steps, and nowhere else"

    def __init__(
        self,
        mu: float = 0.0,
        prox: Literal["inside", "outside"] = "inside",
        tau_eff: Literal["without_pull", "coefficients", "steps"] = "without_pull",
        momentum: float = 0.0,
    ) -> None:
        self.mu = mu
        self.prox = prox
        self.tau_eff = tau_eff
        self.momentum = momentum

    def check(self) -> None:
        check_at_least("mu", self.mu, 0)
        check_choice("prox", self.prox, ("inside", "outside"))
        check_choice("tau_eff", self.tau_eff, ("without_pull", "coefficients", "steps"))
        check_at_least("momentum", self.momentum, 0, 1, below=True)

    def unused_hooks(self) -> tuple[str, ...]:
        used = (
            {"inside": "client_penalty", "outside": "client_decoupled"}.get(self.prox)
            if self.mu > 0
            else None
        )
        return tuple(hook for hook in ("client_penalty", "client_decoupled") if hook != used)

    def client_penalty(self, params: Tensors, local: Local) -> Tensor | float:
        return 0.5 * self.mu * _tree.squared_distance(params, local.anchor)

    def client_decoupled(self, params: Tensors, local: Local) -> Tensors:
        return {name: self.mu * (param - local.anchor[name]) for name, param in params.items()}

    def server_init(self, params: Tensors, job: Job) -> Tensors:
        return zeros(params, job.trainable) if self.momentum else {}

    def client_finish(self, params: Tensors, local: Local, run: LocalRun) -> tuple[Tensors, Tensors]:
        check_sgd(run, "FedNova")
        total = self.normalizer(run)
        moves = {
            name: (params[name] - local.anchor[name]) / total if run.n_steps else 0 * params[name]
            for name in run.trainable
        }
        device = next(iter(params.values())).device
        steps = torch.tensor(self._steps(run, total), dtype=torch.float64, device=device)
        return params | moves | {STEPS: steps}, local.state

    def normalizer(self, run: LocalRun) -> Any:
        """||a_k||, a float; `run` is a `LocalRun`.

        Raises
        ------
        ValueError
            If the pull is so strong that the factors cancel.
        """
        total = coefficient_sum(run, run.lr * self.mu, self.prox == "outside")
        if run.n_steps and not total > 0:
            raise ValueError(
                f"With mu={self.mu} and learning rate {run.lr} the pull throws a client past its start: its "
                f"gradients' factors sum to {total:.3g}. Lower mu or the learning rate."
            )
        return total

    def _steps(self, run, total):
        """A client's part of tau_eff."""
        if self.tau_eff == "steps":
            return float(run.n_steps)
        pulled = self.tau_eff == "without_pull" and self.mu > 0
        return coefficient_sum(run) if pulled else total

    def server_step(
        self, params: Tensors, aggregated: Tensors, server_state: Tensors, facts: RoundFacts
    ) -> tuple[Tensors, Tensors]:
        steps = aggregated[STEPS].item()
        moves = {name: steps * aggregated[name].to(torch.float64) for name in facts.trainable}
        if not self.momentum or facts.lr == 0:
            return moved(params, aggregated, moves), server_state
        velocity = {
            name: self.momentum * server_state[name] - move / facts.lr for name, move in moves.items()
        }
        moves = {name: -facts.lr * u for name, u in velocity.items()}
        return moved(params, aggregated, moves), velocity
