"""Values that are equal but for rounding have no z-score: one client, many in NumPy, many in torch, row by row."""

from functools import partial

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax

from fedrela_sk import FedReLaRelabeler
from fedrela_sk.relabel._contract import Told, fit_told
from fedrela_sk.relabel.many._pass import ManyRows, relabel_many
from tests.reference.relabel_rows import RowByRow

N_COPIES, N_OTHERS, N_CLASSES = 1025, 40, 5
CLASSES = np.arange(N_CLASSES)
COPIES = np.arange(N_COPIES)
DTYPES = [np.float16, np.float32, np.float64]
WITH_SPREAD = ["minmax", "zscore_tanh"]


def copies_and_others(seed, dtype, units, scores=False):
    """float64 rows: class 0 holds copies of one row that differ by `units` of `dtype`, 1 and 2 any rows."""
    rng = np.random.default_rng(seed)
    span = {np.float16: 3.0, np.float32: 20.0, np.float64: 20.0}[dtype]
    rows = rng.uniform(-span / 2, span / 2, (N_COPIES + N_OTHERS, N_CLASSES))
    rows[COPIES] = rows[0]
    values = rows if scores else log_softmax(rows, axis=1)
    # the first and the last copy are the farthest apart
    noise = rng.uniform(-0.5, 0.5, (N_COPIES, N_CLASSES))
    noise[0], noise[-1] = -0.5, 0.5
    unit = np.abs(values[COPIES]) if scores else 1 + np.abs(values[COPIES])
    values[COPIES] += units * float(np.finfo(dtype).eps) * unit * noise
    y = np.repeat([0, 1, 2], [N_COPIES, N_OTHERS - 10, 10])
    return values if scores else summing_to_one(np.exp(values)), y


def summing_to_one(Q):
    """The largest entry of every row takes what the others leave, and so moves by less than they do."""
    rows, largest = np.arange(len(Q)), Q.argmax(axis=1)
    Q[rows, largest] = 0.0
    Q[rows, largest] = 1.0 - Q.sum(axis=1)
    return Q


def apart(Q, scores=False):
    """Columns whose noise is as large as it was made."""
    return [column for column in CLASSES if scores or column != Q[0].argmax()]


def params_of(normalization, scores, **more):
    return {
        "tau": 0.05,
        "classes": CLASSES,
        "normalization": normalization,
        "input": "score" if scores else "posterior",
        **more,
    }


def given(Q, dtype, way):
    """The rows as a way takes them: a tensor holds float64 and is told what that comes from."""
    return (Q, float(np.finfo(dtype).eps)) if way == "torch" else (Q.astype(dtype), None)


def alone(Q, y, eps=None, **params):
    relabeler = FedReLaRelabeler(**params)
    fit_told(relabeler, Q, y, eps=eps)
    return relabeler.scale_[0], relabeler.relabel_proba(Q, y)


def in_one_pass(of, Q, y, eps=None, **params):
    drawn = []

    def uniforms(row, column):
        drawn.append((row, column))
        return np.zeros(len(row))

    rows = ManyRows(of(Q), y, y, np.array([len(y)]))
    _, [fitted] = relabel_many(FedReLaRelabeler(**params), rows, uniforms, [0], Told(eps))
    rho = np.zeros(Q.shape)
    rho[drawn[0]] = 1.0
    return fitted.scale_[0], rho


def row_by_row(Q, y, eps=None, **params):
    names = {"classes", "input"}
    settings = {name: value for name, value in params.items() if name not in names}
    eps = max(float(np.finfo(Q.dtype).eps), eps or 0.0)
    twin = RowByRow(
        Q.astype(float).tolist(),
        y.tolist(),
        N_CLASSES,
        eps=eps,
        scores=params["input"] == "score",
        **settings,
    )
    ends = [0, N_COPIES - 1]  # the farthest apart
    scale = [max(abs(twin.z(Q[row].astype(float), 0, c)) for row in ends) for c in CLASSES]
    rho = np.zeros(Q.shape)
    rho[ends] = [twin.rho(Q[row].astype(float).tolist(), 0) for row in ends]
    return np.array(scale), rho


WAYS = {
    "alone": alone,
    "numpy": partial(in_one_pass, lambda Q: Q),
    "torch": partial(in_one_pass, torch.from_numpy),
    "row by row": row_by_row,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("scores", [False, True], ids=["posteriors", "scores"])
@pytest.mark.parametrize("normalization", WITH_SPREAD)
@pytest.mark.parametrize("dtype", DTYPES)
def test_copies_that_differ_by_rounding_have_no_spread(dtype, normalization, scores, way):
    units = 28 if scores else 16
    for seed in range(1 if way == "row by row" else 3):
        Q, y = copies_and_others(seed, dtype, units, scores)
        Q, eps = given(Q, dtype, way)
        scale, rho = WAYS[way](Q, y, eps, **params_of(normalization, scores))
        assert np.ptp(Q[COPIES].astype(float), axis=0).max() > 0
        np.testing.assert_array_equal(scale, 0)
        np.testing.assert_array_equal(rho[COPIES], 0)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("scores", [False, True], ids=["posteriors", "scores"])
@pytest.mark.parametrize("normalization", WITH_SPREAD)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_farther_apart_than_rounding_keep_their_spread(dtype, normalization, scores, way):
    Q, y = copies_and_others(0, dtype, 40, scores)
    Q, eps = given(Q, dtype, way)
    scale, _ = WAYS[way](Q, y, eps, **params_of(normalization, scores))
    assert (scale[apart(Q, scores)] > 0).all()


@pytest.mark.parametrize("normalization", WITH_SPREAD)
@pytest.mark.parametrize("way", WAYS)
def test_who_knows_the_arithmetic_says_so(normalization, way):
    """Posteriors of a float32 net that come in float64, as in a federation."""
    Q, y = copies_and_others(0, np.float32, 16)
    params = params_of(normalization, False)
    assert (WAYS[way](Q, y, **params)[0][apart(Q)] > 0).all()
    scale, rho = WAYS[way](Q, y, eps=2.0**-23, **params)
    np.testing.assert_array_equal(scale, 0)
    np.testing.assert_array_equal(rho[COPIES], 0)


def test_what_is_told_is_forgotten_after_one_fit():
    Q, y = copies_and_others(0, np.float32, 16)
    relabeler = fit_told(FedReLaRelabeler(classes=CLASSES), Q, y, eps=2.0**-23)
    assert not relabeler.scale_[0].any()
    assert relabeler.fit(Q, y).scale_[0].any()


@pytest.mark.parametrize("scores", [False, True], ids=["posteriors", "scores"])
@pytest.mark.parametrize("normalization", WITH_SPREAD)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_one_unit_in_the_last_place_moves_nothing_in_transform(n_classes, dtype, normalization, scores):
    """A new row one ulp beside copies of one row: its own posterior comes back."""
    rng = np.random.default_rng(0)
    row = rng.normal(size=n_classes) if scores else softmax(rng.normal(size=n_classes))
    copies = np.tile(row.astype(dtype), (200, 1))
    copies[-1] = np.nextafter(copies[-1], dtype(2))
    y = np.repeat([0, 1], [190, 10])
    params = params_of(normalization, scores, tau=0.2, classes=np.arange(n_classes))
    relabeler = FedReLaRelabeler(**params).fit(copies, y)
    new = np.concatenate([copies[:1], copies[-1:], np.nextafter(copies[-1:], dtype(2))])
    expected = softmax(new.astype(float), axis=1) if scores else new.astype(float)
    np.testing.assert_allclose(relabeler.transform(new), expected, rtol=1e-12)


def test_posteriors_of_zero_are_equal_whatever_their_sign():
    """Rows may lie below 0 by the tolerance of their sums."""
    Q = np.column_stack([np.full(50, 1.0), np.linspace(-9e-7, 0.0, 50)])
    Q[:, 0] -= Q[:, 1]
    y = np.repeat([0, 1], [45, 5])
    relabeler = FedReLaRelabeler(classes=[0, 1]).fit(Q, y)
    assert relabeler.scale_[0, 1] == 0
    assert not relabeler.relabel_proba(Q, y).any()
