"""What every loss keeps, in every setting of the table."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.func import vmap

from fedrela_sk import losses
from fedrela_sk.training._criterion import batch_loss, check_criterion
from tests.losses.helpers import EVEN, MADE, NEUTRAL, batch, loss_and_gradient

COUNTS = [
    [500.0, 70.0, 8.0, 2.0],
    [3.0, 0.0, 40.0, 40.0],  # a class is absent
    [0.0, 0.0, 9.0, 0.0],  # one class alone
    [0.5, 20.25, 0.0, 3e-3],  # sums of row weights
    [0.0, 0.0, 0.0, 0.0],  # a client whose rows have no weight
]
EVERY = {**MADE, **NEUTRAL}
every = pytest.mark.parametrize("make", EVERY.values(), ids=EVERY.keys())
in_use = pytest.mark.parametrize("make", MADE.values(), ids=MADE.keys())


def tensor(counts):
    return torch.tensor(counts, dtype=torch.float64)


def test_every_loss_is_in_the_tables():
    public = {name for name in losses.__all__ if name.endswith("Loss")}
    assert {type(make()).__name__ for make in MADE.values()} == public - {"PriorLoss"}
    assert {type(make()).__name__ for make in NEUTRAL.values()} >= public - {"BalancedSoftmaxLoss"}


# ------------------------------------------------------------------------------------- neutral settings


@pytest.mark.parametrize("counts", COUNTS[:4])
@pytest.mark.parametrize("make", NEUTRAL.values(), ids=NEUTRAL.keys())
def test_neutral_settings_are_the_cross_entropy(make, counts):
    logits, y = batch()
    criterion = make(counts=counts)
    criterion.use(None, 1.0)
    loss, grad = loss_and_gradient(criterion, logits, y)
    expected, expected_grad = loss_and_gradient(nn.CrossEntropyLoss(), logits, y)
    torch.testing.assert_close(loss, expected, rtol=0, atol=1e-15)
    torch.testing.assert_close(grad, expected_grad, rtol=0, atol=1e-16)


@pytest.mark.parametrize("n", [1, 2.5, 70_000])
@pytest.mark.parametrize("make", EVEN.values(), ids=EVEN.keys())
def test_equal_counts_are_the_cross_entropy(make, n):
    logits, y = batch()
    loss, grad = loss_and_gradient(make(counts=[n] * 4), logits, y)
    expected, expected_grad = loss_and_gradient(nn.CrossEntropyLoss(), logits, y)
    torch.testing.assert_close(loss, expected, rtol=0, atol=1e-15)
    torch.testing.assert_close(grad, expected_grad, rtol=0, atol=1e-16)


@in_use
def test_settings_in_use_are_not(make):
    logits, y = batch()
    criterion = make(counts=COUNTS[0])
    criterion.use(None, 1.0)
    assert abs(criterion(logits, y) - nn.CrossEntropyLoss()(logits, y)) > 1e-3


@pytest.mark.parametrize(
    "name",
    ["LDAM", "balanced softmax, mask", "logit adjusted, mask", "equalization", "equalization, evaluated"],
)
@pytest.mark.parametrize("counts", COUNTS[:4])
def test_scaling_all_counts_changes_nothing(name, counts):
    logits, y = batch()
    one, two = (MADE[name](counts=[unit * n for n in counts])(logits, y) for unit in (1, 0.37))
    torch.testing.assert_close(one, two, rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    "make",
    [losses.ClassBalancedLoss, losses.FedLCLoss, lambda **kw: losses.LDAMLoss(scale=3.0, defer=0.5, **kw)],
    ids=["class balanced", "FedLC", "LDAM deferred"],
)
def test_scaling_all_counts_changes_what_depends_on_their_unit(make):
    logits, y = batch()
    values = []
    for unit in (1, 1000):
        criterion = make(counts=[unit * n for n in COUNTS[0]])
        criterion.use(None, 0.7)
        values.append(criterion(logits, y).item())
    assert abs(values[0] - values[1]) > 1e-3


# ------------------------------------------------------------------------------------------ derivatives


@every
def test_gradients_are_derivatives(make):
    logits, y = batch()
    criterion = make()
    logits.requires_grad_()
    for counts in COUNTS:
        torch.autograd.gradcheck(lambda z, n: criterion.row_losses(z, y, n, 0.7), (logits, tensor(counts)))


# --------------------------------------------------------------------------- many clients in one call


@every
@pytest.mark.parametrize("differentiate", [False, True])
def test_mapped_over_clients_it_is_the_loop(make, differentiate):
    criterion = make()
    batches = [batch(seed=seed) for seed in range(len(COUNTS))]
    logits = torch.stack([z for z, _ in batches])
    y = torch.stack([(labels + k) % 4 for k, (_, labels) in enumerate(batches)])

    def rows(z, labels, counts):
        return criterion.row_losses(z, labels, counts, 0.7)

    def slopes(z, labels, counts):
        return torch.func.grad(lambda z: rows(z, labels, counts).sum())(z)

    function = slopes if differentiate else rows
    mapped = vmap(function, randomness="different")(logits, y, tensor(COUNTS))
    looped = torch.stack([function(logits[k], y[k], tensor(COUNTS[k])) for k in range(len(COUNTS))])
    torch.testing.assert_close(mapped, looped, rtol=0, atol=1e-14)


@every
def test_counts_of_every_row_are_the_loop_over_clients(make):
    criterion = make()
    logits, y = batch(rows=4 * len(COUNTS))
    counts = tensor(COUNTS).repeat(4, 1)
    together = criterion.row_losses(logits, y, counts, 0.7)
    alone = [criterion.row_losses(logits[[i]], y[[i]], counts[i], 0.7) for i in range(len(y))]
    torch.testing.assert_close(together, torch.cat(alone), rtol=0, atol=1e-14)


# -------------------------------------------------------------------------------------------- safety


@every
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1.0, 1e4])
def test_losses_and_gradients_are_finite_and_not_negative(make, dtype, size):
    """All classes as labels, those without rows included."""
    stream = torch.Generator().manual_seed(1)
    logits = size * torch.randint(-1, 2, (20, 4), generator=stream).to(dtype)
    y = torch.arange(20) % 4
    criterion = make(reduction="none")
    for counts in COUNTS:
        criterion.use(tensor(counts), 0.7)
        loss, grad = loss_and_gradient(criterion, logits, y)
        assert loss.dtype == grad.dtype == dtype
        assert loss.isfinite().all()
        assert (loss >= 0).all()
        assert grad.isfinite().all()


@every
def test_in_single_precision_it_is_the_same_function(make):
    logits, y = batch()
    criterion = make()
    exact = criterion.row_losses(logits, y, tensor(COUNTS[0]), 0.7)
    for counts in (COUNTS[0], [int(n) for n in COUNTS[0]]):
        rounded = criterion.row_losses(logits.float(), y, torch.tensor(counts), 0.7)
        assert rounded.dtype == torch.float32
        torch.testing.assert_close(rounded.double(), exact, rtol=1e-5, atol=1e-6)


@every
def test_half_precision_counts_are_not_rounded_to_half(make):
    """90,000 rows are infinitely many in float16."""
    logits, y = batch(dtype=torch.float16)
    criterion = make(counts=[90_000, 500, 30, 1])
    criterion.use(None, 0.7)
    expected = make(counts=[90_000, 500, 30, 1], reduction="none")
    expected.use(None, 0.7)
    half = criterion.row_losses(logits, y, None, 0.7)
    assert half.dtype == torch.float16
    torch.testing.assert_close(half.double(), expected(logits.double(), y), rtol=0.02, atol=0.02)


@every
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_counts_may_lie_on_the_host_or_with_the_rows(make, device):
    """The device "meta" computes nothing, but refuses to mix devices as others do."""
    logits, y = batch()
    given, told = make(counts=COUNTS[1]), make()
    given.use(None, 0.7)
    told.use(tensor(COUNTS[1]).to(device), 0.7)
    for criterion in (given, told):
        assert criterion(logits.to("meta"), y.to("meta")).device.type == "meta"


# -------------------------------------------------------------------------------------- being a criterion


@every
@pytest.mark.parametrize("again", [copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))])
def test_a_copy_gives_the_same_loss(make, again):
    logits, y = batch()
    given, told = make(counts=COUNTS[0]), make()
    given.use(None, 0.7)
    told.use(tensor(COUNTS[0]), 0.7)
    expected = given(logits, y)
    assert torch.equal(again(given)(logits, y), expected)
    assert torch.equal(again(told)(logits, y), expected)


@every
def test_engines_may_use_it(make):
    criterion = make(counts=COUNTS[0])
    criterion.use(None, 0.7)
    assert check_criterion(criterion) is criterion
    assert isinstance(criterion, nn.CrossEntropyLoss)
    assert (criterion.weight, criterion.label_smoothing) == (None, 0.0)
    assert criterion.needs_counts is (type(criterion) is not losses.FocalLoss)
    assert criterion.draws is (type(criterion) is losses.EqualizationLoss)
    assert list(criterion.parameters()) == list(criterion.state_dict()) == []
    logits, y = batch()
    weights = torch.linspace(0.5, 2, len(y), dtype=torch.float64)
    rows = criterion.row_losses(logits, y, tensor(COUNTS[0]), 0.7)
    weighted = (weights * rows).sum() / weights.sum()
    torch.testing.assert_close(batch_loss(criterion, logits, y, weights), weighted, rtol=1e-15, atol=1e-15)


@every
@pytest.mark.parametrize("ignore_index", [-100, 1, 255])
def test_ignored_rows_have_no_loss_no_gradient_and_no_share_in_the_mean(make, ignore_index):
    logits, y = batch()
    y[[2, 7]] = ignore_index
    kept = y != ignore_index
    counts = {"counts": COUNTS[1], "ignore_index": ignore_index}
    criterion, sums, rows = (make(**counts, reduction=kind) for kind in ("mean", "sum", "none"))
    for c in (criterion, sums, rows):
        c.use(None, 0.7)
    loss, grad = loss_and_gradient(criterion, logits, y)
    losses_, _ = loss_and_gradient(rows, logits, y)
    expected, expected_grad = loss_and_gradient(criterion, logits[kept], y[kept])
    torch.testing.assert_close(loss, expected, rtol=0, atol=1e-14)
    torch.testing.assert_close(grad[kept], expected_grad, rtol=0, atol=1e-15)
    assert not grad[~kept].any()
    assert not losses_[~kept].any()
    torch.testing.assert_close(losses_.mean(), loss * kept.double().mean(), rtol=0, atol=1e-14)
    torch.testing.assert_close(sums(logits, y), losses_.sum(), rtol=0, atol=1e-13)
