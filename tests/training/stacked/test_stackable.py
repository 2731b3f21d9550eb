"""What is stacked, what is refused and why; the probe leaves no trace."""

from contextlib import suppress

import pytest
import torch
from skorch import NeuralNetClassifier
from skorch.callbacks import GradientNormClipping, PrintLog
from torch import nn

from fedrela_sk._tree import copy
from fedrela_sk.algorithms import Algorithm
from fedrela_sk.training import NotStackable
from fedrela_sk.training._net import tensors_of
from fedrela_sk.training.stacked._stackable import clip_rule, stacked_forward
from tests.training import nets

X = torch.randn(6, nets.N_FEATURES, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def forward_of(module, X=X, **settings):
    """(forward, kind) of a net around a module or a module class."""
    return stacked_forward(nets.make_net(module, **settings), X)


class Head(nn.Module):
    """A linear layer under some code."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(nets.N_FEATURES, nets.N_CLASSES)


def head(name, forward, base=Head):
    return type(name, (base,), {"forward": forward})


def cumulative(x):
    """Nothing that the direct form knows."""
    return torch.cumsum(x, -1)


# --- refused: rows that look at each other, draws, weights and state of no one client -----------------------


class Held(Head):
    """Its forward pass takes the weight from a list, not from the layer."""

    def __init__(self):
        super().__init__()
        self.weights = [self.last.weight]

    def forward(self, x):
        return cumulative(x @ self.weights[0].T)


class Counting(Head):
    """A step counter, which nothing reads."""

    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.steps += 1
        return self.last(x)


class RunningMean(Head):
    """Collects a mean of its inputs, in which padding would count."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(nets.N_FEATURES))

    def forward(self, x):
        self.mean.mul_(0.9).add_(0.1 * x.detach().mean(0))
        return self.last(cumulative(x))


class NormAndCount(nn.Sequential):
    """A counter beside BatchNorm."""

    def __init__(self):
        super().__init__(nn.Linear(nets.N_FEATURES, 4), nn.BatchNorm1d(4), nn.Linear(4, nets.N_CLASSES))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.steps += 1
        return super().forward(x)


class NormAndMore(nn.Sequential):
    """BatchNorm before something that only vmap could stack."""

    def __init__(self):
        super().__init__(nn.BatchNorm1d(nets.N_FEATURES), nn.Linear(nets.N_FEATURES, 3), nn.Softmax(dim=-1))


class ExtraState(Head):
    """Keeps something in its state that is no tensor of its own."""

    def forward(self, x):
        return self.last(x)

    def get_extra_state(self):
        return torch.ones(2)

    def set_extra_state(self, state):
        """Nothing to set."""


class SharedLayer(nn.Module):
    """One layer, two names."""

    def __init__(self):
        super().__init__()
        self.first = self.second = nn.Linear(nets.N_FEATURES, nets.N_FEATURES)
        self.last = nn.Linear(nets.N_FEATURES, nets.N_CLASSES)

    def forward(self, x):
        return self.last(self.second(torch.relu(self.first(x))))


class SharedWeight(SharedLayer):
    """Two layers, one weight."""

    def __init__(self):
        super().__init__()
        self.second = nn.Linear(nets.N_FEATURES, nets.N_FEATURES)
        self.second.weight = self.first.weight


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (nets.LooksAcross, "depends on the other rows of the batch, or on chance"),
        (head("Ranks", lambda self, x: self.last(x) + x.argsort(0)[:, :1]), "depends on the other rows"),
        (head("Noisy", lambda self, x: self.last(x) + torch.rand_like(x[:, :1])), "depends .* or on chance"),
        (head("Drops", lambda self, x: self.last(nn.functional.dropout(x))), "depends .* or on chance"),
        (Held, "under vmap: its stacked forward pass does not give what the module gives"),
        (Counting, "under vmap: its buffer 'steps' changes while it trains"),
        (RunningMean, "under vmap: its buffer 'mean' changes while it trains"),
        (NormAndCount, "^its buffer 'steps' changes while it trains"),
        (NormAndMore, r"^layer '2' \(Softmax\) has no known stacked form$"),
        (ExtraState, "its state holds more than parameters and buffers"),
        (SharedLayer, "layers share parameters"),
        (SharedWeight, "layers share parameters"),
        (head("Lists", lambda self, x: [self.last(x)]), "its forward does not return a tensor"),
        (head("Decides", lambda self, x: self.last(x) * (2 if x.sum() > 0 else 1)),
         "cannot be read .* under vmap: its output for a row depends on the other rows"),
        (head("Fails", lambda self, x: self.first(x)), "cannot be read .*'first'"),
    ],
)  # fmt: skip
def test_modules_that_cannot_be_stacked_are_refused(module, reason):
    with pytest.raises(NotStackable, match=reason):
        forward_of(module)


class OwnInfer(NeuralNetClassifier):
    def infer(self, x, **fit_params):
        return super().infer(x, **fit_params)


class OwnOptimizer(NeuralNetClassifier):
    def initialize_optimizer(self, *args, **kwargs):
        return super().initialize_optimizer(*args, **kwargs)


class OwnParameters(NeuralNetClassifier):
    def get_params_for_optimizer(self, *args, **kwargs):
        return super().get_params_for_optimizer(*args, **kwargs)


class Harmless(NeuralNetClassifier):
    def predict(self, X):
        return super().predict(X)


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        (OwnInfer, "OwnInfer overrides infer"),
        (OwnOptimizer, "OwnOptimizer overrides initialize_optimizer"),
        (OwnParameters, "OwnParameters overrides get_params_for_optimizer"),
        (Harmless, None),
    ],
)
def test_subclasses_that_change_how_a_step_is_made_are_refused(net, reason):
    made = net(nets.Dense, criterion=nn.CrossEntropyLoss).initialize()
    if reason is None:
        assert stacked_forward(made, X.float())[1] == "direct"
        return
    with pytest.raises(NotStackable, match=reason):
        stacked_forward(made, X.float())


class Focal(nn.CrossEntropyLoss):
    """A child: it may look across rows."""


def made_sgd(params, lr):
    return torch.optim.SGD(params, lr)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"criterion": Focal}, "criterion Focal may look across rows"),
        ({"optimizer": torch.optim.LBFGS}, "optimizer LBFGS is not elementwise"),
        ({"optimizer": torch.optim.Adafactor}, "optimizer Adafactor is not elementwise"),
        ({"optimizer": made_sgd}, "optimizer made_sgd is not elementwise"),
    ],
)
def test_criteria_and_optimizers_that_are_not_known_are_refused(settings, reason):
    with pytest.raises(NotStackable, match=reason):
        forward_of(nets.Dense, **settings)


# --- taken ----------------------------------------------------------------------------------------------


class Dropped(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Linear(nets.N_FEATURES, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, nets.N_CLASSES)
        )


@pytest.mark.parametrize(
    ("module", "kind"),
    [
        (nets.Dense, "direct"),
        (Dropped, "direct"),
        (nets.Attention, "vmap"),
        (head("Normed", lambda self, x: nn.functional.normalize(self.last(x), dim=-1)), "vmap"),
        (head("Softened", lambda self, x: (self.last(cumulative(x)), x)), "vmap"),
    ],
)
def test_modules_that_can_be_stacked(module, kind):
    assert forward_of(module)[1] == kind


def test_parametrized_layers_give_what_they_give():
    net = nets.make_net(nets.Dense)
    nn.utils.parametrize.register_parametrization(net.module_[0], "weight", nn.Tanh())
    assert stacked_forward(net, X)[1] == "vmap"


def test_one_row_and_equal_rows_are_enough_to_probe():
    assert forward_of(nets.Dense, X[:1])[1] == "direct"
    assert forward_of(nets.Dense, X[[0, 0, 0]])[1] == "direct"


# --- the probe leaves no trace --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "module", [Dropped, nets.Attention, nets.LooksAcross, Counting, RunningMean, NormAndCount]
)
@pytest.mark.parametrize("training", [True, False])
def test_tensors_modes_rates_and_generators_come_back(module, training):
    net = nets.make_net(module)
    net.module_.train(training)
    tensors, generator = copy(tensors_of(net.module_)), torch.get_rng_state()
    with suppress(NotStackable):
        stacked_forward(net, X)
    assert all(torch.equal(tensor, tensors[name]) for name, tensor in tensors_of(net.module_).items())
    assert torch.equal(torch.get_rng_state(), generator)
    assert all(layer.training == training for layer in net.module_.modules())
    assert all(layer.p == 0.5 for layer in net.module_.modules() if isinstance(layer, nn.Dropout))
    assert all(p.grad is None for p in net.module_.parameters())


def test_the_answer_does_not_depend_on_torchs_generator():
    """One unit: half of all draws of such a Dropout agree with each other by chance."""
    drops = head(
        "Drops", lambda self, x: nn.functional.dropout(self.last(x).sum(1, keepdim=True)).expand(-1, 3)
    )
    answers = set()
    for seed in range(8):
        torch.manual_seed(seed)
        net = nets.make_net(drops)
        try:
            answers.add(stacked_forward(net, X)[1])
        except NotStackable as reason:
            answers.add(str(reason))
    assert len(answers) == 1


# --- clipping -------------------------------------------------------------------------------------------


def test_no_callback_no_rule():
    assert clip_rule(()) is None
    assert clip_rule((GradientNormClipping(None),)) is None


@pytest.mark.parametrize("norm_type", [2, 1.0, float("inf")])
@pytest.mark.parametrize("limits", [(0.5,), (100.0,), (2.0, None, 0.7)])
def test_every_clients_gradient_is_clipped_as_torch_clips_one(norm_type, limits):
    rules = [GradientNormClipping(limit, gradient_clip_norm_type=norm_type) for limit in limits]
    stream = torch.Generator().manual_seed(0)
    grads = [torch.randn(3, *shape, generator=stream, dtype=torch.float64) for shape in ((4, 2), (4,), ())]
    grads[0][1] = 0.0
    stacked = [nn.Parameter(torch.zeros_like(grad)) for grad in grads]
    for p, grad in zip(stacked, grads, strict=True):
        p.grad = grad.clone()
    clip_rule(rules)(stacked)
    for i in range(3):
        alone = [nn.Parameter(torch.zeros_like(grad[i])) for grad in grads]
        for p, grad in zip(alone, grads, strict=True):
            p.grad = grad[i].clone()
        for rule in rules:
            rule.on_grad_computed(None, named_parameters=list(enumerate(alone)))
        for p, own in zip(stacked, alone, strict=True):
            torch.testing.assert_close(p.grad[i], own.grad, rtol=1e-12, atol=1e-14)


class MyClipping(GradientNormClipping):
    """A child may do anything."""


@pytest.mark.parametrize("callback", [MyClipping(1.0), PrintLog()])
def test_other_callbacks_are_refused(callback):
    with pytest.raises(
        NotStackable, match=f"callback {type(callback).__name__} runs in one client's training"
    ):
        clip_rule((GradientNormClipping(1.0), callback))


class OwnLoss(Algorithm):
    """Runs the module itself."""

    own_loss = True

    def client_loss(self, model, batch, local):
        return batch.criterion_loss(model(batch.x))


def test_a_method_that_runs_the_module_is_stacked_under_vmap_but_not_with_batch_norm():
    assert stacked_forward(nets.make_net(nets.Dense), nets.make_job((4, 4))[0].X, OwnLoss())[1] == "vmap"
    with pytest.raises(
        NotStackable, match="BatchNorm is stacked only where the method leaves the forward pass"
    ):
        stacked_forward(nets.make_net(nets.Normed), nets.make_job((4, 4))[0].X, OwnLoss())
