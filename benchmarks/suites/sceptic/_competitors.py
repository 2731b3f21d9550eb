"""The table of competitors, in the order of the report."""

from dataclasses import dataclass
from typing import Any

from benchmarks.suites.sceptic import _federated as federated
from benchmarks.suites.sceptic import _pooled as pooled

REFERENCE = "fedrela-chosen"


@dataclass(frozen=True)
class Competitor:
    """One row of every table.

    Attributes
    ----------
    group, title : str
    run : callable
        ``run(job, seed, memory)`` returns an `Outcome`; `memory` is a folder.
    binary_only : bool
        Whether it needs two classes.
    """

    group: str
    title: str
    run: Any
    binary_only: bool = False


COMPETITORS = {
    "logistic": Competitor("pooled", "logistic regression", pooled.logistic),
    "boosting": Competitor("pooled", "boosting", pooled.boosting),
    "boosting-weights": Competitor("pooled", "boosting, class weights", pooled.boosting_weights),
    "boosting-threshold": Competitor("pooled", "boosting, tuned threshold", pooled.boosting_threshold, True),
    "net": Competitor("pooled", "net", pooled.net),
    "net-weights": Competitor("pooled", "net, class weights", pooled.net_weights),
    "net-oversampled": Competitor("pooled", "net, random oversampling", pooled.net_oversampled),
    "net-smote": Competitor("pooled", "net, SMOTE", pooled.net_smote),
    "net-focal": Competitor("pooled", "net, focal loss", pooled.net_focal),
    "net-adjusted": Competitor("pooled", "net, logit adjustment", pooled.net_adjusted),
    "net-threshold": Competitor("pooled", "net, tuned threshold", pooled.net_threshold, True),
    "net-relabeled": Competitor("pooled", "net, RelabelingClassifier, tau 5 %", pooled.net_relabeled),
    "net-transformed": Competitor("pooled", "net, the same, refit=False", pooled.net_transformed),
    "federated": Competitor("federated", "plain", federated.federated),
    "weights": Competitor("federated", "class weights", federated.weights),
    "balanced-softmax": Competitor("federated", "balanced softmax", federated.balanced_softmax),
    "fedlc": Competitor("federated", "FedLC", federated.fedlc),
    "logit-adjusted": Competitor(
        "federated", "logit adjustment in the loss, summed counts", federated.logit_adjusted
    ),
    "adjusted-after": Competitor(
        "federated", "logit adjustment after training, summed counts", federated.adjusted_after
    ),
    "threshold": Competitor("federated", "tuned threshold", federated.threshold, True),
    "fedrela-chosen": Competitor("federated", "**FedReLa, tau chosen**", federated.fedrela_chosen),
    "fedrela-fixed": Competitor("federated", "FedReLa, tau 5 %", federated.fedrela_fixed),
    "fedrela-capped": Competitor("federated", "FedReLa, max_ratio chosen", federated.fedrela_capped),
    "dropped-chosen": Competitor("federated", "FedReLa's rows dropped, tau chosen", federated.dropped_chosen),
    "dropped-fixed": Competitor("federated", "FedReLa's rows dropped, tau 5 %", federated.dropped_fixed),
    "local-only": Competitor("federated", "every client alone", federated.local_only),
}
