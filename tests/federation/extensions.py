"""One of the user's own for every place that the documentation opens to users."""

import numpy as np
import torch
from sklearn.base import BaseEstimator
from skorch import NeuralNetClassifier
from skorch.callbacks import Callback
from torch import nn

from fedrela_sk.algorithms import Algorithm, Broadcast, Query
from fedrela_sk.local_data import Mixup
from fedrela_sk.losses import PriorLoss
from fedrela_sk.participation import Choice, Participation
from fedrela_sk.training import Loop


class Clipped(Algorithm):
    """The method of docs/adding.md."""

    sends_model = True
    neutral = {"max_norm": 1e30}

    def __init__(self, max_norm=0.1):
        self.max_norm = max_norm

    def client_finish(self, params, local, run):
        moved = {name: params[name] - local.anchor[name] for name in run.trainable}
        norm = torch.sqrt(sum((delta**2).sum() for delta in moved.values()))
        factor = torch.clamp(self.max_norm / norm, max=1.0)
        return params | {name: local.anchor[name] + factor * moved[name] for name in moved}, local.state


class Momentum(Algorithm):
    """State at the server and at every client, a report before each round, a draw at the client."""

    neutral_reason = "its gradients carry on"
    traffic = "M + C + 4 / M + C"  # a report of one number for each of three features, and of the round

    def server_query(self, round):
        return Query(self.client_report, self.server_gather, whom="all")

    def client_report(self, model, data, local):
        return {"mean": data.X.mean(0) + local.stream.normal(), "round": torch.tensor(float(local.round))}

    def server_gather(self, reports, server_state, facts):
        return server_state | {"mean": torch.stack([reports[k]["mean"] for k in sorted(reports)]).mean(0)}

    def server_init(self, params, job=None):
        return {"mean": torch.zeros(3, dtype=torch.float64)}

    def server_broadcast(self, server_state):
        return Broadcast(every_round=server_state)

    def client_init(self, params):
        return {name: torch.zeros_like(tensor) for name, tensor in params.items()}

    def client_correct(self, grads, params, local):
        return {
            name: grad + 0.1 * local.state[name] + 0.01 * local.server["mean"].sum()
            for name, grad in grads.items()
        }

    def client_finish(self, params, local, run):
        return params, {name: params[name] - local.anchor[name] for name in params}


class Loss(PriorLoss):
    """A loss as docs/losses.md describes it; it reads all that it is given."""

    def _losses(self, logits, y, counts, progress):
        own = nn.functional.cross_entropy(logits + torch.log1p(counts.to(logits)), y, reduction="none")
        return own * (1 + progress)


class EveryOther(Participation):
    """Takes clients in turn, and draws one weight."""

    def _choose(self, round, stream, sizes, counts):
        chosen = tuple((k,) for k in range(len(sizes)) if (k + round) % 2 == 0)
        chosen = chosen or ((0,),)  # there is one client, and it is not its turn
        return Choice(chosen, weights=tuple(float(stream.uniform(0.5, 1)) for _ in chosen))


class Doubles(BaseEstimator):
    """A sampler of the user's own: every row of the rarest class twice."""

    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit_resample(self, X, y):
        labels, counts = np.unique(y, return_counts=True)
        more = np.flatnonzero(y == labels[counts.argmin()])
        noise = np.random.default_rng(self.random_state).normal(size=(len(more), X.shape[1]))
        return np.concatenate([X, X[more] + 0.1 * noise]), np.concatenate([y, y[more]])


class HalfMixup(Mixup):
    """Mixes with half the share."""

    def mix(self, y, counts, stream):
        mix = super().mix(y, counts, stream)
        return type(mix)(mix.partner, 0.5 + mix.x_share / 2, mix.y_share)


class Thirds(BaseEstimator):
    """A splitter that deals rows in turn."""

    def split(self, X, y=None, groups=None):
        for k in range(3):
            test = np.arange(k, len(X), 3)
            yield np.setdiff1d(np.arange(len(X)), test), test

    def get_n_splits(self, X=None, y=None, groups=None):
        return 3


class FlipsTenth:
    """A relabeler of the user's own."""

    def fit(self, Q, y):
        return self

    def relabel(self, Q, y, uniforms=None):
        return np.where(uniforms[:, 0] < 0.1, np.roll(y, 1), y)


class HalvesGradients(Callback):
    """A skorch callback that acts on training."""

    def on_grad_computed(self, net, named_parameters, **kwargs):
        for _, parameter in named_parameters:
            parameter.grad *= 0.5


class Watches:
    """A scikit-learn callback that counts rounds."""

    def __init__(self):
        self.n_rounds = 0

    def setup(self, estimator, context):
        """Nothing to set up."""

    def teardown(self, estimator, context):
        """Nothing to take down."""

    def on_fit_task_begin(self, estimator, context):
        """Nothing to do."""

    def on_fit_task_end(self, estimator, context):
        self.n_rounds += context.task_name == "round"


class Net(nn.Module):
    """A module of the user's own."""

    def __init__(self, scale=2.0):
        super().__init__()
        self.last, self.scale = nn.Linear(3, 3, dtype=torch.float64), scale

    def forward(self, x):
        return self.last(x) * self.scale


class SignDescent(torch.optim.Optimizer):
    """An optimizer of the user's own."""

    def __init__(self, params, lr=0.1):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                p -= 0.1 * group["lr"] * torch.sign(p.grad)
        return loss


class Shouts(NeuralNetClassifier):
    """A net that changes what its module is given."""

    def infer(self, x, **fit_params):
        return super().infer(1.5 * x, **fit_params)


class Reversed(Loop):
    """An engine of the user's own: trains clients from the last to the first."""

    def start(self, net, data, algorithm, n_classes, seed):
        running = super().start(net, data, algorithm, n_classes, seed)
        one_after_the_other = running.train
        running.train = lambda tasks, instructions: iter(
            list(one_after_the_other(tasks[::-1], instructions))[::-1]
        )
        return running


def halved(t):
    return 0.5**t


class Warmup:
    """A schedule that is an object."""

    def __init__(self, rounds=3):
        self.rounds = rounds

    def __call__(self, t):
        return min(1.0, (t + 1) / self.rounds)


def root_of(sizes):
    return np.sqrt(sizes)
