"""Methods with one planted fault each."""

import random

import numpy as np
import torch
from torch.nn import functional as F

from fedrela_sk.aggregation import WeightedMean
from fedrela_sk.algorithms import Algorithm, Broadcast, Query


class Sound(Algorithm):
    """A method without a fault: gradients shrunk a little; every fault below is one change of it."""

    neutral = {"strength": 0.0}

    def __init__(self, strength=0.1):
        self.strength = strength

    def client_correct(self, grads, params, local):
        return {name: (1 - self.strength) * grad for name, grad in grads.items()}


class WritesToSelf(Sound):
    def client_finish(self, params, local, run):
        self.last_ = run.n_steps
        return params, local.state


class WritesToAParameter(Sound):
    def __init__(self, strength=0.1, seen=()):
        super().__init__(strength)
        self.seen = seen

    def server_step(self, params, aggregated, server_state, facts):
        self.seen = (*self.seen, facts.round)
        return super().server_step(params, aggregated, server_state, facts)


class WritesToTheClass(Sound):
    seen = []

    def client_finish(self, params, local, run):
        self.seen.append(run.n_steps)
        return params, local.state


class DrawsFromRandom(Sound):
    def client_finish(self, params, local, run):
        return {n: t + 1e-3 * random.random() if t.ndim else t for n, t in params.items()}, local.state


class DrawsFromNumPy(Sound):
    def server_step(self, params, aggregated, server_state, facts):
        noise = 1e-3 * np.random.normal()  # noqa: NPY002 - the fault
        return {name: tensor + noise for name, tensor in aggregated.items()}, server_state


class DrawsFromTorch(Sound):
    def client_penalty(self, params, local):
        return 1e-3 * torch.rand(()).double() * sum(p.sum() for p in params.values())


class SendsMoreThanItDeclares(Sound):
    def client_finish(self, params, local, run):
        return params | {"hidden": torch.ones(5)}, local.state


class BroadcastsMoreThanItDeclares(Sound):
    def server_broadcast(self, server_state):
        return Broadcast(every_round={"hidden": torch.ones(5)})


class SendsViews(Sound):
    """One number that holds on to the memory of all."""

    traffic = "M + 8 / M"

    def client_finish(self, params, local, run):
        large = torch.ones(1000, dtype=torch.float64)
        return params | {"view": large[:1]}, local.state


class ForgetsNeutral(Algorithm):
    def client_correct(self, grads, params, local):
        return {name: 0.9 * grad for name, grad in grads.items()}


class IsNotNeutral(Sound):
    def client_correct(self, grads, params, local):
        return {name: (0.95 - self.strength) * grad for name, grad in grads.items()}


class MovesStatisticsTwice(Sound):
    """A second pass in training mode moves BatchNorm's running statistics once more."""

    bare_loss = False

    def client_loss(self, model, batch, local):
        return batch.criterion_loss(model(batch.x)) + self.strength * model(batch.x).square().mean()


class IsFedAvg(Algorithm):
    """The name of its hook is misspelled."""

    neutral = {"strength": 0.0}

    def __init__(self, strength=0.1):
        self.strength = strength

    def client_penality(self, params, local):
        return self.strength * sum(p.sum() for p in params.values())


class SendsAScalar(Sound):
    def client_finish(self, params, local, run):
        return {name: tensor.mean() for name, tensor in params.items()}, local.state


class SendsNoPair(Sound):
    def client_finish(self, params, local, run):
        return params


class SendsNaN(Sound):
    def client_finish(self, params, local, run):
        return {name: tensor * float("nan") for name, tensor in params.items()}, local.state


class HasALossOfNaN(Sound):
    def client_penalty(self, params, local):
        moved = sum((p - local.anchor[name]).square().sum() for name, p in params.items())
        return self.strength * moved.sqrt()  # its gradient at 0 is 0 / 0


class GoesByTheFirstReport(Sound):
    traffic = "M + 8 / M + 8"

    def server_init(self, params, job):
        return {"first": torch.zeros((), dtype=torch.float64)}

    def server_query(self, round):
        return Query(self.client_report, self.server_gather)

    def client_report(self, model, data, local):
        return {"mean": data.X.mean()}

    def server_gather(self, reports, server_state, facts):
        return {"first": next(iter(reports.values()))["mean"]}

    def server_broadcast(self, server_state):
        return Broadcast(every_round=server_state)

    def client_penalty(self, params, local):
        return local.server["first"] * sum(p.sum() for p in params.values())


class LastWins(WeightedMean):
    def add(self, tensors, weight):
        self.last = tensors

    def result(self):
        return self.last

    add_stack = None


class GoesByTheLastClient(Sound):
    def server_aggregator(self):
        return LastWins()


_left = {}


class LeaksToTheNextClient(Sound):
    """What a client trained is where the next one finds it."""

    def client_begin(self, model, data, local):
        return {"before": _left.get("mean", torch.zeros((), dtype=torch.float64))}

    def client_correct(self, grads, params, local):
        return {name: grad + 0.01 * local.start["before"] for name, grad in grads.items()}

    def client_finish(self, params, local, run):
        _left["mean"] = next(iter(params.values())).mean().clone()
        return params, local.state


class DropsTheCriterion(Sound):
    bare_loss = False

    def client_loss(self, model, batch, local):
        return batch.mean(F.cross_entropy(model(batch.x), batch.y, reduction="none"))


class DropsRowWeights(Sound):
    bare_loss = False
    neutral = None
    neutral_reason = "planted"

    def client_loss(self, model, batch, local):
        return batch.row_losses(model(batch.x)).mean()


class StopsParametersFromLearning(Sound):
    def client_begin(self, model, data, local):
        next(model.module.parameters()).requires_grad_(False)
        return {}


class LeavesEvaluationMode(Sound):
    def client_begin(self, model, data, local):
        model.module.eval()
        return {}


class TrainsItsTeacher(Sound):
    """The caller's own net is a parameter, and is written to."""

    def __init__(self, strength=0.1, teacher=None):
        super().__init__(strength)
        self.teacher = teacher

    def prepare_module(self, module, n_classes):
        with torch.no_grad():
            self.teacher.weight.add_(1.0)
        return module


class AddsInPlace(Sound):
    def server_step(self, params, aggregated, server_state, facts):
        for name, tensor in params.items():
            tensor.copy_(aggregated[name])
        return params, server_state


class ScalesInPlace(Sound):
    def client_correct(self, grads, params, local):
        return {name: grad.mul_(0.9) for name, grad in grads.items()}


class PassesOnAState(Sound):
    """A state that is sent to nobody is written over where it lies."""

    def client_init(self, params):
        return {"n_rounds": torch.zeros(())}

    def client_finish(self, params, local, run):
        local.state["n_rounds"] += 1
        return params, local.state


class FillsADictionary(Sound):
    def client_correct(self, grads, params, local):
        for name in grads:
            grads[name] = 0.9 * grads[name]
        return grads


class DiffersBetweenEngines(Sound):
    """A mean over all rows of a batch counts those that only fill up a stack."""

    bare_loss = False

    def client_loss(self, model, batch, local):
        logits = model(batch.x)
        return batch.criterion_loss(logits) + self.strength * logits.square().mean()


class BranchesOnATensor(Sound):
    def client_penalty(self, params, local):
        total = sum(p.square().sum() for p in params.values())
        return self.strength * total if total > 1 else 0.5 * self.strength * total


class OfAnOldName(Sound):
    def penalty(self, params, anchor):
        return 0.0


class ChecksInTheConstructor(Sound):
    def __init__(self, strength=0.1):
        self.strength = float(strength) + 0.0
        self.ready = True


class HoldsALock(Sound):
    def __init__(self, strength=0.1, lock=None):
        super().__init__(strength)
        self.lock = lock


def sound_but(hook, function):
    """`Sound` with one other hook."""
    return type("SoundBut", (Sound,), {hook: function})()
