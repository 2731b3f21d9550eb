"""One record per round."""

from dataclasses import dataclass, field, fields
from typing import Any

from fedrela_sk._deprecation import old_attributes
from fedrela_sk._update import total


@old_attributes
@dataclass(frozen=True)
class RoundRecord:
    """What happened in one round.

    Attributes
    ----------
    round : int
        0-based index.
    participants : tuple
        Keys of the clients that trained, in the order in which their updates were aggregated.
    n_samples : int
        Rows they trained on.
    n_steps : int
        Optimizer steps of all of them.
    train_loss : float
        Mean of their training losses, weighted by rows.
    valid_loss, valid_score : float
        Log loss and balanced accuracy (over the classes present) of the new global model on the
        validation rows; NaN without `validation` or `X_val`.
    n_relabeled : int
        Labels that differ from the original ones after this round's relabeling, over the clients that
        relabeled in this round; 0 where none did.
    relabeled_clients : tuple
        Keys of the clients that relabeled in this round, before training.
    seconds : float
        Wall-clock time.
    notes : tuple of str
        Anything out of the ordinary.
    traffic : dict of dict
        Bytes by direction, "up" (sent by the clients) and "down" (sent to them), and purpose: "model",
        "extra tensors" of the method, "reports" before training, "weights" (8 for each update). They are the
        sizes of the tensors that traveled.
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
    seconds: float
    notes: tuple = ()
    traffic: dict = field(default_factory=dict)

    @property
    def bytes_up(self) -> Any:
        """Bytes sent by the clients."""
        return total(self.traffic, "up")

    @property
    def bytes_down(self) -> Any:
        """Bytes sent to the clients."""
        return total(self.traffic, "down")

    def as_dict(self) -> Any:
        """One value per name: the fields (tuples stay whole), bytes in total and by purpose ("bytes_up: model")."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "traffic"}
        for direction in ("up", "down"):
            values[f"bytes_{direction}"] = total(self.traffic, direction)
        for direction, purposes in self.traffic.items():
            values |= {f"bytes_{direction}: {purpose}": nbytes for purpose, nbytes in purposes.items()}
        return values
