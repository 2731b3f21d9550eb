"""The steps that `FedReLaSampler` and `RelabelingClassifier` share: posteriors of the rows, then new labels."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import has_fit_parameter

from fedrela_sk._checks import label_dtype
from fedrela_sk._labels import positions_in
from fedrela_sk._random import Purpose, uniforms
from fedrela_sk._sklearn import METHODS, _routing_enabled
from fedrela_sk.exceptions import GroupsError, LabelError
from fedrela_sk.relabel._coded import fit_labels
from fedrela_sk.relabel._contract import check_answer
from fedrela_sk.relabel._out_of_fold import make_folds, out_of_fold, response_name, responses_of, uses_groups
from fedrela_sk.relabel._relabeler import FedReLaRelabeler


@dataclass(frozen=True)
class FirstStage:
    """What the inner classifier says about the rows.

    Attributes
    ----------
    responses : ndarray of shape (n_samples, n_classes)
        Posteriors, or scores where `method` is "decision_function".
    classes : ndarray of shape (n_classes,)
        Sorted; what the columns stand for.
    method : {"predict_proba", "decision_function"}
    model : classifier or None
        A classifier fitted on all rows with their original labels, where making the responses took one.
    """

    responses: np.ndarray
    classes: np.ndarray
    method: str
    model: Any


@dataclass(frozen=True)
class NewLabels:
    """What a relabeler made of the rows.

    Attributes
    ----------
    relabeler : fitted relabeler
    labels : ndarray of shape (n_samples,)
    changed : ndarray of shape (n_samples,), bool
        Rows whose label is a new one.
    keep : ndarray of shape (n_samples,), bool
        Rows that stay in training: all, unless the relabeler drops some.
    """

    relabeler: Any
    labels: np.ndarray
    changed: np.ndarray
    keep: np.ndarray


def unfrozen(estimator):
    """What a `FrozenEstimator` wraps; any other estimator itself."""
    while isinstance(estimator, FrozenEstimator):
        estimator = estimator.estimator
    return estimator


def first_stage(estimator, X, labels, *, cv, response_method, fit_params, groups, n_jobs, seed):
    """Posteriors (or scores) of every row: out of fold, in sample, or those of a frozen classifier.

    Parameters
    ----------
    estimator : classifier
        A `FrozenEstimator` is asked as it is, whatever `cv` says.
    X : indexable of length n_samples
    labels : ndarray of shape (n_samples,)
    cv : int, splitter, iterable, None or "insample"
    response_method : {"auto", "predict_proba", "decision_function"}
    fit_params : dict
        Metadata for the classifier's `fit`.
    groups : dict
        Metadata for the splitter's `split`.
    n_jobs : int or None
    seed : int

    Returns
    -------
    stage : FirstStage

    Raises
    ------
    LabelError
        Fewer than two classes, or labels that a frozen classifier does not know.
    PartitionError
        The test sets of `cv` do not hold each row once.
    """
    frozen = isinstance(estimator, FrozenEstimator)
    classes = _classes_of_frozen(estimator, labels) if frozen else np.unique(labels)
    if len(classes) < 2:
        raise LabelError(
            f"y has 1 class ({classes[0]!r}), and relabeling needs at least 2 classes. "
            "Check how the rows were selected."
        )
    method = response_name(estimator, response_method)
    if not frozen and not isinstance(cv, str):
        folds = make_folds(cv, X, labels, groups, seed)
        responses = out_of_fold(
            estimator, X, labels, classes, folds, method=method, fit_params=fit_params, n_jobs=n_jobs
        )
        return FirstStage(responses, classes, method, None)
    model = estimator if frozen else fit_labels(clone(estimator), X, labels, classes, fit_params)
    responses = responses_of(model, X, classes, method)
    return FirstStage(responses, classes, method, model)


def _classes_of_frozen(estimator, labels):
    known = np.unique(estimator.classes_)
    unknown = labels[positions_in(known, labels) < 0]
    if len(unknown):
        raise LabelError(
            f"y holds {np.unique(unknown).tolist()}, which the frozen classifier does not know (it was fitted on "
            f"{known.tolist()}). Fit it on all classes before freezing it."
        )
    return known


def draw_labels(relabeler, stage, labels, *, sample_weight, seed):
    """Fit a copy of the relabeler on the first stage and draw new labels.

    The copy is told the classes and what the responses are; its `random_state`, unless the user set one, is
    `seed`.

    Parameters
    ----------
    relabeler : relabeler or None
        None means `FedReLaRelabeler()`. Any object with `fit(Q, y)` and `relabel(Q, y, uniforms=...)` will
        do, the latter returning new labels, or the pair (new labels, mask of the rows to keep).
    stage : FirstStage
    labels : ndarray of shape (n_samples,)
    sample_weight : ndarray of shape (n_samples,) or None
        Passed to the relabeler's `fit` where it takes them.
    seed : int

    Returns
    -------
    drawn : NewLabels
    """
    relabeler = FedReLaRelabeler() if relabeler is None else clone(relabeler, safe=False)
    params = relabeler.get_params(deep=False) if hasattr(relabeler, "get_params") else {}
    facts = {
        "classes": stage.classes,
        "input": "posterior" if stage.method == "predict_proba" else "score",
        "random_state": seed if params.get("random_state") is None else params["random_state"],
    }
    known = {name: fact for name, fact in facts.items() if name in params}
    if known:
        relabeler.set_params(**known)
    weighted = sample_weight is not None and has_fit_parameter(relabeler, "sample_weight")
    relabeler.fit(stage.responses, labels, **({"sample_weight": sample_weight} if weighted else {}))
    draws = (
        {}
        if "random_state" in params
        else {"uniforms": uniforms(seed, Purpose.RELABEL, stage.responses.shape)}
    )
    answer = relabeler.relabel(stage.responses, labels, **draws)
    given, keep = check_answer(answer, stage.classes, len(labels))
    codes = positions_in(stage.classes, given)
    changed = codes != positions_in(stage.classes, labels)
    new = labels.astype(label_dtype(labels, stage.classes))
    new[changed] = stage.classes[codes[changed]]
    return NewLabels(relabeler, new, changed, keep)


def routing(owner, caller, estimator, params):
    """Who gets which metadata of `fit`.

    Parameters
    ----------
    owner : RelabelingClassifier or FedReLaSampler
    caller : {"fit", "fit_resample"}
        The method that was called.
    estimator : classifier
        The one that is trained.
    params : dict
        Metadata as passed by the user.

    Returns
    -------
    fit_params, split_params : dict
        With metadata routing what was requested; without it `groups` go to the splitter, and to the classifier's
        `fit` where it takes them, and the rest to the classifier's `fit`, `sample_weight` only where it takes them.

    Raises
    ------
    GroupsError
        `groups` where neither the splitter nor the classifier uses them.
    ValueError
        `sample_weight` for a classifier whose `fit` does not take them.
    """
    params = {name: value for name, value in params.items() if value is not None}
    if _routing_enabled():
        routed = process_routing(owner, caller if caller in METHODS else "fit", **params)
        return dict(routed.estimator.fit), dict(routed.splitter.split)
    groups = _groups(owner, estimator, params)
    if "sample_weight" in params and not has_fit_parameter(estimator, "sample_weight"):
        raise ValueError(
            f"Got sample_weight, but the fit of {type(estimator).__name__} has no such parameter. For a pipeline "
            "either pass <step>__sample_weight, or switch metadata routing on "
            "(sklearn.set_config(enable_metadata_routing=True)) and request the weights where they are wanted."
        )
    return params, groups


def _groups(owner, estimator, params):
    """What the splitter gets; `params` keep the groups only where the classifier takes them."""
    if "groups" not in params:
        return {}
    groups = params["groups"]
    taken = has_fit_parameter(estimator, "groups")
    used = uses_groups(owner.cv) and not isinstance(owner.estimator, FrozenEstimator)
    if not (taken or used):
        cv = repr(owner.cv) if len(repr(owner.cv)) < 80 else f"a {type(owner.cv).__name__}"
        frozen = (
            ", since a FrozenEstimator has no folds" if isinstance(owner.estimator, FrozenEstimator) else ""
        )
        raise GroupsError(
            f"groups were given, but cv={cv} does not use them{frozen}, and neither does the fit of "
            f"{type(estimator).__name__}. Set cv=GroupKFold(5), so that rows of one group are in one fold, or leave "
            "groups out; a step of an inner pipeline gets them as <step>__groups."
        )
    if not taken:
        del params["groups"]
    return {"groups": groups} if used else {}


def router(owner, callers):
    """A `MetadataRouter` that sends metadata of `callers` to the inner `fit` and the splitter's `split`."""
    fit, split = MethodMapping(), MethodMapping()
    # imbalanced-learn adds "fit_resample" to scikit-learn's methods when it is imported
    for caller in [caller for caller in callers if caller in METHODS]:
        fit.add(caller=caller, callee="fit")
        split.add(caller=caller, callee="split")
    return (
        MetadataRouter(owner=owner)
        .add(estimator=unfrozen(owner.estimator), method_mapping=fit)
        .add(splitter=owner.cv, method_mapping=split)
    )
