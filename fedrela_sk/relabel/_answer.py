"""What a relabeler may answer: new labels, or the pair (new labels, mask of the rows that stay)."""

import numpy as np

from fedrela_sk._labels import check_names, positions_in
from fedrela_sk.exceptions import LabelError


def check_answer(answer, classes, n_rows):
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
        If a shape is wrong, the mask is not boolean, or a label is none of `classes`.
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
