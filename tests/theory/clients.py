"""Clients that relabel, their posteriors in closed form, and what becomes of several of them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from fedrela_sk.relabel import FedReLaRelabeler
from fedrela_sk.relabel.formulas._draw import draw
from fedrela_sk.relabel.formulas._rho import Candidates
from tests.theory.mixtures import Mixture, fit_on_population


@dataclass(frozen=True)
class Client:
    """A mixture whose rows x of label l become a j with the probabilities ``rho(x, l)[:, j]``.

    Attributes
    ----------
    mixture : Mixture
    rho : callable (x, label) -> ndarray of shape (n_rows, n_classes)
    target : {"argmax", "argmax_of_successes"}
    """

    mixture: Mixture
    rho: Callable
    target: str = "argmax"

    def transitions(self, x):
        """T[:, l, j] = P(new label = j | x, label l), ndarray of shape (n_rows, n_classes, n_classes)."""
        labels = range(len(self.mixture.priors))
        return np.stack([transitions(self.rho(x, label), label, self.target) for label in labels], axis=1)

    def new_posteriors(self, x):
        """sum_l q_l T_lj, ndarray of shape (n_rows, n_classes)."""
        return np.einsum("nl,nlj->nj", self.mixture.posteriors(x), self.transitions(x))

    def draw(self, x, y, uniforms):
        """New labels, by the package's own draw."""
        rho = np.zeros(uniforms.shape)
        for label in np.unique(y):
            rho[y == label] = self.rho(x[y == label], label)
        row, column = np.nonzero(rho)
        found = Candidates(row, column, np.zeros(len(row)), rho[row, column])
        taken = draw(found, lambda row, column: uniforms[row, column], self.target)
        y_new = y.copy()
        y_new[taken.row] = taken.column
        return y_new

    def sample(self, n_rows, rng):
        """Features, labels and new labels."""
        x, y = self.mixture.sample(n_rows, rng)
        return x, y, self.draw(x, y, rng.random((n_rows, len(self.mixture.priors))))


def transitions(rho, label, target):
    """T_l of every row in closed form, ndarray of shape (n_rows, n_classes), one class at a time."""
    keep = np.prod(1 - rho, axis=1)
    T = np.zeros(rho.shape)
    if target == "argmax":
        T[np.arange(len(rho)), rho.argmax(axis=1)] = 1 - keep
    else:
        order = np.argsort(-rho, axis=1, kind="stable")
        before = np.ones(len(rho))  # probability that no class of larger rho has succeeded
        for column in order.T:
            own = rho[np.arange(len(rho)), column]
            T[np.arange(len(rho)), column] += own * before
            before = before * (1 - own)
    T[:, label] += keep
    return T


@dataclass(frozen=True)
class FedReLaClient(Client):
    """The rho and the draw of a fitted `FedReLaRelabeler`; `model` gives the posteriors that it looks at."""

    relabeler: FedReLaRelabeler = None
    model: Callable = None

    def draw(self, x, y, uniforms):
        return self.relabeler.relabel(self.model(x), y, uniforms=uniforms)


def fedrela_client(mixture, tau, model=None, step=0.002, **parameters):
    """A client whose relabeler has seen the whole population, with the posteriors of `model` (the true ones)."""
    model = model or mixture.posteriors
    relabeler = fit_on_population(FedReLaRelabeler(tau, **parameters), mixture, model, step)

    def rho(x, label):
        return relabeler.relabel_proba(model(x), np.full(len(x), label))

    return FedReLaClient(mixture, rho, relabeler.target, relabeler, model)


def client_with_rates(mixture, to_minority=0.0, to_majority=0.0):
    """Two classes; each rate is a number or a function of x."""
    rates = {0: to_minority, 1: to_majority}

    def rho(x, label):
        rate = rates[label](x[:, 0]) if callable(rates[label]) else rates[label]
        found = np.zeros((len(x), 2))
        found[:, 1 - label] = rate
        return found

    return Client(mixture, rho)


def by_push(x, label):
    """A rho for three classes: smooth, from every class into both others."""
    push = 1 / (1 + np.exp(-2 * (x.sum(axis=1) - 2)))
    rho = np.column_stack([0.1 * (1 - push), 0.6 * push, 0.4 * (1 - push)])
    rho[:, label] = 0
    return rho


@dataclass(frozen=True)
class Pool:
    """The rows of several clients together, each having relabeled its own; `weights` are shares of rows."""

    clients: list
    weights: tuple

    def new_posteriors(self, x):
        shares = [w * c.mixture.marginal(x) for c, w in zip(self.clients, self.weights, strict=True)]
        new = [client.new_posteriors(x) for client in self.clients]
        return np.einsum("kn,knj->nj", shares / np.sum(shares, axis=0), new)

    def sample(self, n_rows, rng):
        parts = zip(self.clients, rng.multinomial(n_rows, self.weights), strict=True)
        return tuple(
            np.concatenate(arrays) for arrays in zip(*(c.sample(n, rng) for c, n in parts), strict=True)
        )


def averaged(clients, weights, x, pair=(0, 1)):
    """The weighted mean of posteriors: by how much the second class of the pair exceeds the first."""
    return sum(w * _excess(client, x, pair) for client, w in zip(clients, weights, strict=True))


def pooled(clients, weights, x, pair=(0, 1)):
    """The same of one model of all rows: in effect weights are times the client's own density at x."""
    return _excess(Pool(clients, weights), x, pair)


def averaged_logits(clients, weights, x, pair=(0, 1)):
    """The same of averaged logits: what averaging parameters does to models that are linear in them."""
    logits = [np.log(client.new_posteriors(x)) for client in clients]
    return sum(w * (z[:, pair[1]] - z[:, pair[0]]) for z, w in zip(logits, weights, strict=True))


def canceled(clients, weights, x):
    """Two classes, the statement without densities of clients: P_j / P_l less the ratio it should be.

    The ratio is sum_k w_k pi_l (1 - 2 rho_lj) / sum_k w_k pi_j (1 - 2 rho_jl).
    """
    priors = np.array([client.mixture.priors for client in clients])
    T = np.array([client.transitions(x) for client in clients])
    weights = np.array(weights)[:, np.newaxis]
    above = np.sum(weights * priors[:, [0]] * (1 - 2 * T[:, :, 0, 1]), axis=0)
    below = np.sum(weights * priors[:, [1]] * (1 - 2 * T[:, :, 1, 0]), axis=0)
    densities = clients[0].mixture.densities(x)
    return densities[:, 1] / densities[:, 0] - above / below


def _excess(client, x, pair):
    new = client.new_posteriors(x)
    return new[:, pair[1]] - new[:, pair[0]]


def boundary(excess, low=-4.0, high=7.0):
    """The one root of a function of one feature."""
    return brentq(lambda x: excess(np.array([[x]]))[0], low, high, xtol=1e-13)


def boundary_of(rule, clients, weights=(1.0,)):
    """The root of one of the four rules above."""
    return boundary(lambda x: rule(clients, weights, x))


def crossings(rule, clients, weights, low=-4.0, high=7.0, step=1e-3):
    """Every place where a rule changes sign, to within a step."""
    x = np.arange(low, high, step)
    positive = rule(clients, weights, x[:, np.newaxis]) > 0
    return x[1:][positive[1:] != positive[:-1]]
