"""Records to put into a history."""

from fedrela_sk.report import RoundRecord


def make_record(round, **changed):
    fields = {
        "round": round,
        "participants": ("a", "b"),
        "n_samples": 10,
        "n_steps": 4,
        "train_loss": 0.5,
        "valid_loss": float("nan"),
        "valid_score": float("nan"),
        "n_relabeled": 0,
        "relabeled_clients": (),
        "bytes_up": 100,
        "bytes_down": 90,
        "seconds": 0.25,
    }
    return RoundRecord(**(fields | changed))
