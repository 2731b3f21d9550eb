"""The classifier head: which layer it is, what enters it, and another one in its place."""

import copy

import numpy as np
import pytest
import torch
from skorch import NeuralNetClassifier
from torch import nn

from fedrela_sk import FederatedClassifier
from fedrela_sk.exceptions import NetError
from fedrela_sk.nets import (
    MLP,
    CosineLinear,
    MultiHead,
    find_head,
    linear_head,
    mark_head,
    swap_head,
)
from fedrela_sk.training.stacked._stackable import stacked_forward
from tests.nets.branches import Branches, Pair, Unused

X = torch.arange(10.0).reshape(2, 5) / 10


# --- finding ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "n_classes", "name"),
    [
        (nn.Linear(5, 3), 3, ""),
        (MLP(5, 3), 3, "4"),
        (MLP(5, 3, hidden=(3, 3)), 3, "4"),
        (nn.Sequential(nn.Sequential(nn.Linear(5, 3)), nn.Linear(3, 2)), 3, "0.0"),
        (nn.Sequential(nn.Linear(5, 4), nn.ReLU(), MultiHead(nn.Linear(4, 3), last=nn.Linear(4, 3))), 3, "2"),
        (MultiHead(nn.Linear(5, 3), last=nn.Linear(5, 3)), 3, ""),
        (Branches(), 3, "other"),  # the rule without an example: the last
    ],
    ids=["itself", "mlp", "narrow", "nested", "multi", "multi-itself", "branches"],
)
def test_the_last_linear_layer_of_the_right_width_is_the_head(module, n_classes, name):
    assert find_head(module, n_classes) == name


def test_a_name_decides():
    assert find_head(Branches(), 3, head="head") == "head"
    assert find_head(Branches(), 4, head="body.0") == "body.0"
    assert find_head(nn.Linear(5, 3), 3, head="") == ""
    assert find_head(nn.Sequential(MultiHead(nn.Linear(5, 3))), 3, head="0") == "0"


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (MLP(5, 3, hidden=(3,)), "2"),
        (nn.Sequential(nn.Linear(5, 3), nn.Linear(3, 3), nn.Identity()), "1"),
        (Branches(), "head"),
        (Branches(lambda head, other: other), "other"),
        (Pair(), "head"),
        (Unused(), "head"),
        (nn.Sequential(nn.Linear(5, 3), nn.Softmax(dim=1)), "0"),
    ],
    ids=["hidden", "identity", "first", "last", "tuple", "softmax", "one"],
)
def test_with_an_example_the_layer_that_gives_the_output_is_the_head(module, name):
    assert find_head(module, 3, X=X) == name


def test_looking_leaves_no_trace():
    module = nn.Sequential(nn.Linear(5, 3), nn.BatchNorm1d(3), nn.Dropout(0.5), nn.Linear(3, 3)).train()
    module[2].eval()
    before = copy.deepcopy(module.state_dict())
    assert find_head(module, 3, X=X) == "3"
    assert [part.training for part in module.modules()] == [True, True, True, False, True]
    assert all(torch.equal(before[name], tensor) for name, tensor in module.state_dict().items())
    assert not any(part._forward_hooks for part in module.modules())


def test_looking_leaves_no_trace_after_an_error():
    module = Branches(lambda head, other: head @ other)
    with pytest.raises(RuntimeError, match="shapes"):
        find_head(module, 3, X=X)
    assert module.body[1].training
    assert not any(part._forward_hooks for part in module.modules())


def test_heads_that_cannot_be_told_apart():
    expected = r"Any of 2 .* \('head', 'other'\), and none of them .* with head=\"name\""
    with pytest.raises(NetError, match=expected):
        find_head(Branches(torch.add), 3, X=X)


def test_no_layer_of_the_right_width():
    expected = (
        r"no linear layer with n_classes=7 .* '0' \(5 -> 64\), '2' \(64 -> 32\), '4' \(32 -> 3\)\. "
        r"Let it end in nn.Linear\(..., 7\), .* head=\"name\""
    )
    with pytest.raises(NetError, match=expected):
        find_head(MLP(5, 3), 7)
    with pytest.raises(NetError, match="its linear layers are none"):
        find_head(nn.Conv2d(1, 3, 3), 3)


@pytest.mark.parametrize(
    ("head", "got"),
    [("5", "is no layer"), ("0", "has 64 outputs"), ("1", "is of kind ReLU"), ("", "is of kind MLP")],
)
def test_a_name_that_cannot_be(head, got):
    with pytest.raises(NetError, match=rf"head='{head}' {got}.* n_classes=3 .* '4' \(32 -> 3\)"):
        find_head(MLP(5, 3), 3, head=head)


def test_a_mark_stays_with_the_layer_and_its_copies():
    module = Branches()
    mark_head(module, "head")
    assert find_head(module, 3) == "head"
    assert find_head(copy.deepcopy(module), 3) == "head"
    assert find_head(Branches(), 3) == "other"


def test_a_mark_tells_a_head_of_any_kind():
    module = nn.Sequential(nn.Linear(5, 4), nn.Bilinear(4, 4, 3), nn.Linear(3, 3))
    mark_head(module, "1")
    assert find_head(module, 3) == "1"


def test_marking_what_is_not_there():
    with pytest.raises(NetError, match="no layer 'fc'"):
        mark_head(MLP(5, 3), "fc")


# --- swapping -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["2", "0.0"])
def test_a_swap_changes_one_layer_in_place(name):
    module = nn.Sequential(nn.Sequential(nn.Linear(5, 4)), nn.ReLU(), nn.Linear(4, 3))
    others = {key: part for key, part in module.named_modules() if key != name}
    new = copy.deepcopy(module.get_submodule(name))
    assert swap_head(module, name, new) is module
    assert module.get_submodule(name) is new
    assert {key: part for key, part in module.named_modules() if key != name} == others
    assert list(dict(module.named_modules())) == ["", "0", "0.0", "1", "2"]


def test_a_module_that_is_its_head_becomes_the_new_one():
    old, new = nn.Linear(5, 3), nn.Linear(5, 3)
    assert swap_head(old, "", new) is new


def test_a_swap_reaches_every_name_of_a_layer():
    module = Branches(torch.add)
    module.other = module.head
    new = nn.Linear(4, 3)
    swap_head(module, "head", new)
    assert module.head is new
    assert module.other is new


@pytest.mark.parametrize("name", ["", "2"])
@pytest.mark.parametrize("training", [True, False])
def test_the_new_layer_is_in_the_mode_of_the_old_one(name, training):
    module = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3)).train(training)
    new = nn.Linear(4, 3).train(not training)
    swap_head(module, name, new)
    assert new.training == training


def test_the_old_layer_may_go_into_the_new_one():
    module = MLP(5, 3, hidden=(4,))
    before = module(X)
    swap_head(module, "2", MultiHead(module[2], personal=nn.Linear(4, 3)))
    assert torch.equal(module(X), before)
    assert find_head(module, 3) == "2"
    swap_head(module, "2", nn.Linear(4, 3))
    assert type(module[2]) is nn.Linear


def test_what_was_swapped_in_is_the_head():
    module = swap_head(Branches(), "head", CosineLinear(4, 3))
    assert find_head(module, 3) == "head"
    assert find_head(swap_head(module, "head", MultiHead(module.head)), 3) == "head"


def test_a_part_of_what_is_swapped_in_may_be_the_head():
    module = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    swap_head(module, "2", nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2), nn.Tanh()), head="1")
    assert find_head(module, 2) == "2.1"


def test_swapping_what_is_not_there():
    with pytest.raises(NetError, match=r"no layer 'head'; .* '2' \(4 -> 3\)\. Take the name from find_head"):
        swap_head(MLP(5, 3, hidden=(4,)), "head", nn.Linear(4, 3))


# --- several heads ------------------------------------------------------------------------------------------


def test_the_main_head_alone_makes_the_output():
    main, personal = nn.Linear(4, 3), nn.Linear(4, 2)
    head = MultiHead(main, personal=personal)
    h = torch.ones(2, 4)
    assert torch.equal(head(h), main(h))
    assert (head.in_features, head.out_features) == (4, 3)
    assert head.personal is personal
    assert list(head.state_dict()) == ["main.weight", "main.bias", "personal.weight", "personal.bias"]


def test_an_extra_head_cannot_take_a_name_in_use():
    with pytest.raises(KeyError, match="in_features"):
        MultiHead(nn.Linear(4, 3), in_features=nn.Linear(4, 3))


# --- new layers ---------------------------------------------------------------------------------------------


def test_a_new_layer_draws_from_its_own_generator_by_the_law_of_linear_layers():
    torch.manual_seed(5)
    usual = nn.Linear(16, 400)
    state = torch.get_rng_state()
    layer = linear_head(16, 400, torch.Generator().manual_seed(5))
    assert torch.equal(torch.get_rng_state(), state)
    assert type(layer) is nn.Linear
    torch.testing.assert_close(layer.weight, usual.weight)  # torch draws the weights first
    assert layer.weight.abs().max() <= 0.25
    assert 0.24 < layer.bias.abs().max() <= 0.25


def test_a_new_layer_may_start_from_zeros_without_a_draw():
    state = torch.get_rng_state()
    layer = linear_head(4, 3, zero=True, dtype=torch.float64)
    assert torch.equal(torch.get_rng_state(), state)
    assert layer.weight.tolist() == [[0.0] * 4] * 3
    assert layer.bias.tolist() == [0.0] * 3
    assert layer.weight.dtype == torch.float64


def test_a_new_layer_without_bias():
    assert linear_head(4, 3, bias=False).bias is None


# --- in the stacked engine ----------------------------------------------------------------------------------


class Personal(nn.Sequential):
    """A net whose head was swapped for one with an extra that the loss does not use."""

    def __init__(self):
        super().__init__(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
        swap_head(self, find_head(self, 2), MultiHead(self[2], personal=nn.Linear(6, 2)))


def net_of(module):
    return NeuralNetClassifier(module, criterion=nn.CrossEntropyLoss, lr=0.2, batch_size=8, max_epochs=1)


def fitted(module, engine):
    rows = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    y = (rows[:, 0] + rows[:, 1] > 0).astype(int)
    fed = FederatedClassifier(net_of(module), clients=3, n_rounds=3, engine=engine, random_state=0).fit(
        rows, y
    )
    return fed.net_.module_, fed.predict_proba(rows)


def test_a_swapped_head_needs_no_vmap():
    assert stacked_forward(net_of(Personal).initialize(), torch.randn(6, 4))[1] == "direct"


def test_a_swapped_head_trains_stacked_as_in_the_loop():
    module, posteriors = fitted(Personal, "stacked")
    assert isinstance(module[2], MultiHead)
    assert list(module.state_dict())[-2:] == ["2.personal.weight", "2.personal.bias"]
    np.testing.assert_allclose(posteriors, fitted(Personal, "loop")[1], atol=1e-5)
