"""The pass over many clients on a tensor gives what NumPy gives. The tensors are on the CPU here."""

import weakref
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from torch.utils._python_dispatch import TorchDispatchMode

from fedrela_sk.exceptions import PosteriorError
from fedrela_sk.relabel import FedReLaRelabeler
from fedrela_sk.relabel.many import _torch
from fedrela_sk.relabel.many._pass import ManyRows, relabel_many
from tests.relabel.many.test_pass import (
    CLASSES,
    KINDS,
    NUMBERS,
    SETTINGS,
    SOME,
    assert_same_bits,
    assert_same_relabelers,
    bits_of,
    in_one_pass,
    parts_of,
    ragged,
    uniforms_of,
)


def both_ways(params, Q, codes, sizes, seed=0, weights=None):
    """Compares the two and returns how many labels changed."""
    relabeler = FedReLaRelabeler(**{"tau": 0.2, "classes": CLASSES, **params})
    uniforms = uniforms_of(seed, Q)
    new, ours = in_one_pass(relabeler, torch.from_numpy(Q), codes, sizes, uniforms, weights)
    expected, theirs = in_one_pass(relabeler, Q, codes, sizes, uniforms, weights)
    assert_array_equal(new, expected)
    assert_same_relabelers(ours, theirs)
    return int(np.count_nonzero(new != codes))


def some_weights(kind, sizes, seed=0):
    """None, or weights some of which are 0, the last row of every client having one."""
    if kind is None:
        return None
    rng, n_rows = np.random.default_rng(seed), int(np.sum(sizes))
    weights = (
        rng.integers(0, 4, n_rows) / 2
        if kind == "halves"
        else rng.integers(0, 2, n_rows) * rng.random(n_rows)
    )
    weights[np.cumsum(sizes) - 1] = 1.0
    return weights


@pytest.mark.parametrize("weighted", [None, "halves", "any"])
@pytest.mark.parametrize("name", SETTINGS)
def test_a_tensor_gives_what_an_array_gives(name, weighted):
    Q, codes, sizes = SOME
    if "input" in SETTINGS[name]:
        Q = np.log(Q + 0.01)
    changed = both_ways(SETTINGS[name], Q, codes, sizes, weights=some_weights(weighted, sizes))
    assert (changed > 0) == (SETTINGS[name].get("tau") != 0)


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 2**32),
    st.lists(st.tuples(st.integers(1, 20), st.sampled_from(KINDS)), min_size=1, max_size=6),
    st.sampled_from(sorted(SETTINGS)),
    st.sampled_from([None, "halves", "any"]),
)
def test_ragged_clients(seed, clients, name, weighted):
    sizes, kinds = zip(*clients, strict=True)
    Q, codes, sizes = ragged(seed, sizes, kinds)
    both_ways(SETTINGS[name], Q, codes, sizes, seed, some_weights(weighted, sizes, seed))


@pytest.mark.parametrize("weighted", [None, "halves"])
def test_ranges_whose_squares_leave_float64(weighted):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(80, 4))
    scores[:, 1] *= 1e-160
    scores[::2, 3] *= 1e-150
    codes = np.arange(80) % 4
    codes[60:] = 0
    sizes = np.array([50, 30])
    assert both_ways({"input": "score"}, scores, codes, sizes, weights=some_weights(weighted, sizes)) > 0
    _, relabelers = in_one_pass(
        FedReLaRelabeler(input="score", classes=CLASSES), torch.from_numpy(scores), codes, sizes, scores
    )
    own = scores[:50][codes[:50] == 2]
    assert_allclose(relabelers[0].scale_[2, 1], 1e-160 * np.std(own[:, 1] * 1e160, ddof=1), rtol=1e-12)
    assert_allclose(relabelers[0].scale_[2, 2], np.std(own[:, 2], ddof=1), rtol=1e-12)


@pytest.mark.parametrize("weighted", [None, "any"])
@pytest.mark.parametrize("name", ["paper", "released code", "minmax", "scores", "both limits"])
def test_a_client_does_not_depend_by_one_bit_on_the_others(name, weighted):
    sizes = [300, 1, 33, 9, 64, 2, 5]
    Q, codes, sizes = ragged(4, sizes, [KINDS[k % len(KINDS)] for k in range(len(sizes))])
    weights = some_weights(weighted, sizes)
    relabeler = FedReLaRelabeler(**{"tau": 0.3, "classes": CLASSES, **SETTINGS[name]})
    uniforms, parts = uniforms_of(0, Q), parts_of(sizes)

    def bits(clients):
        rows = np.concatenate([parts[k] for k in clients])
        chosen = None if weights is None else weights[rows]
        own = torch.from_numpy(Q[rows])
        new, relabelers = in_one_pass(relabeler, own, codes[rows], sizes[clients], uniforms[rows], chosen)
        ends = np.cumsum(sizes[clients])[:-1]
        return dict(zip(clients, map(bits_of, relabelers, np.split(new, ends)), strict=True))

    together, turned = bits(list(range(7))), bits(list(range(7))[::-1])
    for k in range(7):
        alone = bits([k])[k]
        assert_same_bits(alone, together[k])
        assert_same_bits(alone, turned[k])


@pytest.mark.parametrize("entries", [60, 2 * len(SOME[0]), 3 * len(SOME[0])])
def test_blocks_of_rows_and_columns_change_no_bit(entries, monkeypatch):
    Q, codes, sizes = SOME
    relabeler, uniforms = FedReLaRelabeler(0.3, classes=CLASSES), uniforms_of(0, Q)
    new, whole = in_one_pass(relabeler, torch.from_numpy(Q), codes, sizes, uniforms)
    monkeypatch.setattr(_torch, "ENTRIES", entries)
    again, parts = in_one_pass(relabeler, torch.from_numpy(Q), codes, sizes, uniforms)
    for one, other in zip(whole, parts, strict=True):
        assert_same_bits(bits_of(one, new), bits_of(other, again))


def test_the_same_uniforms_are_asked_for():
    Q, codes, sizes = SOME
    asked = []

    def at(row, column):
        asked.append((row, column))
        return np.ones(len(row))

    for values in (Q, torch.from_numpy(Q)):
        rows = ManyRows(values, CLASSES[codes], codes, sizes)
        relabel_many(FedReLaRelabeler(0.2, classes=CLASSES), rows, at, range(len(sizes)))
    array, tensor = asked
    assert_array_equal(array, tensor)
    assert len(array[0]) > 20


def test_one_column_stands_for_two():
    rng = np.random.default_rng(0)
    p, codes, sizes = rng.random((60, 1)), np.arange(60) % 3 // 2, np.array([40, 20])
    relabeler, uniforms = FedReLaRelabeler(0.5, classes=["no", "yes"]), rng.random((60, 2))
    new, ours = in_one_pass(relabeler, torch.from_numpy(p), codes, sizes, uniforms)
    expected, theirs = in_one_pass(relabeler, p, codes, sizes, uniforms)
    assert_array_equal(new, expected)
    assert (new != codes).any()
    assert ours[0].n_features_in_ == 1
    for name in NUMBERS:
        assert_allclose(getattr(ours[1], name), getattr(theirs[1], name), rtol=1e-12)


@pytest.mark.parametrize("wrong", [0.5, np.nan, np.inf, -1.0])
@pytest.mark.parametrize("params", [{}, {"input": "score"}, {"input": "score", "normalization": "none"}])
def test_errors_are_those_of_an_array(params, wrong):
    Q, codes, sizes = SOME
    Q = Q.copy()
    Q[61] *= wrong if params == {} or not np.isfinite(wrong) else 1e200
    relabeler = FedReLaRelabeler(**{"classes": CLASSES, **params})
    with pytest.raises(PosteriorError, match="Row 61 of ") as expected:
        in_one_pass(relabeler, Q, codes, sizes, uniforms_of(0, Q))
    with pytest.raises(PosteriorError) as error:
        in_one_pass(relabeler, torch.from_numpy(Q), codes, sizes, uniforms_of(0, Q))
    assert str(error.value) == str(expected.value)


def test_an_entry_out_of_bounds_in_a_row_that_sums_to_one():
    Q, codes, sizes = SOME
    Q = Q.copy()
    Q[61] = [1.5, -0.5, 0.0, 0.0]
    with pytest.raises(PosteriorError, match=r"Row 61 of posteriors holds 1\.5 in column 0"):
        in_one_pass(FedReLaRelabeler(classes=CLASSES), torch.from_numpy(Q), codes, sizes, uniforms_of(0, Q))


def test_the_host_has_the_last_word_on_rows(monkeypatch):
    monkeypatch.setitem(_torch.IN_ORDER, "posterior", lambda Q: False)
    assert both_ways({}, *SOME) > 0


def many_rows(n_clients=200, n_rows=60, n_classes=10):
    rng = np.random.default_rng(0)
    sizes = rng.integers(n_rows // 2, n_rows, n_clients)
    Q = torch.from_numpy(rng.dirichlet(np.ones(n_classes), sizes.sum()))
    codes = np.minimum(rng.integers(0, n_classes, len(Q)), rng.integers(0, n_classes, len(Q)))
    return Q, codes, sizes


def relabel(Q, codes, sizes, weights=None, **params):
    relabeler = FedReLaRelabeler(**{"classes": np.arange(Q.shape[1]), **params})
    draws = np.random.default_rng(0).random(Q.shape)
    rows = ManyRows(Q, codes, codes, sizes, weights)
    return relabel_many(relabeler, rows, lambda i, j: draws[i, j], range(len(sizes)))


def test_what_comes_to_the_host_is_small(monkeypatch):
    Q, codes, sizes = many_rows(n_clients=4, n_rows=3000)
    taken, to_host = [], torch.Tensor.cpu

    def cpu(tensor):
        taken.append(tensor.numel())
        return to_host(tensor)

    monkeypatch.setattr(torch.Tensor, "cpu", cpu)
    new, _ = relabel(Q, codes, sizes)
    assert (new != codes).sum() > 20
    assert sum(taken) < 0.3 * Q.numel()


class Held(TorchDispatchMode):
    """Largest number of bytes that tensors made inside hold at once."""

    def __init__(self):
        super().__init__()
        self.peak, self.holders, self.size = 0, Counter(), {}

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                self.holders[storage.data_ptr()] += 1
                self.size[storage.data_ptr()] = storage.nbytes()
                weakref.finalize(tensor, self._release, storage.data_ptr())
        self.peak = max(self.peak, sum(self.size[key] for key, held in self.holders.items() if held))
        return result

    def _release(self, key):
        self.holders[key] -= 1


@pytest.mark.parametrize(("n_clients", "n_rows"), [(100, 40), (4, 1000)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("share", "times"), [(1, 13), (10, 2.2)])
def test_memory_is_that_of_the_rows_and_a_few_columns(share, times, weighted, n_clients, n_rows, monkeypatch):
    Q, codes, sizes = many_rows(n_clients, n_rows)
    weights = np.random.default_rng(0).random(len(Q)) + 0.1 if weighted else None
    monkeypatch.setattr(_torch, "ENTRIES", Q.numel() // share)
    with Held() as held:
        relabel(Q, codes, sizes, weights)
    assert Q.numel() * 8 / share < held.peak < times * Q.numel() * 8
