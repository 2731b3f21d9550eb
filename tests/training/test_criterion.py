"""The contract on criteria: logits, log probabilities, row weights, posteriors."""

import math

import numpy as np
import pytest
import torch
from skorch import NeuralNetClassifier
from torch import nn

from fedrela_sk.exceptions import NetError
from fedrela_sk.training._criterion import (
    batch_loss,
    check_criterion,
    check_output,
    log_input,
    posteriors_of,
    row_losses,
    row_shares,
)

CLASS_WEIGHT = torch.tensor([1.0, 3.0, 0.5], dtype=torch.float64)


class Child(nn.CrossEntropyLoss):
    pass


class IgnoresReduction(nn.CrossEntropyLoss):
    """A custom loss that averages whatever it is asked."""

    def forward(self, output, y):
        return nn.functional.cross_entropy(output, y)


class Learned(nn.CrossEntropyLoss):
    """A loss with a parameter of its own, trained or not."""

    def __init__(self, trained):
        super().__init__()
        self.temperature = nn.Parameter(torch.ones(1), requires_grad=trained)


# ---------------------------------------------------------------------------------- which criteria


@pytest.mark.parametrize(
    "criterion",
    [
        nn.CrossEntropyLoss(),
        nn.CrossEntropyLoss(reduction="sum"),
        Child(),
        nn.NLLLoss(),
        Learned(trained=False),
    ],
)
def test_criteria_whose_logits_are_known(criterion):
    assert check_criterion(criterion) is criterion


def test_another_criterion_is_refused():
    with pytest.raises(NetError, match=r"got BCEWithLogitsLoss\. Derive a custom loss from CrossEntropyLoss"):
        check_criterion(nn.BCEWithLogitsLoss())


def test_a_criterion_that_does_not_reduce_is_refused():
    with pytest.raises(NetError, match=r"criterion__reduction must be 'mean' or 'sum', got 'none'"):
        check_criterion(nn.CrossEntropyLoss(reduction="none"))


@pytest.mark.parametrize(
    ("criterion", "name"),
    [
        (nn.CrossEntropyLoss(weight=torch.ones(3)), "weight"),
        (nn.CrossEntropyLoss(label_smoothing=0.1), "label_smoothing"),
        (nn.CrossEntropyLoss(ignore_index=0), "ignore_index"),
        (nn.NLLLoss(weight=torch.ones(3)), "weight"),
    ],
)
def test_settings_that_a_loss_of_its_own_would_leave_out_are_refused(criterion, name):
    assert check_criterion(criterion, own_loss=True) is criterion
    with pytest.raises(
        NetError, match=f"criterion__{name}=.* would not be used: the algorithm has a loss of its own"
    ):
        check_criterion(criterion, own_loss=True, bare=True)


def test_a_criterion_without_settings_goes_with_any_loss():
    for criterion in (nn.CrossEntropyLoss(reduction="sum"), nn.NLLLoss()):
        assert check_criterion(criterion, own_loss=True, bare=True) is criterion


def test_a_criterion_that_learns_is_refused():
    with pytest.raises(NetError, match=r"Learned has the trainable parameter 'temperature'.*into the module"):
        check_criterion(Learned(trained=True))


# ------------------------------------------------------------------------------------- the output


@pytest.mark.parametrize(
    ("output", "got"),
    [
        (torch.zeros(4, 2), r"\(4, 2\)"),
        (torch.zeros(3), r"\(3,\)"),
        (torch.zeros(2, 3, 1), r"\(2, 3, 1\)"),
        ([[0.0, 0.0, 0.0]], "list"),
    ],
)
def test_output_that_does_not_fit_the_classes(output, got):
    with pytest.raises(
        NetError, match=rf"shape \(rows, 3\); got {got}\. Set the module's number of outputs to 3"
    ):
        check_output(output, nn.CrossEntropyLoss(), 3)


def test_logits_may_be_anything():
    check_output(torch.tensor([[-5.0, 100.0], [float("nan"), 0.0]]), nn.CrossEntropyLoss(), 2)


def test_logits_under_nll_are_refused():
    output = torch.tensor([[0.5, 0.5], [2.0, 0.75], [1.0, 0.0]])
    with pytest.raises(
        NetError,
        match=r"row 1 of the first batch sums to 2\.75 with a smallest entry of 0\.75.*"
        r"Use criterion=torch\.nn\.CrossEntropyLoss for a module that returns logits",
    ):
        check_output(output, nn.NLLLoss(), 2)


def test_negative_entries_under_nll_are_refused():
    with pytest.raises(NetError, match=r"sums to 1 with a smallest entry of -0\.25"):
        check_output(torch.tensor([[1.25, -0.25]]), nn.NLLLoss(), 2)


def test_nan_under_nll_is_refused():
    with pytest.raises(NetError, match="row 1 of the first batch sums to nan"):
        check_output(torch.tensor([[0.5, 0.5], [float("nan"), 0.5]]), nn.NLLLoss(), 2)


@pytest.mark.parametrize(
    ("dtype", "fine", "off"),
    [
        (torch.float64, 5e-7, 2e-6),
        (torch.float32, 5e-5, 2e-4),
        (torch.float16, 5e-3, 2e-2),
        (torch.bfloat16, 0.0, 4e-2),
    ],
)
def test_how_far_a_row_may_be_from_one_depends_on_the_dtype(dtype, fine, off):
    row = torch.tensor([[0.0, 1.0]], dtype=torch.float64)
    for sign in (1, -1):
        check_output((row * (1 + sign * fine)).to(dtype), nn.NLLLoss(), 2)
        with pytest.raises(NetError, match="must return probabilities"):
            check_output((row * (1 + sign * off)).to(dtype), nn.NLLLoss(), 2)


# ------------------------------------------------------------------------------------ batch losses


def test_even_logits_cost_log_of_the_number_of_classes():
    output, y = torch.zeros(4, 3, dtype=torch.float64), torch.tensor([0, 1, 2, 0])
    assert batch_loss(nn.CrossEntropyLoss(), output, y).item() == pytest.approx(math.log(3), abs=1e-15)
    assert batch_loss(nn.CrossEntropyLoss(reduction="sum"), output, y).item() == pytest.approx(
        4 * math.log(3)
    )


def test_nll_is_the_logarithm_that_skorch_takes():
    output = torch.tensor([[1.0, 0.0], [0.25, 0.75]])
    y = torch.tensor([1, 1])
    eps = torch.finfo(torch.float32).eps
    expected = -(math.log(eps) + math.log(0.75 + eps)) / 2
    assert batch_loss(nn.NLLLoss(), output, y).item() == pytest.approx(expected, rel=1e-6)
    net = NeuralNetClassifier(nn.Linear(1, 2)).initialize()
    assert batch_loss(nn.NLLLoss(), output, y) == net.get_loss(output, y)


def _criteria():
    for reduction in ("mean", "sum"):
        for weight in (None, CLASS_WEIGHT):
            yield nn.NLLLoss(weight=weight, reduction=reduction)
            yield nn.NLLLoss(weight=weight, reduction=reduction, ignore_index=1)
            for smoothing in (0.0, 0.3):
                yield nn.CrossEntropyLoss(weight=weight, label_smoothing=smoothing, reduction=reduction)
                yield Child(weight=weight, label_smoothing=smoothing, reduction=reduction, ignore_index=1)


def _batch(criterion, rows=7):
    stream = torch.Generator().manual_seed(0)
    output = torch.randn(rows, 3, dtype=torch.float64, generator=stream)
    y = torch.tensor([0, 1, 2, 2, 1, 0, 2])[:rows]
    return (torch.softmax(output, 1) if isinstance(criterion, nn.NLLLoss) else output), y


def _loss_and_gradient(criterion, output, y, weights=None):
    output = output.clone().requires_grad_()
    loss = batch_loss(criterion, output, y, weights)
    loss.backward()
    return loss.item(), output.grad


@pytest.mark.parametrize("criterion", list(_criteria()), ids=repr)
def test_an_integer_weight_equals_repeated_rows(criterion):
    output, y = _batch(criterion)
    repeats = torch.tensor([1, 2, 0, 3, 1, 1, 2])
    loss, grad = _loss_and_gradient(criterion, output, y, repeats.to(torch.float64))
    repeated = torch.repeat_interleave(torch.arange(7), repeats)
    expected, grad_each = _loss_and_gradient(criterion, output[repeated], y[repeated])
    assert loss == pytest.approx(expected, abs=1e-12)
    summed = torch.zeros_like(output).index_add_(0, repeated, grad_each)
    torch.testing.assert_close(grad, summed, rtol=0, atol=1e-12)


@pytest.mark.parametrize("criterion", list(_criteria()), ids=repr)
def test_weights_of_one_change_nothing(criterion):
    output, y = _batch(criterion)
    loss, grad = _loss_and_gradient(criterion, output, y, torch.ones(7, dtype=torch.float64))
    expected, expected_grad = _loss_and_gradient(criterion, output, y)
    assert loss == pytest.approx(expected, abs=1e-14)
    torch.testing.assert_close(grad, expected_grad, rtol=0, atol=1e-14)


def test_any_weights_give_the_weighted_mean():
    # losses log 2 and log 4 with weights 0.5 and 1.5
    output = torch.log(torch.tensor([[0.5, 0.5], [0.75, 0.25]], dtype=torch.float64))
    weights = torch.tensor([0.5, 1.5], dtype=torch.float64)
    y = torch.tensor([0, 1])
    expected = (0.5 * math.log(2) + 1.5 * math.log(4)) / 2
    assert batch_loss(nn.CrossEntropyLoss(), output, y, weights).item() == pytest.approx(expected)
    summed = batch_loss(nn.CrossEntropyLoss(reduction="sum"), output, y, weights)
    assert summed.item() == pytest.approx(2 * expected)


def test_the_mean_does_not_depend_on_the_unit_of_weights():
    output, y = _batch(nn.CrossEntropyLoss())
    weights = torch.linspace(0.1, 1, 7, dtype=torch.float64)
    small, large = (batch_loss(nn.CrossEntropyLoss(), output, y, weights * unit) for unit in (1e-30, 1e30))
    assert small.item() == pytest.approx(large.item(), rel=1e-12)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_a_batch_without_weight_has_no_loss_and_no_gradient(dtype, reduction):
    output = torch.tensor([[3.0, -1.0], [0.5, 2.0]], dtype=dtype)
    weights = torch.zeros(2, dtype=dtype)
    loss, grad = _loss_and_gradient(
        nn.CrossEntropyLoss(reduction=reduction), output, torch.tensor([0, 1]), weights
    )
    assert loss == 0.0
    assert torch.equal(grad, torch.zeros_like(grad))


def test_a_batch_of_classes_without_weight_has_no_loss_and_no_gradient():
    criterion = nn.CrossEntropyLoss(weight=torch.tensor([0.0, 1.0], dtype=torch.float64))
    output, weights = torch.ones(2, 2, dtype=torch.float64), torch.ones(2, dtype=torch.float64)
    loss, grad = _loss_and_gradient(criterion, output, torch.tensor([0, 0]), weights)
    assert loss == 0.0
    assert torch.equal(grad, torch.zeros_like(grad))


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("ignore", [-100, 1])
@pytest.mark.parametrize("weight", [None, CLASS_WEIGHT])
@pytest.mark.parametrize("kind", [nn.CrossEntropyLoss, nn.NLLLoss])
def test_losses_of_shares_are_those_of_the_classes_mixed(kind, weight, ignore, smoothing):
    options = {"label_smoothing": smoothing} if kind is nn.CrossEntropyLoss else {}
    criterion = kind(weight=weight, ignore_index=ignore, **options)
    output, _ = _batch(criterion)
    logits, shares = log_input(criterion, output), torch.softmax(output.flip(0), 1)
    each = [row_losses(criterion, logits, torch.full((7,), c)) for c in range(3)]
    expected = (shares * torch.stack(each, 1)).sum(1)
    torch.testing.assert_close(row_losses(criterion, logits, shares), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_rows_of_the_ignored_class_have_no_share(reduction):
    criterion = nn.CrossEntropyLoss(ignore_index=1, reduction=reduction)
    shares = row_shares(criterion, torch.tensor([0, 1, 2, 1]), torch.ones(4))
    assert shares.tolist() == ([0.5, 0, 0.5, 0] if reduction == "mean" else [1, 0, 1, 0])


def test_the_criterion_is_the_same_afterwards():
    criterion = nn.CrossEntropyLoss(reduction="sum")
    output, y = _batch(criterion)
    batch_loss(criterion, output, y, torch.ones(7, dtype=torch.float64))
    assert criterion.reduction == "sum"
    with pytest.raises(IndexError):
        batch_loss(criterion, output, y + 5, torch.ones(7, dtype=torch.float64))
    assert criterion.reduction == "sum"


def test_a_child_that_ignores_reduction_cannot_have_row_weights():
    output, y = _batch(nn.CrossEntropyLoss())
    criterion = IgnoresReduction()
    with pytest.raises(
        NetError,
        match=r"IgnoresReduction must return one loss per row when its reduction is 'none'.*got shape \(\) for 7",
    ):
        batch_loss(criterion, output, y, torch.ones(7, dtype=torch.float64))
    assert batch_loss(criterion, output, y) == nn.functional.cross_entropy(output, y)


# -------------------------------------------------------------------------------------- posteriors


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_posteriors_of_logits_are_their_softmax_in_float64(dtype):
    logits = torch.tensor([[0.0, 0.0, 0.0], [0.5, -2.0, 1.5], [1e4, -1e4, 0.0]], dtype=dtype)
    Q = posteriors_of(nn.CrossEntropyLoss(), logits)
    assert Q.dtype == torch.float64
    np.testing.assert_allclose(Q.sum(1), 1, rtol=0, atol=1e-15)
    np.testing.assert_allclose(Q[0], 1 / 3, rtol=0, atol=1e-15)
    weights = np.exp([0.5, -2.0, 1.5])
    np.testing.assert_allclose(Q[1], weights / weights.sum(), rtol=1e-14)
    np.testing.assert_array_equal(Q[2], [1, 0, 0])


def test_posteriors_of_probabilities_are_the_probabilities():
    output = torch.tensor([[0.25, 0.75], [1.0, 0.0]], dtype=torch.float64)
    np.testing.assert_allclose(posteriors_of(nn.NLLLoss(), output), output, rtol=0, atol=1e-15)


def test_posteriors_of_probabilities_in_single_precision_sum_to_one_in_double():
    output = torch.softmax(torch.linspace(-4, 4, 700).reshape(100, 7), 1)
    assert output.dtype == torch.float32
    sums = posteriors_of(nn.NLLLoss(), output).sum(1)
    np.testing.assert_allclose(sums, 1, rtol=0, atol=1e-15)
    assert (output.to(torch.float64).sum(1) != 1).any()
