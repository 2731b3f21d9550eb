"""Two clients whose losses are parabolas of one weight, and rounds on them through a method's own hooks.

F_1(x) = x^2 / 2 and F_2(x) = 2 (x - 3)^2: their mean has its minimum at 2.4.
"""

from dataclasses import dataclass, field

import numpy as np
import torch

from fedrela_sk.algorithms import Job, Local, LocalRun, RoundFacts

CURVATURE, CENTER = (1.0, 4.0), (0.0, 3.0)
BEST = 2.4


def tensor(value):
    return torch.tensor(value, dtype=torch.float64)


def gradient(client, x):
    return CURVATURE[client] * (x - CENTER[client])


@dataclass
class Play:
    """Rounds of a method on the two parabolas.

    `theta` is the global weight, `server` the server's state, `states` the clients', `seen` the raw gradients of
    the last round by client.
    """

    algorithm: object
    theta: float = 1.0
    lr: float = 0.05
    n_steps: int = 5
    momentum: float = 0.0
    exact: bool = False
    weights: tuple = (1.0, 1.0)
    server: dict = None
    states: dict = field(default_factory=dict)
    seen: dict = field(default_factory=dict)
    round: int = 0

    def __post_init__(self):
        job = Job(2, 2, np.arange(2), 0, torch.empty(0, dtype=torch.float64), torch.nn.Module())
        job.module.x = torch.nn.Parameter(tensor(self.theta))
        if self.server is None:
            self.server = self.algorithm.server_init(self.params, job)

    @property
    def params(self):
        return {"x": tensor(self.theta)}

    def run(self, n_rounds=1, chosen=lambda round: (0, 1)):
        """This object after more rounds with the clients that `chosen` names."""
        for _ in range(n_rounds):
            self.one_round(list(chosen(self.round)))
            self.round += 1
        return self

    def one_round(self, clients):
        algorithm = self.algorithm
        weights = algorithm.server_weights(np.array(self.weights)[clients], np.array(clients), self.server)
        aggregate = algorithm.server_aggregator()
        for client, weight in zip(clients, weights, strict=True):
            aggregate.add(self.train(client, float(weight)), float(weight))
        facts = RoundFacts(self.round, len(clients), 2, self.lr, ("x",))
        params, self.server = algorithm.server_step(self.params, aggregate.result(), self.server, facts)
        self.theta = float(params["x"])

    def train(self, client, weight):
        """What a client sends."""
        state = self.states.get(client) or self.algorithm.client_init(self.params)
        local = Local(
            self.params,
            state,
            self.algorithm.server_broadcast(self.server).every_round,
            None,
            round=self.round,
        )
        x = self.solve(client, local) if self.exact else self.descend(client, local)
        run = LocalRun(self.n_steps, self.lr, 1, weight, self.momentum, trainable=("x",))
        sent, self.states[client] = self.algorithm.client_finish({"x": x}, local, run)
        return sent

    def pull(self, x, local):
        """Gradient of the method's penalty."""
        x = x.clone().requires_grad_()
        penalty = self.algorithm.client_penalty({"x": x}, local)
        if not torch.is_tensor(penalty):
            return 0.0
        return torch.autograd.grad(penalty, x)[0]

    def descend(self, client, local):
        x, buffer, self.seen[client] = local.anchor["x"], 0.0, []
        for _ in range(self.n_steps):
            self.seen[client].append(float(gradient(client, x)))
            grads = {"x": gradient(client, x) + self.pull(x, local)}
            grad = self.algorithm.client_correct(grads, {"x": x}, local)["x"]
            buffer = self.momentum * buffer + grad
            x = x - self.lr * buffer
        return x

    def solve(self, client, local):
        """The minimum of the client's parabola plus penalty: the gradient is linear in x."""
        at = [gradient(client, tensor(x)) + self.pull(tensor(x), local) for x in (0.0, 1.0)]
        return at[0] / (at[0] - at[1])
