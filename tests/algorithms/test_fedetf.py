"""FedETF: fixed class vectors, balanced softmax on scaled cosines, and the form called so elsewhere."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from fedrela_sk.algorithms import FedETF
from fedrela_sk.exceptions import NetError
from fedrela_sk.nets import MLP, find_head
from fedrela_sk.training import Batch
from tests.algorithms.heads import GROUPS, X, Y, batch_of, fit_small, local_of, model_of, run, softmax


def counts_of(k, absent):
    counts = np.bincount(Y[k == GROUPS], minlength=3).astype(float)
    return np.maximum(counts, 1) if absent == "one" else counts


def by_hand(start, absent="one", gamma=1.0, lr=0.5, n_steps=2):
    """(A with its bias, s) averaged after one round of full-batch steps; gradients written out."""
    M = start.vectors.numpy()
    A0 = np.column_stack([start.projection.weight.detach(), start.projection.bias.detach()])
    ends, sizes = [], []
    for k in (0, 1):
        x = np.column_stack([X, np.ones(len(X))])[k == GROUPS]
        y = Y[k == GROUPS]
        with np.errstate(divide="ignore"):
            shift = gamma * np.log(counts_of(k, absent))
        A, s = A0.copy(), 1.0
        for _ in range(n_steps):
            v = x @ A.T
            length = np.linalg.norm(v, axis=1, keepdims=True)
            u = v / length
            r = (softmax(s * u @ M.T + shift) - np.eye(3)[y]) / len(y)
            du = s * r @ M
            dv = (du - u * (u * du).sum(1, keepdims=True)) / length
            A, s = A - lr * dv.T @ x, s - lr * (r * (u @ M.T)).sum()
        ends.append(np.append(A.ravel(), s))
        sizes.append(len(y))
    return np.average(ends, axis=0, weights=sizes)


def state_of(head):
    A = torch.cat([head.projection.weight, head.projection.bias[:, None]], dim=1)
    return torch.cat([A.flatten(), head.scale[None]]).detach().numpy()


@pytest.mark.parametrize("absent", ["one", "mask"])
def test_a_round_by_hand(absent):
    start = fit_small("fedetf", lr=0.0).net_.module_
    assert start.scale.item() == 1.0
    fed = fit_small("fedetf") if absent == "one" else fit_small(FedETF(absent=absent))
    end = fed.net_.module_
    assert torch.equal(end.vectors, start.vectors)
    expected = by_hand(start, absent)
    np.testing.assert_allclose(state_of(end), expected, atol=1e-14)
    v = np.column_stack([X, np.ones(len(X))]) @ expected[:9].reshape(3, 3).T
    logits = expected[9] * v / np.linalg.norm(v, axis=1, keepdims=True) @ end.vectors.numpy().T
    np.testing.assert_allclose(fed.predict_proba(X), softmax(logits), atol=1e-14)


def test_an_absent_class_counts_as_one_row_and_not_as_none():
    start = fit_small("fedetf", lr=0.0).net_.module_
    assert np.abs(by_hand(start, "one") - by_hand(start, "mask")).max() > 0.01
    assert np.abs(by_hand(start, "one") - by_hand(start, gamma=0.0)).max() > 0.01


def test_equal_counts_are_the_cross_entropy():
    algorithm, (x, y) = FedETF(), (torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1]))
    model = model_of(nn.Linear(4, 3), algorithm)
    loss = algorithm.client_loss(model, _in_float(batch_of(x, y)), local_of((7, 7, 7)))
    torch.testing.assert_close(loss, nn.functional.cross_entropy(model(x), y))


def _in_float(batch):
    return Batch(batch.x.float(), batch.y, batch.share.float(), batch.criterion)


def test_the_seed_makes_the_vectors_and_nobody_sends_them():
    first, again, other = (run("fedetf", n_rounds=1, random_state=seed) for seed in (0, 0, 1))
    vectors = [fed.net_.module_[2].vectors for fed in (first, again, other)]
    assert torch.equal(vectors[0], vectors[1])
    assert not torch.allclose(vectors[0], vectors[2], atol=0.01)
    # 3 x 4 + 4 of the body, 4 x 3 + 3 of the projection, 1 of the scale, in float64; 8 bytes of the weight
    assert first.history_.column("bytes_up").tolist() == [3 * (32 * 8 + 8)]
    assert first.history_.column("bytes_down").tolist() == [3 * 32 * 8]


# --- dot regression -----------------------------------------------------------------------------------------


class WithBody(nn.Sequential):
    """A body that changes nothing but could learn, and a head."""

    def __init__(self, n_features, n_classes):
        body = nn.LayerNorm(1, dtype=torch.float64)
        body.forward = lambda x: x
        super().__init__(body, nn.utils.skip_init(nn.Linear, n_features, n_classes, dtype=torch.float64))


def dot_loss(h, y, share=None, n_classes=3):
    """(loss, class vectors) of a net whose body changes nothing."""
    algorithm = FedETF("dot_regression")
    model = model_of(WithBody(len(h[0]), n_classes), algorithm, n_classes)
    vectors = model.module[1].vectors
    h = torch.as_tensor(h, dtype=torch.float64)
    batch = batch_of(h, y)
    if share is not None:
        batch = Batch(batch.x, batch.y, torch.tensor(share, dtype=torch.float64), batch.criterion)
    return algorithm.client_loss(model, batch, local_of()).item(), vectors.numpy()


def at_angle(cosine, y, seed=0):
    """Features of length 3 whose cosine to their own class vector is given; the vectors come from `seed`."""
    torch.manual_seed(seed)
    vectors = FedETF("dot_regression").prepare_module(WithBody(4, 3), 3)[1].vectors.numpy()
    across = np.linalg.svd(vectors)[2][-1]  # at a right angle to all of them
    return 3 * (cosine * vectors[y] + math.sqrt(1 - cosine**2) * across)


@pytest.mark.parametrize("cosine", [1.0, 0.0, -0.5])
def test_every_class_of_a_batch_has_the_same_share(cosine):
    y = [0, 0, 0, 2]  # L_0^2 = 4 / (2 x 3), L_2^2 = 4 / 2
    torch.manual_seed(0)
    h = at_angle(cosine, y)
    torch.manual_seed(0)
    loss, _ = dot_loss(h, y)
    lengths = [2 / 3, 2 / 3, 2 / 3, 2.0]
    assert loss == pytest.approx(0.5 * np.mean(lengths) * (cosine - 1) ** 2, abs=1e-14)


def test_one_row_at_a_right_angle_costs_half_its_squared_length():
    h = at_angle(0.0, [0, 0, 0, 2])
    h[:3] = at_angle(1.0, [0, 0, 0])
    torch.manual_seed(0)
    assert dot_loss(h, [0, 0, 0, 2])[0] == pytest.approx(2.0 / 2 / 4, abs=1e-14)


def test_rows_of_one_class_have_length_one():
    h = at_angle(0.0, [2, 2, 2])
    torch.manual_seed(0)
    assert dot_loss(h, [2, 2, 2])[0] == pytest.approx(0.5, abs=1e-14)


def test_row_weights_count_as_repetition():
    h, y = at_angle(0.3, [0, 0, 2, 1]), [0, 0, 2, 1]
    h[1] *= -1
    torch.manual_seed(0)
    weighted, _ = dot_loss(h, y, share=[3 / 6, 1 / 6, 2 / 6, 0.0])
    rows = [0, 0, 0, 1, 2, 2]
    torch.manual_seed(0)
    repeated, _ = dot_loss(h[rows], [y[i] for i in rows])
    assert weighted == pytest.approx(repeated, abs=1e-14)


def test_predictions_are_a_softmax_of_cosines():
    fed = run(FedETF("dot_regression"), n_rounds=1)
    x = np.random.default_rng(0).normal(size=(50, 3))
    module = fed.net_.module_
    h = module[1](module[0](torch.from_numpy(x))).detach().numpy()
    cosines = h / np.linalg.norm(h, axis=1, keepdims=True) @ module[2].vectors.numpy().T
    np.testing.assert_allclose(fed.predict_proba(x), softmax(cosines), atol=1e-14)
    assert fed.predict_proba(x).max() < math.e / (math.e + 2 * math.exp(-0.5))


def test_engines_agree_on_dot_regression():
    x = np.random.default_rng(0).normal(size=(20, 3))
    loop, stacked = (run(FedETF("dot_regression"), engine).predict_proba(x) for engine in ("loop", "stacked"))
    np.testing.assert_allclose(loop, stacked, atol=1e-10)


def test_dot_regression_needs_room_for_all_classes():
    with pytest.raises(NetError, match="at least 9 features, but the head gets 4"):
        FedETF("dot_regression").prepare_module(MLP(5, 10, hidden=(4,)), 10)
    narrow = FedETF().prepare_module(MLP(5, 10, hidden=(4,)), 10)
    assert find_head(narrow, 10) == "2"
    assert FedETF("dot_regression").prepare_module(MLP(5, 2, hidden=(1,)), 2)[2].vectors.abs().tolist() == [
        [1.0],
        [1.0],
    ]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"form": "other"}, "form must be one of 'official', 'dot_regression'"),
        ({"gamma": float("nan")}, "gamma must be a finite number >= 0"),
        ({"absent": "zero"}, "absent must be one of 'one', 'mask'"),
        ({"counts": "new"}, "counts must be one of 'original', 'relabeled'"),
    ],
)
def test_bad_values(params, message):
    with pytest.raises(ValueError, match=message):
        fit_small(FedETF(**params))
