"""FedYoYo (Yan et al. 2025): a prior from features, and strong views that learn from weak ones."""

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch.nn import functional as F

from fedrela_sk._typing import (
    Batch,
    ClientData,
    Job,
    Local,
    LocalRun,
    Model,
    Module,
    RoundFacts,
    Tensor,
    Tensors,
)
from fedrela_sk.algorithms._base import Algorithm
from fedrela_sk.algorithms._checks import check_at_least, check_choice, check_whole
from fedrela_sk.algorithms._heads import features_of, marked
from fedrela_sk.algorithms._records import Broadcast, Query

# floor of a mean cosine, and of a prior inside the logarithm, as in the authors' code
_LEAST_COSINE, _LEAST_PRIOR = 1e-6, 1e-9
# first estimates above this are replaced, later ones that change by more than this share are refused
_LARGEST_FIRST, _LARGEST_CHANGE = 1e4, 100.0


class FedYoYo(Algorithm):
    """Logits adjusted by an estimated prior, and self-distillation between two views of every row.

    Before a round the chosen clients report for each class how many rows of it count: their features, less
    the class mean, are compared within batches of `report_batch` rows; b rows of a class whose mean cosine (a
    row with itself included) is r count as 1 / r, one row as 1. The server adds 1 to the sum over clients,
    blends it into its earlier estimate e with `momentum`, and sends e along; pi = e / sum e. Of the first
    estimate, entries above 10 000 become the mean of the others; later ones that would change by more than a
    hundredfold stay as they were. Mind small classes: rows of a class that all lie in one batch nearly cancel
    once their mean is off, and count for more than they are; two such rows are opposite, and count as the
    most there is, a million.

    In training a client takes a weak and a strong view of each batch through the net together. With p_k its
    own class shares and pi_k a blend of pi and p_k, adjusted logits are ``g' = g + log(pi_k^tau + 1e-9)``.
    The loss is the cross-entropy of g' averaged over both views plus ``strength x min(t / warmup, 1)`` times
    ``KL(softmax(g'_weak / T) || softmax(g'_strong / T))`` averaged over the rows whose weak view is right, t
    counted from 1; no gradient passes through the weak side. Predictions use plain logits.

    As in the authors' code, where its loss file is missing; the paper's own text was not available to us. Its
    views are image augmentations (crop, flip, rotation against AutoAugment and cutout). Ours, for tables: the
    weak view is the row itself, the strong one has Gaussian noise of `noise` times the standard deviation
    that each column has at the client. Pass functions of your own for images. `strength`, `gamma` and
    `warmup` are those of the authors' script, `tau` and `temperature` the defaults of its parser.

    Parameters
    ----------
    strength : float >= 0, default=4.0
    gamma : float in [0, 1], default=0.1
        Weight of p_k in a blend; 0 leaves pi global, 1 is p_k.
    blend : {"round", "batch"}, default="round"
        "round": pi_k = (1 - gamma) pi + gamma p_k in every batch of a round (our reading of the idea).
        "batch": the code's recursion, pi_k <- (1 - gamma) pi_k + gamma p_k in every batch, which forgets pi
        within a few dozen batches: with 0.1, its share is 35 % after 10 and 1 % after 44.
    tau : float >= 0, default=1.5
    temperature : float > 0, default=1.5
    warmup : int >= 1, default=50
        Rounds until `strength` is reached.
    momentum : float in [0, 1], default=0.9
    report_batch : int >= 1, default=32
    weak, strong : callable of (x, stream) or None, default=None
        A view of a batch, x of shape (n_rows, ...) and the same shape out; `stream` is a
        `numpy.random.Generator`. None: as above.
    noise : float >= 0, default=0.1
        Used where `strong` is None.
    counts : {"original", "relabeled"}, default="original"
        Whether p_k counts the labels that came with the data or the current ones.
    head : str or None, default=None
        Name of the net's last linear layer; None: the last one with a column for every class.

    References
    ----------
    Yan, Li, Wu, Pang, Lu, Yan, Wang, "You Are Your Own Best Teacher: Achieving Centralized-level Performance
    in Federated Learning under Heterogeneous and Long-tailed Data", ICCV 2025, arXiv 2503.06916.
    """

    summary = "an estimated prior adjusts logits; self-distillation between two views"
    keeps = "s: C"
    source = "2025, as in its code"
    sends_model = True
    loop_only = "draws views of every batch, one client after the other"
    traffic = "M + C / M + C"
    neutral_reason = "two views in one batch make other running variances of BatchNorm than one"
    neutral = {"strength": 0.0, "tau": 0.0, "noise": 0.0}

    def __init__(
        self,
        strength: float = 4.0,
        gamma: float = 0.1,
        blend: Literal["round", "batch"] = "round",
        tau: float = 1.5,
        temperature: float = 1.5,
        *,
        warmup: int = 50,
        momentum: float = 0.9,
        report_batch: int = 32,
        weak: Callable[..., Any] | None = None,
        strong: Callable[..., Any] | None = None,
        noise: float = 0.1,
        counts: Literal["original", "relabeled"] = "original",
        head: str | None = None,
    ) -> None:
        self.strength = strength
        self.gamma = gamma
        self.blend = blend
        self.tau = tau
        self.temperature = temperature
        self.warmup = warmup
        self.momentum = momentum
        self.report_batch = report_batch
        self.weak = weak
        self.strong = strong
        self.noise = noise
        self.counts = counts
        self.head = head

    def check(self) -> None:
        check_at_least("strength", self.strength, 0)
        check_at_least("gamma", self.gamma, 0, 1)
        check_choice("blend", self.blend, ("round", "batch"))
        check_at_least("tau", self.tau, 0)
        check_at_least("temperature", self.temperature, 0, above=True)
        check_whole("warmup", self.warmup, 1)
        check_at_least("momentum", self.momentum, 0, 1)
        check_whole("report_batch", self.report_batch, 1)
        check_at_least("noise", self.noise, 0)
        check_choice("counts", self.counts, ("original", "relabeled"))

    def prepare_module(self, module: Module, n_classes: int) -> Module:
        return marked(module, n_classes, self.head)

    # --- the prior -------------------------------------------------------------------------------------------

    def server_init(self, params: Tensors, job: Job) -> Tensors:
        return {"effective": job.like.new_zeros(job.n_classes)}

    def server_query(self, round: int) -> Query | None:
        return Query(self.client_report, self.server_gather)

    def client_report(self, model: Model, data: ClientData, local: Local) -> Tensors:
        """A client's effective numbers of rows."""
        rows = torch.nonzero(data.weights > 0)[:, 0]
        rows = rows[torch.from_numpy(local.stream.permutation(len(rows))).to(rows.device)]
        h, y = features_of(model, data.X[rows]), data.y[rows]
        return {"effective": effective_numbers(h, y, model.n_classes, self.report_batch)}

    def server_gather(self, reports: dict[int, Tensors], server_state: Tensors, facts: RoundFacts) -> Tensors:
        """The moving mean of the effective numbers."""
        if not reports:
            return server_state
        known = server_state["effective"]
        new: Any = 1 + sum(report["effective"] for report in reports.values())
        if not known.any():
            usual = new <= _LARGEST_FIRST
            mean = new[usual].mean() if usual.any() else new.mean()
            return {"effective": torch.where(usual, new, mean)}
        blended = self.momentum * known + (1 - self.momentum) * new
        leaps = (blended - known).abs() > _LARGEST_CHANGE * known
        return {"effective": torch.where(leaps, known, blended)}

    def server_broadcast(self, server_state: Tensors) -> Broadcast:
        return Broadcast(every_round=server_state)

    # --- local training --------------------------------------------------------------------------------------

    def client_init(self, params: Tensors) -> Tensors:
        return {"n_batches": torch.zeros((), dtype=torch.float64)}

    def client_begin(self, model: Model, data: ClientData, local: Local) -> Tensors:
        return {"spread": data.X[data.weights > 0].std(0, correction=0)}

    def client_loss(self, model: Model, batch: Batch, local: Local) -> Tensor | tuple[Tensor, Tensors]:
        n_batches = local.state["n_batches"] + 1
        prior = self._prior(local, n_batches if self.blend == "batch" else 1)
        views = torch.cat([self._weak(batch.x, local), self._strong(batch.x, local)])
        logits = model(views) + torch.log(prior**self.tau + _LEAST_PRIOR)
        weak, strong = logits.split(len(batch.y))
        losses = [F.cross_entropy(view, batch.y, reduction="none") for view in (weak, strong)]
        distilled = self._distilled(weak.detach(), strong, batch, local)
        return batch.mean(0.5 * (losses[0] + losses[1])) + distilled, {"n_batches": n_batches}

    def _prior(self, local, n_blends):
        """The global prior, blended so many times with the client's own shares."""
        effective, counts = local.server["effective"], local.counts
        kept = (1 - self.gamma) ** n_blends
        return kept * effective / effective.sum() + (1 - kept) * counts / counts.sum()

    def _weak(self, x, local):
        return x if self.weak is None else self.weak(x, local.stream)

    def _strong(self, x, local):
        if self.strong is not None:
            return self.strong(x, local.stream)
        draws = torch.from_numpy(local.stream.standard_normal(x.shape)).to(x)
        return x + self.noise * local.start["spread"] * draws

    def _distilled(self, weak, strong, batch, local):
        """KL from weak to strong views over rows whose weak view is right, warmed up; 0 if there are none."""
        factor = self.strength * min((local.round + 1) / self.warmup, 1.0)
        T = self.temperature
        divergence = F.kl_div(
            torch.log_softmax(strong / T, 1),
            torch.log_softmax(weak / T, 1),
            reduction="none",
            log_target=True,
        ).sum(1)
        right = batch.share * (weak.argmax(1) == batch.y)
        return factor * (right * divergence).sum() / right.sum().clamp_min(torch.finfo(right.dtype).tiny)

    def client_finish(self, params: Tensors, local: Local, run: LocalRun) -> tuple[Tensors, Tensors]:
        return params, {"n_batches": torch.zeros_like(local.state["n_batches"])}


def effective_numbers(h, y, n_classes, batch_size):
    """How many rows of each class count, summed over batches.

    Features less their class mean; b rows of a class in a batch with mean cosine r (every ordered pair, a row
    with itself included) count as 1 / max(r, 1e-6), and as 1 if b = 1. Orthogonal rows count as b, equal ones
    as 1.

    Parameters
    ----------
    h : tensor of shape (n_rows, n_features)
    y : tensor of shape (n_rows,), int64
    n_classes, batch_size : int

    Returns
    -------
    numbers : tensor of shape (n_classes,)
    """
    n = torch.bincount(y, minlength=n_classes)
    means = torch.zeros(n_classes, h.shape[1]).to(h).index_add_(0, y, h) / n.clamp_min(1)[:, None]
    units = F.normalize(h - means[y], dim=1)
    cell = torch.arange(len(y), device=y.device) // batch_size * n_classes + y
    n_cells = (len(y) - 1) // batch_size * n_classes + n_classes
    b = torch.bincount(cell, minlength=n_cells).to(h)
    sums = torch.zeros(n_cells, h.shape[1]).to(h).index_add_(0, cell, units)
    cosine = (sums**2).sum(1) / (b**2).clamp_min(1)
    numbers = torch.where(b > 1, 1 / cosine.clamp_min(_LEAST_COSINE), b)
    return numbers.view(-1, n_classes).sum(0)
