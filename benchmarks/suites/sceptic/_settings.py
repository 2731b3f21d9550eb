"""What is the same for every row of the tables: one net, one optimiser, and how long it trains."""

from contextlib import contextmanager
from contextvars import ContextVar

import torch
from skorch import NeuralNetClassifier
from torch import nn

from benchmarks.suites._stability import moved
from fedrela_sk import FederatedClassifier, FedReLaRelabeler
from fedrela_sk.nets import MLP

ROUNDS = 30  # of the federations
EPOCHS = 2  # local ones, in each round
PASSES = 10  # over pooled rows
TAU = 0.05
TAUS = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
CAPPED_TAU = 0.5  # where `max_ratio` is the knob
RATIOS = (0.25, 0.5, 1.0, 2.0, 4.0)
ALERTS = 100  # a day
ALERT_COST = 5.0  # in the currency of the amounts, for each alert

SAID = (
    "Every net is an MLP 32-16 with SGD at 0.05, momentum 0.9, weight decay 0.0001 and batches of 64. Federations "
    f"train {ROUNDS} rounds of {EPOCHS} local epochs and re-label at 80 % of the rounds; pooled nets train {PASSES} "
    "passes (over resampled rows as many steps). These were settled by hand on the first seed, by time and by the "
    "plain nets' average precision and log loss on its test rows; nothing else is tuned. "
    "Numbers enter by their rank among the training rows, on "
    "a normal scale, names one-hot; trees get the same columns. Losses, samplers and algorithms have their "
    "default strengths; a class that a client lacks counts as one row of it in the balanced softmax and is masked in "
    f"FedLC. Boosting: 100 trees of scikit-learn's defaults. tau is chosen from {TAUS}, max_ratio "
    f"from {RATIOS} at tau {CAPPED_TAU:g}, thresholds by `TunedThresholdClassifierCV`, all by balanced accuracy on "
    "the same three folds of the training rows."
)


_module = ContextVar("module", default=MLP)


@contextmanager
def moved_start():
    """In this block nets start a millionth beside where they would."""
    token = _module.set(moved(MLP))
    try:
        yield
    finally:
        _module.reset(token)


def make_net(job, epochs, criterion=nn.CrossEntropyLoss, **params):
    """The net of every row.

    Parameters
    ----------
    job : Job
    epochs : int
    criterion : class
    **params : dict
        More parameters of the net.
    """
    return NeuralNetClassifier(
        _module.get(),
        module__n_features=job.X.shape[1],
        module__n_classes=len(job.class_names),
        module__hidden=(32, 16),
        criterion=criterion,
        optimizer=torch.optim.SGD,
        optimizer__momentum=0.9,
        optimizer__weight_decay=1e-4,
        lr=0.05,
        batch_size=64,
        max_epochs=epochs,
        iterator_train__shuffle=True,
        **params,
    )


def federation(job, seed, memory=None, relabeler=None, net=None, **params):
    """The federation of the set's clients; `net` are parameters of the net.

    A relabeler with tau 0 changes nothing, and lets `memory` share the first rounds.
    """
    return FederatedClassifier(
        make_net(job, EPOCHS, **(net or {})),
        clients=None,
        relabeler=relabeler or FedReLaRelabeler(0.0),
        n_rounds=ROUNDS,
        memory=memory,
        random_state=seed,
        **params,
    )


def pooled(job, seed, passes=PASSES, net=None, **params):
    """The same net on pooled rows: a federation of one client."""
    net = make_net(job, 1, **(net or {}))
    return FederatedClassifier(net, clients=1, n_rounds=passes, random_state=seed, **params)
