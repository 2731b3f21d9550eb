"""Methods with one planted fault each, and what `check_algorithm` says of it."""

import random
import threading

import numpy as np
import torch
from torch import nn
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


class QueriesWithADictionary(Sound):
    def server_query(self, round):
        return {"report": None}


class BroadcastsADictionary(Sound):
    def server_broadcast(self, server_state):
        return {"every_round": torch.ones(1)}


class WeighsByMinus(Sound):
    def server_weights(self, weights, clients, server_state):
        return -weights


class WeighsTooFew(Sound):
    def server_weights(self, weights, clients, server_state):
        return weights[1:]


class ChecksInTheConstructor(Sound):
    def __init__(self, strength=0.1):
        self.strength = float(strength) + 0.0
        self.ready = True


class HoldsALock(Sound):
    def __init__(self, strength=0.1, lock=None):
        super().__init__(strength)
        self.lock = lock


# the ten that issue 10 names come first
FAULTS = {
    "writes to self": (WritesToSelf(), "client_finish writes nothing to self. Seen: self.*last_"),
    "global random state, random": (DrawsFromRandom(), "client_finish uses no global random state.* of random has"),
    "global random state, numpy": (DrawsFromNumPy(), "server_step uses no global random state.* of numpy has"),
    "global random state, torch": (DrawsFromTorch(), "client_penalty uses no global random state.* of torch has"),
    "sends more than declared": (SendsMoreThanItDeclares(), "sends what it declares, traffic = .*bytes of round 1"),
    "forgets neutral": (ForgetsNeutral(), "under which parameters it equals FedAvg.*neither neutral nor"),
    "scalar from client_finish": (SendsAScalar(), "hooks return what they should.*finish gave '0.weight' with"),
    "NaN": (SendsNaN(), "what it computes is finite. Seen: The update of client 0 in round 0 is not finite"),
    "depends on client order": (GoesByTheLastClient(), "do not depend on client order. Seen: updates"),
    "drops the criterion": (DropsTheCriterion(), "goes by the criterion.*label smoothing of the"),
    "changes the caller's net": (TrainsItsTeacher(teacher=nn.Linear(2, 2)), "writes nothing to self.*teacher"),
    "differs between engines": (DiffersBetweenEngines(), "both engines give the same. Seen: .* differ by"),
    # further ones
    "writes to a parameter": (WritesToAParameter(), "server_step writes nothing to self.*seen"),
    "writes to its class": (WritesToTheClass(), "a fit writes nothing to itself. Seen: it writes to the class.*seen"),
    "broadcasts more than declared": (BroadcastsMoreThanItDeclares(), "sends what it declares.*bytes of round 1"),
    "sends views": (SendsViews(), "no more than the history counts.*hold .* bytes of memory"),
    "is not neutral": (IsNotNeutral(), r"under neutral = \{'strength': 0.0\} it equals FedAvg. Seen: .*net Dense"),
    "moves statistics twice": (MovesStatisticsTwice(), "equals FedAvg. Seen: .*net Normed.*copied_buffers"),
    "is FedAvg by a misspelled hook": (IsFedAvg(), "another method than FedAvg.*check the spelling"),
    "no pair from client_finish": (SendsNoPair(), "client_finish at client 0 in round 0 must return the pair"),
    "loss of NaN": (HasALossOfNaN(), "what it computes is finite"),
    "goes by the first report": (GoesByTheFirstReport(), "client order. Seen: reports that come from the last"),
    "leaks to the next client": (LeaksToTheNextClient(), "on nothing that another client left"),
    "drops row weights": (DropsRowWeights(), "both engines give the same|row weights of the criterion"),
    "stops parameters from learning": (StopsParametersFromLearning(), "client_begin changes nothing.*requires_grad"),
    "leaves evaluation mode": (LeavesEvaluationMode(), "client_begin changes nothing .*modes of its layers"),
    "adds in place": (AddsInPlace(), "server_step changes nothing that it is given"),
    "fills a dictionary": (FillsADictionary(), "client_correct changes nothing that it is given"),
    "branches on a tensor": (BranchesOnATensor(), "both engines give the same. Seen: .*vmap|data-dependent"),
    "a hook of an old name": (OfAnOldName(), "defines 'penalty', a hook of earlier versions.*client_penalty"),
    "server_query of another type": (QueriesWithADictionary(), "server_query of round 0 must return a .*Query"),
    "server_broadcast of another type": (BroadcastsADictionary(), "must return a fedrela_sk.algorithms.Broadcast"),
    "negative weights": (WeighsByMinus(), "server_weights of round 0 must return finite weights >= 0"),
    "weights of another shape": (WeighsTooFew(), "server_weights of round 0 must return one weight for each"),
    "works in the constructor": (ChecksInTheConstructor(), "stores its parameters .*constructor either does"),
    "cannot be pickled": (HoldsALock(lock=threading.Lock()), "it can be copied|stores its parameters"),
}  # fmt: skip
