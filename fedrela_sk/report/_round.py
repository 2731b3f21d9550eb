"""One record per round."""

from dataclasses import dataclass, fields

from fedrela_sk._deprecation import old_attributes


@old_attributes
@dataclass(frozen=True)
class RoundRecord:
    """What happened in one round.

    Attributes
    ----------
    round : int
        0-based index.
    participants : tuple
        Keys of the clients that trained, in the order in which their updates were folded.
    n_samples : int
        Rows they trained on.
    n_steps : int
        Optimiser steps of all of them.
    train_loss : float
        Mean of their training losses, weighted by rows.
    valid_loss, valid_score : float
        Log loss and balanced accuracy (over the classes present) of the new global model on the
        validation rows; NaN without `validation` or `X_val`.
    n_relabeled : int
        Labels that differ from the original ones after this round's relabelling, over the clients that
        relabelled in this round; 0 where none did.
    relabeled_clients : tuple
        Keys of the clients that relabelled in this round, before training.
    bytes_up, bytes_down : int
        Bytes sent by the clients and to them: the sizes of the tensors that travelled, and 8 for each
        update's weight.
    seconds : float
        Wall-clock time.
    notes : tuple of str
        Anything out of the ordinary.
    """

    round: int
    participants: tuple
    n_samples: int
    n_steps: int
    train_loss: float
    valid_loss: float
    valid_score: float
    n_relabeled: int
    relabeled_clients: tuple
    bytes_up: int
    bytes_down: int
    seconds: float
    notes: tuple = ()

    def as_dict(self):
        """The fields by name; tuples stay whole."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
