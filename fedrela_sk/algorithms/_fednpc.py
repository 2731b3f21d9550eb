"""FedNPC (Gao et al. 2026): a classifier calibrated on noise after training."""

import torch
from torch.nn import functional as F

from fedrela_sk import _tree
from fedrela_sk._typing import Model, Module, Tensors
from fedrela_sk.algorithms._base import Algorithm
from fedrela_sk.algorithms._checks import check_at_least, check_whole
from fedrela_sk.algorithms._heads import marked, path


class FedNPC(Algorithm):
    """FedAvg whose predictions use a classifier with some of its bias towards common classes unlearned.

    The averaged classifier takes `n_steps` steps of SGD on the cross-entropy of `n_rows` fresh rows of
    standard normal noise in the place of features, labeled uniformly at random; no other parameter changes.
    Training goes on from the averaged model as it was: the calibration serves only predictions, and those
    that relabel.

    As in the authors' code, which runs it once, after training; the paper's own text was not available to us.
    The code goes up to 27 steps (49 on CIFAR-100) and keeps the step with the best accuracy on the test set.
    Here the number of steps is a parameter, to be chosen by cross-validation. Mind that noise has no classes:
    it shrinks small logits like a heavy ball on a quadratic of curvature 1 / C, which swings through zero.
    With the default `lr` and `momentum` their signs have turned at step 8 for 2 classes, 10 for 3, 14 for 5,
    24 for 10. The default of 5 steps is ours, safe for any number of classes; large logits shrink more
    slowly.

    Parameters
    ----------
    n_steps : int >= 0, default=5
        0 is FedAvg.
    n_rows : int >= 1, default=10000
        Rows of noise in each step.
    lr : float > 0, default=0.1
    momentum : float >= 0, default=0.9
    head : str or None, default=None
        Name of the net's last linear layer; None: the last one with a column for every class.

    References
    ----------
    Gao, Zhao, Yang, Guo, "FedNPC: Stochastic Noise-driven Post-hoc Classifier Calibration Method for
    Federated Long-tailed Learning", CVPR Findings 2026; code: github.com/JintongGao/FedNPC.
    """

    summary = "FedAvg; the classifier is calibrated on noise before it predicts"
    source = "as in its code, 2026"
    neutral = {"n_steps": 0}

    def __init__(
        self,
        n_steps: int = 5,
        n_rows: int = 10_000,
        lr: float = 0.1,
        momentum: float = 0.9,
        head: str | None = None,
    ) -> None:
        self.n_steps = n_steps
        self.n_rows = n_rows
        self.lr = lr
        self.momentum = momentum
        self.head = head

    def check(self) -> None:
        check_whole("n_steps", self.n_steps, 0)
        check_whole("n_rows", self.n_rows, 1)
        check_at_least("lr", self.lr, 0, above=True)
        check_at_least("momentum", self.momentum, 0)

    def prepare_module(self, module: Module, n_classes: int) -> Module:
        return marked(module, n_classes, self.head)

    def predict_params(
        self, params: Tensors, server_state: Tensors, model: Model, relabeling: bool = False
    ) -> Tensors:
        names = [path(model.head, part) for part in ("weight", "bias")]
        head = {name: params[name].clone().requires_grad_() for name in names if name in params}
        optimizer = torch.optim.SGD(head.values(), lr=self.lr, momentum=self.momentum)
        weight, bias = head[names[0]], head.get(names[1])
        for _ in range(self.n_steps):
            labels = torch.randint(len(weight), (self.n_rows,)).to(weight.device)
            noise = torch.randn(self.n_rows, weight.shape[1]).to(weight)
            optimizer.zero_grad()
            F.cross_entropy(F.linear(noise, weight, bias), labels).backward()
            optimizer.step()
        return params | _tree.detach(head)
