"""Questions that two rows answer together: one against the other on every set."""

import numpy as np

from benchmarks.suites._markdown import table
from benchmarks.suites.sceptic._intervals import paired_interval

# question -> (this row, less that row)
PAIRS = {
    "FedReLa, tau chosen − plain federation": ("fedrela-chosen", "federated"),
    "FedReLa, tau 5 % − plain federation": ("fedrela-fixed", "federated"),
    "FedReLa, tau chosen − balanced softmax": ("fedrela-chosen", "balanced-softmax"),
    "FedReLa, tau chosen − tuned threshold": ("fedrela-chosen", "threshold"),
    "FedReLa, tau chosen − logit adjustment after training": ("fedrela-chosen", "adjusted-after"),
    "FedReLa, tau chosen − class weights": ("fedrela-chosen", "weights"),
    "FedReLa, max_ratio chosen − tau chosen": ("fedrela-capped", "fedrela-chosen"),
    "FedReLa, tau chosen − its rows dropped, tau chosen": ("fedrela-chosen", "dropped-chosen"),
    "FedReLa, tau 5 % − the same rows dropped": ("fedrela-fixed", "dropped-fixed"),
    "federated − pooled net, both plain": ("federated", "net"),
    "federated balanced softmax − pooled logit adjustment": ("balanced-softmax", "net-adjusted"),
    "federated FedReLa − pooled RelabelingClassifier, tau 5 %": ("fedrela-fixed", "net-relabeled"),
    "plain federation − every client alone": ("federated", "local-only"),
}


def pair_tables(facts, done):
    """Tables of differences in balanced accuracy and in average precision, one column per set."""
    parts = []
    for key in ("balanced_accuracy", "average_precision"):
        rows = [
            [asked, *(_cell(pair, set_, key, facts, done) for set_ in facts)] for asked, pair in PAIRS.items()
        ]
        said = f"Differences in {key.replace('_', ' ')}, points, with paired 95 % intervals as below:\n\n"
        parts.append(said + table(["rows", *facts], rows))
    return "\n".join(parts)


def _cell(pair, set_, key, facts, done):
    first, second = (
        {
            seed: line[key]
            for (at, who, seed), line in done.items()
            if (at, who) == (set_, name) and key in line
        }
        for name in pair
    )
    seeds = sorted(first.keys() & second.keys())
    if not seeds:
        return "–"
    values = ([of[seed] for seed in seeds] for of in (first, second))
    mean, half = paired_interval(*values, facts[set_]["overlap"])
    return f"{100 * mean:+.1f}" + ("" if np.isnan(half) else f" ± {100 * half:.1f}")
