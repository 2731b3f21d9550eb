"""One run: a cell with one seed, its arms branching off the same weights at the relabel round."""

from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.suites._stability import moved
from benchmarks.suites.paper._controls import CONTROLS
from benchmarks.suites.paper._data import images_of
from benchmarks.suites.paper._nets import make_net
from fedrela_sk import DirichletSplit, FederatedClassifier, FedReLaRelabeler
from fedrela_sk.algorithms import ALGORITHMS
from fedrela_sk.exceptions import NotFiniteError
from fedrela_sk.metrics import per_class_recall


class RateDrop:
    """The released code's rate from the relabel round on: a tenth."""

    def __init__(self, round):
        self.round = round

    def __call__(self, t):
        return 0.1 if t >= self.round else 1.0


def run(cell, seed):
    """Figures of all arms of a cell; a dictionary an arm, in their order."""
    data = images_of(cell)
    found = []
    with TemporaryDirectory() as memory:
        for arm in cell.arms:
            classifier = make_classifier(cell, arm, seed, data, memory)
            try:
                classifier.fit(data.X, data.y, X_val=data.X_test, y_val=data.y_test)
            except NotFiniteError as error:  # a finding, not a failure of the suite
                found.append({"arm": arm["name"], "diverged": str(error)})
                continue
            found.append({"arm": arm["name"]} | figures(classifier, data))
    return found


def points_apart(cell, seed, baseline):
    """How far a baseline's accuracy parts from that of a start that is moved by a millionth, a share of 1.

    Parameters
    ----------
    cell : Cell
    seed : int
    baseline : dict
        Figures of the arm "baseline".
    """
    data, arm = images_of(cell), next(arm for arm in cell.arms if arm["name"] == baseline["arm"])
    classifier = make_classifier(cell, arm, seed, data)
    classifier.estimator.set_params(module=moved(classifier.estimator.module))
    try:
        classifier.fit(data.X, data.y, X_val=data.X_test, y_val=data.y_test)
    except NotFiniteError:
        return 1.0
    return abs(float(classifier.history_.column("valid_score")[-1]) - baseline["accuracy"][-1])


def make_classifier(cell, arm, seed, data, memory=None):
    """The federation of one arm."""
    federation, relabel = cell.settings["federation"], cell.settings["relabel"] | arm
    n_rounds = federation["n_rounds"]
    drop = RateDrop(int(np.ceil(relabel["at"] * n_rounds - 1e-9))) if arm.get("drop") else None
    return FederatedClassifier(
        make_net(cell.settings["net"], data, arm.get("criterion")),
        clients=DirichletSplit(
            federation["n_clients"], alpha=cell.values["alpha"], method=federation["split"], random_state=seed
        ),
        algorithm=make_algorithm(cell),
        relabeler=make_relabeler(relabel),
        relabel_at=relabel["at"],
        relabel_every=relabel.get("every"),
        relabel_posteriors=relabel.get("posteriors"),
        n_rounds=n_rounds,
        participation=federation["participation"],
        lr_schedule=drop,
        memory=memory,
        random_state=seed,
    )


def make_algorithm(cell):
    """The method of a cell, with the parameters that its settings file gives it."""
    name = cell.values["method"]
    return ALGORITHMS[name](**cell.settings.get("method", {}).get(name, {}))


def make_relabeler(relabel):
    """FedReLa or a control; tau = 0 is the baseline."""
    if "control" in relabel:
        return CONTROLS[relabel["control"]](relabel["tau"])
    names = ("normalization", "ddof", "min_scale", "threshold", "target", "max_ratio")
    return FedReLaRelabeler(relabel["tau"], **{name: relabel[name] for name in names if name in relabel})


def figures(classifier, data):
    """Accuracy of every round, recall of every class, and what was relabelled."""
    history = classifier.history_
    changed = np.flatnonzero(classifier.relabeled_mask_)
    flows = np.zeros((len(classifier.classes_),) * 2, dtype=int)
    np.add.at(flows, (data.y[changed], classifier.y_relabeled_[changed]), 1)
    counts = np.bincount(data.y)
    Q = classifier.predict_proba(data.X_test)
    recall, adjusted = (
        per_class_recall(data.y_test, scores.argmax(1), labels=classifier.classes_)
        for scores in (Q, Q / counts)
    )
    return {
        "accuracy": [round(float(score), 5) for score in history.column("valid_score")],
        "recall": [round(float(value), 5) for value in recall],
        # posteriors over the class shares of all training rows: needs the global counts, no training
        "recall_adjusted": [round(float(value), 5) for value in adjusted],
        "counts": counts.tolist(),
        "relabel_round": classifier.relabel_round_,
        "relabeled": len(changed),
        "relabeled_by_client": [int(classifier.relabeled_mask_[rows].sum()) for rows in classifier.clients_],
        "client_sizes": [len(rows) for rows in classifier.clients_],
        "dropped": int((~classifier.kept_mask_).sum()),
        "flows": flows.tolist(),
        "bytes": int(np.sum(history.column("bytes_up")) + np.sum(history.column("bytes_down"))),
        "seconds": round(float(np.median(history.column("seconds"))), 4),
        "engine": classifier.engine_,
    }
