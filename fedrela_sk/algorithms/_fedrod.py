"""FedROD (Chen and Chao 2022): a generic head for all, a personal one that stays at the client."""

from collections.abc import Iterable
from typing import Literal

from torch.nn import functional as F

from fedrela_sk._typing import Batch, Local, Model, Module, Tensor, Tensors
from fedrela_sk.algorithms._base import Algorithm
from fedrela_sk.algorithms._checks import check_at_least, check_choice
from fedrela_sk.algorithms._heads import (
    balanced_softmax,
    in_part,
    like,
    linear,
    linear_head_of,
    names_outside_part,
    path,
)
from fedrela_sk.nets import MultiHead, swap_head

_PERSONAL = "personal_head"


class FedROD(Algorithm):
    """Two heads on one backbone, h the features, sg a stop of gradients.

    The generic head G and the backbone minimize the balanced softmax over the client's own counts n_k,
    ``-log(n_y^gamma e^G_y / sum_c n_c^gamma e^G_c)``. The personal head P_k minimizes the cross-entropy of
    ``sg[G(h)] + P_k(sg[h])`` and moves nothing else. The server averages backbone and G; P_k never leaves
    its client. `predict_proba` uses only G, and with `groups` G + P_k for clients that have trained.

    Both losses are one backward pass through one optimizer, which gives the same steps as two with the same
    settings. The paper's own text was not available to us: the formulas are those on which public
    re-implementations agree (the repository of FedETF, PFLlib), with gamma = 1. FL-bench trains the personal
    head without the generic logits and lets it move the backbone, which is another method. P_k starts from
    zero here, so that a client's first personal prediction is the generic one. The variant that produces P_k
    with a hypernetwork is not included.

    Parameters
    ----------
    gamma : float >= 0, default=1.0
        Exponent of the counts; 0 is the plain cross-entropy.
    absent : {"one", "mask"}, default="one"
        A class without rows at a client: "one" counts as one row, as in the repository of FedETF; "mask", as the
        formula and PFLlib have it, leaves the softmax, so that its row of G gets exactly no gradient there. Small
        clients lack many classes: there "mask" costs several points.
    counts : {"original", "relabeled"}, default="original"
        Whether n_k counts the labels that came with the data or the current ones.
    head : str or None, default=None
        Name of the net's last linear layer; None: the last one with a column for every class.

    References
    ----------
    Chen, Chao, "On Bridging Generic and Personalized Federated Learning for Image Classification", ICLR 2022,
    arXiv 2107.00778.
    """

    summary = "a balanced generic head and a personal one"
    keeps = "c: a head"
    source = "Chen, Chao 2022"
    neutral = {"gamma": 0.0}

    def __init__(
        self,
        gamma: float = 1.0,
        absent: Literal["one", "mask"] = "one",
        counts: Literal["original", "relabeled"] = "original",
        head: str | None = None,
    ) -> None:
        self.gamma = gamma
        self.absent = absent
        self.counts = counts
        self.head = head

    def check(self) -> None:
        check_at_least("gamma", self.gamma, 0)
        check_choice("absent", self.absent, ("mask", "one"))
        check_choice("counts", self.counts, ("original", "relabeled"))

    def prepare_module(self, module: Module, n_classes: int) -> Module:
        name, generic = linear_head_of(module, n_classes, self.head)
        return swap_head(module, name, MultiHead(generic, personal_head=like(generic, zero=True)))

    def shared(self, names: Iterable[str]) -> tuple[str, ...]:
        return names_outside_part(names, _PERSONAL)

    def client_loss(self, model: Model, batch: Batch, local: Local) -> Tensor | tuple[Tensor, Tensors]:
        h, generic = model.features(batch.x)
        personal = linear(model.params, path(model.head, _PERSONAL), h.detach())
        balanced = balanced_softmax(self.gamma, self.absent).row_losses(generic, batch.y, local.counts, None)
        own = F.cross_entropy(generic.detach() + personal, batch.y, reduction="none")
        return batch.mean(balanced + own)

    def personal_params(self, params: Tensors, own: Tensors) -> Tensors:
        sums = {in_part(name, "main"): tensor for name, tensor in own.items()}
        return params | own | {name: params[name] + tensor for name, tensor in sums.items()}
