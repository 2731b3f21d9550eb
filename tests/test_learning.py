"""Every method learns: digits cut to a long tail, 20 clients with classes of their own, with and without FedReLa."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import train_test_split
from skorch import NeuralNetClassifier
from torch import nn

from fedrela_sk import DirichletSplit, FederatedClassifier, FedReLaRelabeler, make_long_tailed
from fedrela_sk.algorithms import ALGORITHMS, CReFF, FedLoGe
from fedrela_sk.nets import MLP

CHANCE = 0.1
# a default that is meant for the wide features of a ResNet; and one that takes a while at the server
SLOW = {"fedgrab": 40}  # rounds; one-vs-all losses begin slowly
TUNED = {"fedloge": FedLoGe(etf_norm=2.0), "creff": CReFF(retrain_epochs=60, match_steps=30, n_repeats=2)}
X, Y = load_digits(return_X_y=True)
X, X_TEST, Y, Y_TEST = train_test_split(
    (X / 16).astype(np.float32), Y, test_size=0.4, stratify=Y, random_state=0
)
X, Y = make_long_tailed(X, Y, imbalance_factor=10, n_max=80, random_state=0)


def score(name, tau, memory):
    algorithm = TUNED.get(name, name)
    net = NeuralNetClassifier(
        MLP,
        module__n_features=64,
        module__n_classes=10,
        criterion=nn.CrossEntropyLoss,
        lr=0.1,
        batch_size=16,
        max_epochs=4,
        iterator_train__shuffle=True,
    )
    fed = FederatedClassifier(
        net,
        clients=DirichletSplit(20, alpha=0.3, random_state=0),
        algorithm=algorithm,
        relabeler=FedReLaRelabeler(tau),
        n_rounds=SLOW.get(name, 25),
        memory=memory,
        random_state=0,
    ).fit(X, Y)
    assert fed.relabeled_mask_.any() == (tau > 0)
    return balanced_accuracy_score(Y_TEST, fed.predict(X_TEST))


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_it_learns_and_goes_on_learning_with_new_labels(name, tmp_path):
    plain, relabeled = (score(name, tau, tmp_path) for tau in (0.0, 0.05))  # they share their first rounds
    assert plain > CHANCE + 0.2
    assert relabeled > CHANCE + 0.2
