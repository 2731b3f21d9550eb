"""Averaging parameters and averaging posteriors are equal to first order in what the clients' models differ by."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call

from fedrela_sk.aggregation import WeightedMean
from fedrela_sk.nets import MLP
from tests.theory.clients import fedrela_client
from tests.theory.mixtures import two_normals

SHARES = (0.6, 0.3, 0.1)
X = torch.linspace(-2, 4, 40, dtype=torch.float64)[:, None]
NETS = {
    "linear": lambda: nn.Sequential(nn.Linear(1, 2)),
    "hidden": lambda: nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 2)),
    "MLP of the package": lambda: MLP(1, 2, hidden=(16, 8)),
}


def double(name):
    torch.manual_seed(0)
    net = NETS[name]().double()
    return net, {key: tensor.detach() for key, tensor in net.named_parameters()}


def logits(net, parameters, x=X):
    return functional_call(net, parameters, (x,))


def mean_of(models, weights=SHARES):
    mean = WeightedMean()
    for model, weight in zip(models, weights, strict=True):
        mean.add(model, weight)
    return mean.result()


def error(net, models, weights=SHARES):
    """Largest difference between the posteriors of averaged parameters and averaged posteriors."""
    of_mean = logits(net, mean_of(models, weights)).softmax(1)
    mean_of_them = sum(w * logits(net, m).softmax(1) for w, m in zip(SHARES, models, strict=True))
    return (of_mean - mean_of_them).abs().max().item()


def slope(steps, errors):
    return np.polyfit(np.log(steps), np.log(errors), 1)[0]


def scaled(center, directions, step):
    return [{key: center[key] + step * d[key] for key in center} for d in directions]


@pytest.fixture(params=NETS)
def setting(request):
    net, center = double(request.param)
    directions = [{key: torch.randn_like(tensor) for key, tensor in center.items()} for _ in SHARES]
    return net, center, directions


# so small that no ReLU of the package's net switches at any of the forty places
STEPS = 1e-5 / 2.0 ** np.arange(5)


def test_the_error_falls_with_the_square(setting):
    net, center, directions = setting
    errors = [error(net, scaled(center, directions, step)) for step in STEPS]
    assert slope(STEPS, errors) == pytest.approx(2, abs=0.05)
    # what the models differ by falls by itself only
    moved = [error(net, scaled(center, directions, step), weights=(1, 0, 0)) for step in STEPS]
    assert slope(STEPS, moved) == pytest.approx(1, abs=0.05)
    assert errors[0] < 0.01 * moved[0]


def test_its_size_is_half_the_curvature(setting):
    """1/2 sum_k w_k d_k' H d_k, d_k being the difference from the mean, H the curvature of a posterior."""
    net, center, directions = setting
    middle = mean_of(directions)
    spread = [{key: d[key] - middle[key] for key in d} for d in directions]

    def posteriors(step, direction):
        return logits(net, {key: center[key] + step * direction[key] for key in center}).softmax(1)

    h = step = 1e-5
    curvature = sum(
        w * (posteriors(h, d) - 2 * posteriors(0, d) + posteriors(-h, d)) / h**2
        for w, d in zip(SHARES, spread, strict=True)
    )
    models = scaled(center, spread, step)
    mean = sum(w * logits(net, m).softmax(1) for w, m in zip(SHARES, models, strict=True))
    gap = mean - logits(net, mean_of(models)).softmax(1)
    torch.testing.assert_close(gap / step**2, curvature / 2, rtol=0.02, atol=1e-4)


def test_models_linear_in_their_parameters_average_logits_exactly():
    """However far apart: the posterior is the normalized geometric mean."""
    net, _ = double("linear")
    models = [{key: torch.randn_like(t) * 3 for key, t in net.named_parameters()} for _ in SHARES]
    of_mean = logits(net, mean_of(models)).softmax(1)
    geometric = torch.stack([w * logits(net, m).log_softmax(1) for w, m in zip(SHARES, models, strict=True)])
    torch.testing.assert_close(of_mean, geometric.sum(0).softmax(1), rtol=1e-10, atol=1e-12)
    assert error(net, models) > 0.05


def test_where_a_relu_switches_the_error_falls_no_faster_than_the_difference():
    """max(s, 0) averages to s / 2 over the clients at +s and -s, and is 0 at their mean."""
    net = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 2)).double()
    one, two = (torch.tensor([[value], [-value]]) for value in (0.0, 1.0))
    rest = {"0.weight": torch.ones(1, 1), "2.weight": two, "2.bias": one[:, 0]}
    errors = []
    for step in STEPS:
        models = [{**rest, "0.bias": torch.tensor([shift])} for shift in (step, -step)]
        models = [{key: tensor.double() for key, tensor in model.items()} for model in models]
        posteriors = [logits(net, m, torch.zeros(1, 1).double()).softmax(1)[0, 0].item() for m in models]
        errors.append(np.mean(posteriors) - 0.5)
    np.testing.assert_allclose(errors, STEPS / 4, rtol=1e-4)


@pytest.mark.parametrize("name", ["hidden", "MLP of the package"])
def test_one_round_of_training_on_new_labels(name):
    """Three clients relabel and take two full-batch steps: the error falls with the square of the rate."""
    net, center = double(name)
    rng = np.random.default_rng(0)
    rows = []
    for minority in (0.05, 0.2, 0.6):
        x, _, y_new = fedrela_client(two_normals(minority), 0.1, step=0.01).sample(500, rng)
        rows.append((torch.from_numpy(x), torch.from_numpy(y_new)))

    def trained(rate, x, y):
        model = center
        for _ in range(2):
            gradient = torch.func.grad(lambda m: nn.functional.cross_entropy(logits(net, m, x), y))(model)
            model = {key: model[key] - rate * gradient[key] for key in model}
        return model

    rates = 1e-3 / 2.0 ** np.arange(5)
    errors = [error(net, [trained(rate, x, y) for x, y in rows]) for rate in rates]
    assert slope(rates, errors) == pytest.approx(2, abs=0.05)
