"""The command line of ``python -m fedrela_sk``; needs nothing but the standard library."""

import argparse
from dataclasses import dataclass
from pathlib import Path

DATA = ("loans", "payments", "fars")

_DESCRIPTION = """\
Which tau? A grid search over the strength of re-labeling in a federation, on data that come with the
package, beside plain federated training, class weights, a tuned threshold and models on pooled rows.
Prints a table and what it says, and saves two pictures and a CSV. The loans take under a minute on two
cores, the other data a few minutes."""

_EPILOG = """\
data:
  loans     9,857 real loans, 5.2 % bad; clients are 50 states
  payments  40,000 simulated card payments, about 0.9 % fraud; clients are 20 banks; folds are cut by time
  fars      20,000 of 99,759 persons in real road crashes, 5 degrees of injury; clients are 51 states

examples:
  python -m fedrela_sk --tau 0.05 0.2 --rounds 30
  python -m fedrela_sk --clients 40:0.1 --seed 1 --out runs/dirichlet"""


@dataclass(frozen=True)
class Clients:
    """Who holds what.

    Attributes
    ----------
    number : int or None
        None: the natural clients of the data.
    alpha : float or None
        None: even IID clients; else the concentration of Dirichlet clients.
    """

    number: int | None = None
    alpha: float | None = None


@dataclass(frozen=True)
class Options:
    """What the command line asks for.

    Attributes
    ----------
    data : str
        One of `DATA`.
    clients : Clients
    rounds : int or None
        None: as suits the data.
    tau : tuple of float
        Ascending, without repeats, 0 among them.
    seed : int
    out : Path
    """

    data: str
    clients: Clients
    rounds: int | None
    tau: tuple
    seed: int
    out: Path


def read_arguments(arguments=None):
    """`Options` from a list of strings, None for ``sys.argv``; exits with code 2 where they make no sense."""
    parsed = _parser().parse_args(arguments)
    return Options(**{**vars(parsed), "tau": tuple(sorted({0.0, *parsed.tau}))})


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m fedrela_sk",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", choices=DATA, default="loans", help="which data (default: loans)")
    parser.add_argument(
        "--clients", type=_clients, default=Clients(), metavar="natural|K|K:ALPHA",
        help="states or banks (default: natural), K even IID clients, or K clients whose class mixes are drawn "
        "from a Dirichlet distribution: the smaller ALPHA, the more they differ",
    )  # fmt: skip
    parser.add_argument(
        "--rounds", type=_rounds, metavar="N", help="rounds of the federation, at least 2 (default: 30)"
    )
    parser.add_argument(
        "--tau", type=_tau, nargs="+", default=[0.02, 0.05, 0.1, 0.2], metavar="TAU",
        help="values in [0, 1] to search; 0, which relabels nothing, is always among them "
        "(default: 0.02 0.05 0.1 0.2)",
    )  # fmt: skip
    parser.add_argument("--seed", type=_seed, default=0, help="seed of everything that is drawn (default: 0)")
    parser.add_argument(
        "--out", type=Path, default=Path("fedrela_out"), metavar="FOLDER",
        help="where the pictures and the CSV go; made if need be (default: fedrela_out)",
    )  # fmt: skip
    return parser


def _clients(text):
    if text == "natural":
        return Clients()
    number, colon, alpha = text.partition(":")
    try:
        clients = Clients(int(number), float(alpha) if colon else None)
    except ValueError:
        clients = None
    if clients is None or clients.number < 2 or not (clients.alpha is None or 0 < clients.alpha < 1e6):
        raise argparse.ArgumentTypeError(
            f"must be 'natural', an integer K >= 2, or K:ALPHA with ALPHA > 0 such as 40:0.3; got {text!r}"
        )
    return clients


def _integer(text, low, high, remedy):
    try:
        value = int(text)
    except ValueError:
        value = None
    if value is None or not low <= value <= high:
        raise argparse.ArgumentTypeError(f"must be {remedy}; got {text!r}")
    return value


def _rounds(text):
    return _integer(text, 2, 10**6, "an integer >= 2, so that a round is left after re-labeling")


def _seed(text):
    return _integer(text, 0, 2**32 - 1, "an integer from 0 to 2**32 - 1")


def _tau(text):
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"must be a share in [0, 1], such as 0.05 for 5 %; got {text!r}")
    return value
