"""What training on a single class does to the weights of a head, and what that tells of a round's classes."""

import torch

# a weight is a class's own if no other class moves it by this share of what the class does
DOMINANCE = 0.8
# ratio of a class whose own weights no other class moves, or that has no weight of its own
RATIO_WITHOUT_OTHERS = 10.0


def own_weights(changes):
    """Which weights are which class's own.

    Those that the class moves up the most, and no other class by 80 % as much in either direction.

    Parameters
    ----------
    changes : tensor of shape (n_classes, n_weights)
        Change of every weight of the head after training on the rows of one class.

    Returns
    -------
    own : tensor of shape (n_classes, n_weights), bool
        At most one class has a weight.
    """
    largest, winner = changes.max(0)
    wins = torch.arange(len(changes), device=changes.device)[:, None] == winner
    runner_up = changes.abs().masked_fill(wins, 0.0).amax(0)
    return wins & (runner_up < DOMINANCE * largest.abs())


def others_mean(changes):
    """Mean change of every weight by all other classes, shape (n_classes, n_weights)."""
    return (changes.sum(0) - changes) / (len(changes) - 1)


def class_ratios(changes):
    """How much more a class moves its own weights than the mean other class does.

    The ratio of the sums over its own weights, in absolute value; 10 where the other classes' sum is 0. It is
    large for a class that is rare in what the model was trained on.

    Parameters
    ----------
    changes : tensor of shape (n_classes, n_weights)

    Returns
    -------
    ratios : tensor of shape (n_classes,)
    """
    own = own_weights(changes)
    top = torch.where(own, changes, 0.0).sum(1).abs()
    bottom = torch.where(own, others_mean(changes), 0.0).sum(1).abs()
    return torch.where(bottom > 0, top / bottom, RATIO_WITHOUT_OTHERS)


def class_composition(changes, moved, n_auxiliary, n_participants, n_rows, limit=1.5):
    """Estimate of how many rows of each class a round was trained on: the monitor of Ratio Loss.

    From each weight of a class's own an estimate follows as if all other classes moved it alike and steps
    were linear in rows; with more local training than one pass it degrades. Estimates outside
    (0, limit n_rows / n_classes) are left out; the others are averaged.

    Parameters
    ----------
    changes : tensor of shape (n_classes, n_weights)
        Change of every weight of the head after training on `n_auxiliary` rows of one class.
    moved : tensor of shape (n_weights,)
        Change of the global model in the round, the plain mean over clients.
    n_auxiliary, n_participants : int
    n_rows : float
        Rows of all clients of the round.
    limit : float > 0, default=1.5

    Returns
    -------
    composition : tensor of shape (n_classes,)
        n_rows / n_classes for a class without an estimate.
    """
    even, others = n_rows / len(changes), others_mean(changes)
    estimates = (n_auxiliary * n_participants * moved - n_rows * others) / (changes - others)
    kept = own_weights(changes) & (estimates > 0) & (estimates < limit * even)
    n_kept = kept.sum(1)
    return torch.where(n_kept > 0, torch.where(kept, estimates, 0.0).sum(1) / n_kept.clamp_min(1), even)
