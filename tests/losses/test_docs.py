"""The page about losses and the examples in docstrings are true of the code."""

import doctest
import inspect
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from skorch.callbacks import Callback
from torch.nn import functional as F

from fedrela_sk import losses

PAGE = (Path(__file__).parents[2] / "docs" / "losses.md").read_text(encoding="utf-8")


def rows_of_the_first_table():
    return dict(re.findall(r"^\| `(\w+)` \|(.*)", PAGE.split("\n\n")[2], flags=re.MULTILINE))


def test_every_loss_has_a_row():
    assert rows_of_the_first_table().keys() == {n for n in losses.__all__ if n.endswith("Loss")} - {
        "PriorLoss"
    }


@pytest.mark.parametrize("name", rows_of_the_first_table())
def test_defaults_are_those_of_the_signature(name):
    said = dict(re.findall(r"`(\w+)=([^`]+)`", rows_of_the_first_table()[name].split("|")[1]))
    parameters = inspect.signature(getattr(losses, name)).parameters.values()
    own = {p.name: p.default for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD}
    assert {key: eval(value) for key, value in said.items()} == own


class Outputs(Callback):
    """Keeps what the net answers before every epoch."""

    def on_train_begin(self, net, **kwargs):
        self.seen = []

    def on_epoch_begin(self, net, **kwargs):
        self.seen.append(net.forward(X))


X = torch.linspace(-1, 1, 180).reshape(6, 30)
Y = torch.tensor([0, 1, 2, 0, 1, 2])
N = torch.tensor([900.0, 90.0, 10.0])


@pytest.fixture
def nets():
    """The nets of the page's code, trained for five epochs of one batch."""
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    names = {}
    exec(compile(code, "losses.md", "exec"), names)
    torch.manual_seed(0)
    nets = names["net"], names["with_cosines"]
    for net in nets:
        callbacks = [*(net.callbacks or []), ("outputs", Outputs())]
        net.set_params(callbacks=callbacks, verbose=0, max_epochs=5, train_split=None).fit(X, Y)
    return nets


def outputs(net):
    return dict(net.callbacks_)["outputs"].seen


def test_the_code_trains_by_the_formulas_of_the_table(nets):
    balanced, ldam = nets
    expected = [F.cross_entropy(z + N.log(), Y) for z in outputs(balanced)]
    np.testing.assert_allclose(balanced.history[:, "train_loss"], expected, rtol=1e-5)
    margins = 0.5 * (N / 10) ** -0.25 * torch.eye(3)[Y]
    weights = 1 / (1 - 0.9999**N)
    weights = (3 * weights / weights.sum())[Y]
    rows = [F.cross_entropy(30 * (z - margins), Y, reduction="none") for z in outputs(ldam)]
    expected = [*(r.mean() for r in rows[:4]), (weights * rows[4]).mean()]  # four epochs are 0.8 of five
    np.testing.assert_allclose(ldam.history[:, "train_loss"], expected, rtol=1e-5)


def test_predictions_of_the_code_take_plain_logits(nets):
    for net in nets:
        np.testing.assert_allclose(net.predict_proba(X), net.forward(X).softmax(1), rtol=1e-6)
    assert nets[1].forward(X).abs().max() <= 1 + 1e-6  # cosines, unscaled


def test_examples_were_found():
    finder = doctest.DocTestFinder()
    found = {name for name in losses.__all__ if any(t.examples for t in finder.find(getattr(losses, name)))}
    assert found == set(losses.__all__) - {"PriorLoss", "Progress"}
