"""Descriptions: the same in every process, another one wherever a result could differ."""

import functools
import math
import operator
import threading
from fractions import Fraction

import numpy as np
import pytest
import torch
from sklearn.model_selection import KFold
from skorch import NeuralNetClassifier
from skorch.callbacks import GradientNormClipping
from torch import nn

from fedrela_sk import FedReLaRelabeler
from fedrela_sk.federation._code import NotKeyable
from fedrela_sk.federation._fingerprint import describe, fingerprint
from tests.federation.test_code import Schedule

# --- values ---------------------------------------------------------------------------------------------

ALL_DIFFERENT = {
    "none": None,
    "text none": "None",
    "true": True,
    "one": 1,
    "one as float": 1.0,
    "text one": "1",
    "text of a float": "1.0",
    "bytes": b"1",
    "list": [1],
    "tuple": (1,),
    "nested": [[1]],
    "set": {1},
    "dict": {1: 1},
    "dict of text": {"1": 1},
    "float64": np.float64(1),
    "float32": np.float32(1),
    "array": np.array([1.0]),
    "matrix": np.array([[1.0]]),
    "ints": np.array([1]),
    "empty": np.zeros((3, 0)),
    "empty the other way": np.zeros((0, 3)),
    "texts": np.array(["1"]),
    "objects": np.array(["1", None], dtype=object),
    "tensor": torch.ones(1),
    "double tensor": torch.ones(1, dtype=torch.float64),
    "short tensor": torch.ones(1, dtype=torch.bfloat16),
    "scalar tensor": torch.tensor(1.0),
    "parameter": nn.Parameter(torch.ones(1)),
    "dtype": torch.float64,
    "device": torch.device("cpu"),
    "fraction": Fraction(1),
    "complex": 1 + 0j,
    "slice": slice(1),
    "range": range(1),
    "dots": ...,
    "partial": functools.partial(max, 1),
    "other partial": functools.partial(min, 1),
    "builtin": len,
    "method of a list": [1].__getitem__,
    "method of another list": [2].__getitem__,
    "operator of a number": (1).__add__,
    "operator of another number": (2).__add__,
    "function of a package": np.mean,
    "ufunc": np.exp,
    "other ufunc": np.log,
    "function of C": math.exp,
    "torch function": torch.tanh,
    "other torch function": torch.relu,
    "compiled function": operator.add,
    "generator": np.random.default_rng(0),
    "generator elsewhere": np.random.default_rng(1),
    "old generator": np.random.RandomState(0),
    "estimator": FedReLaRelabeler(0.1),
    "estimator set otherwise": FedReLaRelabeler(0.2),
    "splitter": KFold(2),
    "splitter set otherwise": KFold(3),
    "splitter with a generator": KFold(3, shuffle=True, random_state=np.random.RandomState(0)),
    "splitter with another one": KFold(3, shuffle=True, random_state=np.random.RandomState(1)),
    "compiled function without a module": str.upper,
}


def test_values_that_differ_are_described_differently():
    texts = {name: describe(thing) for name, thing in ALL_DIFFERENT.items()}
    assert len(set(texts.values())) == len(texts), [
        (a, b) for a in texts for b in texts if a < b and texts[a] == texts[b]
    ]


def test_equal_values_are_described_alike_whatever_their_order_in_memory():
    assert describe({"x", "y", "z"}) == describe({"z", "y", "x"})
    array = np.arange(6.0).reshape(2, 3)
    assert describe(array) == describe(np.asfortranarray(array))
    assert describe(torch.from_numpy(array)) == describe(torch.from_numpy(array.T.copy()).T)
    assert describe(array[:, 1:]) == describe(array[:, 1:].copy())
    assert describe(np.random.RandomState(3)) == describe(np.random.RandomState(3))
    assert describe(float("nan")) == describe(float("nan"))


def test_one_changed_number_of_an_array_is_seen():
    array = np.arange(1000.0).reshape(100, 10)
    other = array.copy()
    other[57, 3] = np.nextafter(other[57, 3], np.inf)
    assert fingerprint(array) != fingerprint(other)
    assert fingerprint(torch.from_numpy(array)) != fingerprint(torch.from_numpy(other))


def test_the_fingerprint_is_a_digest_of_the_description():
    assert fingerprint([1, 2]) == fingerprint([1, 2]) != fingerprint([2, 1])
    assert len(fingerprint(None)) == 64


# --- modules and nets -----------------------------------------------------------------------------------


class Scaled(nn.Module):
    """What it computes depends on a plain attribute, on a buffer that is not saved, and on a hook."""

    def __init__(self, scale=1.0, shift=0.0):
        super().__init__()
        self.scale = scale
        self.register_buffer("shift", torch.tensor(shift), persistent=False)
        self.last = nn.Linear(2, 2)
        nn.init.ones_(self.last.weight)
        nn.init.ones_(self.last.bias)

    def forward(self, x):
        return self.last(x) * self.scale + self.shift


def double(module, inputs, output):
    return 2 * output


def test_module_instances_count_by_all_that_they_compute_with():
    hooked, frozen, evaluated, lazy, other = (Scaled() for _ in range(5))
    hooked.register_forward_hook(double)
    frozen.last.weight.requires_grad_(False)
    evaluated.eval()
    lazy.last = nn.Linear(2, 2, bias=False)
    nn.init.ones_(lazy.last.weight)
    with torch.no_grad():
        other.last.bias[1] = 2.0
    things = [Scaled(), Scaled(2.0), Scaled(shift=1.0), hooked, frozen, evaluated, lazy, other]
    assert len({describe(thing) for thing in things}) == len(things)
    assert describe(Scaled()) == describe(Scaled())


def test_settings_of_torchs_own_layers_count():
    things = [nn.Dropout(0.1), nn.Dropout(0.2), nn.LeakyReLU(0.1), nn.LeakyReLU(0.2), nn.CrossEntropyLoss()]
    things += [nn.CrossEntropyLoss(label_smoothing=0.1), nn.LSTM(2, 2), nn.LSTM(2, 2, num_layers=2)]
    assert len({describe(thing) for thing in things}) == len(things)


def test_nets_count_by_their_settings():
    def net(**changes):
        settings = {"module": Scaled, "module__scale": 1.0, "criterion": nn.CrossEntropyLoss, "lr": 0.1}
        return NeuralNetClassifier(**(settings | changes))

    things = [
        net(),
        net(module=nn.Linear),
        net(module=Scaled()),
        net(module__scale=2.0),
        net(lr=0.2),
        net(optimizer=torch.optim.Adam),
        net(optimizer__momentum=0.9),
        net(optimizer__weight_decay=0.9),
        net(batch_size=7),
        net(max_epochs=7),
        net(iterator_train__shuffle=True),
        net(criterion__weight=torch.ones(2)),
        net(criterion__weight=torch.tensor([1.0, 2.0])),
        net(callbacks=[GradientNormClipping(1.0)]),
        net(callbacks=[GradientNormClipping(2.0)]),
    ]
    assert len({describe(thing) for thing in things}) == len(things)
    assert describe(net()) == describe(net())


# --- what has no description ----------------------------------------------------------------------------


def test_what_has_no_description_says_so():
    circle = []
    circle.append(circle)
    for thing, message in (
        (lambda t: 1.0, "a lambda has no stable description: define a named function"),
        ({"a": [lambda t: 1.0]}, "a lambda has no stable description"),
        (threading.Lock(), r"lock.* has no stable description"),
        (Schedule(threading.Lock()), r"lock.* has no stable description"),
        (circle, "it holds something that holds itself"),
    ):
        with pytest.raises(NotKeyable, match=message):
            fingerprint(thing)
