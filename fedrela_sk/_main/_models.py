"""The models of the main job, and the scores they are judged by."""

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer, recall_score
from sklearn.model_selection import TunedThresholdClassifierCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from skorch import NeuralNetClassifier
from torch import nn

from fedrela_sk import FederatedClassifier, FedReLaRelabeler
from fedrela_sk.federation.relabeling._schedule import relabel_round
from fedrela_sk.nets import MLP

RELABEL_AT = 0.5  # of the rounds; earlier than the default, since there are few
TAU = "federation__relabeler__tau"
YARDSTICK = "pooled logistic regression"


def make_features(X):
    """Transformer from a data frame to dense float32: imputed, one-hot encoded, scaled.

    The categories are those of the schema, not those of the training rows, so the width is known before
    any row is seen, as the clients of a federation need it.
    """
    categorical = [name for name in X if X[name].dtype == "category"]
    numeric = [name for name in X if name not in categorical]
    encoder = OneHotEncoder(
        categories=[X[name].cat.categories.to_numpy() for name in categorical],
        handle_unknown="ignore",
        sparse_output=False,
        dtype=np.float32,
    )
    columns = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numeric),
            ("categories", make_pipeline(SimpleImputer(strategy="most_frequent"), encoder), categorical),
        ]
    )
    return make_pipeline(columns, FunctionTransformer(np.asarray, kw_args={"dtype": np.float32}))


def n_encoded(X):
    """Columns that `make_features` makes."""
    return sum(len(X[name].cat.categories) if X[name].dtype == "category" else 1 for name in X)


def make_federation(problem, options, callback, tau=0.0, **params):
    """Pipeline of features and a `FederatedClassifier` whose relabeler has the given tau."""
    training = problem.training
    net = NeuralNetClassifier(
        MLP,
        module__n_features=n_encoded(problem.X),
        module__n_classes=len(problem.class_names),
        module__hidden=(64, 32),
        criterion=nn.CrossEntropyLoss,
        lr=training.lr,
        batch_size=training.batch_size,
        max_epochs=training.epochs,
        iterator_train__shuffle=True,
    )
    federation = FederatedClassifier(
        net,
        clients=problem.clients,
        relabeler=FedReLaRelabeler(tau),
        relabel_at=RELABEL_AT,
        n_rounds=options.rounds or training.rounds,
        random_state=options.seed,
        **params,
    ).set_callbacks(callback)
    return Pipeline([("features", make_features(problem.X)), ("federation", federation)])


def relabel_index(n_rounds):
    """Index of the first round trained on new labels."""
    return relabel_round(RELABEL_AT, n_rounds)


def make_federated_others(problem, options, callback, memory):
    """Name to (model, rounds that each fold takes): other ways to the rare class that need no pooled rows."""
    n_rounds = options.rounds or problem.training.rounds
    weighted = make_federation(problem, options, callback, class_weight="balanced")
    models = {"federated, class weights": (weighted, n_rounds)}
    if problem.binary:
        plain = make_federation(problem, options, callback, memory=memory)
        threshold = TunedThresholdClassifierCV(plain, cv=0.25, random_state=options.seed)
        # three quarters of the rows to tune on the rest, then all rows, which `memory` knows from the search
        models["federated, tuned threshold"] = (threshold, 2 * n_rounds - relabel_index(n_rounds))
    return models


def make_pooled(problem, options):
    """Name to model on pooled rows. Boosting has small trees and slow learning, chosen by hand."""
    features = make_features(problem.X)
    boosting = HistGradientBoostingClassifier(
        class_weight="balanced",
        learning_rate=0.05,
        max_leaf_nodes=8,
        max_bins=63,
        categorical_features="from_dtype",
        random_state=options.seed,
    )
    regression = LogisticRegression(max_iter=1000)
    weighted = LogisticRegression(max_iter=1000, class_weight="balanced")
    return {
        YARDSTICK: make_pipeline(features, regression),
        "pooled logistic reg., weights": make_pipeline(features, weighted),
        "pooled boosting, weights": boosting,
    }


def make_scorers(problem):
    """Metric to scorer: balanced accuracy, recall of the rarest class, F1, average precision.

    With more than two classes F1 and average precision are means over the classes.
    """
    recall = make_scorer(recall_score, labels=[problem.rare], average="macro", zero_division=0.0)
    return {
        "balanced_accuracy": "balanced_accuracy",
        "recall": recall,
        "f1": "f1" if problem.binary else "f1_macro",
        "average_precision": "average_precision",
    }


def metric_names(problem):
    """Metric to what it is called in print."""
    name = problem.class_names[problem.rare]
    return {
        "balanced_accuracy": "balanced accuracy",
        "recall": f"recall of {name}",
        "f1": f"F1 of {name}" if problem.binary else "F1 (macro)",
        "average_precision": "average precision",
    }
