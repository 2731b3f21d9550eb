"""FedDyn (Acar et al. 2021): a linear term that moves every client's minimum to everybody's."""

import numpy as np
import torch

from fedrela_sk import _tree
from fedrela_sk.algorithms._base import Algorithm
from fedrela_sk.algorithms._checks import check_at_least, check_choice
from fedrela_sk.algorithms._displacement import displacement, moved, zeros
from fedrela_sk.algorithms._tags import tagged, untagged


class FedDyn(Algorithm):
    """Clients minimise F_k(theta) - <g_k, theta> + (alpha / 2) ||theta - theta_t||^2.

    ::

        g_k <- g_k - alpha (theta_k - theta_t)                    at clients that took part
        h <- h - (alpha / clients) sum_k (theta_k - theta_t)      over clients that took part
        theta <- mean_k theta_k - h / alpha                       mean over clients that took part

    Means are plain: every client counts the same, whatever `client_weight` says; the released code scales alpha
    by a client's rows, which is left out here. h is the mean of all g_k at all times. All start at zero, so
    that the first round is FedProx with mu=alpha and, with all clients, goes twice as far. BatchNorm's statistics are
    averaged and nothing else. The authors clip gradients to a norm of 10, here
    `skorch.callbacks.GradientNormClipping`; with momentum in the client's optimiser both terms are inside it.

    Clients keep g_k; nothing travels but the model, and before a relabelling the one that predicts where it
    is not the same.

    Parameters
    ----------
    alpha : float > 0, default=0.01
        Strength; the released code's value. The server divides by it: small values make long steps.
    predicts : {"server", "participants"}, default="server"
        Which model predicts and relabels: the one that the server sends to clients, or the mean of the models
        of the last round's clients, which is the better one early on.

    References
    ----------
    Acar, Zhao, Matas Navarro, Mattina, Whatmough, Saligrama, "Federated Learning Based on Dynamic
    Regularization", ICLR 2021, arXiv 2111.04263.
    """

    sends_model = False
    neutral_reason = "alpha=0 is not defined: the server divides by alpha"

    def __init__(self, alpha=0.01, predicts="server"):
        self.alpha = alpha
        self.predicts = predicts

    def check(self):
        check_at_least("alpha", self.alpha, 0, above=True)
        check_choice("predicts", self.predicts, ("server", "participants"))

    def overrides(self, hook):
        """The server's own model needs no hook to predict."""
        return self.predicts == "participants" if hook == "predict_params" else super().overrides(hook)

    def init_server(self, params, job):
        return self._server_state(zeros(params, job.trainable), _tree.subset(params, job.trainable))

    def init_client(self, params):
        return {name: torch.zeros_like(p) for name, p in params.items() if p.is_floating_point()}

    def weigh(self, weights, clients, server_state):
        return np.ones_like(weights)

    def penalty(self, params, local):
        linear = sum((local.state[name] * param).sum() for name, param in params.items())
        return 0.5 * self.alpha * _tree.squared_distance(params, local.anchor) - linear

    def finish(self, params, local, run):
        slopes = {
            name: local.state[name] - self.alpha * (params[name] - local.anchor[name])
            for name in run.trainable
        }
        return params, local.state | slopes

    def step(self, params, aggregated, server_state, facts):
        delta = displacement(params, aggregated, facts.trainable)
        share = facts.n_participants / facts.n_clients
        h = {name: h - self.alpha * share * delta[name] for name, h in untagged("h", server_state).items()}
        steps = {name: d - h[name] / self.alpha for name, d in delta.items()}
        return moved(params, aggregated, steps), self._server_state(h, _tree.subset(aggregated, h))

    def _server_state(self, h, mean):
        """h, and the mean of the clients' models where it predicts."""
        return tagged("h", h) | (tagged("mean", mean) if self.predicts == "participants" else {})

    def for_relabeling(self, server_state):
        return untagged("mean", server_state)

    def predict_params(self, params, server_state, model):
        return params | untagged("mean", server_state)
