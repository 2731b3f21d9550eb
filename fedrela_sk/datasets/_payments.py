"""Simulated card payments of several banks, with three kinds of fraud.

The world. Banks have sizes (bank b = 0, 1, ... has a share of customers proportional to (b + 1) to the power
-bank_skew, at least one) and regions in the plane. A customer lives in the region of her bank and makes a
random number of payments (about 2 a day where `n_customers` is left out), around noon rather than at night,
of amounts spread around a mean of her own (5 to 100), on the 78 terminals nearest to home. Regions overlap, so
a terminal serves customers of several banks.

The frauds, about 0.9 % of payments:

1. every amount above 220;
2. a terminal is compromised for 28 days: every payment on it is fraud;
3. a card's details are stolen for 14 days: a third of the customer's payments, then five times as large.

Of a payment that falls under several, the highest number counts. With `heterogeneity` > 0 banks differ in
how often their customers and the terminals of their region fall victim, and in how much their customers
spend, so in the rate, the kinds and the look of fraud.

The features of a payment know only the past: 37 days before the first row are simulated too, so that all
windows are full, and left out. What is returned starts on a Monday.

After the description of the simulator in the Fraud Detection Handbook (Le Borgne, Siblini, Lebichot,
Bontempi, Universite Libre de Bruxelles 2022, chapter 3); banks, regions and the code are our own.
"""

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from fedrela_sk._deprecation import old_keywords
from fedrela_sk._random import Purpose, numpy_stream, seed_from
from fedrela_sk._sklearn import Interval, validate_params
from fedrela_sk._typing import RandomState
from fedrela_sk.datasets._payment_features import DAY, FEATURE_NAMES, HISTORY, payment_features
from fedrela_sk.datasets._payment_stream import Payments, commit_frauds, draw_payments, make_world

PAYMENTS_PER_DAY = 2  # of a customer, where n_customers is left out
TERMINALS_PER_CUSTOMER = 2  # where n_terminals is left out

# ingredient of a simulation -> round number of its random stream
_STREAMS = {"world": 0, "warm_up": 1, "payments": 2, "frauds": 3}


@old_keywords
@validate_params(
    {
        "n_samples": [Interval(Integral, 1, None, closed="left")],
        "n_banks": [Interval(Integral, 1, None, closed="left")],
        "n_days": [Interval(Integral, 1, None, closed="left")],
        "n_customers": [Interval(Integral, 1, None, closed="left"), None],
        "n_terminals": [Interval(Integral, 1, None, closed="left"), None],
        "bank_skew": [Interval(Real, 0, None, closed="left")],
        "heterogeneity": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
    },
    prefer_skip_nested_validation=True,
)
def make_payments(
    n_samples: int = 100_000,
    *,
    n_banks: int = 20,
    n_days: int = 35,
    n_customers: int | None = None,
    n_terminals: int | None = None,
    bank_skew: float = 1.0,
    heterogeneity: float = 0.5,
    random_state: RandomState = None,
) -> Any:
    """Simulate card payments of several banks, about 0.9 % of them fraud.

    Parameters
    ----------
    n_samples : int >= 1, default=100_000
        Number of payments, exactly.
    n_banks : int >= 1, default=20
        Number of banks, the clients. Bank 0 is the largest. Each has at least one customer; in very small
        data a bank may make no payment.
    n_days : int >= 1, default=35
        Days they are spread over, beginning with a Monday.
    n_customers : int >= n_banks, default=None
        None: so many that each makes about two payments a day, at least `n_banks`.
    n_terminals : int >= 1, default=None
        None: twice as many as customers.
    bank_skew : float >= 0, default=1.0
        Exponent of bank sizes: 0 makes all equally large, 1 makes bank b a 1 / (b + 1) of bank 0.
    heterogeneity : float >= 0, default=0.5
        Spread of the log of the banks' risks, and of their customers' wealth in units of the spread inside a
        bank. At 0 banks are alike but for size and place.
    random_state : int, RandomState instance or None, default=None
        Seed of the simulation.

    Returns
    -------
    bunch : Bunch
        data : ndarray of shape (n_samples, 15), float32
            Features, named in `feature_names`: the amount; weekend and night as 0/1; for 1, 7 and 30 days
            number and mean amount of the customer's payments up to this one; for 1, 7 and 30 days number of
            the terminal's payments and share of frauds among them, both as they were seven days ago, since
            it takes that long until a fraud is known.
        target : ndarray of shape (n_samples,), int64; 1 = fraud.
        groups : ndarray of shape (n_samples,), int64; the bank of the customer.
        day, time_seconds : ndarray of shape (n_samples,), int64
            Time since the first midnight; rows are in time order.
        customer, terminal : ndarray of shape (n_samples,), int64
        scenario : ndarray of shape (n_samples,), int8; 0 genuine, 1 to 3 the kind of fraud. Not a feature.
        amount : ndarray of shape (n_samples,), float64; what a missed fraud costs.
        feature_names, target_names : lists of str.
        DESCR : str.

    Raises
    ------
    ValueError
        If a parameter is out of range, or there are fewer customers than banks.

    Notes
    -----
    A million rows in 35 days take about 4 s on one core and 0.8 GB. Time and memory grow with n_samples x
    (1 + 37 / n_days), for the warm-up has as many payments a day. Split by time, not at random, to judge a
    detector: train on days before some day d, test on days from d + 7 on.

    Examples
    --------
    >>> from fedrela_sk.datasets import make_payments
    >>> payments = make_payments(5_000, n_banks=4, random_state=0)
    >>> payments.data.shape, payments.target.shape
    ((5000, 15), (5000,))
    """
    if n_customers is None:
        n_customers = max(n_banks, -(-n_samples // (PAYMENTS_PER_DAY * n_days)))
    if n_customers < n_banks:
        raise ValueError(
            f"Every bank needs a customer: got n_customers={n_customers} for n_banks={n_banks}. "
            "Raise n_customers or lower n_banks."
        )
    n_terminals = TERMINALS_PER_CUSTOMER * n_customers if n_terminals is None else n_terminals
    seed = seed_from(random_state)
    world = make_world(n_customers, n_terminals, n_banks, bank_skew, heterogeneity, _stream(seed, "world"))
    payments = simulate(world, n_samples, n_days, seed)
    time, customer, terminal, cents = payments[:4]
    X = payment_features(time, customer, terminal, cents, payments.scenario > 0)
    return _bunch(X[-n_samples:], Payments(*(column[-n_samples:] for column in payments)), world)


def _stream(seed, ingredient):
    return numpy_stream(seed, Purpose.DATA, round=_STREAMS[ingredient])


def simulate(world, n_samples, n_days, seed):
    """All payments in time order: those of the warm-up days, at the same rate, then the last `n_samples`."""
    warm_up = _stream(seed, "warm_up")
    n_before = warm_up.poisson(n_samples * HISTORY / n_days)
    before = draw_payments(world, n_before, -HISTORY, HISTORY, warm_up)
    after = draw_payments(world, n_samples, 0, n_days, _stream(seed, "payments"))
    order = np.argsort(np.concatenate([before.time, after.time]), kind="stable")
    both = Payments(*(np.concatenate(pair)[order] for pair in zip(before, after, strict=True)))
    return commit_frauds(both, world, -HISTORY, HISTORY + n_days, _stream(seed, "frauds"))


def _bunch(X, payments, world):
    return Bunch(
        data=X,
        target=(payments.scenario > 0).astype(np.int64),
        groups=world.bank[payments.customer],
        day=payments.time // DAY,
        time_seconds=payments.time,
        customer=payments.customer,
        terminal=payments.terminal.astype(np.int64),
        scenario=payments.scenario,
        amount=payments.cents / 100,
        feature_names=list(FEATURE_NAMES),
        target_names=["genuine", "fraud"],
        DESCR=__doc__,
    )
