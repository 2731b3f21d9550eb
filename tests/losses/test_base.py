"""The common base: whose counts, reductions, what is refused."""

import math

import pytest
import torch
from torch import nn

from fedrela_sk.losses import BalancedSoftmaxLoss, FocalLoss, LDAMLoss, PriorLoss
from tests.losses.helpers import MADE, Y, Z

LABEL_1 = torch.tensor([1])
EVEN_LOGITS = torch.zeros(1, 2, dtype=torch.float64)


def balanced(criterion):
    """The loss of label 1 at even logits: log of (all rows / rows of class 1)."""
    return criterion(EVEN_LOGITS, LABEL_1).item()


@pytest.mark.parametrize(
    "counts", [[3, 1], (3.0, 1.0), torch.tensor([3, 1]), torch.tensor([3.0, 1.0], requires_grad=True)]
)
def test_counts_of_the_constructor_in_any_form(counts):
    assert balanced(BalancedSoftmaxLoss(counts=counts)) == pytest.approx(math.log(4), abs=1e-15)


def test_counts_handed_in():
    criterion = BalancedSoftmaxLoss()
    criterion.use(torch.tensor([7.0, 1.0]), 0.0)
    assert balanced(criterion) == pytest.approx(math.log(8), abs=1e-7)
    criterion.use(torch.tensor([1, 1]), 0.0)
    assert balanced(criterion) == pytest.approx(math.log(2), abs=1e-7)


def test_counts_of_the_constructor_win():
    criterion = BalancedSoftmaxLoss(counts=[3, 1])
    criterion.use(torch.tensor([7.0, 1.0]), 0.0)
    assert balanced(criterion) == pytest.approx(math.log(4), abs=1e-15)
    rows = criterion.row_losses(EVEN_LOGITS, LABEL_1, torch.tensor([7.0, 1.0]), 0.0)
    assert rows.item() == pytest.approx(math.log(4), abs=1e-15)


def test_no_counts_at_all():
    criterion = BalancedSoftmaxLoss()
    message = (
        r"BalancedSoftmaxLoss needs the number of rows of each class\. Pass criterion__counts=\.\.\. to the net"
        r".*or train inside FederatedClassifier"
    )
    with pytest.raises(ValueError, match=message):
        criterion(EVEN_LOGITS, LABEL_1)
    criterion.use(None, 0.5)
    with pytest.raises(ValueError, match=message):
        criterion(EVEN_LOGITS, LABEL_1)
    with pytest.raises(ValueError, match=message):
        criterion.row_losses(EVEN_LOGITS, LABEL_1, None, 0.5)


def test_a_loss_that_does_not_count_needs_none():
    assert FocalLoss(gamma=0.0)(EVEN_LOGITS, LABEL_1).item() == pytest.approx(math.log(2), abs=1e-15)
    with pytest.raises(TypeError, match="counts"):
        FocalLoss(counts=[3, 1])


@pytest.mark.parametrize("n", [1, 3])
def test_counts_that_do_not_fit_the_columns(n):
    message = (
        rf"counts have {n} classes, but there are 2 columns\. Pass one number of rows per class, 0 for a"
    )
    given, told = BalancedSoftmaxLoss(counts=[1] * n), BalancedSoftmaxLoss()
    told.use(torch.ones(n), 0.0)
    for criterion in (given, told):
        with pytest.raises(ValueError, match=message):
            criterion(EVEN_LOGITS, LABEL_1)


@pytest.mark.parametrize("progress", [-0.1, 1.1, math.nan, None, "late"])
def test_progress_is_a_share(progress):
    with pytest.raises(ValueError, match=rf"progress must be a finite number in \[0, 1\], got {progress!r}"):
        PriorLoss().use(None, progress)


def test_progress_where_it_is_needed():
    criterion = LDAMLoss(defer=0.5, counts=[3, 1])
    assert criterion.needs_progress
    assert not LDAMLoss(counts=[3, 1]).needs_progress
    message = r"LDAMLoss needs to know how far training has come\. Add fedrela_sk\.losses\.Progress\(\)"
    with pytest.raises(ValueError, match=message):
        criterion(EVEN_LOGITS, LABEL_1)
    with pytest.raises(ValueError, match=message):
        criterion.row_losses(EVEN_LOGITS, LABEL_1, None, None)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_reductions_are_those_of_the_cross_entropy(reduction):
    ours = PriorLoss(counts=[1, 1, 1], reduction=reduction)(Z, Y)
    torch.testing.assert_close(ours, nn.CrossEntropyLoss(reduction=reduction)(Z, Y), rtol=1e-15, atol=0)


def test_the_mean_of_no_rows_is_that_of_torch():
    assert PriorLoss(counts=[1, 1, 1])(Z, torch.full((3,), -100)).isnan()
    assert nn.CrossEntropyLoss()(Z, torch.full((3,), -100)).isnan()


@pytest.mark.parametrize("make", MADE.values(), ids=MADE.keys())
def test_another_reduction_is_refused(make):
    with pytest.raises(ValueError, match=r"reduction must be one of 'mean', 'sum', 'none'; got 'max'"):
        make(counts=[1, 1], reduction="max")


@pytest.mark.parametrize("make", MADE.values(), ids=MADE.keys())
@pytest.mark.parametrize("name", ["weight", "label_smoothing"])
def test_weights_and_smoothing_are_not_offered(make, name):
    with pytest.raises(TypeError, match=name):
        make(counts=[1, 1], **{name: None})


@pytest.mark.parametrize(
    ("logits", "y", "shapes"),
    [
        (torch.zeros(3), torch.tensor(0), r"\(3,\) and \(\)"),
        (torch.zeros(2, 3), torch.tensor([0]), r"\(2, 3\) and \(1,\)"),
        (torch.zeros(2, 3), torch.zeros(2, 3), r"\(2, 3\) and \(2, 3\)"),
        (torch.zeros(2, 3, 4), torch.zeros(2, 4), r"\(2, 3, 4\) and \(2, 4\)"),
    ],
)
def test_shapes_that_are_no_batch(logits, y, shapes):
    with pytest.raises(
        ValueError, match=rf"shape \(rows, n_classes\) and targets shape \(rows,\), got {shapes}"
    ):
        FocalLoss()(logits, y)


def test_soft_targets():
    with pytest.raises(ValueError, match=r"Targets must be classes \(int64\), got torch\.float32"):
        FocalLoss()(torch.zeros(2, 3), torch.zeros(2))


def test_labels_without_a_column():
    with pytest.raises(IndexError, match="Target 3 is out of bounds"):
        FocalLoss()(torch.zeros(1, 3), torch.tensor([3]))
