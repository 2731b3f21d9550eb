"""What a federation tells a relabeler beside posteriors and labels, and what any relabeler may answer."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import has_fit_parameter

from fedrela_sk._labels import check_names, positions_in
from fedrela_sk._typing import Array
from fedrela_sk.exceptions import LabelError
from fedrela_sk.relabel.formulas._normalization import Rounding, rounding_of


@dataclass(frozen=True)
class Told:
    """Facts about posteriors that posteriors do not show.

    Attributes
    ----------
    eps : float or None
        Unit in the last place of the arithmetic that made them, such as that of a float32 net whose posteriors
        are held in float64. None: that of the dtype in which they come.
    targets : array-like of shape (n_classes,), bool, or None
        Which classes, in the order of the relabeler's `classes`, some client has rows of; the others are never
        targets. None: all classes are.
    quiet : bool
        Whoever tells looks after warnings about the weights of all clients.
    """

    eps: float | None = None
    targets: np.ndarray | None = None
    quiet: bool = False

    def rounding(self, relabeler, dtype):
        """`Rounding` of the values that a relabeler compares, which came in `dtype`."""
        given = rounding_of(dtype, relabeler.input == "score" and not relabeler._compares_softmax())
        return given if self.eps is None else Rounding(max(self.eps, given.eps), given.scores)

    def targets_in(self, classes):
        """The mask as an array, None where every class is a target."""
        if self.targets is None:
            return None
        targets = np.asarray(self.targets, dtype=bool)
        if targets.shape != classes.shape:
            raise ValueError(f"targets have shape {targets.shape}, expected {classes.shape}: one per class.")
        if not targets.any():
            raise ValueError("targets are all False: at least the classes that have rows must be among them.")
        return None if targets.all() else targets


NOTHING = Told()


def fit_told(relabeler, Q, y, sample_weight=None, *, eps=None, targets=None):
    """``relabeler.fit(Q, y, sample_weight)``, told what `Told` holds where it can be.

    Parameters
    ----------
    relabeler : object with `fit(Q, y)`
        A `FedReLaRelabeler` and its children are told, and any other object that has an attribute `_told`.
    Q : array-like of shape (n_rows, n_classes)
    y : array-like of shape (n_rows,)
    sample_weight : array-like of shape (n_rows,) or None
        Passed on where the relabeler takes weights.
    eps, targets
        As in `Told`.

    Returns
    -------
    relabeler : the same object, fitted
    """
    if hasattr(relabeler, "_told"):
        relabeler._told = Told(eps, targets, quiet=True)
    weighted = sample_weight is not None and has_fit_parameter(relabeler, "sample_weight")
    return relabeler.fit(Q, y, sample_weight=sample_weight) if weighted else relabeler.fit(Q, y)


def check_answer(answer: ArrayLike, classes: Array, n_rows: int) -> tuple[Array, Array]:
    """New labels and mask of any relabeler, checked.

    Parameters
    ----------
    answer : array-like of shape (n_rows,), or a pair of those
        As `relabel` returned it.
    classes : ndarray of shape (n_classes,)
    n_rows : int

    Returns
    -------
    new : ndarray of shape (n_rows,)
    keep : ndarray of shape (n_rows,), bool

    Raises
    ------
    LabelError
        If a shape is wrong, the mask is not boolean, or a label is not one of `classes`.
    """
    new, keep = answer if isinstance(answer, tuple) else (answer, np.ones(n_rows, dtype=bool))
    new, keep = new if isinstance(new, np.ndarray) else check_names(new, "the new labels"), np.asarray(keep)
    if new.shape != (n_rows,) or keep.shape != (n_rows,) or keep.dtype != bool:
        raise LabelError(
            f"`relabel` must return {n_rows} labels, or the pair (labels, boolean mask of the rows to keep); "
            f"got shapes {new.shape} and {keep.shape} with mask dtype {keep.dtype}."
        )
    new = check_names(new, "the new labels")
    known = positions_in(classes, new) >= 0
    if not known.all():
        raise LabelError(
            f"`relabel` returned the label {new[~known][0]!r}, which is not among {classes.tolist()}."
        )
    return new, keep
