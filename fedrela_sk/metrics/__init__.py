"""Numbers from labels and predictions, for rare classes and for rows that are spread over clients.

Four kinds, each with scorers for `scoring=`:

- groups of classes: which classes are head, medium or tail (`shot_split`), majority or minority
  (`majority_minority_split`), and their recall (`shot_recall`, `majority_minority_recall`, `group_recall`,
  `per_class_recall`);
- clients: `client_report` (one row per client), `federated_score` (from confusion counts summed over
  clients, all that a server could see) and `client_scorer` (each row predicted by its own client's model);
- a budget: `recall_at_alerts`, `precision_at_k`;
- money: `cost_by_amount`.

Every metric knows all classes through `labels`, so a client or a fold may lack any of them. What does not
exist (the recall of a class without true rows) is NaN, not 0, and is left out of means.
"""

from fedrela_sk.metrics._alerts import precision_at_k, recall_at_alerts
from fedrela_sk.metrics._class_scorers import fitted_class_count
from fedrela_sk.metrics._client_scorer import client_scorer
from fedrela_sk.metrics._clients import ClientReport, client_report
from fedrela_sk.metrics._cost import cost_by_amount
from fedrela_sk.metrics._federated import client_confusion, federated_score
from fedrela_sk.metrics._recall import group_recall, majority_minority_recall, per_class_recall, shot_recall
from fedrela_sk.metrics._scorers import (
    cost_by_amount_scorer,
    federated_scorer,
    head_recall_scorer,
    majority_minority_recall_scorer,
    majority_recall_scorer,
    medium_recall_scorer,
    minority_recall_scorer,
    precision_at_k_scorer,
    recall_at_alerts_scorer,
    shot_recall_scorer,
    tail_recall_scorer,
)
from fedrela_sk.metrics._shots import majority_minority_split, proxy_class_counts, shot_split

__all__ = [
    "ClientReport",
    "client_confusion",
    "client_report",
    "client_scorer",
    "cost_by_amount",
    "cost_by_amount_scorer",
    "federated_score",
    "federated_scorer",
    "fitted_class_count",
    "group_recall",
    "head_recall_scorer",
    "majority_minority_recall",
    "majority_minority_recall_scorer",
    "majority_minority_split",
    "majority_recall_scorer",
    "medium_recall_scorer",
    "minority_recall_scorer",
    "per_class_recall",
    "precision_at_k",
    "precision_at_k_scorer",
    "proxy_class_counts",
    "recall_at_alerts",
    "recall_at_alerts_scorer",
    "shot_recall",
    "shot_recall_scorer",
    "shot_split",
    "tail_recall_scorer",
]
