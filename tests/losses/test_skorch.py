"""Losses as criteria of a skorch net at one site."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from skorch import NeuralNetClassifier
from torch import nn

from fedrela_sk import losses
from fedrela_sk.losses import LDAMLoss, Progress
from fedrela_sk.nets import CosineLinear

CRITERIA = [getattr(losses, name) for name in losses.__all__ if name.endswith("Loss")]
COUNTS = np.array([80, 30, 10])


def rows():
    stream = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], COUNTS)
    X = stream.normal(size=(120, 4)).astype(np.float32)
    X[np.arange(120), y] += 2
    return X, y


def net_of(criterion, module=nn.Linear, **kwargs):
    torch.manual_seed(0)  # initial weights are drawn when the net is fitted, next
    counts = {} if criterion is losses.FocalLoss else {"criterion__counts": COUNTS}
    return NeuralNetClassifier(
        module,
        criterion=criterion,
        module__in_features=4,
        module__out_features=3,
        train_split=None,
        lr=0.1,
        verbose=0,
        **counts,
        **kwargs,
    )


@pytest.mark.parametrize("criterion", CRITERIA)
def test_fit_and_predict(criterion):
    module = CosineLinear if criterion is LDAMLoss else nn.Linear
    X, y = rows()
    net = clone(net_of(criterion, module, max_epochs=8)).fit(X, y)
    first, last = (net.history[i, "train_loss"] for i in (0, -1))
    assert last < 0.9 * first
    with torch.no_grad():
        logits = net.module_(torch.from_numpy(X))
    np.testing.assert_allclose(net.predict_proba(X), torch.softmax(logits, 1), rtol=1e-6)  # plain logits
    assert (net.predict(X) == y).mean() > 0.6


def test_rare_classes_are_found_more_often_with_a_loss_that_counts():
    X, y = rows()
    found = {}
    for criterion in (losses.PriorLoss, losses.BalancedSoftmaxLoss):
        net = net_of(criterion, max_epochs=8).fit(X, y)
        found[criterion] = (net.predict(X[y == 2]) == 2).mean()
    assert found[losses.BalancedSoftmaxLoss] > found[losses.PriorLoss] + 0.2


def test_validation_rows_are_evaluated_without_draws():
    X, y = rows()
    net = net_of(losses.EqualizationLoss, max_epochs=1, criterion__threshold=0.5).fit(X, y)
    values = {
        net.validation_step((torch.from_numpy(X), torch.from_numpy(y)))["loss"].item() for _ in range(3)
    }
    assert len(values) == 1


class Seen(Progress):
    """Keeps what the criterion was told."""

    def on_epoch_begin(self, net, **kwargs):
        super().on_epoch_begin(net, **kwargs)
        net.seen = [*getattr(net, "seen", []), net.criterion_._progress]


def test_progress_is_the_share_of_epochs_that_are_done():
    X, y = rows()
    net = net_of(LDAMLoss, CosineLinear, max_epochs=5, criterion__defer=0.6, callbacks=[Seen()])
    net.fit(X, y)
    assert net.seen == [0.0, 0.2, 0.4, 0.6, 0.8]
    net.partial_fit(X, y)
    assert net.seen[5:] == [0.0, 0.2, 0.4, 0.6, 0.8]
    del net.seen
    net.fit_loop(X, y, epochs=2)
    net.notify("on_train_begin", X=X, y=y)
    net.fit_loop(X, y, epochs=7)
    assert net.seen == [1.0, 1.0, 0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.0]


def test_deferral_in_skorch_alone():
    """The weights act from the fourth of five epochs on, and not before."""
    X, y = rows()
    kwargs = {"max_epochs": 5, "callbacks": [Progress()], "iterator_train__shuffle": False}
    plain, deferred, late = (
        net_of(LDAMLoss, CosineLinear, criterion__defer=defer, **kwargs).fit(X, y).history[:, "train_loss"]
        for defer in (None, 0.6, 0.9)
    )
    assert late == plain
    assert deferred[:3] == plain[:3]
    assert deferred[3] != plain[3]


def test_without_progress_deferral_says_what_is_missing():
    X, y = rows()
    with pytest.raises(ValueError, match=r"LDAMLoss needs to know.*Add fedrela_sk\.losses\.Progress\(\)"):
        net_of(LDAMLoss, CosineLinear, criterion__defer=0.6).fit(X, y)


def test_progress_with_another_criterion():
    X, y = rows()
    net = NeuralNetClassifier(
        nn.Linear(4, 3), criterion=nn.CrossEntropyLoss, train_split=None, callbacks=[Progress()], verbose=0
    )
    with pytest.raises(ValueError, match=r"CrossEntropyLoss does not ask\. Leave the callback out"):
        net.fit(X, y)
