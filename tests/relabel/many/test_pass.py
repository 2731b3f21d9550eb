"""Many clients in one pass: what each client's own relabeler does, whoever else is there."""

import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from fedrela_sk.exceptions import LabelError, PosteriorError
from fedrela_sk.relabel import FedReLaRelabeler
from fedrela_sk.relabel.many._pass import ManyRows, relabel_many

NUMBERS = ("class_count_", "prior_weight_", "mean_", "scale_", "threshold_")
RELEASED = {"ddof": 0, "min_scale": 1e-6, "threshold": "order_statistic", "target": "argmax_of_successes"}
SETTINGS = {
    "paper": {},
    "released code": RELEASED,
    "tau 0": {"tau": 0.0},
    "tau 1": {"tau": 1.0},
    "order statistic, tau 1": {"tau": 1.0, "threshold": "order_statistic"},
    "every other row": {"tau": 0.5},
    "ddof 3": {"ddof": 3},
    "wide floor": {"min_scale": 0.3},
    "minmax": {"normalization": "minmax", "tau": 0.5},
    "minmax, wide floor": {"normalization": "minmax", "min_scale": 2.0, "target": "argmax_of_successes"},
    "none": {"normalization": "none"},
    "none, tau 0": {"normalization": "none", "tau": 0.0},
    "scores": {"input": "score"},
    "scores, none": {"input": "score", "normalization": "none"},
    "floor under classes": {"tau": 1.0, "min_remaining": 2},
    "few into a class": {"tau": 1.0, "max_ratio": 0.5},
    "both limits": {"tau": 1.0, "min_remaining": 1, "max_ratio": 1.5},
}
N_CLASSES = 4
CLASSES = np.array(["a", "b", "c", "d"])


def some_rows(rng, n_rows, kind):
    """Posteriors and labels of one client."""
    share = rng.dirichlet(np.full(N_CLASSES, 0.5))
    codes = rng.choice(N_CLASSES, n_rows, p=share)
    if kind == "one class":
        codes[:] = codes[0]
    if kind == "equal counts":
        codes = np.arange(n_rows) % N_CLASSES
    rows = softmax(rng.normal(0, 2, (n_rows, N_CLASSES)), axis=1)
    if kind == "ties":
        rows = rng.multinomial(8, np.full(N_CLASSES, 1 / N_CLASSES), n_rows) / 8
    if kind == "constant column":
        rows = np.column_stack(
            [rows[:, :2] / rows[:, :2].sum(1, keepdims=True) * 0.7, np.full((n_rows, 2), 0.15)]
        )
    if kind == "tiny spread":
        step = 1e-8 * rng.integers(0, 5, n_rows)
        rows = np.column_stack([0.4 - step, 0.3 + step, np.full((n_rows, 2), 0.15)])
    return rows, codes


KINDS = ["ordinary", "one class", "equal counts", "ties", "constant column", "tiny spread"]


def ragged(seed, sizes, kinds):
    """Q, codes and sizes of several clients, one after the other."""
    rng = np.random.default_rng(seed)
    clients = [some_rows(rng, size, kind) for size, kind in zip(sizes, kinds, strict=True)]
    Q, codes = (np.concatenate(parts) for parts in zip(*clients, strict=True))
    return Q, codes, np.array(sizes)


def uniforms_of(seed, Q):
    return np.random.default_rng(seed).random(Q.shape)


def in_one_pass(relabeler, Q, codes, sizes, uniforms, weights=None):
    def at(row, column):
        return uniforms[row, column]

    states = range(len(sizes))
    return relabel_many(relabeler, ManyRows(Q, CLASSES[codes], codes, sizes, weights), at, states)


def one_by_one(relabeler, Q, codes, sizes, uniforms, weights=None):
    """New labels of all rows and the fitted relabelers, each client by itself."""
    new, relabelers = [], []
    ends = np.cumsum(sizes)
    for state, (start, stop) in enumerate(zip(ends - sizes, ends, strict=True)):
        rows = slice(start, stop)
        own = clone(relabeler).set_params(random_state=state)
        own.fit(Q[rows], CLASSES[codes[rows]], sample_weight=None if weights is None else weights[rows])
        new.append(own.relabel(Q[rows], CLASSES[codes[rows]], uniforms=uniforms[rows]))
        relabelers.append(own)
    return np.concatenate(new), relabelers


def assert_same_relabelers(ours, theirs, rtol=1e-12):
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert type(one) is type(other)
        assert vars(one).keys() == vars(other).keys()
        params, expected = one.get_params(), other.get_params()
        assert_array_equal(params.pop("classes"), expected.pop("classes"))
        assert params == expected
        assert_array_equal(one.classes_, other.classes_)
        assert one.n_features_in_ == other.n_features_in_
        for name in NUMBERS:
            assert_allclose(getattr(one, name), getattr(other, name), rtol=rtol, atol=1e-15, err_msg=name)
        report, expected = one.report().to_dict(), other.report().to_dict()
        for name in report:
            assert report[name].dtype == expected[name].dtype
            if name in ("row", "old", "new"):
                assert_array_equal(report[name], expected[name])
            else:
                assert_allclose(report[name], expected[name], rtol=rtol, atol=1e-12, err_msg=name)


def check(params, Q, codes, sizes, seed=0, weights=None):
    relabeler = FedReLaRelabeler(**{"tau": 0.2, "classes": CLASSES, **params})
    uniforms = uniforms_of(seed, Q)
    new, ours = in_one_pass(relabeler, Q, codes, sizes, uniforms, weights)
    expected, theirs = one_by_one(relabeler, Q, codes, sizes, uniforms, weights)
    assert_array_equal(CLASSES[new], expected)
    assert_same_relabelers(ours, theirs)
    assert not hasattr(relabeler, "classes_")
    return int(np.count_nonzero(new != codes))


SIZES = [60, 1, 2, 3, 4, 5, 31, 32, 33, 64, 7, 129, 12, 40, 40, 40, 40, 40]
SOME = ragged(1, SIZES, [KINDS[k % len(KINDS)] for k in range(len(SIZES))])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", SETTINGS)
def test_one_pass_gives_what_every_client_gives(name, weighted):
    Q, codes, sizes = SOME
    if "input" in SETTINGS[name]:
        Q = np.log(Q + 0.01)
    weights = None
    if weighted:
        weights = np.random.default_rng(0).integers(0, 4, len(Q)) / 2
        weights[np.cumsum(sizes) - 1] = 1.5
    changed = check(SETTINGS[name], Q, codes, sizes, weights=weights)
    assert (changed > 0) == (SETTINGS[name].get("tau") != 0)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 2**32),
    st.lists(st.tuples(st.integers(1, 20), st.sampled_from(KINDS)), min_size=1, max_size=6),
    st.sampled_from(sorted(SETTINGS)),
    st.booleans(),
)
def test_one_pass_over_ragged_clients(seed, clients, name, weighted):
    sizes, kinds = zip(*clients, strict=True)
    Q, codes, sizes = ragged(seed, sizes, kinds)
    weights = None
    if weighted:
        weights = np.random.default_rng(seed).integers(0, 3, len(Q)).astype(float)
        weights[np.cumsum(sizes) - 1] = 1.0
    check(SETTINGS[name], Q, codes, sizes, seed, weights)


def parts_of(sizes):
    ends = np.cumsum(sizes)
    return [np.arange(end - size, end) for end, size in zip(ends, sizes, strict=True)]


def bits_of(relabeler, labels):
    """Everything that a client gets, to be compared exactly."""
    report = relabeler.report().to_dict()
    return [labels, *(getattr(relabeler, name) for name in NUMBERS), *report.values()]


def assert_same_bits(one, other):
    for array, same in zip(one, other, strict=True):
        assert array.tobytes() == same.tobytes() if array.dtype.kind == "f" else np.array_equal(array, same)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["paper", "released code", "minmax", "none", "scores", "both limits"])
def test_a_client_does_not_depend_by_one_bit_on_the_others(name, weighted):
    rng = np.random.default_rng(3)
    sizes = [700, 1, 33, 9, 400, 2, 64, 1500, 5]
    Q, codes, sizes = ragged(4, sizes, [KINDS[k % len(KINDS)] for k in range(len(sizes))])
    weights = rng.random(len(Q)) if weighted else None
    relabeler = FedReLaRelabeler(**{"tau": 0.3, "classes": CLASSES, **SETTINGS[name]})
    uniforms = uniforms_of(0, Q)
    parts = parts_of(sizes)

    def bits(clients, Q=Q, codes=codes):
        rows = np.concatenate([parts[k] for k in clients])
        chosen = None if weights is None else weights[rows]
        new, relabelers = in_one_pass(relabeler, Q[rows], codes[rows], sizes[clients], uniforms[rows], chosen)
        ends = np.cumsum(sizes[clients])[:-1]
        return dict(zip(clients, map(bits_of, relabelers, np.split(new, ends)), strict=True))

    together = bits(list(range(9)))
    turned = bits(list(range(9))[::-1])
    for k in range(9):
        alone = bits([k])[k]
        others = np.setdiff1d(np.arange(len(Q)), parts[k])
        strange, permuted = Q.copy(), codes.copy()
        strange[others] = strange[others][:, ::-1]
        permuted[others] = rng.permutation(permuted[others])
        replaced = bits(list(range(9)), strange, permuted)[k]
        for found in (together[k], turned[k], replaced):
            assert_same_bits(alone, found)


def test_blocks_of_rows_change_nothing(monkeypatch):
    Q, codes, sizes = SOME
    relabeler, uniforms = FedReLaRelabeler(0.3, classes=CLASSES), uniforms_of(0, Q)
    whole, _ = in_one_pass(relabeler, Q, codes, sizes, uniforms)
    monkeypatch.setattr("fedrela_sk.relabel.formulas._rho.BLOCK", 60)
    np.testing.assert_array_equal(in_one_pass(relabeler, Q, codes, sizes, uniforms)[0], whole)


def test_uniforms_are_asked_once_and_only_where_rho_is_positive():
    Q, codes, sizes = SOME
    relabeler, asked = FedReLaRelabeler(0.1, classes=CLASSES), []

    def at(row, column):
        asked.append((row, column))
        return np.ones(len(row))

    new, relabelers = relabel_many(
        relabeler, ManyRows(Q, CLASSES[codes], codes, sizes), at, range(len(sizes))
    )
    assert_array_equal(new, codes)
    rho = [
        own.relabel_proba(Q[rows], CLASSES[codes[rows]])
        for own, rows in zip(relabelers, parts_of(sizes), strict=True)
    ]
    ((row, column),) = asked
    assert_array_equal(np.transpose([row, column]), np.argwhere(np.concatenate(rho) > 0))
    assert len(row) > 20


def test_what_a_client_gets_is_a_relabeler_like_any_other():
    Q, codes, sizes = SOME
    given = FedReLaRelabeler(0.2, classes=CLASSES.tolist(), random_state=5)
    ours = in_one_pass(given, Q, codes, sizes, uniforms_of(0, Q))[1]
    theirs = one_by_one(given, Q, codes, sizes, uniforms_of(0, Q))[1]
    assert given.random_state == 5
    for k, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        back = pickle.loads(pickle.dumps(one))
        assert_same_bits(bits_of(back, Q), bits_of(one, Q))
        assert len(pickle.dumps(one)) <= len(pickle.dumps(other)) + 200  # not the other clients, too
        assert back.random_state == k
        assert_allclose(back.transform(Q[:9]), other.transform(Q[:9]), rtol=1e-12, atol=1e-12)
        assert_array_equal(back.relabel(Q[:9], CLASSES[codes[:9]]), other.relabel(Q[:9], CLASSES[codes[:9]]))
        with pytest.raises(NotFittedError, match="no report yet"):
            one.fit(Q[:9], CLASSES[codes[:9]]).report()


def test_clients_share_no_numbers():
    Q, codes, sizes = SOME
    relabeler = FedReLaRelabeler(0.2, classes=CLASSES)
    ours = in_one_pass(relabeler, Q, codes, sizes, uniforms_of(0, Q))[1]
    for name in NUMBERS:
        before = getattr(ours[1], name).copy()
        getattr(ours[0], name)[:] = 7
        assert_array_equal(getattr(ours[1], name), before)


@pytest.mark.parametrize("labels", [np.array([3, 5, 7, 9], np.int8), np.array(["a", "b", "c", "d"], object)])
def test_labels_of_any_kind(labels):
    Q, codes, _ = SOME
    relabeler = FedReLaRelabeler(0.3, classes=labels.tolist())
    uniforms = uniforms_of(1, Q)
    rows, size = np.arange(60), np.array([60])
    many = ManyRows(Q[rows], labels[codes[rows]], codes[rows], size)
    ours = relabel_many(relabeler, many, lambda i, j: uniforms[i, j], [0])[1][0]
    theirs = clone(relabeler).fit(Q[rows], labels[codes[rows]])
    theirs.relabel(Q[rows], labels[codes[rows]], uniforms=uniforms[rows])
    assert len(theirs.report()) > 0
    for name in ("old", "new"):
        one, other = getattr(ours.report(), name), getattr(theirs.report(), name)
        assert one.dtype == other.dtype
        assert_array_equal(one, other)
        assert list(map(type, one.tolist())) == list(map(type, other.tolist()))


@pytest.mark.parametrize(("n_clients", "n_rows", "n_classes", "times"), [(1000, 60, 2, 9), (30, 700, 30, 2)])
def test_memory_is_a_small_multiple_of_the_rows(n_clients, n_rows, n_classes, times):
    rng = np.random.default_rng(0)
    sizes = rng.integers(n_rows // 2, n_rows, n_clients)
    Q = rng.dirichlet(np.ones(n_classes), sizes.sum())
    codes = np.minimum(rng.integers(0, n_classes, len(Q)), rng.integers(0, n_classes, len(Q)))
    relabeler = FedReLaRelabeler(0.1, classes=np.arange(n_classes))
    tracemalloc.start()
    try:
        rows = ManyRows(Q, codes, codes, sizes)
        relabel_many(relabeler, rows, lambda row, column: np.zeros(len(row)), range(n_clients))
        assert tracemalloc.get_traced_memory()[1] < times * Q.nbytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("params", "factor", "error", "message"),
    [
        ({"tau": 2}, 1, ValueError, "'tau' parameter"),
        ({"classes": ["a", "b"]}, 1, LabelError, "names 2 classes"),
        ({}, 0.5, PosteriorError, "Row 61 of posteriors sums to 0.5, expected 1"),
    ],
)
def test_errors_are_those_of_fit(params, factor, error, message):
    Q, codes, sizes = SOME
    Q = Q.copy()
    Q[61] *= factor
    relabeler = FedReLaRelabeler(**{"classes": CLASSES, **params})
    with pytest.raises(error, match=message):
        in_one_pass(relabeler, Q, codes, sizes, uniforms_of(0, Q))


def class_by_class(Q, codes, tau):
    """Means, spreads and thresholds of one client, in NumPy, one class after the other."""
    z, mean, scale = (
        np.empty(Q.shape),
        np.full((N_CLASSES, N_CLASSES), np.nan),
        np.zeros((N_CLASSES, N_CLASSES)),
    )
    for label in np.unique(codes):
        own, n = Q[codes == label], np.count_nonzero(codes == label)
        rough = own.sum(axis=0) / n
        first, second = (own - rough).sum(axis=0), ((own - rough) ** 2).sum(axis=0)
        mean[label] = rough + first / n
        scale[label] = np.sqrt((second - first**2 / n) / (n - 1)) if n > 1 else 0
        z[codes == label] = (own - mean[label]) / np.where(scale[label] > 0, scale[label], np.inf)
    return mean, scale, np.quantile(z, 1 - tau, axis=0)


@pytest.mark.parametrize("n_rows", [7, 60, 900])
def test_one_client_is_a_pass_over_one_and_has_the_bits_of_class_by_class(n_rows):
    Q, codes = some_rows(np.random.default_rng(n_rows), n_rows, "ordinary")
    one = FedReLaRelabeler(0.37, classes=CLASSES).fit(Q, CLASSES[codes])
    for found, expected in zip(
        (one.mean_, one.scale_, one.threshold_), class_by_class(Q, codes, 0.37), strict=True
    ):
        assert_array_equal(found, expected)
    _, (many, _) = in_one_pass(
        one, np.vstack([Q, Q]), np.tile(codes, 2), np.array([n_rows] * 2), np.ones((2 * n_rows, 4))
    )
    for name in NUMBERS:
        assert getattr(many, name).tobytes() == getattr(one, name).tobytes()
