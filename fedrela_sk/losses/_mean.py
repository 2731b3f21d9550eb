"""What the mean of a batch divides by."""


def weights_in_mean(criterion, counts=None, progress=None):
    """Class weights whose sum over its rows a criterion's mean of a batch divides by; None: it counts rows.

    Parameters
    ----------
    criterion : CrossEntropyLoss or NLLLoss
        torch's own divide by their ``weight``, a loss of ours by what its `mean_weights` gives.
    counts : tensor of shape (..., n_classes) or None
        Rows of each class; None: those that a loss of ours was told by `use`.
    progress : float in [0, 1] or None
        As `counts`.

    Returns
    -------
    weights : tensor of shape (..., n_classes) or None
    """
    if hasattr(criterion, "mean_weights"):
        return criterion.mean_weights(counts, progress)
    return getattr(criterion, "weight", None)
