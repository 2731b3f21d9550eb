"""FedAvgM (Hsu, Qi, Brown 2019): the server remembers where it was going."""

from typing import Literal

from fedrela_sk._typing import Job, RoundFacts, Tensors
from fedrela_sk.algorithms._base import Algorithm
from fedrela_sk.algorithms._checks import check_at_least, check_choice
from fedrela_sk.algorithms._displacement import displacement, moved, zeros

FORMS = ("heavy_ball", "damped", "nesterov")


class FedAvgM(Algorithm):
    """Momentum on the mean displacement D of the round's clients: v <- momentum v + D.

    Parameters
    ----------
    momentum : float in [0, 1), default=0.9
        Share of the velocity that lives on. The paper tunes it up to 0.997; 0 is FedAvg in every form.
    server_lr : float >= 0, default=1.0
        Factor on the step.
    form : {"heavy_ball", "damped", "nesterov"}, default="heavy_ball"
        - "heavy_ball": v <- momentum v + D, theta <- theta + server_lr v, the paper's;
        - "damped": v <- momentum v + (1 - momentum) D, the same step, as in MOON's released code;
        - "nesterov": v as in "heavy_ball", theta <- theta + server_lr (D + momentum v).

        They differ much in length: after three rounds of D = 1 and momentum 0.9 the model has moved by
        5.61, 0.561 and 8.049.

    References
    ----------
    Hsu, Qi, Brown, "Measuring the Effects of Non-Identical Data Distribution for Federated Visual
    Classification", arXiv 1909.06335.
    """

    summary = "momentum at the server"
    keeps = "s: M"
    source = "Hsu et al. 2019"
    neutral = {"momentum": 0.0}

    def __init__(
        self,
        momentum: float = 0.9,
        server_lr: float = 1.0,
        form: Literal["heavy_ball", "damped", "nesterov"] = "heavy_ball",
    ) -> None:
        self.momentum = momentum
        self.server_lr = server_lr
        self.form = form

    def check(self) -> None:
        check_at_least("momentum", self.momentum, 0, 1, below=True)
        check_at_least("server_lr", self.server_lr, 0)
        check_choice("form", self.form, FORMS)

    def server_init(self, params: Tensors, job: Job) -> Tensors:
        return zeros(params, job.trainable)

    def server_step(
        self, params: Tensors, aggregated: Tensors, server_state: Tensors, facts: RoundFacts
    ) -> tuple[Tensors, Tensors]:
        delta = displacement(params, aggregated, facts.trainable)
        gain = 1 - self.momentum if self.form == "damped" else 1
        velocity = {name: self.momentum * server_state[name] + gain * d for name, d in delta.items()}
        ahead = velocity
        if self.form == "nesterov":
            ahead = {name: delta[name] + self.momentum * v for name, v in velocity.items()}
        steps = {name: self.server_lr * step for name, step in ahead.items()}
        return moved(params, aggregated, steps), velocity
