"""What enters the classifier head: the features of a batch."""

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, stack_module_state, vmap

from fedrela_sk.exceptions import NetError
from fedrela_sk.nets import MLP, MultiHead, forward_with_features, swap_head
from tests.nets.branches import Branches, Pair

X = torch.arange(10.0).reshape(2, 5) / 10


def hooks_of(module):
    return sum(
        len(part._forward_pre_hooks) + len(part._forward_pre_hooks_with_kwargs) for part in module.modules()
    )


@pytest.mark.parametrize("swapped", [False, True])
def test_features_are_what_enters_the_head(swapped):
    module = MLP(5, 3, hidden=(4,))
    if swapped:
        swap_head(module, "2", MultiHead(module[2], personal=nn.Linear(4, 3)))
    features, output = forward_with_features(module, "2", module, X)
    assert torch.equal(features, module[1](module[0](X)))
    assert torch.equal(output, module(X))
    assert hooks_of(module) == 0


def test_a_module_that_is_its_head_has_its_input_as_features():
    module = nn.Linear(5, 3)
    features, output = forward_with_features(module, "", module, X)
    assert features is X
    assert torch.equal(output, module(X))


def test_an_input_given_by_keyword_is_caught_too():
    module = Branches()
    features, _ = forward_with_features(module, "head", lambda h: module.head(input=h), X[:, :4])
    assert torch.equal(features, X[:, :4])


def test_the_whole_output_comes_back():
    module = Pair().eval()
    features, (first, second) = forward_with_features(module, "head", module, X)
    assert torch.equal(first, module.head(features))
    assert torch.equal(second, module.other(features))


def test_features_carry_gradients():
    module = MLP(5, 3, hidden=(4,))
    features, output = forward_with_features(module, "2", module, X)
    (features.sum() + output.sum()).backward()
    with_features = module[0].bias.grad.clone()
    module.zero_grad()
    module(X).sum().backward()
    active = (module[0](X) > 0).sum(0)  # what the sum of the features adds
    torch.testing.assert_close(with_features, module[0].bias.grad + active)


def moved(module, factor):
    return {name: factor * tensor.detach() for name, tensor in module.named_parameters()}


def test_features_under_functional_call():
    module = MLP(5, 3, hidden=(4,))
    tensors = moved(module, 2.0)
    features, output = forward_with_features(module, "2", lambda x: functional_call(module, tensors, (x,)), X)
    torch.testing.assert_close(features, 2 * module[1](module[0](X)))
    torch.testing.assert_close(output, functional_call(module, tensors, (X,)))
    assert hooks_of(module) == 0


@pytest.mark.parametrize("transform", [lambda loss: loss, grad], ids=["loss", "grad"])
def test_features_under_vmap_are_each_clients_own(transform):
    clients = [MLP(5, 3, hidden=(4,)) for _ in range(3)]
    params, _ = stack_module_state(clients)
    params = {name: tensor.detach() for name, tensor in params.items()}
    rows = torch.randn(3, 6, 5, generator=torch.Generator().manual_seed(0))
    module = MLP(5, 3, hidden=(4,))

    def loss(tensors, x):
        features, output = forward_with_features(
            module, "2", lambda x: functional_call(module, tensors, (x,)), x
        )
        return (features**2).sum() + output.exp().sum()

    stacked = vmap(transform(loss))(params, rows)
    for i, client in enumerate(clients):
        features = client[1](client[0](rows[i]))
        alone = (features**2).sum() + client[2](features).exp().sum()
        if transform is grad:
            alone.backward()
            for name, tensor in client.named_parameters():
                torch.testing.assert_close(stacked[name][i], tensor.grad)
        else:
            torch.testing.assert_close(stacked[i], alone.detach())
    assert hooks_of(module) == 0


@pytest.mark.parametrize(
    ("call", "times"),
    [(lambda module: lambda x: x, 0), (lambda module: lambda x: (module(x), module(x)), 2)],
)
def test_a_head_must_run_once(call, times):
    module = MLP(5, 3)
    with pytest.raises(NetError, match=rf"head '4' ran {times} times .* head=\"name\""):
        forward_with_features(module, "4", call(module), X)
    assert hooks_of(module) == 0


def test_the_hook_goes_when_the_pass_fails():
    module = MLP(5, 3)
    with pytest.raises(RuntimeError, match="shapes"):
        forward_with_features(module, "4", module, X[:, :4])
    assert hooks_of(module) == 0


def test_features_of_a_layer_that_is_not_there():
    with pytest.raises(NetError, match="no layer 'fc'"):
        forward_with_features(MLP(5, 3), "fc", lambda x: x, X)
