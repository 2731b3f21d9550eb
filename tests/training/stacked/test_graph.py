"""Stacked forward passes: every client gets what the module gives with that client's tensors."""

import operator
import threading

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fedrela_sk.training.stacked._graph import (
    _ELEMENTWISE_LAYERS,
    _NEEDS_NO_PROOF,
    NotStackable,
    StackedGraph,
    needs_no_proof,
)
from fedrela_sk.training.stacked._stack import Stack
from tests.training import nets

N_CLIENTS, N_ROWS = 3, 4


def make_stack(module, lengths=None, frozen=None, seed=0):
    """Three clients with tensors of their own, shaped as the module's."""
    stream = torch.Generator().manual_seed(seed)
    names = {name for name, _ in module.named_parameters()}
    tensors = {}
    for name, tensor in module.state_dict().items():
        each = torch.stack([tensor] * N_CLIENTS)
        if each.is_floating_point():
            each = each + 0.3 * torch.rand(each.shape, generator=stream, dtype=each.dtype)
        tensors[name] = each
    lengths = torch.tensor([N_ROWS] * N_CLIENTS if lengths is None else lengths)
    return Stack(
        params={name: tensor for name, tensor in tensors.items() if name in names},
        buffers={name: tensor for name, tensor in tensors.items() if name not in names},
        facts={},
        frozen_norm=torch.zeros(N_CLIENTS, dtype=torch.bool) if frozen is None else torch.tensor(frozen),
        mask=(torch.arange(N_ROWS) < lengths[:, None]).to(torch.float64),
        lengths=lengths,
    )


def one_by_one(module, stack, X):
    """Outputs of the module loaded with each client's tensors, in training mode, and its tensors afterwards."""
    module.train()
    outputs, after = [], []
    for i in range(N_CLIENTS):
        module.load_state_dict({name: t[i].clone() for name, t in (stack.params | stack.buffers).items()})
        for layer in module.modules():
            if isinstance(layer, nn.BatchNorm1d):
                layer.train(not stack.frozen_norm[i])
        output = module(X[i, : stack.lengths[i]])
        outputs.append(output[0] if isinstance(output, tuple) else output)
        after.append({name: tensor.clone() for name, tensor in module.state_dict().items()})
    return outputs, after


def make_rows(*shape, seed=1):
    return torch.randn(
        N_CLIENTS, N_ROWS, *shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )


def assert_stacks(module, *shape, **stack):
    """The module's stacked form agrees for every client; returns the stack."""
    module.double()
    X, stack = make_rows(*(shape or (5,))), make_stack(module, **stack)
    expected, after = one_by_one(module, stack, X)
    found = StackedGraph(module)(stack, X)
    for i in range(N_CLIENTS):
        torch.testing.assert_close(found[i, : stack.lengths[i]], expected[i], rtol=1e-12, atol=1e-12)
        for name, tensors in stack.buffers.items():
            torch.testing.assert_close(tensors[i], after[i][name], rtol=1e-12, atol=1e-12)
    assert not torch.allclose(found[0], found[1])
    return stack


# --- layers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layer", _ELEMENTWISE_LAYERS, ids=lambda layer: layer.__name__)
def test_elementwise_layers(layer):
    layer = layer(0.0) if layer is nn.Dropout else layer()
    assert_stacks(nn.Sequential(nn.Linear(5, 6), layer, nn.Linear(6, 2)))


@pytest.mark.parametrize(
    "layer",
    [
        nn.LeakyReLU(0.3, inplace=True),
        nn.ReLU(inplace=True),
        nn.ELU(0.5),
        nn.GELU("tanh"),
        nn.Softplus(2.0),
        nn.LayerNorm(6),
        nn.LayerNorm(6, eps=0.1),
        nn.LayerNorm(6, bias=False),
        nn.LayerNorm(6, elementwise_affine=False),
        nn.BatchNorm1d(6),
        nn.BatchNorm1d(6, eps=0.1, momentum=0.4),
        nn.BatchNorm1d(6, momentum=None),
        nn.BatchNorm1d(6, affine=False),
        nn.BatchNorm1d(6, track_running_stats=False),
        nn.Linear(6, 6, bias=False),
        nn.Flatten(),
    ],
    ids=str,
)
def test_layers_with_their_settings(layer):
    assert_stacks(nn.Sequential(nn.Linear(5, 6), layer, nn.Linear(6, 2)))


def test_batch_norm_leaves_padding_out_and_a_client_of_one_row_alone():
    module = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.Linear(6, 2))
    stack = assert_stacks(module, lengths=[4, 3, 1], frozen=[False, False, True])
    assert stack.buffers["1.num_batches_tracked"].tolist() == [1, 1, 0]


@pytest.mark.parametrize(
    "layers",
    [
        (nn.Linear(5, 6), nn.LayerNorm((3, 6)), nn.Flatten(), nn.Linear(18, 2)),
        (nn.LayerNorm(5), nn.Linear(5, 6, bias=False), nn.Flatten(), nn.Linear(18, 2)),
        (nn.Flatten(), nn.Linear(15, 2)),
    ],
    ids=str,
)
def test_rows_that_are_matrices(layers):
    assert_stacks(nn.Sequential(*layers), 3, 5)


def test_a_module_that_is_one_layer():
    assert_stacks(nn.Linear(5, 2))
    assert_stacks(nn.Linear(5, 2, bias=False))


def test_dropout_draws_for_every_client():
    module = nn.Sequential(nn.Linear(5, 400), nn.Dropout(0.25)).double()
    stack, X = make_stack(module), make_rows(5)
    X[:] = X[0]
    stack.params = {name: t[:1].expand_as(t) for name, t in stack.params.items()}
    plain = StackedGraph(module[:1])(stack, X)
    out = StackedGraph(module)(stack, X)
    kept = out != 0
    torch.testing.assert_close(out[kept], plain[kept] / 0.75)
    assert abs(kept.double().mean() - 0.75) < 0.05
    assert not torch.equal(kept[0], kept[1])


# --- containers and code of the user's own --------------------------------------------------------------


class Body(nn.Module):
    """A layer, some code, a layer."""

    def __init__(self, code):
        super().__init__()
        self.first, self.last, self.stream_id = nn.Linear(5, 6), nn.Linear(6, 2), code

    def forward(self, x):
        return self.last(self.stream_id(self.first(x)))


def add_in_place(h):
    h = h + 0
    h += h
    return h


@pytest.mark.parametrize(
    "code",
    [
        torch.relu, torch.tanh, torch.sigmoid, F.relu, F.relu6, F.leaky_relu, F.elu, F.selu, F.celu, F.gelu, F.silu,
        F.mish, F.tanh, F.sigmoid, F.softplus, F.softsign, F.hardtanh, F.logsigmoid,
        lambda h: F.leaky_relu(h, 0.3),
        lambda h: F.leaky_relu(h, negative_slope=0.3),
        lambda h: F.gelu(h, approximate="tanh"),
        lambda h: F.relu(h, inplace=True),
        lambda h: h + h,
        lambda h: 2 + h,
        lambda h: 2 - h,
        lambda h: h - 0.5 * h * h,
        lambda h: operator.mul(h, h),
        lambda h: torch.add(h, h, alpha=3),
        lambda h: torch.sub(h, 1),
        lambda h: torch.mul(h, h),
        lambda h: h.relu() + h.tanh() + h.sigmoid(),
        lambda h: h.add(h, alpha=3).sub(1).mul(h).contiguous(),
        lambda h: torch.flatten(h, 1),
        lambda h: torch.flatten(h, start_dim=1),
        lambda h: h.flatten(1),
        lambda h: h.flatten(start_dim=1),
        add_in_place,
    ],
)  # fmt: skip
def test_functions_and_methods(code):
    assert_stacks(Body(code))


class Containers(nn.Module):
    """Lists, dictionaries, containers in containers, a layer of two names, an empty place."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(5, 5), nn.ReLU()), Body(torch.tanh)])
        self.heads = nn.ModuleDict({"a": nn.Linear(2, 3), "b": nn.Linear(2, 3)})
        self.one = self.other = nn.Tanh()
        self.nothing = None
        self.register_module("nobody", None)

    def forward(self, x):
        for block in self.blocks:
            x = self.one(block(self.other(x)))
        return self.heads["a"](x) + self.heads["b"](x)


def test_containers():
    assert_stacks(Containers())


def test_the_first_of_several_outputs_counts():
    assert_stacks(nets.Residual())


class OptionalSecond(nn.Module):
    """A second argument that nobody gives."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(5, 2)

    def forward(self, x, scale=None):
        return self.last(x if scale is None else x * scale)


def test_an_optional_argument_keeps_its_default():
    assert_stacks(OptionalSecond())


# --- what is refused ------------------------------------------------------------------------------------


class Parts(nn.Module):
    """Something to refuse, around a layer."""

    def __init__(self):
        super().__init__()
        self.last, self.scale = nn.Linear(5, 2), nn.Parameter(torch.ones(2))
        self.register_buffer("shift", torch.ones(2))


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.pair = nn.Bilinear(5, 5, 2)

    def forward(self, x):
        return self.pair(x, x)


def module_of(function):
    return type("Made", (Parts,), {"forward": function})()


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (
            nn.Sequential(nn.Linear(5, 2), nn.Softmax(dim=1)),
            r"layer '1' \(Softmax\) has no known stacked form",
        ),
        (nn.Sequential(nn.Linear(5, 2), nn.PReLU()), r"layer '1' \(PReLU\)"),
        (nn.Sequential(nn.Sequential(nn.Conv1d(1, 1, 1))), r"layer '0\.0' \(Conv1d\)"),
        (nn.Sequential(nn.Flatten(0)), r"layer '0' \(Flatten\)"),
        (nn.Sequential(nn.Flatten(1, 2)), r"layer '0' \(Flatten\)"),
        (nn.Sequential(nn.BatchNorm2d(3)), r"layer '0' \(BatchNorm2d\)"),
        (nn.LSTM(5, 2), r"layer '' \(LSTM\)"),
        (
            module_of(lambda self, x: self.last(input=x)),
            r"layer 'last' \(Linear\) is given more than one input",
        ),
        (Twice(), r"layer 'pair' \(Bilinear\) is given more than one input"),
        (module_of(lambda self, x: F.linear(x, self.last.weight)), "'weight'"),
        (module_of(lambda self, x: self.last(x) * self.scale), "'mul' in its forward pass gets a Parameter"),
        (module_of(lambda self, x: self.scale + self.last(x)), "'add' in its forward pass gets a Parameter"),
        (module_of(lambda self, x: self.last(x) + self.shift), "'add' in its forward pass gets a Tensor"),
        (
            module_of(lambda self, x: torch.add(self.last(x), other=self.scale)),
            "'add' .* gets other by keyword",
        ),
        (module_of(lambda self, x: self.last(x).mul(other=self.shift)), "'mul' .* gets other by keyword"),
        (
            module_of(lambda self, x: torch.relu(input=self.last(x))),
            "'relu' .* gets input by keyword, a tensor",
        ),
        (module_of(lambda self, x: self.last(x).relu().mean(1)), "'mean' in its forward pass has no known"),
        (module_of(lambda self, x: F.softmax(self.last(x), 1)), "'softmax' in its forward pass has no known"),
        (module_of(lambda self, x: F.dropout(self.last(x))), "'dropout' in its forward pass has no known"),
        (module_of(lambda self, x: self.last(x)[:, :1]), "'getitem' in its forward pass has no known"),
        (
            module_of(lambda self, x: torch.flatten(self.last(x))),
            "'flatten' in its forward pass has no known",
        ),
        (module_of(lambda self, x: torch.flatten(x, 1, 2)), "'flatten' in its forward pass has no known"),
        (module_of(lambda self, x: x.flatten(1, end_dim=-1)), "'flatten' in its forward pass has no known"),
        (module_of(lambda self, x: self.last(x) if x.sum() > 0 else x), "cannot be read .*control flow"),
        (module_of(lambda self, x: self.last(x)[: len(x)]), "cannot be read"),
        (module_of(lambda self, x, other: self.last(x) + other), r"cannot be read \(TypeError.*'other'"),
        (module_of(lambda self, x: [self.last(x)]), "its forward does not return a tensor"),
        (module_of(lambda self, x: {"out": self.last(x)}), "its forward does not return a tensor"),
        (module_of(lambda self, x: self.scale), "its forward does not return a tensor"),
    ],
    ids=range(29),
)
def test_what_has_no_stacked_form_is_refused_by_name(module, reason):
    with pytest.raises(NotStackable, match=reason):
        StackedGraph(module)


def test_batch_norm_over_rows_that_are_matrices_is_refused_when_it_meets_them():
    module = nn.Sequential(nn.BatchNorm1d(3)).double()
    with pytest.raises(
        NotStackable, match=r"layer '0' \(BatchNorm1d\) is stacked only for \(rows, features\)"
    ):
        StackedGraph(module)(make_stack(module), make_rows(3, 5))


# --- reading changes nothing ----------------------------------------------------------------------------


def test_reading_leaves_the_module_as_it_was():
    module = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), Body(torch.relu)).eval()
    layers, tensors = list(module.modules()), {k: v.clone() for k, v in module.state_dict().items()}
    StackedGraph(module)
    assert all(a is b for a, b in zip(module.modules(), layers, strict=True))
    assert not any(layer.training for layer in layers)
    assert all(torch.equal(tensor, tensors[name]) for name, tensor in module.state_dict().items())
    assert [layer.p for layer in layers if isinstance(layer, nn.Dropout)] == [0.5]


class Spy(nn.Module):
    """Notes, while it is read, whether torch is as always, for this thread and for another one."""

    seen = ()
    usual = (nn.Module.__call__, nn.Module.__getattr__, nn.Linear.forward)

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(5, 2)

    def forward(self, x):
        other = []
        thread = threading.Thread(target=lambda: other.append(nn.Linear(3, 1)(torch.ones(2, 3)).shape))
        thread.start()
        thread.join(10)
        Spy.seen = ((nn.Module.__call__, nn.Module.__getattr__, nn.Linear.forward) == self.usual, *other)
        return self.last(x)


def test_other_threads_may_use_modules_while_one_is_read():
    StackedGraph(Spy())
    assert Spy.seen == (True, (2, 1))


class OwnForward(nn.Sequential):
    def forward(self, x):
        return super().forward(x)


class OwnCall(nn.Sequential):
    def __call__(self, x):
        return super().__call__(x)


class OwnLinear(nn.Linear):
    """A child may do anything."""


def patched():
    module = nn.Sequential(nn.Linear(2, 2))
    module[0].forward = lambda x: x.detach()
    return module


@pytest.mark.parametrize(
    ("module", "plain"),
    [
        (nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Sequential(nn.Dropout(0.5), nn.Linear(3, 2))), True),
        (nn.Linear(2, 2), True),
        (OwnForward(nn.Linear(2, 2)), False),
        (OwnCall(nn.Linear(2, 2)), False),
        (nn.Sequential(OwnLinear(2, 2)), False),
        (nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), False),
        (nn.Sequential(nn.Linear(2, 2), nn.Softmax(dim=-1)), False),
        (patched(), False),
    ],
)
def test_only_plain_sequences_need_no_proof(module, plain):
    assert needs_no_proof(module) == plain


@pytest.mark.parametrize("layer", [layer for layer in _NEEDS_NO_PROOF if layer is not nn.Linear])
def test_what_needs_no_proof_would_pass_it(layer):
    from fedrela_sk.training.stacked._proof import prove

    layer = layer(0.0) if layer is nn.Dropout else layer()
    module = nn.Sequential(nn.Linear(3, 4), layer, nn.Linear(4, 2))
    prove(module, torch.randn(20, 3, generator=torch.Generator().manual_seed(0)), StackedGraph)
