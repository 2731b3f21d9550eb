"""A skorch `partial_fit` per client, without callbacks, printing or validation."""

import numpy as np
import torch
from skorch import NeuralNetClassifier

from benchmarks.peers import job as J

a = J.arguments()
torch.set_num_threads(1)
parts, _ = J.data(a.job)
arrays = [(X.numpy(), y.numpy()) for X, y in parts]
net = J.model(a.job)
n = sum(len(y) for _, y in parts)
local = NeuralNetClassifier(
    type(net),
    criterion=torch.nn.CrossEntropyLoss,
    optimizer=torch.optim.SGD,
    lr=J.LR,
    batch_size=J.BATCH[a.job],
    max_epochs=1,
    train_split=None,
    verbose=0,
    callbacks="disable",
    classes=np.arange(J.N_CLASSES[a.job]),
).initialize()
marks = [J.clock()]
for _ in range(a.rounds):
    total = [torch.zeros_like(p) for p in net.parameters()]
    for X, y in arrays:
        local.module_.load_state_dict(net.state_dict())
        local.history_.clear()
        local.partial_fit(X, y)
        for s, p in zip(total, local.module_.parameters(), strict=True):
            s.add_(p.detach(), alpha=len(y) / n)
    with torch.no_grad():
        for p, s in zip(net.parameters(), total, strict=True):
            p.copy_(s)
    marks.append(J.clock())
J.report("skorch partial_fit loop", a.job, net, marks, processes=1)
