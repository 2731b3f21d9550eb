"""FedIR (Hsu et al. 2020): each client weighs its rows towards a common class prior."""

from typing import Any, Literal

import torch

from fedrela_sk._typing import Batch, ClientData, Job, Local, Model, RoundFacts, Tensor, Tensors
from fedrela_sk.algorithms._base import Algorithm
from fedrela_sk.algorithms._checks import check_choice
from fedrela_sk.algorithms._records import Broadcast, Query
from fedrela_sk.losses._tables import absent_as_rarest


class FedIR(Algorithm):
    """Clients minimize sum_i w_i l_i / sum_i w_i, with w_i = p(y_i) / q_k(y_i); the server averages.

    q_k are the client's own class shares, p those of a target. With the classes of the whole federation as
    target the clients agree on a prior and the long tail stays; with a uniform one it goes as well. The
    sums run over a batch, so the weights of a client matter up to a factor. A class that the client's counts
    lack (rows may be relabeled into it) counts as its rarest one.

    Parameters
    ----------
    target : {"global", "uniform"}, default="global"
        "global": every client reports its class counts once, before round 0, and receives p when it first
        takes part. "uniform": nothing but the model travels.
    counts : {"original", "relabeled"}, default="original"
        Which labels q_k counts once a client has relabeled; p keeps the original ones.

    References
    ----------
    Hsu, Qi, Brown, "Federated Visual Classification with Real-World Data Distribution", ECCV 2020,
    arXiv 2003.08082.
    """

    summary = "rows weighed towards a common class prior; counts are sent once"
    keeps = "s: C"
    source = "Hsu et al. 2020"
    bare_loss = False
    neutral_reason = (
        "weights come from the data: they are 1 only where a client's class shares are the target's"
    )

    def __init__(
        self,
        target: Literal["global", "uniform"] = "global",
        counts: Literal["original", "relabeled"] = "original",
    ) -> None:
        self.target = target
        self.counts = counts

    def check(self) -> None:
        check_choice("target", self.target, ("global", "uniform"))
        check_choice("counts", self.counts, ("original", "relabeled"))

    def server_init(self, params: Tensors, job: Job) -> Tensors:
        return {"prior": job.like.new_full((job.n_classes,), 1 / job.n_classes)}

    def server_query(self, round: int) -> Query | None:
        if round > 0 or self.target == "uniform":
            return None
        return Query(self.client_report, self.server_gather, whom="all", needs_model=False)

    def client_report(self, model: Model, data: ClientData, local: Local) -> Tensors:
        """A client's class counts."""
        return {"counts": local.counts}

    def server_gather(self, reports: dict[int, Tensors], server_state: Tensors, facts: RoundFacts) -> Tensors:
        """The shares of the classes over all clients."""
        total: Any = sum(report["counts"] for report in reports.values())
        return server_state | {"prior": total / total.sum()}

    def server_broadcast(self, server_state: Tensors) -> Broadcast:
        return Broadcast(first_time=server_state if self.target == "global" else {})

    def client_loss(self, model: Model, batch: Batch, local: Local) -> Tensor | tuple[Tensor, Tensors]:
        uniform = torch.full_like(local.counts, 1 / len(local.counts))
        own = class_weights(local.counts, local.server.get("prior", uniform))[batch.y]
        total = batch.mean(own)
        mean = batch.mean(own * batch.row_losses(model(batch.x))) / torch.where(total > 0, total, 1.0)
        return mean * batch.share.sum()  # 1 where the criterion averages


def class_weights(counts, prior):
    """p / q of every class, the client's class shares q from its counts.

    Parameters
    ----------
    counts : tensor of shape (n_classes,)
        0 counts as the smallest of the others.
    prior : tensor of shape (n_classes,)
    """
    return prior * counts.sum() / absent_as_rarest(counts)
