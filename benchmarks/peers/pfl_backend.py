"""pfl (Apple): one process, or ``torchrun --standalone --nproc_per_node=2 -m benchmarks.peers.pfl_backend``."""

import logging
import os

import torch
import torch.nn.functional as F
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm import FederatedAveraging, NNAlgorithmParams
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel

from benchmarks.peers import job as J

logging.getLogger().setLevel(logging.WARNING)
a = J.arguments()
torch.set_num_threads(1)
parts, _ = J.data(a.job)
net = J.model(a.job)
marks = []


def loss(x, y, eval=False):
    net.train(not eval)
    return F.cross_entropy(net(x), y)


def metrics(x, y, eval=False):
    net.train(not eval)
    with torch.no_grad():
        return {"loss": Weighted(F.cross_entropy(net(x), y, reduction="sum").item(), len(y))}


def users():
    while True:
        yield from range(J.N_CLIENTS)


class Clock(TrainingProcessCallback):
    def on_train_begin(self, *, model):
        marks.append(J.clock())
        return Metrics()

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
        marks.append(J.clock())
        return False, Metrics()


net.loss, net.metrics = loss, metrics
endless = users()
dataset = FederatedDataset(
    lambda user: Dataset(raw_data=list(parts[user]), user_id=str(user)), lambda: next(endless)
)
FederatedAveraging().run(
    backend=SimulatedBackend(training_data=dataset, val_data=dataset, postprocessors=[WeightByDatapoints()]),
    model=PyTorchModel(net, torch.optim.SGD, torch.optim.SGD(net.parameters(), lr=1.0)),
    callbacks=[Clock()],
    send_metrics_to_platform=False,
    algorithm_params=NNAlgorithmParams(
        central_num_iterations=a.rounds,
        evaluation_frequency=10**6,
        train_cohort_size=J.N_CLIENTS,
        val_cohort_size=0,
    ),
    model_train_params=NNTrainHyperParams(
        local_learning_rate=J.LR, local_num_epochs=1, local_batch_size=J.BATCH[a.job]
    ),
    model_eval_params=NNEvalHyperParams(local_batch_size=1024),
)
if os.environ.get("RANK", "0") == "0":
    J.report("pfl", a.job, net, marks, processes=int(os.environ.get("WORLD_SIZE", 1)))
