"""What a method's hooks see of a net: its tensors by name, moved and put back."""

import torch
from torch import nn

from fedrela_sk.training import Model

X = torch.arange(12.0).view(4, 3)


def model():
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    module[0].bias.requires_grad_(False)
    return Model(module, nn.CrossEntropyLoss(), 2)


def test_trainable_are_the_tensors_that_learn():
    one = model()
    names = ["0.weight", "1.weight", "1.bias", "2.weight", "2.bias"]
    assert list(one.trainable) == names
    assert one.trainable["0.weight"] is one.module[0].weight
    moved = one.with_params({"2.bias": torch.ones(2)})
    assert list(moved.trainable) == names
    assert torch.equal(moved.trainable["2.bias"], torch.ones(2))


def test_a_pass_on_copied_buffers_leaves_the_statistics_as_they_are():
    one = model()
    before = {name: buffer.clone() for name, buffer in one.module.named_buffers()}
    copied = one.copied_buffers()
    assert copied.keys() == before.keys()
    one.with_params(copied)(X)
    assert all(torch.equal(buffer, before[name]) for name, buffer in one.module.named_buffers())
    assert not torch.equal(copied["1.running_mean"], before["1.running_mean"])
    one(X)
    assert not torch.equal(one.module[1].running_mean, before["1.running_mean"])


def test_the_gradient_at_moved_weights_by_torch_func():
    one = model()

    def loss(params, buffers):
        return one.with_params(params | buffers)(X).square().sum()

    grads = torch.func.grad(loss)(one.trainable, one.copied_buffers())
    one(X).square().sum().backward()
    for name, param in one.trainable.items():
        torch.testing.assert_close(grads[name], param.grad)
