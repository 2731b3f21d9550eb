"""`FederatedClassifier.fit` on the same job; the clock is read by a scikit-learn callback after each round."""

import numpy as np
import torch
from skorch import NeuralNetClassifier

from benchmarks.peers import job as J
from fedrela_sk import FederatedClassifier


class Clock:
    """A `FitCallback` that reads the clock when a round ends."""

    def __init__(self):
        self.marks = []

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        if context.task_name == "fit":
            self.marks.append(J.clock())

    def on_fit_task_end(self, estimator, context):
        if context.task_name == "round":
            self.marks.append(J.clock())


def fit(job, rounds, n_jobs, engine):
    parts, _ = J.data(job)
    X = np.concatenate([X.numpy() for X, _ in parts])
    y = np.concatenate([y.numpy() for _, y in parts])
    groups = np.repeat(np.arange(len(parts)), [len(y) for _, y in parts])
    net = NeuralNetClassifier(
        J.model(job), criterion=torch.nn.CrossEntropyLoss, lr=J.LR, batch_size=J.BATCH[job], max_epochs=1
    )
    clock = Clock()
    classifier = FederatedClassifier(
        net,
        clients=None,
        n_rounds=rounds,
        engine=engine,
        n_jobs=None if n_jobs == 1 else n_jobs,
        random_state=0,
    ).set_callbacks(clock)
    return classifier.fit(X, y, groups=groups), clock.marks


if __name__ == "__main__":
    a = J.arguments(jobs=1, engine="auto")
    torch.set_num_threads(1)
    classifier, marks = fit(a.job, a.rounds, a.jobs, a.engine)
    J.report("fedrela_sk", a.job, classifier.net_.module_, marks, processes=a.jobs, engine=classifier.engine_)
