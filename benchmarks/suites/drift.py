"""How far two engines drift apart by rounding alone: ``python -m benchmarks.run drift``.

The same job, `even` for up to 100 rounds with FedReLa at round 80, on the loop engine and on the stacked one. Both
draw the same batches; only the order of sums differs. Results: ``benchmarks/results/drift.md`` and ``drift.png``.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from skorch import NeuralNetClassifier
from torch import nn

from benchmarks.peers import job as J
from benchmarks.suites._machine import facts_of_run
from benchmarks.suites._markdown import table
from fedrela_sk import FederatedClassifier, FedReLaRelabeler

RESULTS = Path(__file__).parents[1] / "results"
ROUNDS = (1, 2, 5, 10, 20, 50, 79, 80, 90, 100)


class Weights:
    """A `FitCallback` that keeps the global weights after chosen rounds."""

    def __init__(self):
        self.seen = {}

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator):
        if context.task_name == "round" and context.task_id + 1 in ROUNDS:
            parameters = fitted_estimator.net_.module_.parameters()
            self.seen[context.task_id + 1] = torch.cat([p.detach().double().flatten() for p in parameters])


def run(engine, dtype):
    """(weights after the chosen rounds, new labels)."""
    parts, _ = J.data("even")
    X = np.concatenate([X.numpy() for X, _ in parts[:20]])
    y = np.concatenate([y.numpy() for _, y in parts[:20]])
    net = NeuralNetClassifier(
        J.model("even").to(dtype),
        criterion=nn.CrossEntropyLoss,
        lr=J.LR,
        batch_size=32,
        max_epochs=1,
        iterator_train__shuffle=True,
    )
    weights = Weights()
    classifier = FederatedClassifier(
        net, clients=20, n_rounds=100, relabeler=FedReLaRelabeler(0.05), engine=engine, random_state=0
    ).set_callbacks(weights)
    classifier.fit(X, y)
    return weights.seen, classifier.y_relabeled_


def main(arguments=None):
    argparse.ArgumentParser(prog="python -m benchmarks.run drift", description=__doc__).parse_args(arguments)
    columns, labels = {}, {}
    for dtype in (torch.float64, torch.float32):
        (loop, y_loop), (stacked, y_stacked) = run("loop", dtype), run("stacked", dtype)
        name = str(dtype).removeprefix("torch.")
        columns[name] = [(loop[r] - stacked[r]).abs().max().item() for r in ROUNDS]
        labels[name] = int((y_loop != y_stacked).sum())
    differ = ", ".join(f"{n} in {name}" for name, n in labels.items())
    parts = [
        "# Two engines, one job\n",
        "Made by `python -m benchmarks.run drift`: "
        + ", ".join(f"{k} {v}" for k, v in facts_of_run().items())
        + ".\n",
        "Largest difference of any global weight between the loop engine and the stacked engine. Clients relabel "
        f"after 80 rounds; new labels that differ: {differ}.\n",
        table(
            ["rounds", *columns],
            [[str(r), *(f"{values[i]:.2e}" for values in columns.values())] for i, r in enumerate(ROUNDS)],
        ),
        "![drift](drift.png)\n",
    ]
    (RESULTS / "drift.md").write_text("\n".join(parts))
    figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
    for name, values in columns.items():
        axes.semilogy(ROUNDS, values, marker="o", label=name)
    axes.set(xlabel="rounds", ylabel="largest difference of a weight")
    axes.legend(frameon=False)
    figure.savefig(RESULTS / "drift.png", dpi=120)
    print((RESULTS / "drift.md").read_text())


if __name__ == "__main__":
    main()
