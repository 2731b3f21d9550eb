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
        "seconds": 0.25,
        "traffic": {
            "up": {"model": 84, "extra tensors": 0, "reports": 0, "weights": 16},
            "down": {"model": 80, "extra tensors": 10, "reports": 0, "weights": 0},
        },
    }
    return RoundRecord(**(fields | changed))
