"""`FederatedClassifier`: a federation simulated around a skorch net."""

from collections.abc import Callable
from contextlib import closing
from numbers import Integral, Real
from os import PathLike
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.utils.validation import check_is_fitted

from fedrela_sk._sklearn import UNUSED, HasMethods, Interval, StrOptions, _fit_context
from fedrela_sk._typing import AnyPath, RandomState
from fedrela_sk.algorithms import Algorithm
from fedrela_sk.federation._fit import FitMetadata, Run
from fedrela_sk.federation._round import Simulation
from fedrela_sk.federation.fitted._answers import Answers
from fedrela_sk.federation.fitted._serving import ServedClassifier
from fedrela_sk.federation.setup._parameters import check_classes_for_instances, refuse_reserved
from fedrela_sk.federation.setup._plan import make_plan
from fedrela_sk.participation import Participation
from fedrela_sk.training import Engine
from fedrela_sk.training._engine import ENGINES, start_engine
from fedrela_sk.training._threads import threads_for, torch_threads
from fedrela_sk.training.runtime._autocast import fresh_casts
from fedrela_sk.training.runtime._device import device_turn


class FederatedClassifier(Answers, CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """Federated training of a skorch net, with re-labeling late in training.

    Rows are cut into clients; in every round clients train copies of the global net on their own rows and
    the server averages what they send. Once, after `relabel_at`, each client re-labels a few rows of its
    locally more common classes that lie deep in a locally rarer one (FedReLa), and training goes on with
    the new labels. Re-labeling moves the posteriors of `predict_proba` towards rare classes: they are no
    longer calibrated for the data as they came.

    Parameters
    ----------
    estimator : skorch.NeuralNetClassifier or None, default=None
        The net of every client. `module`, `criterion`, `optimizer`, their ``__`` parameters, `lr`,
        `batch_size`, `max_epochs` (local epochs), `iterator_train__shuffle` and `device` mean what they mean
        in skorch. Callbacks that you set run in each client's local training; skorch's default callbacks
        and its default `train_split` are ignored. None: an MLP 64-32 sized to the data, SGD at 0.05
        with momentum 0.9, batches of 32, shuffled, one local epoch.
    clients : int, splitter or None, default=10
        Who holds what. An int: that many even IID clients. A splitter of scikit-learn's kind: its *test*
        sets are the clients (`KFold`, `GroupKFold`, `PredefinedSplit`, `fedrela_sk.DirichletSplit`, ...).
        None: one client per group, and `fit` needs `groups`.
    algorithm : str or Algorithm, default="fedavg"
        The method: a key of `fedrela_sk.algorithms.ALGORITHMS`, or an instance with parameters of its own,
        ``FedProx(mu=0.1)``. "fedavg" is the plain average; others correct the drift of clients ("fedprox",
        "scaffold", "feddyn", ...), step at the server ("fedadam", ...), change the loss or the head for
        rare classes ("fedlc", "fedetf", "creff", ...) or give clients heads of their own ("fedrod",
        "fedloge"); with "local_only" they never exchange anything. ``docs/algorithms.md`` lists them all.
    relabeler : object with `fit(Q, y)` and `relabel(Q, y, uniforms=...)`, or None, default=None
        Usually a `FedReLaRelabeler`; each client fits its own copy. `relabel` returns the new labels, or
        the pair (labels, boolean mask of the rows that stay in training). None: plain federated training; a
        search over ``relabeler__tau`` needs a relabeler given, ``FedReLaRelabeler()``.
    relabel_at : int >= 1 or float in (0, 1), default=0.8
        When clients relabel: after that many completed rounds, or after that share of `n_rounds`, rounded
        up, with at least one round before and one after. An int of `n_rounds` or more, or a single round with
        a share, leaves no round to train on new labels: nothing is relabeled, and `history_.notes` says so.
    relabel_every : int >= 1 or None, default=None
        Repeat every so many rounds, always from the original labels. None: once.
    relabel_posteriors : dict or None, default=None
        How posteriors are collected; keys left out keep their default. ``passes`` (1): passes averaged;
        ``augment`` (False): whether `fedrela_sk.nets.Augmentation` layers augment; ``mode`` ("eval"): mode
        of the module, "train" uses shuffled batches of the training size; ``late`` ("next"): a client that
        is absent at the relabel round relabels when it next takes part, "never" as in the released code.
        The released code's values: ``{"passes": 5, "augment": True, "mode": "train", "late": "never"}``.
        ``{"passes": "training"}``: no pass at all; in the round before, each client records the posteriors of
        its rows while its last local epoch visits them. They are those of the client's own model on its way,
        in training mode, before the step of each batch, not of the global model. Rows that the epoch does not
        visit (a sampler left them out, a callback stopped training) get a pass of the client's model after it.
        A client that took no part in that round records in the next one in which it does and relabels before
        the one after; with "never" it must take part in both, one right after the other. A client all of whose
        rows a relabeler dropped trains, and so relabels, no more. Methods with a `loss`, `predict_params` or
        `relabel_params` of their own, `Mixup` and `Remix` are refused.
    n_rounds : int >= 1, default=100
    participation : float in (0, 1] or Participation, default=1.0
        Share of the clients with rows that train in a round, drawn without replacement:
        max(1, share x clients rounded half up). Or a rule of `fedrela_sk.participation`: optimal or
        clustered sampling, or mediators whose clients train one after the other.
    client_weight : {"size", "uniform"}, array-like or callable, default="size"
        Weights of the average. "size": the sum of the weights of the client's rows. An array has one entry
        per client in the order of `client_names_`; a callable gets the sizes and returns such an array.
    class_weight : dict, "balanced" or None, default=None
        Weights of classes in the local loss. "balanced" uses each client's own original counts; a class
        that a client lacks has weight 0 there, also for rows relabeled into it.
    lr_schedule : float or callable or None, default=None
        A number g: rate lr x g^t in round index t. A callable: t to a factor on lr. The released code's
        drop is ``lambda t: 0.1 if t >= relabel_round else 1.0``. Optimizers start fresh every round.
    validation : float in (0, 1) or None, default=None
        Share of each client's rows set aside to watch the global model. `X_val`, `y_val` at `fit` are the
        other way.
    select : {"last", "best_validation"}, default="last"
        Which round's model to keep. "best_validation": highest balanced accuracy on the validation rows,
        the earliest of equals; all rounds count.
    engine : {"auto", "loop", "stacked"} or Engine, default="auto"
        How clients are trained. "loop": one after the other; runs any module. "stacked": many at once, for
        nets that have a stacked form; the same batches and the same mathematics, summed in another order.
        An object carries settings: ``fedrela_sk.training.Stacked(chunk_size=64)``. "auto" decides by facts
        that are the same in every run (kinds of layers, parameters, batch size, device, clients).
    n_jobs : int or None, default=None
        joblib workers over chunks of clients (over clients, in the loop engine). Results do not depend on it
        or on the backend.
    memory : str, path-like or None, default=None
        A folder, as in `sklearn.pipeline.Pipeline`. Training up to the relabel round does not depend on the
        relabeler, so a search over tau trains that part once per fold. Entries are keyed by the data, the
        clients, the seed, every parameter that matters before that round, code of your own that it reaches,
        torch's global settings, the machine and the versions of the libraries; what has no stable description
        (a lambda, `getattr` of a module) or changes in training is not cached, and nothing is with callbacks
        that watch rounds, each with a warning. Results are the same bit for bit.
    local_data : object with `fit_resample`, Mixup, Remix or None, default=None
        What changes each client's rows before they train. A sampler of imbalanced-learn (or any object with
        ``fit_resample(X, y)``) is run on every client's own rows before round 0, and again, from the originals
        with their new labels, after each relabeling that changed any of them. Where a class is too small for
        it, that class keeps its rows and the record of the round says so. New rows count in the loss (each as
        much as a mean row of its class), never in the average, in class counts or in relabeling.
        `fedrela_sk.local_data.Mixup` and `Remix` mix the rows of every batch instead; they run in the loop engine.
    checkpoint, warm_start
        Reserved. Other values than the defaults are refused.
    verbose : int, default=0
        Above 0, one line per round goes to the logger "fedrela_sk" (and to stderr, where logging is not
        set up).
    random_state : int, RandomState instance or None, default=None
        Seed of everything that is drawn: initial weights (of a module class; a module instance brings its own),
        clients, participation, batches, relabeling.
    classes : array-like of shape (n_classes,) or None, default=None
        All labels, where `y` of a fold or a group may lack some: they fix `classes_`, the columns of `predict_proba`
        and the outputs that the net must have. A class that no client has counts 0 in losses and is never a
        target of relabeling. None: the labels in `y`, or skorch's `classes` where the net names them.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    net_ : skorch.NeuralNetClassifier or None
        Initialized net with the global weights; its classes are the codes 0 to n_classes - 1. None where
        the algorithm never averages.
    clients_ : list of ndarray
        Rows of every client, ascending; a client may have none.
    client_names_ : list
        Group label of every client, or its position in the split.
    class_count_ : ndarray of shape (n_classes,)
        Original rows of each class in training over all clients, as the sum of their weights; rows set aside
        for validation and rows that a relabeler's mask dropped are not among them.
    relabelers_ : list
        Each client's fitted relabeler, None where it never relabeled.
    y_relabeled_ : ndarray of shape (n_samples,)
        Labels after the last relabeling.
    relabeled_mask_ : ndarray of shape (n_samples,), bool
        Where they differ from `y`.
    kept_mask_ : ndarray of shape (n_samples,), bool
        Rows that a relabeler's mask left in training.
    relabel_round_ : int or None
        Index of the first round trained on new labels; None if there was no relabeling, or if a callback stopped
        the fit before it.
    history_ : fedrela_sk.report.History
        One record per round.
    engine_ : str
        Which engine ran, and why.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only if X has string column names.

    References
    ----------
    "FedReLa: Imbalanced Federated Learning via Re-Labeling", ICML 2026, arXiv 2606.26037.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from fedrela_sk import DirichletSplit, FederatedClassifier, FedReLaRelabeler
    >>> X, y = make_classification(600, weights=[0.9], class_sep=1.5, random_state=0)
    >>> fed = FederatedClassifier(clients=DirichletSplit(5, alpha=0.5), relabeler=FedReLaRelabeler(0.02),
    ...                           n_rounds=10, random_state=0).fit(X, y)
    >>> len(fed.history_), fed.relabel_round_
    (10, 8)
    """

    # rows to watch the model on are fixed by who calls `fit`, not cut by a search
    __metadata_request__fit = {
        "groups": True,
        "X_val": UNUSED,
        "y_val": UNUSED,
        "groups_val": UNUSED,
        "resume": UNUSED,
    }

    _parameter_constraints = {
        "estimator": [HasMethods(["fit", "get_params"]), None],
        "clients": [Interval(Integral, 1, None, closed="left"), HasMethods(["split", "get_n_splits"]), None],
        "algorithm": [
            str,
            Algorithm,
            type,
        ],  # classes have an error of their own, with the spelling that is meant
        "relabeler": [HasMethods(["fit", "relabel"]), None],
        "relabel_at": [Interval(Integral, 1, None, closed="left"), Interval(Real, 0, 1, closed="neither")],
        "relabel_every": [Interval(Integral, 1, None, closed="left"), None],
        "relabel_posteriors": [dict, None],
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
        "participation": [Interval(Real, 0, 1, closed="right"), Participation, type],
        "client_weight": [StrOptions({"size", "uniform"}), "array-like", callable],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "local_data": [HasMethods("fit_resample"), HasMethods("mix"), None],
        "lr_schedule": [Interval(Real, 0, None, closed="neither"), callable, None],
        "validation": [Interval(Real, 0, 1, closed="neither"), None],
        "select": [StrOptions({"last", "best_validation"})],
        "engine": [StrOptions({"auto", *ENGINES}), Engine, type],
        "memory": [str, PathLike, None],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
        "classes": ["array-like", None],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        clients: Any = 10,
        algorithm: Any = "fedavg",
        relabeler: Any = None,
        relabel_at: Any = 0.8,
        relabel_every: int | None = None,
        relabel_posteriors: Any = None,
        n_rounds: int = 100,
        participation: Any = 1.0,
        client_weight: Literal["size", "uniform"] | ArrayLike | Callable[..., Any] = "size",
        class_weight: Any = None,
        local_data: Any = None,
        lr_schedule: float | Callable[[int], float] | None = None,
        validation: float | None = None,
        select: Literal["last", "best_validation"] = "last",
        engine: Any = "auto",
        n_jobs: int | None = None,
        memory: AnyPath | None = None,
        checkpoint: Any = None,
        warm_start: Any = False,
        verbose: int = 0,
        random_state: RandomState = None,
        classes: ArrayLike | None = None,
    ) -> None:
        self.estimator = estimator
        self.clients = clients
        self.algorithm = algorithm
        self.relabeler = relabeler
        self.relabel_at = relabel_at
        self.relabel_every = relabel_every
        self.relabel_posteriors = relabel_posteriors
        self.n_rounds = n_rounds
        self.participation = participation
        self.client_weight = client_weight
        self.class_weight = class_weight
        self.local_data = local_data
        self.lr_schedule = lr_schedule
        self.validation = validation
        self.select = select
        self.engine = engine
        self.n_jobs = n_jobs
        self.memory = memory
        self.checkpoint = checkpoint
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state
        self.classes = classes

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: Any,
        y: ArrayLike,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        X_val: ArrayLike | None = None,
        y_val: ArrayLike | None = None,
        *,
        groups_val: ArrayLike | None = None,
        resume: Any = None,
    ) -> Self:
        """Simulate the federation.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or array-like of shape (n_samples, ...)
            Numbers; cast to the dtype of the module, which must hold whole numbers as they are. Integers stay
            integers for modules that fail on anything else (`torch.nn.Embedding`). Sparse rows are made dense
            a client or a chunk of clients at a time.
        y : array-like of shape (n_samples,)
            Labels of any kind.
        groups : array-like of shape (n_samples,) or None
            Each row's client with ``clients=None``; with a splitter, passed to its `split`.
        sample_weight : array-like of shape (n_samples,) or None
            Row weights >= 0. They count in the loss, in the average and in every class count, as repetition: 1 is
            one row. Weights scaled to sum to 1 make all rows one row, and FedReLa relabels nothing then; a warning
            and a note in `history_.notes` say at how many clients that is so. More than 2^53 in all is refused.
        X_val, y_val : array-like or None
            Rows of the same kind to watch the model on.
        groups_val : array-like or None
            The client of each row of `X_val`, as in `client_names_`: where clients have models of their own, each row
            is judged by its client's. Without it the global model is judged.
        resume : None
            Reserved.

        Returns
        -------
        self : object
        """
        check_classes_for_instances(self)
        refuse_reserved(checkpoint=self.checkpoint, warm_start=self.warm_start, resume=resume)
        given = {
            "X": X,
            "y": y,
            "metadata": FitMetadata(groups, sample_weight=sample_weight),
        }  # for callbacks
        plan, net = make_plan(
            self, X, y, groups, sample_weight, X_val=X_val, y_val=y_val, groups_val=groups_val
        )
        sizes = [len(spec.train_rows) for spec in plan.specs]
        with device_turn(net.device), fresh_casts(), torch_threads(threads_for(net, max(sizes))):
            engine, why = start_engine(
                self.engine,
                net,
                plan.data,
                plan.algorithm,
                len(plan.classes),
                plan.seed,
                n_clients=np.count_nonzero(sizes),
                n_jobs=self.n_jobs,
                n_threads=torch.get_num_threads(),
            )
            self.engine_ = f"{engine.name} ({why})"
            with closing(engine):
                fitted = Run(self, Simulation(plan, net, engine), given).all_rounds()
        for name, value in fitted.items():
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def for_serving(self) -> Any:
        """A classifier that predicts as this one does and holds nothing of the rows that it was fitted on.

        Labels, histories and relabelers stay behind: what is left is the net, classes, names of columns and, where
        clients have models of their own, those and the names of clients.

        Returns
        -------
        served : fedrela_sk.federation.ServedClassifier
            Small to pickle; `fedrela_sk.federation.save_model` writes it without pickle.
        """
        check_is_fitted(self)
        return ServedClassifier._of(self)

    def relabel_report(self) -> Any:
        """Which rows of which client were relabeled, and why.

        Returns
        -------
        report : fedrela_sk.report.RelabelReport
            Arrays; `to_frame()` for a data frame.
        """
        check_is_fitted(self)
        return self._report
