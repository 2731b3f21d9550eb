"""Features of a card payment that look only at the past.

Rows are in time order. For a customer, a window of w days at row i holds the customer's rows up to and
including i that are later than t_i - w days. For a terminal, windows end seven days before t_i, for that is
how long it takes until a payment is known to be fraud: rows with t_i - (7 + w) days < t <= t_i - 7 days.

Computed without a loop over rows: rows are sorted by (who, time), windows become pairs of positions found by
bisection, and counts and sums are differences of positions and of cumulative sums.
"""

import numpy as np

DAY = 86_400  # seconds
WINDOWS = (1, 7, 30)  # days
DELAY = 7  # days until a fraud is known
HISTORY = DELAY + max(WINDOWS)  # days of past that the longest window reaches back

FEATURE_NAMES = [
    "amount",
    "weekend",
    "night",
    *(f"customer_{what}_{days}d" for days in WINDOWS for what in ("count", "mean_amount")),
    *(f"terminal_{what}_{days}d" for days in WINDOWS for what in ("count", "risk")),
]


def payment_features(time, customer, terminal, cents, fraud):
    """The 15 features of every payment.

    Parameters
    ----------
    time : ndarray of shape (n,), int
        Seconds, never decreasing; midnight between a Sunday and a Monday is a multiple of 7 x 86,400.
        May be negative.
    customer, terminal : ndarray of shape (n,), int >= 0
    cents : ndarray of shape (n,), int
        Amounts in hundredths, so that sums are exact.
    fraud : ndarray of shape (n,), bool
        Used at rows that are at least seven days later.

    Returns
    -------
    X : ndarray of shape (n, 15), float32
        Columns in the order of `FEATURE_NAMES`: amount; weekend (Saturday, Sunday) and night (before 7:00)
        as 0/1; for 1, 7 and 30 days number and mean amount of the customer's payments, this one included;
        for 1, 7 and 30 days number of the terminal's payments and share of frauds among them (0 where
        there were none), both seven days late.
    """
    X = np.empty((len(time), len(FEATURE_NAMES)), dtype=np.float32)
    X[:, 0] = cents / 100
    X[:, 1] = time // DAY % 7 >= 5
    X[:, 2] = time % DAY < 7 * 3600
    X[:, 3:9] = customer_windows(time, customer, cents)
    X[:, 9:15] = terminal_windows(time, terminal, fraud)
    return X


def customer_windows(time, customer, cents):
    """Number and mean amount of the customer's payments per window, this one included; shape (n, 6)."""
    order, key = sort_by_owner(time, customer)
    total = _running_sum(cents[order])
    stop = np.arange(1, len(key) + 1)
    out = np.empty((len(key), 2 * len(WINDOWS)), dtype=np.float32)
    for j, days in enumerate(WINDOWS):
        start = np.searchsorted(key, key - days * DAY, side="right")
        count = stop - start
        out[order, 2 * j] = count
        out[order, 2 * j + 1] = (total[stop] - total[start]) / (100 * count)
    return out


def terminal_windows(time, terminal, fraud):
    """Number of the terminal's payments per delayed window and share of frauds; shape (n, 6)."""
    order, key = sort_by_owner(time, terminal)
    total = _running_sum(fraud[order])
    stop = np.searchsorted(key, key - DELAY * DAY, side="right")
    out = np.empty((len(key), 2 * len(WINDOWS)), dtype=np.float32)
    for j, days in enumerate(WINDOWS):
        start = np.searchsorted(key, key - (DELAY + days) * DAY, side="right")
        count = stop - start
        out[order, 2 * j] = count
        out[order, 2 * j + 1] = (total[stop] - total[start]) / np.maximum(count, 1)
    return out


def sort_by_owner(time, owner):
    """Order of rows by (owner, time, position), and the sorted key owner x span + time.

    The span is so long that a step of any window back from a row never reaches another owner's rows.
    """
    first, last = (time[0], time[-1]) if len(time) else (0, 0)
    span = last - first + (HISTORY + 1) * DAY
    key = owner.astype(np.int64) * span + (time - first)
    order = np.argsort(key, kind="stable")
    return order, key[order]


def _running_sum(values):
    """Cumulative sums with a leading zero: the sum over rows [a, b) is total[b] - total[a]."""
    return np.concatenate([[0], np.cumsum(values, dtype=np.int64)])
