"""Classes that nobody has are columns and never targets: one client, many in NumPy, many in torch, row by row."""

import numpy as np
import pytest
import torch

from fedrela_sk import FedReLaRelabeler
from fedrela_sk.relabel._contract import Told, fit_told
from fedrela_sk.relabel.many._pass import ManyRows, relabel_many
from tests.reference.relabel_rows import RowByRow
from tests.relabel.made_rows import long_tailed_rows

CLASSES = np.array(["a", "b", "c", "d", "nobody"])
THERE = CLASSES != "nobody"
SETTINGS = [
    {},
    {"threshold": "order_statistic", "target": "argmax_of_successes"},
    {"normalization": "minmax"},
    {"normalization": "none"},
]


def rows(seed, here=4):
    """Posteriors of five classes and the codes of the first `here`; the last column is the largest for many."""
    Q, codes = long_tailed_rows(seed, 200, 5)
    return Q[codes < here], codes[codes < here]


def relabeler_of(**params):
    return FedReLaRelabeler(**{"tau": 0.2, "classes": CLASSES, "random_state": 0, **params})


def by_hand(Q, codes, tau=0.2, **params):
    twin = RowByRow(Q.tolist(), codes.tolist(), 5, tau=tau, targets=[0, 1, 2, 3], **params)
    return np.array([twin.rho(row, label) for row, label in zip(Q.tolist(), codes.tolist(), strict=True)])


@pytest.mark.parametrize("here", [2, 4])
@pytest.mark.parametrize("params", SETTINGS)
def test_nothing_is_relabeled_into_a_class_that_nobody_has(params, here):
    """A class that is absent here alone stays the most wanted target."""
    Q, codes = rows(0, here)
    relabeler = relabeler_of(**params)
    assert relabeler.fit(Q, CLASSES[codes]).relabel_proba(Q, CLASSES[codes])[:, 4].any()
    fit_told(relabeler, Q, CLASSES[codes], targets=THERE)
    rho = relabeler.relabel_proba(Q, CLASSES[codes])
    np.testing.assert_allclose(rho, by_hand(Q, codes, **params), rtol=1e-12, atol=1e-14)
    assert not rho[:, 4].any()
    assert rho[:, 3].any()
    assert relabeler.threshold_[4] == np.inf
    assert "nobody" not in relabeler.relabel(Q, CLASSES[codes], np.zeros(Q.shape))


@pytest.mark.parametrize("params", SETTINGS)
def test_transform_moves_nothing_into_it_either(params):
    Q, codes = rows(0)
    mixed = fit_told(relabeler_of(**params), Q, CLASSES[codes], targets=THERE).transform(Q)
    assert not np.array_equal(mixed, Q)
    np.testing.assert_array_equal(mixed[:, 4], Q[:, 4])
    np.testing.assert_allclose(mixed.sum(axis=1), 1.0)


@pytest.mark.parametrize("of", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("params", SETTINGS)
def test_many_clients_do_what_each_does(params, weighted, of):
    clients = [rows(seed, here) for seed, here in [(0, 4), (1, 2), (2, 3)]]
    Q, codes = (np.concatenate(parts) for parts in zip(*clients, strict=True))
    sizes = [len(own) for _, own in clients]
    weights = np.random.default_rng(0).integers(1, 3, len(Q)) / 2 if weighted else None
    never = relabeler_of(**params, min_remaining=0)
    together = ManyRows(of(Q), CLASSES[codes], codes, np.array(sizes), weights)
    told = Told(targets=THERE)
    new, fitted = relabel_many(never, together, lambda row, column: np.zeros(len(row)), [0] * 3, told)
    assert (new != codes).sum() > 10
    assert not (new == 4).any()
    start = 0
    for (own, labels), many in zip(clients, fitted, strict=True):
        stop = start + len(own)
        alone = relabeler_of(**params)
        fit_told(alone, own, CLASSES[labels], None if weights is None else weights[start:stop], targets=THERE)
        for name in ("class_count_", "prior_weight_", "mean_", "scale_", "threshold_"):
            np.testing.assert_allclose(getattr(many, name), getattr(alone, name), rtol=1e-12, err_msg=name)
        expected = alone.relabel(own, CLASSES[labels], np.zeros(own.shape))
        np.testing.assert_array_equal(CLASSES[new[start:stop]], expected)
        start = stop


@pytest.mark.parametrize("normalization", ["zscore_tanh", "minmax"])
def test_declaring_such_a_class_changes_nothing_for_the_others(normalization):
    Q, codes = rows(0)
    scores, labels = np.log(Q), CLASSES[codes]
    params = {"input": "score", "normalization": normalization}
    without = (
        relabeler_of(
            **params,
        )
        .set_params(classes=CLASSES[:4])
        .fit(scores[:, :4], labels)
    )
    declared = fit_told(relabeler_of(**params), scores, labels, targets=THERE)
    expected = without.relabel_proba(scores[:, :4], labels)
    assert expected.any()
    np.testing.assert_array_equal(declared.relabel_proba(scores, labels)[:, :4], expected)


def test_two_classes_one_of_which_nobody_has():
    Q = np.column_stack([np.linspace(0.1, 0.9, 20), np.linspace(0.9, 0.1, 20)])
    y = np.zeros(20, dtype=int)
    relabeler = fit_told(FedReLaRelabeler(0.5, classes=[0, 1]), Q, y, targets=[True, False])
    assert not relabeler.relabel_proba(Q, y).any()
    np.testing.assert_array_equal(relabeler.transform(Q), Q)


def test_all_classes_are_all_classes():
    Q, codes = rows(0)
    plain = relabeler_of().fit(Q, CLASSES[codes])
    told = fit_told(relabeler_of(), Q, CLASSES[codes], targets=np.ones(5, dtype=bool))
    for name in ("prior_weight_", "mean_", "scale_", "threshold_"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(told, name))


@pytest.mark.parametrize("targets", [[True] * 4, [False] * 5])
def test_masks_that_are_none(targets):
    Q, codes = rows(0)
    with pytest.raises(ValueError, match="targets"):
        fit_told(relabeler_of(), Q, CLASSES[codes], targets=targets)


def test_who_takes_no_such_facts_is_fitted_all_the_same():
    class Plain:
        def fit(self, Q, y):
            self.seen = len(Q)
            return self

    Q, codes = rows(0)
    assert fit_told(Plain(), Q, codes, np.ones(len(Q)), eps=0.1, targets=THERE).seen == len(Q)
