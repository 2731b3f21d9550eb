"""The table behind ``engine="auto"``: ``python -m benchmarks.run auto_table``.

Seconds of a round on the loop engine and on the stacked one, for dense nets of many sizes, batch sizes and
numbers of clients, one torch thread. `fedrela_sk.training._engine` holds the bounds read off the result,
``benchmarks/results/auto_table.csv``; it never times anything itself.
"""

import argparse
import csv
from pathlib import Path

import numpy as np
import torch
from skorch import NeuralNetClassifier
from torch import nn

from benchmarks.suites._machine import facts_of_run
from fedrela_sk import FederatedClassifier
from fedrela_sk.nets import MLP

RESULT = Path(__file__).parents[1] / "results" / "auto_table.csv"
WIDTHS = ((16,), (64, 32), (256, 128), (512, 256))
BATCHES = (8, 32, 128, 512)
CLIENTS = (3, 20)
N_FEATURES = 50


def seconds(hidden, batch, n_clients, engine, n_rounds=3):
    """Median seconds of a round, the first left out; every client has two full batches."""
    stream = np.random.default_rng(0)
    X = stream.normal(size=(2 * batch * n_clients, N_FEATURES)).astype(np.float32)
    y = stream.integers(0, 2, len(X))
    net = NeuralNetClassifier(
        MLP,
        module__n_features=N_FEATURES,
        module__n_classes=2,
        module__hidden=hidden,
        criterion=nn.CrossEntropyLoss,
        lr=0.01,
        batch_size=batch,
        max_epochs=1,
    )
    classifier = FederatedClassifier(net, clients=n_clients, n_rounds=n_rounds, engine=engine, random_state=0)
    classifier.fit(X, y)
    n_params = sum(p.numel() for p in classifier.net_.module_.parameters())
    return float(np.median(classifier.history_.column("seconds")[1:])), n_params


def main(arguments=None):
    argparse.ArgumentParser(prog="python -m benchmarks.run auto_table", description=__doc__).parse_args(
        arguments
    )
    torch.set_num_threads(1)
    rows = []
    seconds((16,), 8, 3, "stacked")  # warms up
    for hidden in WIDTHS:
        for batch in BATCHES:
            for n_clients in CLIENTS:
                loop, n_params = seconds(hidden, batch, n_clients, "loop")
                stacked, _ = seconds(hidden, batch, n_clients, "stacked")
                rows.append(
                    (n_params, batch, n_clients, f"{loop:.5f}", f"{stacked:.5f}", f"{loop / stacked:.2f}")
                )
                print(*rows[-1], flush=True)
    with RESULT.open("w", newline="") as file:
        file.write("# " + ", ".join(f"{k} {v}" for k, v in facts_of_run().items()) + "\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("parameters", "batch", "clients", "loop_s", "stacked_s", "loop_over_stacked"))
        writer.writerows(rows)


if __name__ == "__main__":
    main()
