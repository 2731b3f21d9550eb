"""`FederatedClassifier`: a federation simulated around a skorch net."""

import copy
import logging
from contextlib import contextmanager
from dataclasses import replace
from numbers import Integral, Real
from os import PathLike

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from fedrela_sk._random import seed_from
from fedrela_sk._sklearn import UNUSED, HasMethods, Interval, StrOptions, _fit_context, validate_data
from fedrela_sk.algorithms import ALGORITHMS, Algorithm
from fedrela_sk.exceptions import PartitionError
from fedrela_sk.federation._auxiliary import auxiliary_rows
from fedrela_sk.federation._boundary import (
    check_finite,
    check_row_weights,
    codes_of,
    encode_labels,
    to_tensor,
)
from fedrela_sk.federation._conductor import Conductor
from fedrela_sk.federation._counting import class_count, client_sizes
from fedrela_sk.federation._partition import make_clients
from fedrela_sk.federation._predicting import OwnModels
from fedrela_sk.federation._prefix import PrefixMemory, key_or_warning
from fedrela_sk.federation._relabeling import check_relabel_posteriors, relabeling_report
from fedrela_sk.federation._schedule import relabel_round
from fedrela_sk.federation._state import Plan
from fedrela_sk.federation._validation import Validation, hold_out_all
from fedrela_sk.federation._weights import check_class_weight, mass
from fedrela_sk.participation import Participation
from fedrela_sk.training import (
    ENGINES,
    Engine,
    LocalData,
    build_net,
    device_turn,
    one_thread_is_enough,
    posteriors,
    read_settings,
    start_engine,
    torch_threads,
)
from fedrela_sk.training._net import tensors_of, write_tensors

logger = logging.getLogger("fedrela_sk")

# Parameters that stand in the signature before what they do is there: their defaults alone are accepted.
_NOT_YET = {"checkpoint": None, "warm_start": False}


class FederatedClassifier(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """Federated training of a skorch net, with re-labelling late in training.

    Rows are cut into clients; in every round clients train copies of the global net on their own rows and
    the server averages what they send. Once, after `relabel_at`, each client re-labels a few rows of its
    locally more common classes that lie deep in a locally rarer one (FedReLa), and training goes on with
    the new labels. Re-labelling moves the posteriors of `predict_proba` towards rare classes: they are no
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
        A key of `fedrela_sk.algorithms.ALGORITHMS` or an instance: "fedavg", or "local_only" for clients
        that never exchange anything.
    relabeler : object with `fit(Q, y)` and `relabel(Q, y, uniforms=...)`, or None, default=None
        Usually a `FedReLaRelabeler`; each client fits its own copy. `relabel` returns the new labels, or
        the pair (labels, boolean mask of the rows that stay in training). None: plain federated training; a
        search over ``relabeler__tau`` needs a relabeler given, ``FedReLaRelabeler()``.
    relabel_at : int >= 1 or float in (0, 1), default=0.8
        When clients relabel: after that many completed rounds, or after that share of `n_rounds`, rounded
        up, with at least one round before and one after. An int of `n_rounds` or more, or a single round with
        a share, leaves no round to train on new labels: nothing is relabelled, and `history_.notes` says so.
    relabel_every : int >= 1 or None, default=None
        Repeat every so many rounds, always from the original labels. None: once.
    relabel_posteriors : dict or None, default=None
        How posteriors are collected; keys left out keep their default. ``passes`` (1): passes averaged;
        ``augment`` (False): whether `fedrela_sk.nets.Augmentation` layers augment; ``mode`` ("eval"): mode
        of the module, "train" uses shuffled batches of the training size; ``late`` ("next"): a client that
        is absent at the relabel round relabels when it next takes part, "never" as in the released code.
        The released code's values: ``{"passes": 5, "augment": True, "mode": "train", "late": "never"}``.
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
        that a client lacks has weight 0 there, also for rows relabelled into it.
    lr_schedule : float or callable or None, default=None
        A number g: rate lr x g^t in round index t. A callable: t to a factor on lr. The released code's
        drop is ``lambda t: 0.1 if t >= relabel_round else 1.0``. Optimisers start fresh every round.
    validation : float in (0, 1) or None, default=None
        Share of each client's rows set aside to watch the global model. `X_val`, `y_val` at `fit` are the
        other way.
    select : {"last", "best_validation"}, default="last"
        Which round's model to keep. "best_validation": highest balanced accuracy on the validation rows,
        the earliest of equals; all rounds count.
    engine : {"auto", "loop", "stacked"} or Engine, default="auto"
        How clients are trained. "loop": one after the other; runs any module. "stacked": many at once, for
        nets that have a stacked form; the same batches and the same mathematics, summed in another order.
        An object carries settings: ``fedrela_sk.training.Stacked(cohort_size=64)``. "auto" decides by facts
        that are the same in every run (kinds of layers, parameters, batch size, device, clients).
    n_jobs : int or None, default=None
        joblib workers over cohorts of clients (over clients, in the loop engine). Results do not depend on it
        or on the backend.
    memory : str, path-like or None, default=None
        A folder, as in `sklearn.pipeline.Pipeline`. Training up to the relabel round does not depend on the
        relabeler, so a search over tau trains that part once per fold. Entries are keyed by the data, the
        clients, the seed, every parameter that matters before that round and the versions of the libraries;
        what has no stable description (a lambda) is not cached, with a warning. Results are the same bit for
        bit.
    local_data : object with `fit_resample`, Mixup, Remix or None, default=None
        What changes each client's rows before they train. A sampler of imbalanced-learn (or any object with
        ``fit_resample(X, y)``) is run on every client's own rows before round 0, and again, from the originals
        with their new labels, after each relabelling. Where a class is too small for it, that class keeps its
        rows and the record of the round says so. New rows count in the loss (each as much as a mean row of
        its class), never in the average, in class counts or in relabelling. `fedrela_sk.local_data.Mixup` and
        `Remix` mix the rows of every batch instead; they run in the loop engine.
    checkpoint, warm_start
        Reserved. Other values than the defaults are refused.
    verbose : int, default=0
        Above 0, one line per round goes to the logger "fedrela_sk" (and to stderr, where logging is not
        set up).
    random_state : int, RandomState instance or None, default=None
        Seed of everything that is drawn: initial weights (of a module class; a module instance brings its own),
        clients, participation, batches, relabelling.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    net_ : skorch.NeuralNetClassifier or None
        Initialised net with the global weights; its classes are the codes 0 to n_classes - 1. None where
        the algorithm never averages.
    clients_ : list of ndarray
        Rows of every client, ascending; a client may have none.
    client_names_ : list
        Group label of every client, or its position in the split.
    class_count_ : ndarray of shape (n_classes,)
        Original rows of each class in training over all clients, as the sum of their weights; rows set aside
        for validation and rows that a relabeler's mask dropped are not among them.
    relabelers_ : list
        Each client's fitted relabeler, None where it never relabelled.
    y_relabeled_ : ndarray of shape (n_samples,)
        Labels after the last relabelling.
    relabeled_mask_ : ndarray of shape (n_samples,), bool
        Where they differ from `y`.
    kept_mask_ : ndarray of shape (n_samples,), bool
        Rows that a relabeler's mask left in training.
    relabel_round_ : int or None
        Index of the first round trained on new labels; None if there was no relabelling.
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

    # an outer splitter's groups need not be clients: only who asks for it scores by client
    __metadata_request__score = {"groups": False}
    __metadata_request__predict = {"groups": True}
    __metadata_request__predict_proba = {"groups": True}
    __metadata_request__fit = {"groups": True, "resume": UNUSED}

    _parameter_constraints = {
        "estimator": [HasMethods(["fit", "get_params"]), None],
        "clients": [Interval(Integral, 1, None, closed="left"), HasMethods(["split", "get_n_splits"]), None],
        "algorithm": [StrOptions(set(ALGORITHMS)), Algorithm],
        "relabeler": [HasMethods(["fit", "relabel"]), None],
        "relabel_at": [Interval(Integral, 1, None, closed="left"), Interval(Real, 0, 1, closed="neither")],
        "relabel_every": [Interval(Integral, 1, None, closed="left"), None],
        "relabel_posteriors": [dict, None],
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
        "participation": [Interval(Real, 0, 1, closed="right"), Participation],
        "client_weight": [StrOptions({"size", "uniform"}), "array-like", callable],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "local_data": [HasMethods("fit_resample"), HasMethods("mix"), None],
        "lr_schedule": [Interval(Real, 0, None, closed="neither"), callable, None],
        "validation": [Interval(Real, 0, 1, closed="neither"), None],
        "select": [StrOptions({"last", "best_validation"})],
        "engine": [StrOptions({"auto", *ENGINES}), Engine],
        "memory": [str, PathLike, None],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator=None,
        *,
        clients=10,
        algorithm="fedavg",
        relabeler=None,
        relabel_at=0.8,
        relabel_every=None,
        relabel_posteriors=None,
        n_rounds=100,
        participation=1.0,
        client_weight="size",
        class_weight=None,
        local_data=None,
        lr_schedule=None,
        validation=None,
        select="last",
        engine="auto",
        n_jobs=None,
        memory=None,
        checkpoint=None,
        warm_start=False,
        verbose=0,
        random_state=None,
    ):
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

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, groups=None, sample_weight=None, X_val=None, y_val=None, resume=False):
        """Simulate the federation.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, ...)
            Numbers; cast to the dtype of the module.
        y : array-like of shape (n_samples,)
            Labels of any kind.
        groups : array-like of shape (n_samples,) or None
            Each row's client with ``clients=None``; with a splitter, passed to its `split`.
        sample_weight : array-like of shape (n_samples,) or None
            Row weights >= 0. They count in the loss, in the average and in every class count.
        X_val, y_val : array-like or None
            Rows of the same kind to watch the global model on.
        resume : bool, default=False
            Reserved.

        Returns
        -------
        self : object
        """
        self._refuse_what_is_not_there(resume)
        if hasattr(self.relabeler, "_parameter_constraints"):
            self.relabeler._validate_params()  # now, not after most rounds
        given = {"X": X, "y": y, "metadata": {"sample_weight": sample_weight}}  # for callbacks
        X, y = validate_data(self, X, y, allow_nd=True, dtype="numeric", ensure_all_finite=False)
        encoded = encode_labels(y)
        seed = seed_from(self.random_state)
        specs, notes = make_clients(self.clients, X, y, groups, seed)
        check_finite(X, specs)
        weights = check_row_weights(sample_weight, X)
        check_class_weight(self.class_weight, encoded.classes)
        algorithm = check_algorithm(self.algorithm)
        check_local_data(self.local_data, algorithm)
        net = build_net(
            self.estimator,
            X,
            encoded.codes,
            len(encoded.classes),
            seed,
            algorithm.prepare,
            algorithm.own_loss,
            algorithm.bare_loss,
        )
        X = to_tensor(X, net, specs)
        specs, validation = self._validation_rows(specs, X, encoded, weights, X_val, y_val, net, seed)
        if not any(mass(spec.train_rows, weights) for spec in specs):
            raise PartitionError(
                f"All clients are empty: validation={self.validation} set every row with a weight aside. "
                "Use a smaller share."
            )
        plan = self._plan(algorithm, specs, X, y, encoded, weights, validation, seed, notes)
        plan = replace(plan, auxiliary=self._auxiliary(plan, net))
        with device_turn(net.device), torch_threads(self._n_threads(net, _most_rows(specs))):
            for name, value in self._run(plan, net, given).items():
                setattr(self, name, value)
        return self

    def _refuse_what_is_not_there(self, resume):
        for name, default in (_NOT_YET | {"resume": False}).items():
            value = resume if name == "resume" else getattr(self, name)
            if value is not default:
                raise ValueError(
                    f"{name}={value!r} is not available in this version of fedrela_sk. Leave it at {default!r}."
                )

    def _validation_rows(self, specs, X, encoded, weights, X_val, y_val, net, seed):
        """(clients without the rows that they set aside, `Validation` or None)."""
        if (X_val is None) != (y_val is None):
            raise ValueError("X_val and y_val belong together: pass both or neither.")
        if X_val is not None and self.validation is not None:
            raise ValueError(
                f"Both validation={self.validation} and X_val, y_val were given. Use one of them: a share of each "
                "client's rows, or rows of your own."
            )
        if X_val is None and self.validation is None:
            if self.select == "best_validation":
                raise ValueError(
                    "select='best_validation' needs validation rows. Set validation=share or pass X_val, y_val."
                )
            return specs, None
        if X_val is not None:
            X_val = self._check_new(X_val, "X_val")
            codes = codes_of(y_val, encoded.classes, "y_val")
            if len(X_val) != len(codes):
                raise ValueError(
                    f"X_val has {len(X_val)} rows, but y_val has {len(codes)}. Pass one label per row."
                )
            return specs, Validation(to_tensor(X_val, net, what="X_val"), codes)
        specs, rows, positions = hold_out_all(specs, self.validation, seed)
        if not mass(rows, weights):
            raise ValueError(
                f"validation={self.validation} sets no row with a weight aside: the largest client has "
                f"{max(len(spec.rows) for spec in specs)} rows. Use a larger share or pass X_val, y_val."
            )
        held_weights = None if weights is None else weights[rows]
        return specs, Validation(X[torch.from_numpy(rows)], encoded.codes[rows], held_weights, positions)

    def _auxiliary(self, plan, net):
        """Rows that the server holds, None where the algorithm asks for none."""
        rows = np.sort(np.concatenate([spec.train_rows for spec in plan.specs]))
        rows = rows if plan.weights is None else rows[plan.weights[rows] > 0]
        asked, X = plan.algorithm.auxiliary, plan.data.X
        return auxiliary_rows(asked, X, plan.codes, rows, plan.classes, net, self._check_new)

    def _plan(self, algorithm, specs, X, y, encoded, weights, validation, seed, notes):
        return Plan(
            specs=specs,
            data=LocalData(
                X,
                None if weights is None else torch.from_numpy(weights).to(X.device, X.dtype),
                self.local_data if hasattr(self.local_data, "mix") else None,
            ),
            labels=np.asarray(y),
            codes=encoded.codes,
            classes=encoded.classes,
            weights=weights,
            validation=validation,
            algorithm=algorithm,
            relabeler=self.relabeler,
            first_relabel=None if self.relabeler is None else relabel_round(self.relabel_at, self.n_rounds),
            relabel_every=self.relabel_every,
            relabel_posteriors=check_relabel_posteriors(self.relabel_posteriors),
            n_rounds=self.n_rounds,
            participation=self.participation,
            client_weight=self.client_weight,
            class_weight=self.class_weight,
            lr_schedule=self.lr_schedule,
            select=self.select,
            seed=seed,
            notes=notes,
            local_data=self.local_data,
        )

    @staticmethod
    def _n_threads(net, n_rows):
        """One torch thread where batches are tiny, else what torch is set to; `n_rows` are all rows at once."""
        size = read_settings(net).batch_size
        return 1 if one_thread_is_enough(net.module_, n_rows if size == -1 else size) else None

    def _run(self, plan, net, given):
        """All rounds; the fitted attributes by name. `given` is what callbacks are shown of the data."""
        n_clients = sum(len(spec.train_rows) > 0 for spec in plan.specs)
        engine, why = start_engine(
            self.engine,
            net,
            plan.data,
            plan.algorithm,
            len(plan.classes),
            plan.seed,
            n_clients,
            self.n_jobs,
            torch.get_num_threads(),
        )
        self.engine_ = f"{engine.name} ({why})"
        try:
            return self._all_rounds(Conductor(plan, net, engine), given)
        finally:
            engine.close()

    def _all_rounds(self, conductor, given):
        plan, net = conductor.plan, conductor.net
        state = conductor.start(tensors_of(net.module_))
        context = self._init_callback_context(max_subtasks=plan.n_rounds, sequential_subtasks=False)
        context.call_on_fit_task_begin(estimator=self, **given)
        with _logging_to_stderr(self.verbose):
            state, done = self._prefix(conductor, state, context, given)
            self._rounds(conductor, state, range(done, plan.n_rounds), context, given)
        fitted = self._fitted(conductor, state, net, *conductor.finish(state))
        context.call_on_fit_task_end(estimator=self, **given, reconstruction_attributes=fitted)
        return fitted

    def _prefix(self, conductor, state, context, given):
        """(state, rounds done) up to the relabel round, from `memory` or kept there; (state, 0) without it."""
        first = conductor.plan.first_relabel
        if self.memory is None or first is None:
            return state, 0
        key = key_or_warning(
            self.get_params(deep=False),
            conductor.plan,
            conductor.net,
            conductor.engine,
            torch.get_num_threads(),
        )
        if key is None:
            return state, 0
        with PrefixMemory(self.memory).entry(key) as entry:
            stored = None if entry is None else entry.read(state)
            if stored is not None:
                if self.verbose:
                    logger.info("rounds 1 to %d from memory", first)
                return stored, first
            stopped = self._rounds(conductor, state, range(first), context, given)
            if entry is not None and not stopped:
                entry.write(state)
            return state, conductor.plan.n_rounds if stopped else first

    def _rounds(self, conductor, state, rounds, context, given):
        """Run some rounds in place; whether a callback stopped the fit."""
        for round in rounds:
            task = context.subcontext(task_name="round", task_id=round)
            task.call_on_fit_task_begin(estimator=self, **given)
            conductor.run_round(state, round)
            if self.verbose:
                logger.info(_round_line(state.history[-1], conductor.plan.n_rounds))
            stop = task.call_on_fit_task_end(
                estimator=self,
                **given,
                reconstruction_attributes=lambda: self._snapshot(conductor, state),
            )
            if stop:
                state.history.notes.append(f"A callback stopped the fit after round {round}.")
                return True
        return False

    def _snapshot(self, conductor, state):
        """Fitted attributes after the round that just ended, on a net and books of their own."""
        state = replace(state, history=copy.deepcopy(state.history))
        params = conductor.server.predicting(state)
        return self._fitted(conductor, state, copy.deepcopy(conductor.net), params, dict(state.kept))

    def _fitted(self, conductor, state, net, params, kept):
        """Fitted attributes by name, from a model and the books of the rounds so far."""
        plan = conductor.plan
        y_relabeled = plan.classes[state.codes]
        write_tensors(net.module_, params)
        _forget_training(net)
        own = OwnModels.of(plan.algorithm, net, params, kept, client_sizes(plan, state))
        return {
            "classes_": plan.classes,
            "n_features_in_": self.n_features_in_,
            "net_": net if plan.algorithm.averages else None,
            "clients_": [spec.rows for spec in plan.specs],
            "client_names_": [spec.key for spec in plan.specs],
            "class_count_": class_count(plan, state),
            "relabelers_": [
                getattr(state.relabelings.get(spec.position), "relabeler", None) for spec in plan.specs
            ],
            "y_relabeled_": y_relabeled,
            "relabeled_mask_": y_relabeled != plan.labels,
            "kept_mask_": state.keep.copy(),
            "relabel_round_": plan.first_relabel,
            "history_": state.history,
            "_report": relabeling_report(plan.specs, state.relabelings, plan.labels, y_relabeled),
            "_own_models": own,
        }

    def _check_new(self, X, what="X"):
        X = validate_data(self, X, reset=False, allow_nd=True, dtype="numeric", ensure_all_finite=False)
        return check_finite(X, what=what)

    def predict_proba(self, X, groups=None):
        """Posteriors of rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, ...)
        groups : array-like of shape (n_samples,) or None
            Each row's client, as in `client_names_`. Used where clients have models of their own: with
            personal heads ("fedrod", "fedloge") a client that is not known gets the global model, with
            "local_only" the mean of all clients. A global model serves all alike.

        Returns
        -------
        Q : ndarray of shape (n_samples, n_classes), float64
            Columns follow `classes_`.
        """
        check_is_fitted(self)
        X = self._check_new(X)
        net = self.net_ if self._own_models is None else self._own_models.net
        with torch_threads(self._n_threads(net, len(X))):
            if self._own_models is None:
                return posteriors(net, to_tensor(X, net), len(self.classes_))
            positions = self._positions(groups, len(X))
            return self._own_models.predict(to_tensor(X, net), positions, len(self.classes_))

    def _positions(self, groups, n_rows):
        """Position of each row's client, -1 for unknown."""
        if groups is None:
            return np.full(n_rows, -1)
        known = {name: position for position, name in enumerate(self.client_names_)}
        positions = np.array([known.get(group, -1) for group in np.asarray(groups).tolist()], dtype=np.int64)
        if len(positions) != n_rows:
            raise ValueError(f"groups must have one entry per row: got {len(positions)} for {n_rows} rows.")
        return positions

    def predict(self, X, groups=None):
        """Most probable class of rows; parameters as in `predict_proba`.

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        Q = self.predict_proba(X, groups)
        return self.classes_[Q.argmax(axis=1)]

    def score(self, X, y, sample_weight=None, groups=None):
        """Mean accuracy.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, ...)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,) or None
        groups : array-like of shape (n_samples,) or None
            As in `predict_proba`.

        Returns
        -------
        score : float
        """
        return float(accuracy_score(y, self.predict(X, groups), sample_weight=sample_weight))

    def relabel_report(self):
        """Which rows of which client were relabelled, and why.

        Returns
        -------
        report : fedrela_sk.report.RelabelingReport
            Arrays; `to_frame()` for a data frame.
        """
        check_is_fitted(self)
        return self._report


def check_algorithm(algorithm):
    """The method as an object, its hyper-parameters checked."""
    algorithm = ALGORITHMS[algorithm]() if isinstance(algorithm, str) else algorithm
    algorithm.check()
    return algorithm


def check_local_data(local_data, algorithm):
    """Refuse what is no tool for a client's rows, and mixing where the method makes its loss from features."""
    if hasattr(local_data, "_parameter_constraints"):
        local_data._validate_params()  # now: later, a sampler's ValueError means that a client has too few rows
    if hasattr(local_data, "mix") and algorithm.overrides("loss"):
        raise ValueError(
            f"local_data={local_data!r} mixes the rows of a batch for the criterion, but {type(algorithm).__name__} "
            "makes a loss of its own from them. Use a fit_resample tool, or another algorithm."
        )


def _forget_training(net):
    """Leave nothing of the client that trained last: no gradients, no history, a fresh optimiser, evaluation mode."""
    net.module_.zero_grad(set_to_none=True)
    net.module_.eval()
    net.initialize_optimizer()
    net.initialize_history()


def _most_rows(specs):
    return max(len(spec.train_rows) for spec in specs)


def _round_line(record, n_rounds):
    parts = [f"round {record.round + 1}/{n_rounds}", f"{len(record.participants)} clients"]
    parts.append(f"loss {record.train_loss:.4f}")
    if record.valid_score == record.valid_score:
        parts.append(f"validation {record.valid_score:.4f}")
    if record.relabeled_clients:
        parts.append(f"{record.n_relabeled} rows relabelled at {len(record.relabeled_clients)} clients")
    parts.append(f"{record.seconds:.2f} s")
    return ", ".join(parts)


@contextmanager
def _logging_to_stderr(verbose):
    """Show the package's log lines where the caller asked for them and logging is not set up."""
    if not verbose or logger.hasHandlers():
        yield
        return
    handler, level = logging.StreamHandler(), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
