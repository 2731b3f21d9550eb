"""FedLoGe (Xiao et al. 2024): a fixed sparse classifier trains the backbone, two heads beside it predict."""

from collections.abc import Iterable
from typing import Literal

from torch.nn import functional as F

from fedrela_sk._typing import Batch, Local, Model, Module, Tensor, Tensors
from fedrela_sk.algorithms._base import Algorithm
from fedrela_sk.algorithms._checks import check_at_least, check_choice, check_whole
from fedrela_sk.algorithms._heads import (
    in_part,
    like,
    linear,
    linear_head_of,
    names_in_part,
    names_outside_part,
    path,
)
from fedrela_sk.nets import MultiHead, SparseETF, swap_head

_LOCAL, _SPARSE = "local_head", "sparse_head"
_HEADS = ("realigned", "auxiliary", "sparse")


class FedLoGe(Algorithm):
    """Three heads on one backbone, h the features, sg a stop of gradients.

    The sparse simplex W (`fedrela_sk.nets.SparseETF`) is the same at every client and never changes; it alone
    moves the backbone, by the cross-entropy of ``W h + b``. The auxiliary head psi and the local head phi_k
    learn by the cross-entropy of ``psi(sg[h])`` and ``phi_k(sg[h])``. The server averages backbone and psi;
    phi_k stays at its client from round to round. All three losses are one backward pass, which gives the
    same steps as three optimizers with the same settings.

    Predictions use realigned heads, at no cost in training. Globally every row of psi gets the same length,
    ``psi_c <- aligned_norm psi_c / ||psi_c||``, its bias stays. With `groups`, a client that has trained
    predicts with ``phi_k(h) + psi^k(h)``, ``psi^k_c = psi_c ||phi_k,c||``.

    As in the authors' code; the paper's own text was not available to us. The length 1.7 is a constant of
    that code (the paper divides by only the norm) and matters because the bias is not scaled. Left out: the
    code bars classes that a client's own test rows lack, which a client cannot know before it predicts. While
    it trains, the code reports the accuracy of W, and the code of FedReLa tests with W and re-labels by its
    posteriors: ``predict_head="sparse", relabel_head="sparse"``. W follows from the seed and is never sent.

    Parameters
    ----------
    sparsity : float in [0, 1), default=0.6
        Share of the entries of W that are zero.
    etf_norm : float > 0, default=3.0
        Length of the rows of W. It scales the gradient that reaches the backbone: with a small one the backbone is
        starved. On balanced digits an MLP reaches 0.75 at 1 and 0.95 at 3 (FedAvg 0.97), and has hardly moved after
        30 rounds at 0.1. The authors use 0.1 with a ResNet-34 of 512 features; in their logs that is about five
        points better than 1 on CIFAR-100; with a small convolutional net on CIFAR-10 we found 1 better than 3
        (34.8 and 27.7 after 60 rounds). It depends on the length of the features: search over it.
    n_steps : int >= 0, default=10000
        Steps of Adam that bend W back to equal angles, before round 0: less than a second for 32 features
        and 10 classes, three seconds for 512 and 10, half a minute for 512 and 100.
    aligned_norm : float > 0, default=1.7
    predict_head : {"realigned", "auxiliary", "sparse"}, default="realigned"
        What predicts globally: psi realigned, psi as averaged, or W with its bias. Clients that predict with
        heads of their own do so as above.
    relabel_head : {"realigned", "auxiliary", "sparse"}, default="realigned"
        Whose posteriors re-label.
    head : str or None, default=None
        Name of the net's last linear layer, which becomes psi; None: the last one with a column for every
        class.

    References
    ----------
    Xiao, Chen, Liu, Feng, Wu, Liu, Zhou, Yang, Liu, "FedLoGe: Joint Local and Generic Federated Learning
    under Long-tailed Data", ICLR 2024, arXiv 2401.08977.
    """

    summary = (
        "a sparse fixed head trains the features; realigned global and personal heads predict; "
        '`predict_head="sparse"`, `relabel_head="sparse"`: the released FedReLa code\'s'
    )
    keeps = "c: a head"
    source = "Xiao et al. 2024"
    neutral_reason = "a fixed classifier trains its backbone"

    def __init__(
        self,
        sparsity: float = 0.6,
        etf_norm: float = 3.0,
        n_steps: int = 10_000,
        aligned_norm: float = 1.7,
        *,
        head: str | None = None,
        predict_head: Literal["realigned", "auxiliary", "sparse"] = "realigned",
        relabel_head: Literal["realigned", "auxiliary", "sparse"] = "realigned",
    ) -> None:
        self.sparsity = sparsity
        self.etf_norm = etf_norm
        self.n_steps = n_steps
        self.aligned_norm = aligned_norm
        self.head = head
        self.predict_head = predict_head
        self.relabel_head = relabel_head

    def check(self) -> None:
        check_at_least("sparsity", self.sparsity, 0, 1, below=True)
        check_at_least("etf_norm", self.etf_norm, 0, above=True)
        check_whole("n_steps", self.n_steps, 0)
        check_at_least("aligned_norm", self.aligned_norm, 0, above=True)
        check_choice("predict_head", self.predict_head, _HEADS)
        check_choice("relabel_head", self.relabel_head, _HEADS)

    def prepare_module(self, module: Module, n_classes: int) -> Module:
        name, psi = linear_head_of(module, n_classes, self.head)
        bias, dtype = psi.bias is not None, psi.weight.dtype
        sparse = SparseETF(
            psi.in_features, n_classes, self.sparsity, self.etf_norm, self.n_steps, bias=bias, dtype=dtype
        )
        return swap_head(module, name, MultiHead(psi, **{_LOCAL: like(psi), _SPARSE: sparse}))

    def shared(self, names: Iterable[str]) -> tuple[str, ...]:
        return names_outside_part(names, _LOCAL)

    def client_loss(self, model: Model, batch: Batch, local: Local) -> Tensor | tuple[Tensor, Tensors]:
        h, _ = model.features(batch.x)
        head, params = model.head, model.params
        fixed = model.module.get_submodule(path(head, _SPARSE))
        logits = [fixed(h)]
        logits += [linear(params, path(head, part), h.detach()) for part in ("main", _LOCAL)]
        return batch.mean(sum(F.cross_entropy(z, batch.y, reduction="none") for z in logits))

    def predict_params(
        self, params: Tensors, server_state: Tensors, model: Model, relabeling: bool = False
    ) -> Tensors:
        """Psi as averaged goes where a client has its phi, for `personal_params`."""
        if relabeling:
            return params | self._head(self.relabel_head, params, model)
        raw = {phi: params[in_part(phi, "main")] for phi in names_in_part(params, _LOCAL)}
        return params | raw | self._head(self.predict_head, params, model)

    def _head(self, kind, params, model):
        """The tensors that one of the heads puts in the place of psi."""
        if kind == "auxiliary":
            return {}
        psi = path(model.head, "main")
        if kind == "realigned":
            name = path(psi, "weight")
            return {name: self.aligned_norm * F.normalize(params[name], dim=1)}
        fixed = model.module.get_submodule(path(model.head, _SPARSE))
        return {path(psi, name): tensor for name, tensor in fixed.named_buffers()}

    def personal_params(self, params: Tensors, own: Tensors) -> Tensors:
        merged = params | own
        for name, phi in own.items():
            psi = params[name]
            if name.endswith(".weight"):
                psi = psi * phi.norm(dim=1, keepdim=True)
            merged[in_part(name, "main")] = psi + phi
        return merged
