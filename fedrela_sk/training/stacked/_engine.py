"""The stacked engine: many clients in one pass, their parameters stacked along a leading axis."""

from contextlib import nullcontext

import torch

from fedrela_sk._random import Purpose
from fedrela_sk.exceptions import ClientError, NetError
from fedrela_sk.training._model import Model
from fedrela_sk.training._net import read_settings
from fedrela_sk.training.runtime._generator import forked_generators, seed_generators, training_draws
from fedrela_sk.training.stacked._chunk_run import ChunkRun
from fedrela_sk.training.stacked._chunks import make_chunks
from fedrela_sk.training.stacked._graph import NotStackable
from fedrela_sk.training.stacked._stackable import clip_rule, stacked_forward


class StackedEngine:
    """Trains the clients of a chunk in one pass.

    The batches, the hooks and the mathematics are those of the loop engine; sums run in another order.

    Parameters
    ----------
    net : initialized skorch net
    data : LocalData
    algorithm : Algorithm
    n_classes : int
    seed : int
    chunk_size : int
        Clients that train at once. Memory grows with it; results depend on it by rounding.
    precision : {None, "bf16"}
        "bf16": products under `torch.autocast`; None: the module's own dtype.

    Raises
    ------
    NotStackable
        If the net, its criterion, optimizer or callbacks cannot be stacked.
    """

    name = "stacked"

    def __init__(self, net, data, algorithm, n_classes, seed, *, chunk_size, precision=None):
        self.net = net
        self.data = data
        self.algorithm = algorithm
        self.n_classes = n_classes
        self.seed = seed
        self.chunk_size = chunk_size
        self.precision = precision
        self.settings = read_settings(net)
        if data.mixing is not None:
            raise NotStackable(f"{data.mixing!r} draws partners for every batch, one client after the other")
        self.forward, self.kind = stacked_forward(net, data.X, algorithm)
        self.clip = clip_rule(self.settings.callbacks)
        module = net.module_
        self.param_names = {name: p.requires_grad for name, p in module.named_parameters()}
        self.trainable = tuple(name for name, learns in self.param_names.items() if learns)
        self.frozen = {name for name, learns in self.param_names.items() if not learns}
        self.model = Model(module, net.criterion_, n_classes)
        self.plans = {}
        self._draws = training_draws(net, self.settings.callbacks, algorithm)
        self.output_checked = False

    def train(self, tasks, instructions):
        """Updates of the clients of one round, a `ChunkUpdate` per chunk, in the plan's order.

        Parameters and errors as in `LoopEngine.train`.
        """
        for chunk in self.units(list(tasks)):
            yield from self.train_unit(chunk, instructions)

    def close(self):
        """Nothing is held outside this process."""

    def forget(self):
        """Nothing is left in the module: only nets are stacked that keep nothing outside their tensors."""

    def set_data(self, data):
        """Go on with other `LocalData`, as clients' samplers made them."""
        self.data = data

    def units(self, tasks, n_workers=1):
        """The chunks of a round: groups of tasks that one worker takes at a time, however many work."""
        return make_chunks(tasks, self.settings, self.chunk_size)

    def train_unit(self, tasks, instructions):
        """`ChunkUpdate` of one chunk, in a list; `tasks` are ordered as `units` orders them."""
        round = instructions.round
        try:
            with forked_generators(self.net.device) if self._draws else nullcontext():
                return [self._train(tasks, instructions)]
        except NetError as error:
            raise NetError(f"Round {round}, clients {_names(tasks)}: {error}") from error
        except ClientError:
            raise
        except Exception as error:
            raise ClientError(
                f"Clients {_names(tasks)} failed in round {round}: {type(error).__name__}: {error}. "
                "engine='loop' trains them one by one and names the one that fails."
            ) from error

    def autocast(self):
        """Where products run in a shorter dtype, if they are to."""
        if self.precision is None:
            return nullcontext()
        return torch.autocast(self.data.X.device.type, dtype=torch.bfloat16)

    def _train(self, tasks, instructions):
        self.net.module_.train()  # Dropout acts through the module's own layers
        if self._draws:
            round, stream_id = instructions.round, tasks[0].client.stream_id
            seed_generators(self.net.device, self.seed, Purpose.MODULE, round, stream_id)
        run = ChunkRun(self, tasks, instructions)
        run.all_steps()
        return run.update()


def _names(tasks):
    keys = [task.client.key for task in tasks]
    return f"{keys}" if len(keys) <= 5 else f"{keys[:5]} and {len(keys) - 5} more"
