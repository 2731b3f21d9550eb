"""CReFF (Shang et al. 2022): the server re-trains the classifier on features made from gradients."""

from typing import Literal

import torch
from torch.nn import functional as F

from fedrela_sk._random import Purpose, numpy_stream
from fedrela_sk._typing import ClientData, Job, Local, Model, Module, RoundFacts, Tensors
from fedrela_sk.algorithms._base import Algorithm
from fedrela_sk.algorithms._checks import check_at_least, check_choice, check_whole
from fedrela_sk.algorithms._heads import features_of, marked, path
from fedrela_sk.algorithms._records import Broadcast, Query
from fedrela_sk.nets import find_head

# added to the denominator of a cosine, as in the authors' code
_EPSILON = 1e-6


class CReFF(Algorithm):
    """FedAvg whose predictions use a classifier V, trained on the server on `n_features` features per class.

    Before it trains, each chosen client reports for each of its classes c the gradient G_c of the mean
    cross-entropy with respect to V: up to `n_rows` rows of the class, drawn anew `n_repeats` times and
    averaged, their features from the received backbone in evaluation mode. The server takes the plain mean
    over clients that have the class. After the round it moves the features F_c, which it keeps, by gradient
    descent on

        sum over reported c of  sum_j (1 - cos(g_cj, G_cj)) + (1 - cos of the parts of the biases),

    g_c the gradient that F_c itself gives, j the rows of V. A new classifier trained on all (F_c, c) by
    cross-entropy is the next V. Clients always start from FedAvg's model with its own classifier; V serves
    gradients and predictions only.

    It needs wide features (the authors' have 256 columns): the classifier that predicts is linear in them and
    learns from gradients only. A net whose last layer has a few tens of units loses many points against FedAvg.

    As in the authors' code; the paper's own text was not available to us. The code transforms the images of
    the reported rows ("differentiable siamese augmentation"), which tables have no counterpart of: it is left
    out. A report tells the server which classes a client has; rows that were relabeled into a class that the
    client lacks are left out of it (``counts="relabeled"`` takes them in, and sends more). With C classes and
    d features it costs C (d + 1) numbers for each class that the client has, and V as many numbers once on the
    way down. On the server a round takes retrain_epochs x C x n_features / retrain_batch small steps, 0.3 s for
    10 classes.

    Parameters
    ----------
    n_features : int >= 1, default=100
        Features per class.
    match_steps : int >= 0, default=100
        Steps on the features in each round.
    match_lr : float > 0, default=0.1
    retrain_epochs : int >= 0, default=300
        Epochs of the new classifier over all features.
    retrain_lr : float > 0, default=0.01
    retrain_batch : int >= 1, default=32
    n_rows : int >= 1, default=32
        Rows of a class in one gradient.
    n_repeats : int >= 1, default=10
    counts : {"original", "relabeled"}, default="original"
        Labels that say which classes a client has.
    head : str or None, default=None
        Name of the net's last linear layer; None: the last one with a column for every class.

    References
    ----------
    Shang, Lu, Huang, Wang, "Federated Learning on Heterogeneous and Long-Tailed Data via Classifier
    Re-Training with Federated Features", IJCAI 2022, arXiv 2204.13399.
    """

    summary = "a classifier re-trained on the server from class gradients"
    keeps = "s: features, classifier"
    source = "Shang et al. 2022"
    traffic = "M + K * H / M + H"
    neutral_reason = "a classifier of the server predicts"

    def __init__(
        self,
        n_features: int = 100,
        match_steps: int = 100,
        match_lr: float = 0.1,
        *,
        retrain_epochs: int = 300,
        retrain_lr: float = 0.01,
        retrain_batch: int = 32,
        n_rows: int = 32,
        n_repeats: int = 10,
        counts: Literal["original", "relabeled"] = "original",
        head: str | None = None,
    ) -> None:
        self.n_features = n_features
        self.match_steps = match_steps
        self.match_lr = match_lr
        self.retrain_epochs = retrain_epochs
        self.retrain_lr = retrain_lr
        self.retrain_batch = retrain_batch
        self.n_rows = n_rows
        self.n_repeats = n_repeats
        self.counts = counts
        self.head = head

    def check(self) -> None:
        check_choice("counts", self.counts, ("original", "relabeled"))
        for name in ("n_features", "retrain_batch", "n_rows", "n_repeats"):
            check_whole(name, getattr(self, name), 1)
        for name in ("match_steps", "retrain_epochs"):
            check_whole(name, getattr(self, name), 0)
        for name in ("match_lr", "retrain_lr"):
            check_at_least(name, getattr(self, name), 0, above=True)

    def prepare_module(self, module: Module, n_classes: int) -> Module:
        return marked(module, n_classes, self.head)

    def server_init(self, params: Tensors, job: Job) -> Tensors:
        head = find_head(job.module, job.n_classes)
        n_classes, width = params[path(head, "weight")].shape
        n_columns = width + (path(head, "bias") in params)
        stream = numpy_stream(job.seed, Purpose.SERVER)
        draws = stream.normal(size=(n_classes, self.n_features, width))
        first = stream.uniform(-1, 1, size=(n_classes, n_columns)) / width**0.5
        return {
            "features": torch.from_numpy(draws).to(job.like),
            "classifier": torch.from_numpy(first).to(job.like),
            "gradients": job.like.new_zeros(n_classes, n_classes, n_columns),
            "reported": job.like.new_zeros(n_classes),
        }

    def server_query(self, round: int) -> Query | None:
        return Query(self.client_report, self.server_gather)

    def client_report(self, model: Model, data: ClientData, local: Local) -> Tensors:
        """Mean gradients of the classifier, one for each class that a client has."""
        V = local.server["classifier"]
        h = _with_ones(features_of(model, data.X), V.shape[1])
        residual = torch.softmax(h @ V.T, 1) - F.one_hot(data.y, len(V)).to(h)
        gradients = {}
        owned = local.counts[data.y] > 0  # a class that relabeling brought in is no class of the client's
        for c in data.y[owned & (data.weights > 0)].unique().tolist():
            rows = torch.nonzero((data.y == c) & (data.weights > 0))[:, 0]
            drawn = self._drawn(len(rows), local.stream).to(h) * data.weights[rows]
            gradients[str(c)] = (residual[rows] * (drawn / drawn.sum())[:, None]).T @ h[rows]
        return gradients

    def _drawn(self, n, stream):
        """How often each of n rows is drawn, a tensor of shape (n,)."""
        times = torch.zeros(n)
        for _ in range(self.n_repeats):
            times[torch.from_numpy(stream.permutation(n)[: self.n_rows])] += 1
        return times

    def server_gather(self, reports: dict[int, Tensors], server_state: Tensors, facts: RoundFacts) -> Tensors:
        """The mean of the gradients over the clients that have a class."""
        gradients = torch.zeros_like(server_state["gradients"])
        reported = torch.zeros_like(server_state["reported"])
        for report in reports.values():
            for c, gradient in report.items():
                gradients[int(c)] += gradient
                reported[int(c)] += 1
        gradients /= reported.clamp_min(1)[:, None, None]
        return server_state | {"gradients": gradients, "reported": reported.clamp(max=1)}

    def server_broadcast(self, server_state: Tensors) -> Broadcast:
        return Broadcast(every_round={"classifier": server_state["classifier"]})

    def server_train(
        self, model: Model, params: Tensors, server_state: Tensors, facts: RoundFacts
    ) -> tuple[Tensors, Tensors]:
        features = self._matched(server_state)
        classifier = self._retrained(features, server_state["classifier"].shape[1])
        return params, server_state | {"features": features, "classifier": classifier}

    def _matched(self, state):
        """The features after gradient descent towards the reported gradients."""
        features = state["features"].clone().requires_grad_()
        for _ in range(self.match_steps):
            loss = matching_loss(features, state["classifier"], state["gradients"], state["reported"])
            (slope,) = torch.autograd.grad(loss, features)
            features = (features - self.match_lr * slope).detach().requires_grad_()
        return features.detach()

    def _retrained(self, features, n_columns):
        """A new classifier after SGD on the features; the gradient of the cross-entropy is written out."""
        n_classes, per_class, width = features.shape
        h = _with_ones(features.flatten(0, 1), n_columns)
        targets = torch.eye(n_classes).to(h).repeat_interleave(per_class, 0)
        U = ((2 * torch.rand(n_classes, n_columns) - 1) / width**0.5).to(h).T.contiguous()
        for _ in range(self.retrain_epochs):
            order = torch.randperm(len(h)).to(h.device)
            batches = zip(
                h[order].split(int(self.retrain_batch)),
                targets[order].split(int(self.retrain_batch)),
                strict=True,
            )
            for x, y in batches:
                residual = torch.softmax(x @ U, 1).sub_(y)
                U.addmm_(x.T, residual, alpha=-self.retrain_lr / len(x))
        return U.T.contiguous()

    def predict_params(
        self, params: Tensors, server_state: Tensors, model: Model, relabeling: bool = False
    ) -> Tensors:
        V, weight = server_state["classifier"], path(model.head, "weight")
        width = params[weight].shape[1]
        new = {weight: V[:, :width]}
        if V.shape[1] > width:
            new[path(model.head, "bias")] = V[:, width]
        return params | new


def matching_loss(features, classifier, gradients, reported):
    """Sum over reported classes and rows of one minus the cosine of the features' and the reported gradient.

    Parameters
    ----------
    features : tensor of shape (n_classes, n_features, width)
    classifier : tensor of shape (n_classes, n_columns)
        ``n_columns`` is `width`, or one more where the last column are biases.
    gradients : tensor of shape (n_classes, n_classes, n_columns)
        First axis: the class of the rows; the others: of the classifier.
    reported : tensor of shape (n_classes,)
        1 for classes that take part, else 0.

    Returns
    -------
    loss : scalar tensor
    """
    n_classes, per_class, width = features.shape
    h = _with_ones(features, classifier.shape[1])
    residual = torch.softmax(h @ classifier.T, -1) - torch.eye(n_classes).to(h)[:, None]
    own = residual.transpose(1, 2) @ h / per_class
    losses = (1 - _cosines(own[..., :width], gradients[..., :width])).sum(1)
    if classifier.shape[1] > width:
        losses = losses + 1 - _cosines(own[..., width], gradients[..., width])
    return (reported * losses).sum()


def _cosines(a, b):
    return (a * b).sum(-1) / (a.norm(dim=-1) * b.norm(dim=-1) + _EPSILON)


def _with_ones(h, n_columns):
    """Features with a last column of ones where the classifier has biases."""
    return h if h.shape[-1] == n_columns else torch.cat([h, torch.ones_like(h[..., :1])], -1)
