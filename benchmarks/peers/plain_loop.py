"""A plain loop over the clients, no framework at all."""

import copy

import torch

from benchmarks.peers import job as J

a = J.arguments()
torch.set_num_threads(1)
parts, _ = J.data(a.job)
net = J.model(a.job)
n = sum(len(y) for _, y in parts)
local = copy.deepcopy(net)
marks = [J.clock()]
for _ in range(a.rounds):
    total = [torch.zeros_like(p) for p in net.parameters()]
    for X, y in parts:
        local.load_state_dict(net.state_dict())
        J.local_sgd(local, X, y, a.job)
        for s, p in zip(total, local.parameters(), strict=True):
            s.add_(p.detach(), alpha=len(y) / n)
    with torch.no_grad():
        for p, s in zip(net.parameters(), total, strict=True):
            p.copy_(s)
    marks.append(J.clock())
J.report("plain loop", a.job, net, marks, processes=1)
