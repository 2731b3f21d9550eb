"""FedMix (Yoon et al. 2021): mixup with means of other clients' rows."""

import numpy as np
import torch
from torch.nn import functional as F

from fedrela_sk._typing import Batch, ClientData, Local, Model, RoundFacts, Tensor, Tensors
from fedrela_sk.algorithms._base import Algorithm
from fedrela_sk.algorithms._checks import check_at_least, check_flag, check_whole
from fedrela_sk.algorithms._records import Broadcast, Query


class FedMix(Algorithm):
    """Before round 0 every client shares means of its rows and labels; batches are mixed with one of them.

    With (x_m, y_m) one mean, drawn for every batch from those of all clients, and l(x, y) a row's loss of the
    net at x::

        (1 - lam) l((1 - lam) x, y) + lam l((1 - lam) x, y_m) + lam (1 - lam) <d l((1 - lam) x, y) / dx, x_m>

    which is mixup, (1 - lam) l(x_mix, y) + lam l(x_mix, y_m) at x_mix = (1 - lam) x + lam x_m, to first order in
    lam: the two differ by at most a multiple of lam^2. The third term is one number for every row and is
    differentiated once more for the net's gradient. The server averages.

    Texts that quote the paper print the third term with lam in place of lam (1 - lam); the expansion gives
    the latter, which is used here. Means are taken of the labels that come with the data, once; they tell
    the server each client's shares of the classes. BatchNorm sees rows scaled by 1 - lam, and makes the rows
    of a batch depend on each other, so that the third term holds some of that too.

    Parameters
    ----------
    lam : float in [0, 1), default=0.05
        Share of the mean in the mixture. The paper, as others quote it, has 0.05, 0.1 and 0.2 for CIFAR-10,
        CIFAR-100 and FEMNIST.
    mean_size : int or None, default=None
        Rows to a mean; a client's rows are dealt out by chance into means of even sizes, at most this. None
        are all rows of a client. 1 shares the rows themselves, and so does a client of one row.
    naive : bool, default=False
        NaiveMix: the mixup above itself.

    References
    ----------
    Yoon, Shin, Hwang, Yang, "FedMix: Approximation of Mixup under Mean Augmented Federated Learning",
    ICLR 2021, arXiv 2107.00233. (Wicaksana et al. 2022 use the name for another method.)
    """

    summary = "batches mixed with means of other clients' rows, shared once"
    keeps = "s: the means"
    source = "Yoon et al. 2021"
    bare_loss = False
    loop_only = "draws a partner for every batch, one client after the other"
    neutral = {"lam": 0.0}

    def __init__(self, lam: float = 0.05, mean_size: int | None = None, naive: bool = False) -> None:
        self.lam = lam
        self.mean_size = mean_size
        self.naive = naive

    def check(self) -> None:
        check_at_least("lam", self.lam, 0, 1, below=True)
        if self.mean_size is not None:
            check_whole("mean_size", self.mean_size, 1)
        check_flag("naive", self.naive)

    def server_query(self, round: int) -> Query | None:
        if round > 0:
            return None
        return Query(self.client_report, self.server_gather, whom="all", needs_model=False)

    def client_report(self, model: Model, data: ClientData, local: Local) -> Tensors:
        """Means of groups of a client's rows, and of their labels."""
        rows = np.flatnonzero(data.weights.cpu().numpy() > 0)
        n_means = 1 if self.mean_size is None else -(-len(rows) // self.mean_size)
        groups = np.array_split(local.stream.permutation(rows), n_means)
        labels = F.one_hot(data.y, model.n_classes).to(data.X.dtype)
        return {"x": _means(data.X, data.weights, groups), "y": _means(labels, data.weights, groups)}

    def server_gather(self, reports: dict[int, Tensors], server_state: Tensors, facts: RoundFacts) -> Tensors:
        """All clients' means, one after the other."""
        return {part: torch.cat([reports[client][part] for client in sorted(reports)]) for part in ("x", "y")}

    def server_broadcast(self, server_state: Tensors) -> Broadcast:
        return Broadcast(first_time=server_state)

    def client_loss(self, model: Model, batch: Batch, local: Local) -> Tensor | tuple[Tensor, Tensors]:
        pick = int(local.stream.integers(len(local.server["x"])))
        mean_x, mean_y = (local.server[part][pick] for part in ("x", "y"))
        x = (1 - self.lam) * batch.x
        if self.naive:
            return batch.mean(self._mixed(batch, model(x + self.lam * mean_x), mean_y))
        x.requires_grad_()
        logits = model(x)
        (slopes,) = torch.autograd.grad(batch.row_losses(logits).sum(), x, create_graph=True)
        along = (slopes * mean_x).flatten(1).sum(1)
        return batch.mean(self._mixed(batch, logits, mean_y) + self.lam * (1 - self.lam) * along)

    def _mixed(self, batch, logits, mean_y):
        """Losses of the rows for their own labels and for the mean's, mixed."""
        shares = mean_y.expand(len(logits), -1)
        return (1 - self.lam) * batch.row_losses(logits) + self.lam * batch.row_losses(logits, shares)


def _means(values, weights, groups):
    """Weighted mean of every group of rows, tensor of shape (n_groups, ...)."""
    means = []
    for group in groups:
        w = weights[torch.from_numpy(group).to(weights.device)]
        rows = values[torch.from_numpy(group).to(values.device)]
        means.append(torch.tensordot(w / w.sum(), rows, dims=1))
    return torch.stack(means)
