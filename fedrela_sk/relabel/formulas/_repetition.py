"""Row weights mean repetition: sums that no number of rows could have, and sums that switch relabeling off."""

import numpy as np

from fedrela_sk._checks import as_float
from fedrela_sk.relabel.formulas._threshold import ROUNDING

# whole numbers up to here are float64 exactly: beyond, positions of order statistics are wrong
LARGEST_SUM = 2.0**53
# below, products of weights and deviations leave float64
SMALLEST_SUM = 1e-200

ADVICE = (
    "Weights count as repetition, so that 1 is one row: multiply them so that their mean is about 1, or leave "
    "sample_weight out of the relabeling."
)


def check_sums(counts):
    """Refuse weights whose sums are no number of rows.

    Parameters
    ----------
    counts : ndarray of shape (..., n_classes)
        Sums of weights per class.

    Raises
    ------
    ValueError
        Their total is above 2^53, or a class has weights that are not 0 and sum to less than 1e-200.
    """
    total = counts.sum(axis=-1).max()
    if not total <= LARGEST_SUM:
        raise ValueError(
            f"sample_weight sums to {total:g}, more than 2^53 = {LARGEST_SUM:g}: sums of weights are not exact "
            f"beyond, and thresholds would be wrong. {ADVICE}"
        )
    positive = counts[counts > 0]
    if len(positive) and positive.min() < SMALLEST_SUM:
        raise ValueError(
            f"sample_weight sums to {positive.min():g} in a class, less than {SMALLEST_SUM:g}: means and spreads "
            f"would not be numbers. {ADVICE}"
        )


def weights_switch_off(relabeler, codes, weights):
    """What weights do to the relabeling of one client that its rows without weights would not.

    Parameters
    ----------
    relabeler : FedReLaRelabeler
        Its `tau`, `ddof` and `normalization` are read.
    codes : ndarray of shape (n_rows,), int
        Class of every row.
    weights : ndarray of shape (n_rows,) or None
        Repetitions, >= 0.

    Returns
    -------
    reason : str or None
        None where weights do nothing out of the ordinary.
    """
    if weights is None or relabeler.tau == 0 or not len(codes):
        return None
    n, total = np.count_nonzero(weights), float(weights.sum())
    counted, sums = np.bincount(codes, weights > 0), np.bincount(codes, weights)
    few = 2 * total < n  # so that weights near 1 do not warn about a row more or less
    if few and relabeler.normalization != "none" and _too_few(as_float(relabeler.tau), total, n):
        return f"the weights of {n} rows sum to {total:.3g}, and tau times that is less than one row"
    unknown = (counted > relabeler.ddof) & (sums <= relabeler.ddof)
    if few and relabeler.normalization == "zscore_tanh" and 2 * counted[unknown].sum() > n:
        return f"most rows are of classes whose weights sum to at most ddof={relabeler.ddof}: their spread is unknown"
    return None


def _too_few(tau, total, n):
    return tau * total + ROUNDING < 1 <= tau * n + ROUNDING


def without_weight(codes, weights):
    """Whether a class has rows here, all of weight 0: it counts as absent, and so is the most wanted target."""
    return bool((np.bincount(codes, weights)[np.bincount(codes) > 0] == 0).any())


def describe(reasons):
    """One message about the clients for which weights change what relabeling means.

    Parameters
    ----------
    reasons : list of (str or None)
        As `weights_switch_off` gives them, one per client; at one site there is one.

    Returns
    -------
    message : str or None
        None where there is nothing to say.
    """
    given = [reason for reason in reasons if reason is not None]
    if not given:
        return None
    where = "" if len(reasons) == 1 else f" at {len(given)} of {len(reasons)} clients, for example"
    return f"sample_weight changes what relabeling does{where}: {given[0]}. {ADVICE}"
