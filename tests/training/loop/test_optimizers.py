"""Optimizers in the loop engine: fresh for every client and round; models as in `test_loop`."""

import numpy as np
import pytest
import torch

from tests.training.helpers import Prox, make_loop, train_one


class NotesInGroup(torch.optim.SGD):
    """An optimizer that counts its steps in its parameter group, as some published ones do."""

    def step(self, closure=None):
        for group in self.param_groups:
            group["step"] = group.get("step", 0) + 1
            group["lr"] /= group["step"]
        return super().step(closure)


OPTIMIZERS = {
    "momentum": {"optimizer": torch.optim.SGD, "optimizer__momentum": 0.9, "optimizer__nesterov": True},
    "adagrad": {"optimizer": torch.optim.Adagrad},
    "adam": {"optimizer": torch.optim.Adam, "optimizer__amsgrad": True},
    "adamw": {"optimizer": torch.optim.AdamW},
    "nadam": {"optimizer": torch.optim.NAdam},
    "rmsprop": {"optimizer": torch.optim.RMSprop, "optimizer__momentum": 0.5, "optimizer__centered": True},
    "rprop": {"optimizer": torch.optim.Rprop},
    "asgd": {"optimizer": torch.optim.ASGD, "optimizer__t0": 1},
    "adadelta": {"optimizer": torch.optim.Adadelta},
    "lbfgs": {"optimizer": torch.optim.LBFGS, "optimizer__max_iter": 3, "optimizer__history_size": 2},
    "notes": {"optimizer": NotesInGroup, "optimizer__momentum": 0.9},
}


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_optimizers_remember_no_other_client_and_no_earlier_round(kind):
    X = np.linspace(0.2, 1.0, 6)
    settings = OPTIMIZERS[kind] | {"batch_size": 2, "max_epochs": 2, "lr": 0.1}
    params = {"w": torch.ones(1, dtype=torch.float64)}

    def trained(loop, rows, round=0, factor=1.0):
        update = train_one(loop, rows, np.array(rows) % 2, round, lr_factor=factor, params=params)
        return update.tensors["w"]

    used = make_loop(X, **settings)
    for rows, round, factor in (
        ([0, 1, 2], 0, 1.0),
        ([3, 4, 5, 0], 0, 1.0),
        ([0, 1, 2], 1, 0.3),
        ([2, 5], 2, 1.0),
    ):
        fresh = trained(make_loop(X, **settings), rows, round, factor)
        assert torch.equal(trained(used, rows, round, factor), fresh)
        assert fresh.item() != 1.0


def test_momentum_by_hand():
    # velocities 1, 1/2 + 1/2; w = 1/2, 0
    update = train_one(make_loop([1.0], optimizer__momentum=0.5, max_epochs=2), [0], [0])
    assert update.tensors["w"].item() == 0.0


def test_an_optimizer_that_asks_twice_gets_penalty_and_correction_twice():
    # LBFGS evaluates its closure again and again; the loss that counts is the one before the step
    calls = []

    class Counts(Prox):
        def client_correct(self, grads, params, local):
            calls.append(params["w"].item())
            return grads

    loop = make_loop([1.0], Counts(0.5), optimizer=torch.optim.LBFGS, lr=1.0, optimizer__max_iter=10)
    update = train_one(loop, [0], [0])
    # 1/2 w^2 + 1/4 (w - 1)^2 is smallest at 1/3
    assert update.tensors["w"].item() == pytest.approx(1 / 3, abs=1e-6)
    assert update.loss == 0.5
    assert update.n_steps == 1
    assert len(calls) > 1
