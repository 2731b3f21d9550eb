"""A small world of banks, customers and terminals, the payments made in it, and the frauds among them.

Written from the description of the simulator in the Fraud Detection Handbook (Le Borgne, Siblini, Lebichot,
Bontempi, Universite Libre de Bruxelles 2022), with banks added and every step over whole arrays.
"""

from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import ndtr, ndtri

from fedrela_sk._apportion import apportion
from fedrela_sk.datasets._payment_features import DAY

NEIGHBORS = 78  # terminals a customer uses: those nearest to home
BANK_SPREAD = 0.2  # spread of a bank's region, in units of the mean distance between banks
MEAN_AMOUNT = (5.0, 100.0)  # range of customers' mean amounts
NOON, TIME_SPREAD = 43_200, 20_000  # seconds: mean and spread of the time of day

AMOUNT_LIMIT = 22_000  # cents; scenario 1 is what lies above
TERMINAL_DAYS, TERMINAL_RATE = 28, 2e-4  # scenario 2: length; new cases per terminal and day
CARD_DAYS, CARD_RATE = 14, 6e-4  # scenario 3: length; new cases per customer and day
STOLEN_SHARE, STOLEN_FACTOR = 1 / 3, 5  # scenario 3: payments by the thief, and how much larger they are


class World(NamedTuple):
    """What does not change from day to day; banks and regions are numbered alike."""

    bank: np.ndarray  # (customers,) bank of each customer
    rate: np.ndarray  # (customers,) share of all payments, sums to one
    mean_amount: np.ndarray  # (customers,)
    nearest: np.ndarray  # (customers, k) terminals in use
    card_risk: np.ndarray  # (customers,) chance to be the next whose card is stolen, sums to one
    terminal_risk: np.ndarray  # (terminals,) chance to be the next compromised, sums to one


class Payments(NamedTuple):
    """One row per payment, in time order."""

    time: np.ndarray  # seconds since midnight of the first day that is returned, negative in the warm-up
    customer: np.ndarray
    terminal: np.ndarray
    cents: np.ndarray  # amount in hundredths
    scenario: np.ndarray  # 0 genuine, 1 to 3 fraud


def make_world(n_customers, n_terminals, n_banks, bank_skew, heterogeneity, rng):
    """Draw banks with their regions, then customers and terminals around them.

    `heterogeneity` is the spread h of three independent normal effects per bank: on the log of its
    customers' and of its terminals' risk, and on how much its customers spend.
    """
    share = (1.0 + np.arange(n_banks)) ** -bank_skew
    share /= share.sum()
    bank = np.repeat(np.arange(n_banks), apportion(share, n_customers, least=1))
    region = np.repeat(np.arange(n_banks), apportion(share, n_terminals))
    center, spread = rng.random((n_banks, 2)), BANK_SPREAD / np.sqrt(n_banks)
    home = center[bank] + spread * rng.standard_normal((n_customers, 2))
    place = center[region] + spread * rng.standard_normal((n_terminals, 2))
    card, terminal, wealth = heterogeneity * rng.standard_normal((3, n_banks))
    return World(
        bank=bank,
        rate=_to_shares(rng.random(n_customers)),
        mean_amount=_mean_amounts(wealth - share @ wealth, bank, heterogeneity, rng),
        nearest=_nearest(place, home),
        card_risk=_to_shares(np.exp(card)[bank]),
        terminal_risk=_to_shares(np.exp(terminal)[region]),
    )


def _to_shares(values):
    return values / values.sum()


def _mean_amounts(wealth, bank, heterogeneity, rng):
    """Mean amounts: uniform over their range where banks are alike, shifted by the bank's wealth."""
    low, high = MEAN_AMOUNT
    normal = (wealth[bank] + rng.standard_normal(len(bank))) / np.hypot(1.0, heterogeneity)
    return low + (high - low) * ndtr(normal)


def _nearest(place, home):
    k = min(NEIGHBORS, len(place))
    return cKDTree(place).query(home, k=np.arange(1, k + 1))[1].astype(np.int32)


def draw_payments(world, n_rows, first_day, n_days, rng):
    """`n_rows` genuine payments on days first_day .. first_day + n_days - 1, in no order.

    Independent Poisson numbers per customer and day, given their sum, are one multinomial draw: each
    payment picks its customer by rate and its day uniformly. Times of day are normal around noon, cut to the
    day; amounts are normal around the customer's mean with half of it as spread, negative ones drawn again,
    uniform between zero and twice the mean.
    """
    customer = rng.choice(len(world.rate), n_rows, p=world.rate)
    terminal = world.nearest[customer, rng.integers(world.nearest.shape[1], size=n_rows)]
    time = DAY * rng.integers(first_day, first_day + n_days, size=n_rows) + _times_of_day(n_rows, rng)
    mean = world.mean_amount[customer]
    amount = mean * (1.0 + 0.5 * rng.standard_normal(n_rows))
    again = 2.0 * mean * rng.random(n_rows)
    cents = np.rint(100.0 * np.where(amount < 0, again, amount)).astype(np.int64)
    return Payments(time, customer, terminal, cents, np.zeros(n_rows, dtype=np.int8))


def _times_of_day(n_rows, rng):
    """Whole seconds in [0, 86400): a normal cut to the day, by its inverse distribution function."""
    low, high = ndtr((-NOON / TIME_SPREAD, (DAY - NOON) / TIME_SPREAD))
    seconds = NOON + TIME_SPREAD * ndtri(rng.uniform(low, high, n_rows))
    return np.clip(seconds.astype(np.int64), 0, DAY - 1)


def commit_frauds(payments, world, first_day, n_days, rng):
    """The same payments with the three scenarios carried out; a later scenario overwrites an earlier one."""
    days = first_day, n_days
    terminals = draw_cases(world.terminal_risk, TERMINAL_RATE, TERMINAL_DAYS, *days, rng)
    cards = draw_cases(world.card_risk, CARD_RATE, CARD_DAYS, *days, rng)
    bad_terminal = in_case(payments.terminal, payments.time, *terminals, TERMINAL_DAYS)
    stolen = in_case(payments.customer, payments.time, *cards, CARD_DAYS)
    stolen &= rng.random(len(stolen)) < STOLEN_SHARE
    large = payments.cents > AMOUNT_LIMIT
    scenario = np.select([stolen, bad_terminal, large], [3, 2, 1]).astype(np.int8)
    cents = np.where(stolen, STOLEN_FACTOR * payments.cents, payments.cents)
    return payments._replace(scenario=scenario, cents=cents)


def draw_cases(risk, rate, length, first_day, n_days, rng):
    """Who is compromised and from which day on: as many cases as `rate` expects (at least one).

    Starts are spread evenly, each drawn in its own share of the time. They reach back `length` - 1 days
    before the first day, so as many cases are open on the first day as on any other.
    """
    n_starts = n_days + length - 1
    n_cases = max(1, round(rate * len(risk) * n_starts))
    who = rng.choice(len(risk), n_cases, p=risk)
    share_of_time = (np.arange(n_cases) + rng.random(n_cases)) / n_cases
    return who, first_day - length + 1 + (n_starts * share_of_time).astype(np.int64)


def in_case(owner, time, who, start_day, length):
    """Whether a case of the row's owner is open at the row's time: start <= time < start + length days."""
    origin = min(time.min(), DAY * start_day.min())
    span = max(time.max(), DAY * start_day.max()) - origin + length * DAY
    cases = np.sort(who * span + (DAY * start_day - origin))
    rows = owner * span + (time - origin)
    latest = np.searchsorted(cases, rows, side="right") - 1
    return (latest >= 0) & (rows - cases[latest] < length * DAY)
