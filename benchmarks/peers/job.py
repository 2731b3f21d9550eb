"""One FedAvg job for every engine, so that times can be put side by side.

100 clients, all of them in every round, plain SGD without momentum, rows in a fixed order, aggregation by
rows. Since nothing is shuffled every engine must end on the same weights: `report` prints a checksum.

=====  ====================================================  =================  ======================
job    data                                                  network            local work
=====  ====================================================  =================  ======================
tab    50,000 x 30, 2 % positives, Dirichlet(0.3) by label   MLP 30-64-32-2     1 epoch, batches of 32
even   the same rows, 500 a client                           MLP 30-64-32-2     1 epoch, batches of 32
cnn    100 x 500 random images 3 x 32 x 32, 10 classes       LeNet, 62,006      1 epoch, batches of 50
=====  ====================================================  =================  ======================
"""

import argparse
import functools
import json
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

N_CLIENTS = 100
LR = 0.05
BATCH = {"tab": 32, "even": 32, "cnn": 50}
N_CLASSES = {"tab": 2, "even": 2, "cnn": 10}


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1, self.l2, self.l3 = nn.Linear(30, 64), nn.Linear(64, 32), nn.Linear(32, 2)

    def forward(self, x):
        return self.l3(F.relu(self.l2(F.relu(self.l1(x)))))


class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(3, 6, 5), nn.Conv2d(6, 16, 5)
        self.f1, self.f2, self.f3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.c1(x)), 2)
        x = F.max_pool2d(F.relu(self.c2(x)), 2)
        x = F.relu(self.f1(x.flatten(1)))
        return self.f3(F.relu(self.f2(x)))


def model(job):
    """The network with the same initial weights everywhere."""
    torch.manual_seed(0)
    return CNN() if job == "cnn" else MLP()


def _tabular(even):
    stream = np.random.default_rng(0)
    n, d = 60_000, 30
    y = (stream.random(n) < 0.02).astype(np.int64)
    shift = stream.normal(0, 0.6, d)
    X = (stream.normal(0, 1, (n, d)) + y[:, None] * shift).astype(np.float32)
    X, X_test, y, y_test = X[:50_000], X[50_000:], y[:50_000], y[50_000:]
    if even:
        return [(X[i::N_CLIENTS], y[i::N_CLIENTS]) for i in range(N_CLIENTS)], (X_test, y_test)
    parts = [[] for _ in range(N_CLIENTS)]
    for label in (0, 1):
        rows = stream.permutation(np.flatnonzero(y == label))
        cuts = (np.cumsum(stream.dirichlet([0.3] * N_CLIENTS)) * len(rows)).astype(int)[:-1]
        for part, chunk in zip(parts, np.split(rows, cuts), strict=True):
            part.extend(chunk.tolist())
    largest = max(parts, key=len)
    for part in parts:  # at least 10 rows each
        while len(part) < 10:
            part.append(largest.pop())
    orders = [stream.permutation(part) for part in parts]
    return [(X[order], y[order]) for order in orders], (X_test, y_test)


def _images():
    stream = np.random.default_rng(0)
    mean = stream.normal(0, 1, (10, 3, 32, 32)).astype(np.float32) * 0.3

    def make(n):
        y = stream.integers(0, 10, n)
        return (stream.normal(0, 1, (n, 3, 32, 32)).astype(np.float32) + mean[y], y)

    return [make(500) for _ in range(N_CLIENTS)], make(2000)


@functools.lru_cache(maxsize=1)
def data(job):
    """([(X, y) of each client], test set) as tensors, made once in each process."""
    parts, test = _images() if job == "cnn" else _tabular(even=job == "even")
    tensors = lambda pair: tuple(torch.from_numpy(np.ascontiguousarray(a)) for a in pair)  # noqa: E731
    return [tensors(part) for part in parts], tensors(test)


def local_sgd(net, X, y, job):
    """One client's local training: the same steps on every engine."""
    optimizer = torch.optim.SGD(net.parameters(), lr=LR)
    net.train()
    for i in range(0, len(y), BATCH[job]):
        optimizer.zero_grad()
        F.cross_entropy(net(X[i : i + BATCH[job]]), y[i : i + BATCH[job]]).backward()
        optimizer.step()
    return net


def arguments(**extra):
    """Command line of a peer: job, --rounds and whatever else it takes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("job", choices=sorted(BATCH))
    parser.add_argument("--rounds", type=int, default=6)
    for name, default in extra.items():
        parser.add_argument("--" + name, type=type(default), default=default)
    return parser.parse_args()


def report(peer, job, net, marks, **more):
    """Print one line of JSON. `marks`: the clock before the first round and after each round."""
    X, y = data(job)[1]
    with torch.no_grad():
        net.eval()
        loss = F.cross_entropy(net(X), y).item()
    seconds = np.diff(marks)
    rest = seconds[1:]  # the first round warms up
    line = {
        "peer": peer,
        "job": job,
        "rounds": len(seconds),
        "median_s": float(np.median(rest)),
        "min_s": float(rest.min()),
        "first_s": float(seconds[0]),
        "checksum": sum(p.double().abs().sum().item() for p in net.parameters()),
        "test_loss": loss,
        "python": sys.version.split()[0],
        "torch": torch.__version__,
        **more,
    }
    print("RESULT " + json.dumps(line), flush=True)


clock = time.perf_counter
