"""FedETF (Li et al. 2023): every client learns towards the same fixed class vectors."""

from typing import Literal

import torch
from torch.nn import functional as F

from fedrela_sk._typing import Batch, Local, Model, Module, Tensor, Tensors
from fedrela_sk.algorithms._base import Algorithm
from fedrela_sk.algorithms._checks import check_at_least, check_choice
from fedrela_sk.algorithms._heads import balanced_softmax, linear_head_of
from fedrela_sk.exceptions import NetError
from fedrela_sk.losses._tables import own_class
from fedrela_sk.nets import ETFHead, swap_head


class FedETF(Algorithm):
    """The head is a simplex of fixed class vectors m_c, the same at all clients; the server averages the rest.

    "official", as in the authors' code: a linear layer A takes the features h to R^C, u = A h / ||A h||,
    logits are ``s u^T m_c`` with a learned scale s (1 at first), the loss is the balanced softmax over the
    client's counts, ``-log(n_y^gamma e^g_y / sum_c n_c^gamma e^g_c)``, an absent class counting as one row.
    A and s are averaged with the backbone; the class vectors follow from the seed and are never sent. The
    paper's own text was not available to us: it is said to write gamma and the temperature, the code has
    gamma = 1. The authors' fine-tuning of personal heads after training is not included.

    "dot_regression" is what the code of FedReLa and of FedLoGe calls FedETF: no projection, no scale, no
    counts. With b_c rows of class c among the B rows of a batch that has U classes, the loss is
    ``1/2 mean_i L_y^2 (cos(h_i, m_y) - 1)^2``, ``L_c^2 = B / (U b_c)``. Row weights count as repetition.
    Predictions are a softmax of the cosines, at most e / (e + (C - 1) e^(-1/(C-1))). That code normalizes
    features over the batch (BatchNorm1d) before the cosine, throws the layer's learned part away after every
    round, and so tests with the statistics of each test batch; here the cosine is that of the features
    themselves, so that a row's posterior does not depend on others. A net that ends in BatchNorm1d before
    its head has the normalization, with averaged statistics.

    With two classes the vectors are m and -m. "dot_regression" needs C - 1 features or more, "official" any
    number.

    Parameters
    ----------
    form : {"official", "dot_regression"}, default="official"
    gamma : float >= 0, default=1.0
        Exponent of the counts, of "official" only.
    absent : {"one", "mask"}, default="one"
        A class without rows at a client counts as one row, or leaves the softmax there; of "official" only.
    counts : {"original", "relabeled"}, default="original"
        Whether n_c counts the labels that came with the data or the current ones.
    head : str or None, default=None
        Name of the net's last linear layer, which the new head replaces; None: the last one with a column
        for every class.

    References
    ----------
    Li, Shang, He, Lin, Wu, "No Fear of Classifier Biases: Neural Collapse Inspired Federated Learning with
    Synthetic and Fixed Classifier", ICCV 2023, arXiv 2303.10058.

    Yang et al., "Inducing Neural Collapse in Imbalanced Learning", NeurIPS 2022 (dot regression).
    """

    summary = (
        'a fixed simplex head on projected features; `form="dot_regression"`: the released FedReLa code\'s'
    )
    source = "Li et al. 2023"
    neutral_reason = "its head is fixed"

    def __init__(
        self,
        form: Literal["official", "dot_regression"] = "official",
        gamma: float = 1.0,
        absent: Literal["one", "mask"] = "one",
        counts: Literal["original", "relabeled"] = "original",
        head: str | None = None,
    ) -> None:
        self.form = form
        self.gamma = gamma
        self.absent = absent
        self.counts = counts
        self.head = head

    def check(self) -> None:
        check_choice("form", self.form, ("official", "dot_regression"))
        check_at_least("gamma", self.gamma, 0)
        check_choice("absent", self.absent, ("one", "mask"))
        check_choice("counts", self.counts, ("original", "relabeled"))

    def prepare_module(self, module: Module, n_classes: int) -> Module:
        name, old = linear_head_of(module, n_classes, self.head)
        projection, dtype = self.form == "official", old.weight.dtype
        module = swap_head(module, name, ETFHead(old.in_features, n_classes, projection, dtype))
        if not any(p.requires_grad for p in module.parameters()):
            raise NetError(
                'form="dot_regression" leaves nothing to learn in a net that is its head. Add a hidden layer, or use '
                'form="official".'
            )
        return module

    def client_loss(self, model: Model, batch: Batch, local: Local) -> Tensor | tuple[Tensor, Tensors]:
        if self.form == "dot_regression":
            return _dot_regression(model, batch)
        balanced = balanced_softmax(self.gamma, self.absent)
        return batch.mean(balanced.row_losses(model(batch.x), batch.y, local.counts, None))


def _dot_regression(model, batch):
    """1/2 sum_i share_i L_y^2 (cos(h_i, m_y) - 1)^2, every class of the batch with the same total L_c^2."""
    h, logits = model.features(batch.x)
    vectors = model.module.get_submodule(model.head).vectors
    cosines = (F.normalize(h, dim=1) * vectors[batch.y]).sum(1)
    total = torch.where(own_class(logits, batch.y), batch.share[:, None], 0.0).sum(0)
    n_present = (total > 0).sum().clamp_min(1)  # none in a batch without weight
    lengths = total.sum() / (n_present * torch.where(total > 0, total, 1.0))
    return 0.5 * batch.mean(lengths[batch.y] * (cosines - 1) ** 2)
