"""Every method learns: digits cut to a long tail, 20 clients with classes of their own, with and without FedReLa."""

import numpy as np
import pytest
from imblearn.over_sampling import ADASYN, SMOTE, BorderlineSMOTE, RandomOverSampler
from sklearn.datasets import load_digits
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import train_test_split
from skorch import NeuralNetClassifier
from torch import nn

from fedrela_sk import DirichletSplit, FederatedClassifier, FedReLaRelabeler, make_long_tailed
from fedrela_sk.algorithms import ALGORITHMS, CReFF
from fedrela_sk.local_data import Mixup, Remix
from fedrela_sk.losses import (
    BalancedSoftmaxLoss,
    ClassBalancedLoss,
    EqualizationLoss,
    FedLCLoss,
    FocalLoss,
    LDAMLoss,
    LogitAdjustedLoss,
)
from fedrela_sk.nets import MLP, CosineLinear
from fedrela_sk.participation import ClusteredSampling, Mediators, OptimalSampling, UniformSampling

CHANCE = 0.1
X, Y = load_digits(return_X_y=True)
X, X_TEST, Y, Y_TEST = train_test_split(
    (X / 16).astype(np.float32), Y, test_size=0.4, stratify=Y, random_state=0
)
X, Y = make_long_tailed(X, Y, imbalance_factor=10, n_max=80, random_state=0)


class CosineMLP(nn.Sequential):
    """A hidden layer and a head of cosines, as LDAM needs it."""

    def __init__(self, n_features, n_classes):
        super().__init__(nn.Linear(n_features, 64), nn.ReLU(), CosineLinear(64, n_classes))


LDAM = {"criterion": LDAMLoss, "criterion__defer": 0.8, "module": CosineMLP}
RULES = (UniformSampling(0.5), OptimalSampling(0.5), ClusteredSampling(0.5), Mediators(4))
TOOLS = (SMOTE(), BorderlineSMOTE(), ADASYN(), RandomOverSampler(), Mixup(), Remix())
LOSSES = (FocalLoss, ClassBalancedLoss, BalancedSoftmaxLoss, LogitAdjustedLoss, FedLCLoss, EqualizationLoss)
# name -> (parameters of the federation, parameters of the net)
ROWS = {name: ({"algorithm": name}, {}) for name in ALGORITHMS}
ROWS |= {repr(rule): ({"participation": rule}, {}) for rule in RULES}
ROWS |= {repr(tool): ({"local_data": tool}, {}) for tool in TOOLS}
ROWS |= {loss.__name__: ({}, {"criterion": loss}) for loss in LOSSES} | {"LDAMLoss": ({}, LDAM)}
# one-vs-all losses and mixed rows begin slowly; CReFF takes a while at the server
ROWS["fedgrab"][0]["n_rounds"] = ROWS["Mixup()"][0]["n_rounds"] = ROWS["Remix()"][0]["n_rounds"] = 40
ROWS["creff"][0]["algorithm"] = CReFF(retrain_epochs=60, match_steps=30, n_repeats=2)


def score(params, net, tau, memory):
    settings = {
        "module": MLP,
        "module__n_features": 64,
        "module__n_classes": 10,
        "criterion": nn.CrossEntropyLoss,
        "lr": 0.1,
        "batch_size": 16,
        "max_epochs": 4,
        "iterator_train__shuffle": True,
    }
    clients = DirichletSplit(20, alpha=0.3, random_state=0)
    common = {"clients": clients, "relabeler": FedReLaRelabeler(tau), "n_rounds": 25, "random_state": 0}
    fed = FederatedClassifier(NeuralNetClassifier(**settings | net), **common | params, memory=memory).fit(
        X, Y
    )
    assert fed.relabeled_mask_.any() == (tau > 0)
    return balanced_accuracy_score(Y_TEST, fed.predict(X_TEST))


@pytest.mark.filterwarnings("ignore:Clients have heads of their own")  # the test rows are of no client
@pytest.mark.parametrize("name", ROWS)
def test_it_learns_and_goes_on_learning_with_new_labels(name, tmp_path):
    plain, relabeled = (
        score(*ROWS[name], tau, tmp_path) for tau in (0.0, 0.05)
    )  # they share their first rounds
    assert plain > CHANCE + 0.2
    assert relabeled > CHANCE + 0.2
