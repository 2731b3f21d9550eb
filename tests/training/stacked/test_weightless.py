"""Batches and clients whose rows all weigh nothing: one formula for the mean of a batch in both engines."""

import numpy as np
import pytest
import torch
from skorch import NeuralNetClassifier
from torch import nn
from torch.nn import functional as F

from fedrela_sk import FederatedClassifier, losses
from fedrela_sk.algorithms import ALGORITHMS, FedProx
from fedrela_sk.exceptions import NetError
from fedrela_sk.training._criterion import batch_loss
from tests.algorithms.helpers import TwoLayers, engines_of, fit

# Clients 0 and 1 have all classes, but client 0's first batch of 4 holds class 2 alone; client 2 has nothing else.
Y = np.array([2, 2, 2, 2, 0, 1, 0, 1, 2, 0, 1, 0, 2, 1, 0, 0, 2, 2, 2, 2, 2])
GROUPS = np.repeat([0, 1, 2], [9, 7, 5])
X = np.random.default_rng(0).normal(size=(len(Y), 3)) + Y[:, None]
ZERO = torch.tensor([1.0, 3.0, 0.0], dtype=torch.float64)
OFF = np.where((Y == 2) & (GROUPS != 1), 0.0, 1.0)

WAYS = {
    "class weights of the criterion": ({"criterion__weight": ZERO}, {}),
    "and smoothed labels": ({"criterion__weight": ZERO, "criterion__label_smoothing": 0.2}, {}),
    "a sum": ({"criterion__weight": ZERO, "criterion__reduction": "sum"}, {}),
    "an ignored class": ({"criterion__ignore_index": 2}, {}),
    "an ignored class, smoothed": ({"criterion__ignore_index": 2, "criterion__label_smoothing": 0.2}, {}),
    "row weights": ({}, {"sample_weight": OFF}),
    "row weights, a sum": ({"criterion__reduction": "sum"}, {"sample_weight": OFF}),
    "class weights of the federation": ({}, {"class_weight": {2: 0.0}}),
    "both class weights": (
        {"criterion__weight": torch.tensor([0.0, 1.0, 2.0]).double()},
        {"class_weight": {2: 0.0}},
    ),
    "row weights and an ignored class": ({"criterion__ignore_index": 1}, {"sample_weight": OFF}),
}


class Probabilities(TwoLayers):
    def forward(self, x):
        return torch.softmax(super().forward(x), 1)


class OwnMean(nn.CrossEntropyLoss):
    """A child that averages over rows: class weights are felt."""

    def forward(self, input, target):
        rows = F.cross_entropy(
            input, target, self.weight, ignore_index=self.ignore_index, label_smoothing=self.label_smoothing,
            reduction="none",
        )  # fmt: skip
        return {"none": rows, "sum": rows.sum(), "mean": rows.sum() / (target != self.ignore_index).sum()}[
            self.reduction
        ]


class Child(nn.CrossEntropyLoss):
    """A child with torch's own mean."""


class NLLChild(nn.NLLLoss):
    """A child whose losses are twice those of its parent."""

    def forward(self, input, target):
        return 2 * super().forward(input, target)


def trained(
    algorithm="fedavg", engine="loop", net=None, module=TwoLayers, criterion=nn.CrossEntropyLoss, **given
):
    """A federation after two rounds of batches of four rows in their order."""
    sample_weight = given.pop("sample_weight", None)
    settings = {"criterion": criterion, "batch_size": 4, "optimizer__momentum": 0.9} | (net or {})
    params = {"clients": None, "n_rounds": 2, "random_state": 0} | given
    net = NeuralNetClassifier(module, lr=0.1, max_epochs=2, **settings)
    fed = FederatedClassifier(net, algorithm=algorithm, engine=engine, **params)
    return fed.fit(X, Y, groups=GROUPS, sample_weight=sample_weight)


def assert_same(a, b):
    np.testing.assert_allclose(a.predict_proba(X, GROUPS), b.predict_proba(X, GROUPS), rtol=0, atol=1e-10)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("criterion", "module"),
    [(nn.CrossEntropyLoss, TwoLayers), (nn.NLLLoss, Probabilities)],
    ids=["ce", "nll"],
)
def test_engines_agree(way, criterion, module):
    net, given = WAYS[way]
    if criterion is nn.NLLLoss:
        net = {name: value for name, value in net.items() if not name.endswith("smoothing")}
    loop, stacked = (
        trained("fedavg", engine, net, module, criterion, **given) for engine in ("loop", "stacked")
    )
    assert all(torch.isfinite(p).all() for p in loop.net_.module_.parameters())
    assert np.isfinite(loop.history_.column("train_loss")).all()
    assert_same(loop, stacked)
    np.testing.assert_allclose(
        loop.history_.column("train_loss"), stacked.history_.column("train_loss"), rtol=0, atol=1e-10
    )


@pytest.mark.parametrize(
    "loss",
    [losses.FocalLoss, losses.ClassBalancedLoss, losses.BalancedSoftmaxLoss, losses.LogitAdjustedLoss,
     losses.FedLCLoss, losses.LDAMLoss],
)  # fmt: skip
@pytest.mark.parametrize("way", [way for way, (net, _) in WAYS.items() if "weight" not in str(net)
                                 and "smooth" not in str(net)])  # fmt: skip
def test_engines_agree_on_our_own_losses(loss, way):
    net, given = WAYS[way]
    loop, stacked = (trained("fedavg", e, net, criterion=loss, **given) for e in ("loop", "stacked"))
    assert_same(loop, stacked)


LDAM_WAYS = {
    name: way for name, way in WAYS.items() if "weight" not in str(way[0]) and "smooth" not in str(way[0])
}


@pytest.mark.parametrize("way", ["nothing", *LDAM_WAYS])
@pytest.mark.parametrize("counts", [None, [9.0, 5.0, 2.0]])
def test_engines_agree_on_a_mean_that_divides_by_each_clients_weights(way, counts):
    net, given = LDAM_WAYS.get(way, ({}, {}))
    net = {
        "criterion__defer": 0.4,
        "criterion__scale": 3.0,
        "criterion__beta": 0.9,
        "criterion__counts": counts,
    } | net
    settings = {"criterion__divide_by": "weights"}
    loop, stacked, rows = (
        trained("fedavg", engine, net | more, criterion=losses.LDAMLoss, **given)
        for engine, more in (("loop", settings), ("stacked", settings), ("loop", {}))
    )
    assert_same(loop, stacked)
    if "sum" not in way:
        assert abs(loop.predict_proba(X) - rows.predict_proba(X)).max() > 1e-4


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("child", [Child, OwnMean])
def test_children_train_where_nothing_weighs(child, way):
    net, given = WAYS[way]
    fed = trained("fedavg", "auto", net, criterion=child, **given)
    assert fed.engine_.startswith("loop")
    assert all(torch.isfinite(p).all() for p in fed.net_.module_.parameters())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_method_trains_where_nothing_weighs(name, way):
    net, given = WAYS[way]
    if ALGORITHMS[name].bare_loss and set(net) - {
        "criterion__reduction"
    }:  # takes nothing of the kind, and says so by name
        with pytest.raises(NetError, match="would not be used: the algorithm has a loss of its own"):
            trained(name, "loop", net, **given)
        return
    feds = [trained(name, engine, net, **given) for engine in engines_of(name)]
    assert all(np.isfinite(fed.history_.column("train_loss")).all() for fed in feds)
    assert_same(feds[0], feds[-1])


@pytest.mark.parametrize("engine", ["loop", "stacked"])
@pytest.mark.parametrize("way", [way for way in WAYS if "sum" not in way and "row" not in way])
def test_a_client_of_nothing_moves_nothing(way, engine):
    net, given = WAYS[way]
    started = trained(FedProx(0.0), engine, net, n_rounds=1, client_weight=[0, 0, 1.0], **given)
    untrained = fit("fedavg", TwoLayers, (X, Y, GROUPS), lr=1e-300)
    assert_same(started, untrained)


@pytest.mark.parametrize("child", [Child, OwnMean])
@pytest.mark.parametrize(
    "weight", [[1.0, 3.0, 0.5], [1.0, 3.0, 0.0], [1.0, 0.0, 1.0], [0.5, 1.5, 1.0], [2.0, 2.0, 2.0]]
)
def test_a_childs_mean_is_its_own_under_row_weights(child, weight):
    criterion = child(weight=torch.tensor(weight, dtype=torch.float64), label_smoothing=0.1)
    output, y = torch.randn(5, 3, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1])
    ones = torch.ones(5, dtype=torch.float64)
    torch.testing.assert_close(
        batch_loss(criterion, output, y, ones), criterion(output, y), rtol=0, atol=1e-12
    )
    twice = torch.tensor([0, 0, 1, 3, 4, 4, 4])
    repeats = torch.tensor([2.0, 1.0, 0.0, 1.0, 3.0], dtype=torch.float64)
    torch.testing.assert_close(
        batch_loss(criterion, output, y, repeats), criterion(output[twice], y[twice]), rtol=0, atol=1e-12
    )


def test_a_mean_that_divides_by_weights_takes_row_weights_as_repetition():
    criterion = losses.LDAMLoss(scale=3.0, defer=0.0, beta=0.9, divide_by="weights", counts=[9, 5, 2])
    criterion.use(None, 1.0)
    output, y = torch.randn(4, 3, dtype=torch.float64), torch.tensor([0, 1, 2, 0])
    repeats = torch.tensor([2, 1, 0, 3])
    again = torch.repeat_interleave(torch.arange(4), repeats)
    torch.testing.assert_close(
        batch_loss(criterion, output, y, repeats.double()),
        criterion(output[again], y[again]),
        rtol=0,
        atol=1e-12,
    )


def test_a_child_of_nll_keeps_its_forward_under_row_weights():
    criterion, y = NLLChild(), torch.tensor([0, 1])
    output = torch.tensor([[0.3, 0.7], [0.6, 0.4]], dtype=torch.float64)
    got = batch_loss(criterion, output, y, torch.ones(2, dtype=torch.float64))
    torch.testing.assert_close(got, batch_loss(criterion, output, y))


def test_a_mean_that_is_none_has_no_row_weights():
    class Root(nn.CrossEntropyLoss):
        def forward(self, input, target):
            rows = F.cross_entropy(input, target, reduction="none")
            return rows if self.reduction == "none" else rows.mean().sqrt()

    with pytest.raises(
        NetError, match=r"Root reduces a batch to another number .* sample_weight and class_weight"
    ):
        batch_loss(Root(), torch.randn(4, 3), torch.tensor([0, 1, 2, 0]), torch.ones(4))


def test_a_loss_whose_reduction_is_its_own_is_not_stacked():
    class Doubled(losses.FocalLoss):
        def forward(self, input, target):
            return 2 * super().forward(input, target)

    assert trained(engine="auto", criterion=Doubled).engine_.startswith("loop")


@pytest.mark.parametrize("engine", ["loop", "stacked"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64, torch.int64])
@pytest.mark.parametrize("precision", [torch.float32, torch.float64])
def test_class_weights_of_any_dtype_are_those_of_the_net(dtype, precision, engine):
    class Net(nn.Linear):
        def __init__(self):
            super().__init__(3, 3, dtype=precision)

    given = trained(engine=engine, module=Net, net={"criterion__weight": torch.tensor([1, 3, 2]).to(dtype)})
    same = trained(
        engine=engine, module=Net, net={"criterion__weight": torch.tensor([1, 3, 2]).to(precision)}
    )
    assert torch.equal(given.net_.module_.weight, same.net_.module_.weight)


@pytest.mark.parametrize(("value", "said"), [(-1.0, "-1.0"), (float("nan"), "nan"), (float("inf"), "inf")])
def test_class_weights_that_are_none_are_refused(value, said):
    with pytest.raises(
        NetError, match=f"criterion__weight must be finite and not negative, got {said} for class 1"
    ):
        trained(net={"criterion__weight": torch.tensor([1.0, value, 1.0])})
