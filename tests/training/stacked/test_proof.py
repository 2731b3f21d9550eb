"""The proof of a stacked form: what acts on the backward pass only, state that moves, rows that reach everything."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from fedrela_sk.algorithms import FedAvg
from fedrela_sk.training import Loop, NotStackable, Stacked
from fedrela_sk.training._engine import start_engine
from fedrela_sk.training._net import tensors_of
from fedrela_sk.training.stacked._proof import telling_rows
from fedrela_sk.training.stacked._stackable import stacked_forward
from tests.training import nets


class Two(nn.Module):
    """A backbone and a head, with what a child does in between."""

    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(nets.N_FEATURES, 8), nn.Tanh())
        self.head = nn.Linear(8, nets.N_CLASSES)

    def forward(self, x):
        return self.head(self.between(self.backbone(x)))

    def between(self, h):
        return h


class NoGrad(Two):
    def forward(self, x):
        with torch.no_grad():
            h = self.backbone(x)
        return self.head(h)


class InferenceLike(Two):
    def forward(self, x):
        with torch.set_grad_enabled(False):
            h = self.backbone(x)
        return self.head(h)


class Toggled(Two):
    """Turns gradients off and on by hand."""

    def forward(self, x):
        torch._C._set_grad_enabled(False)
        h = self.backbone(x)
        torch._C._set_grad_enabled(True)
        return self.head(h)


@torch.no_grad()
def quiet(backbone, x):
    return backbone(x)


class Decorated(Two):
    def forward(self, x):
        return self.head(quiet(self.backbone, x))


class Detached(Two):
    def between(self, h):
        return h.detach()


class HalfDetached(Two):
    def between(self, h):
        return 0.5 * h + 0.5 * h.detach()


class DataOf(Two):
    def between(self, h):
        return h.data


class StraightThrough(Two):
    def between(self, h):
        return h + (h.sign() - h).detach()


class Reversal(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -grad


class Reversed(Two):
    def between(self, h):
        return Reversal.apply(h)


class VmapReversal(Reversal):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass


class VmapReversed(Two):
    def between(self, h):
        return VmapReversal.apply(h)


class TensorHook(Two):
    def between(self, h):
        if h.requires_grad:
            h.register_hook(lambda grad: 0.1 * grad)
        return h


class Frozen(Two):
    def __init__(self):
        super().__init__()
        self.backbone.requires_grad_(False)


class RareBranch(Two):
    """One row in a hundred goes past the backbone's gradient."""

    def forward(self, x):
        h = self.backbone(x)
        return self.head(torch.where(x[:, :1] == 7.0, h.detach(), h))


class Padded(nn.Module):
    def __init__(self, **settings):
        super().__init__()
        self.table = nn.Embedding(5, 4, **settings)
        self.head = nn.Linear(4, nets.N_CLASSES)

    def forward(self, x):
        return self.head(self.table(x[:, 0].abs().long() % 5))


class PaddedZero(Padded):
    def __init__(self):
        super().__init__(padding_idx=0)


class PaddedRare(Padded):
    def __init__(self):
        super().__init__(padding_idx=3)


class Scaled(Padded):
    def __init__(self):
        super().__init__(scale_grad_by_freq=True)


class Normed(Padded):
    def __init__(self):
        super().__init__(max_norm=0.5)


class FunctionalPadding(Padded):
    def forward(self, x):
        index = x[:, 0].abs().long() % 5
        return self.head(nn.functional.embedding(index, self.table.weight, padding_idx=0))


class Unused(Two):
    """A layer that never runs: without gradient it is not decayed either."""

    def __init__(self):
        super().__init__()
        self.spare = nn.Linear(2, 2)


class UsedWithoutGradient(Two):
    def between(self, h):
        return h * self.gate.detach()

    def __init__(self):
        super().__init__()
        self.gate = nn.Parameter(torch.ones(8))


def hooked(register):
    """A net to whose module `register` hooks something."""

    def make():
        net = nets.make_net(Two, optimizer__weight_decay=0.1)
        register(net.module_)
        return net

    make.__name__ = register.__name__
    return make


@hooked
def parameter_hook(module):
    module.head.weight.register_hook(lambda grad: 0 * grad)


@hooked
def accumulated_hook(module):
    def halve(p):
        p.grad *= 0.5

    module.head.weight.register_post_accumulate_grad_hook(halve)


@hooked
def backward_hook(module):
    module.backbone.register_full_backward_hook(
        lambda m, grads, outs: tuple(0.1 * g if g is not None else g for g in grads)
    )


@hooked
def backward_pre_hook(module):
    module.head.register_full_backward_pre_hook(lambda m, grads: tuple(2 * g for g in grads))


@hooked
def forward_hook(module):
    module.backbone.register_forward_hook(lambda m, inputs, output: output.detach())


@hooked
def forward_pre_hook(module):
    module.head.register_forward_pre_hook(lambda m, inputs: (inputs[0].detach(),))


def made(module):
    def make():
        return nets.make_net(module, optimizer__weight_decay=0.1)

    make.__name__ = module.__name__
    return make


BACKWARD = [
    made(m)
    for m in (
        Two, NoGrad, InferenceLike, Toggled, Decorated, Detached, HalfDetached, DataOf, StraightThrough, Reversed,
        VmapReversed, TensorHook, Frozen, RareBranch, PaddedZero, PaddedRare, Scaled, Normed, FunctionalPadding,
        Unused, UsedWithoutGradient,
    )
] + [parameter_hook, accumulated_hook, backward_hook, backward_pre_hook, forward_hook, forward_pre_hook]  # fmt: skip


def make_rows():
    """Clients whose rows reach the rare branch: their data hold a few sevens, among them the last row."""
    data, clients = nets.make_job((40, 40, 40), seed=3)
    data.X[[7, 53, 119], 0] = 7.0
    data.X[20:24, 0] = torch.tensor([0.0, 3.0, 8.0, 13.0], dtype=torch.float64)
    return data, clients


def trained(engine, make):
    """(global tensors after two rounds, engine's kind) of three clients."""
    data, clients = make_rows()
    net = make()
    running, _ = start_engine(engine, net, data, FedAvg(), nets.N_CLASSES, 0, n_clients=3)
    return nets.run_rounds(running, net, clients, rounds=2)[0], running.name


@pytest.mark.parametrize("make", BACKWARD, ids=lambda make: make.__name__)
def test_what_acts_on_the_backward_pass_only_acts_in_every_engine(make):
    """Where the stacked engine takes a net, it trains it as the loop does; else "auto" goes to the loop."""
    ours, _ = trained("loop", make)
    theirs, _ = trained("auto", make)
    for name, tensor in ours.items():
        torch.testing.assert_close(theirs[name], tensor, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "make", [made(NoGrad), made(InferenceLike), made(Decorated), made(Frozen)], ids=lambda m: m.__name__
)
def test_a_frozen_backbone_stays_where_it_is(make):
    before = {name: t.clone() for name, t in tensors_of(make().module_).items()}
    for engine in ("loop", "auto"):
        after, _ = trained(engine, make)
        assert all(torch.equal(after[name], before[name]) for name in before if name.startswith("backbone"))
        assert not torch.equal(after["head.weight"], before["head.weight"])


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (made(PaddedRare), "does not give the module's gradient of 'table.weight'"),
        (made(Scaled), "gradient of 'table.weight' depends on rows that do not count"),
        (parameter_hook, "hooks are registered on its layer 'head'"),
        (backward_hook, "hooks are registered on its layer 'backbone'"),
    ],
    ids=["padding", "frequency", "parameter hook", "module hook"],
)
def test_why_a_net_goes_to_the_loop(make, reason):
    with pytest.raises(NotStackable, match=reason):
        stacked_forward(make(), make_rows()[0].X)


@pytest.mark.parametrize("make", [made(NoGrad), made(HalfDetached), made(StraightThrough), made(Unused)])
def test_what_vmap_differentiates_alike_is_stacked(make):
    assert stacked_forward(make(), make_rows()[0].X)[1] in ("direct", "vmap")


# --- the user's module is never run by the probe ----------------------------------------------------------


class Remembers(Two):
    """Notes every call, keeps the last activation."""

    def __init__(self):
        super().__init__()
        self.calls, self.last = [], None

    def forward(self, x):
        self.calls.append(len(x))
        self.last = self.backbone(x)
        return self.head(self.last)


class Counts(Two):
    def __init__(self):
        super().__init__()
        self.n = 0

    def forward(self, x):
        self.n += 1
        return super().forward(x) * (1 + 0 * self.n)


class HiddenBuffer(Two):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(8, dtype=torch.float64), persistent=False)

    def between(self, h):
        self.mean = 0.9 * self.mean + 0.1 * h.detach().mean(0)
        return h


class Thaws(Two):
    """Learns to learn."""

    def forward(self, x):
        self.backbone.requires_grad_(False)
        return super().forward(x)


@pytest.mark.parametrize(
    ("module", "attribute"),
    [(Remembers, "attribute 'calls'"), (Counts, "attribute 'n'"), (HiddenBuffer, "buffer 'mean'"),
     (Thaws, "parameter 'weight' of the module's 'backbone.0'")],
)  # fmt: skip
def test_state_that_moves_outside_the_state_dict_is_refused_by_name(module, attribute):
    with pytest.raises(NotStackable, match=f"{attribute}.* changes while it trains"):
        stacked_forward(nets.make_net(module), make_rows()[0].X)


@pytest.mark.parametrize("module", [Remembers, Counts, HiddenBuffer, Thaws, Two])
@pytest.mark.parametrize("engine", [Loop, Stacked])
def test_starting_an_engine_leaves_no_trace_in_the_module(module, engine):
    net = nets.make_net(module)
    plain = {path: copy.deepcopy({k: v for k, v in vars(layer).items() if not k.startswith("_")})
             for path, layer in net.module_.named_modules()}  # fmt: skip
    hidden = {name: buffer.clone() for name, buffer in net.module_.named_buffers()}
    data, _ = make_rows()
    try:
        engine().start(net, data, FedAvg(), nets.N_CLASSES, 0)
    except NotStackable:
        assert engine is Stacked
    for path, layer in net.module_.named_modules():
        assert {k: v for k, v in vars(layer).items() if not k.startswith("_")} == plain[path]
    assert all(torch.equal(buffer, hidden[name]) for name, buffer in net.module_.named_buffers())
    assert all(p.requires_grad and p.grad is None for p in net.module_.parameters())


def test_a_module_that_cannot_be_copied_is_not_stacked():
    net = nets.make_net(Two)
    net.module_.rows = (n for n in range(3))
    with pytest.raises(NotStackable, match="cannot be copied"):
        stacked_forward(net, make_rows()[0].X)


class InsistsOnFloat32(Two):
    def between(self, h):
        if h.dtype == torch.float64:
            raise TypeError("float32 wanted")
        return h


def test_a_module_that_wants_its_own_dtype_is_proved_in_it():
    net = nets.make_net(InsistsOnFloat32, dtype=torch.float32)
    assert stacked_forward(net, make_rows()[0].X.float())[1] in ("direct", "vmap")


# --- the rows of the proof ---------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 3)])
def test_extremes_and_rare_values_are_among_the_rows(shape):
    stream = np.random.default_rng(0)
    X = torch.from_numpy(stream.normal(size=(500, *shape, 2)))
    flat = X.reshape(500, -1)
    flat[:, 0] = 1.0
    flat[[17, 430], 0] = torch.tensor([5.0, 2.0], dtype=torch.float64)
    flat[99, 1], flat[100, 1] = 50.0, -50.0
    rows = telling_rows(X)
    assert rows.shape[1:] == X.shape[1:]
    assert 2 <= len(rows) <= 64
    column = rows.reshape(len(rows), -1)
    assert {1.0, 2.0, 5.0} <= set(column[:, 0].tolist())
    assert {50.0, -50.0} <= set(column[:, 1].tolist())


@pytest.mark.parametrize("n", [1, 3])
def test_equal_rows_come_twice(n):
    assert telling_rows(torch.ones(n, 4)).shape == (2, 4)


def test_integers_are_rows_too():
    assert telling_rows(torch.arange(12).reshape(4, 3)).dtype == torch.int64
