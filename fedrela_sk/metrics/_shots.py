"""Which classes are head, medium or tail, majority or minority: rules on class counts only."""

from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike

from fedrela_sk._checks import as_float
from fedrela_sk._sklearn import Interval, validate_params
from fedrela_sk._typing import Array
from fedrela_sk.metrics._labels import check_counts

SHOTS = ("head", "medium", "tail")
SIZES = ("majority", "minority")


@validate_params({"counts": ["array-like"], "cuts": [tuple, list]}, prefer_skip_nested_validation=True)
def shot_split(counts: ArrayLike, *, cuts: tuple[float, float] = (0.75, 0.95)) -> Array:
    """Head, medium or tail for each class, by the cumulative share of rows.

    Classes are sorted by count, largest first (ties: the lower position first), and shares are added up. The
    class whose share reaches the first cut still belongs to the head, the one that reaches the second still
    to the medium group; the rest is tail. One class may reach both cuts: then no class is medium.

    Parameters
    ----------
    counts : array-like of shape (n_classes,)
        Rows (or weights) per class: true training counts, or a proxy (`proxy_class_counts`).
    cuts : pair of floats, default=(0.75, 0.95)
        0 < first <= second <= 1.

    Returns
    -------
    shots : ndarray of shape (n_classes,), str
        "head", "medium" or "tail" for each class.

    Raises
    ------
    LabelError
        `counts` are not finite, negative or all zero.
    ValueError
        `cuts` are out of order or range.

    References
    ----------
    Xiao et al., "FedLoGe: joint local and generic federated learning under long-tailed data", ICLR 2024,
    whose split by 75 % and 95 % FedReLa (arXiv 2606.26037) takes over.

    Examples
    --------
    >>> from fedrela_sk.metrics import shot_split
    >>> shot_split([60, 15, 15, 10]).tolist()
    ['head', 'head', 'medium', 'medium']
    """
    counts = check_counts(counts)
    first, second = _check_cuts(cuts)
    order = np.argsort(-counts.astype(np.float64), kind="stable")
    running = np.cumsum(counts[order])
    # the quotient is rounded to the float nearest to the true share, so a share of exactly 95 % equals 0.95
    ends = np.searchsorted(running / running[-1], [first, second], side="left")
    place = np.argsort(order)
    return np.array(SHOTS)[(place > ends[0]).astype(int) + (place > ends[1])]


def _check_cuts(cuts):
    if len(cuts) != 2 or not 0 < cuts[0] <= cuts[1] <= 1:
        raise ValueError(f"cuts must be two shares with 0 < first <= second <= 1, got {tuple(cuts)}.")
    return [as_float(cut) for cut in cuts]


def majority_minority_split(counts: ArrayLike) -> Array:
    """Majority or minority for each class: a class is minority if its count is below the mean count.

    On step-wise data these are the classes that were cut; of two classes it is the smaller one.

    Parameters
    ----------
    counts : array-like of shape (n_classes,)
        Rows (or weights) per class.

    Returns
    -------
    sizes : ndarray of shape (n_classes,), str
        "majority" or "minority". Equal counts are all majority.

    Raises
    ------
    LabelError
        `counts` are not finite, negative or all zero.

    Examples
    --------
    >>> from fedrela_sk.metrics import majority_minority_split
    >>> majority_minority_split([500, 500, 50]).tolist()
    ['majority', 'majority', 'minority']
    """
    counts = check_counts(counts)
    return np.where(counts < counts.mean(), SIZES[1], SIZES[0])


@validate_params(
    {
        "client_counts": ["array-like"],
        "n_test": [Interval(Integral, 1, None, closed="left")],
        "max_per_class": [Interval(Integral, 1, None, closed="left"), None],
    },
    prefer_skip_nested_validation=True,
)
def proxy_class_counts(
    client_counts: ArrayLike, *, n_test: int = 10_000, max_per_class: int | None = None
) -> Array:
    """The class counts that released code uses in place of the true ones to find head, medium and tail.

    g_c = sum over clients k of floor(n_test n_{k,c} / N): a test set shared out like the training rows. Small
    classes spread over many clients are floored away, so the split depends on the partition. For replication
    only.

    Parameters
    ----------
    client_counts : array-like of shape (n_clients, n_classes), int
        Training rows n_{k,c} of each class at each client; N is their sum.
    n_test : int, default=10000
        Rows of the balanced test set.
    max_per_class : int or None, default=None
        Cap of each term. None: the code of FedLoGe and of the review version of FedReLa. The test rows per
        class (1000 for CIFAR-10, 100 for CIFAR-100): the released code of FedReLa.

    Returns
    -------
    counts : ndarray of shape (n_classes,), int
        To be passed to `shot_split`.

    Raises
    ------
    ValueError
        `client_counts` is not a table of whole numbers, none negative and not all zero.

    Examples
    --------
    >>> from fedrela_sk.metrics import proxy_class_counts
    >>> proxy_class_counts([[60, 3], [36, 1]], n_test=50).tolist()
    [48, 1]
    """
    table = np.asarray(client_counts)
    if table.ndim != 2 or table.dtype.kind not in "iu" or (table < 0).any() or not table.any():
        raise ValueError(
            "client_counts must be a table of clients x classes of whole numbers, none negative and not all "
            f"zero: pass rows per class and client, got shape {table.shape}, dtype {table.dtype}."
        )
    terms = n_test * table.astype(np.int64) // table.sum(dtype=np.int64)
    if max_per_class is not None:
        terms = np.minimum(terms, max_per_class)
    return terms.sum(axis=0)
