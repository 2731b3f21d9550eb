"""The net: built once, sized, initialized from its own stream, its settings read."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from skorch import NeuralNetBinaryClassifier, NeuralNetClassifier, NeuralNetRegressor
from skorch.callbacks import Callback, InputShapeSetter
from skorch.dataset import ValidSplit
from torch import nn

from fedrela_sk._random import Purpose, integer_seed
from fedrela_sk.exceptions import NetError
from fedrela_sk.nets import MLP
from fedrela_sk.training._net import (
    build_net,
    floating_dtype,
    forward,
    read_settings,
    tensors_of,
    write_tensors,
)

X = np.zeros((6, 4), dtype=np.float32)
Y = np.array([0, 1, 2, 0, 1, 2])


def linear(**settings):
    return NeuralNetClassifier(
        nn.Linear, module__in_features=4, module__out_features=3, criterion=nn.CrossEntropyLoss, **settings
    )


def build(estimator, seed=0):
    return build_net(estimator, X, Y, 3, seed)


def weights_of(net):
    return torch.cat([p.detach().flatten() for p in net.module_.parameters()])


# ------------------------------------------------------------------------------------- building


def test_no_estimator_means_an_mlp_sized_to_the_data():
    net = build(None)
    assert [p.shape for p in net.module_.parameters()][::2] == [(64, 4), (32, 64), (3, 32)]
    assert isinstance(net.criterion_, nn.CrossEntropyLoss)
    settings = read_settings(net)
    assert (settings.epochs, settings.batch_size, settings.shuffle, settings.lr) == (1, 32, True, 0.05)
    assert net.optimizer_.param_groups[0]["momentum"] == 0.9


def test_the_callers_net_is_left_alone():
    module = nn.Linear(4, 3)
    before = module.weight.detach().clone()
    estimator = NeuralNetClassifier(module, criterion=nn.CrossEntropyLoss, lr=0.7)
    params = estimator.get_params(deep=False)
    net = build(estimator)
    net.module_.weight.data.add_(1)
    assert torch.equal(module.weight, before)
    assert estimator.get_params(deep=False) == params
    assert not estimator.initialized_
    assert net.lr == 0.7


def test_a_module_that_is_given_keeps_its_weights():
    module = nn.Linear(4, 3)
    net = build(NeuralNetClassifier(module, criterion=nn.CrossEntropyLoss))
    assert torch.equal(net.module_.weight, module.weight)


def test_a_fitted_net_starts_afresh():
    estimator = linear(verbose=0, max_epochs=1, train_split=None).fit(X, Y.astype(np.int64))
    fitted = weights_of(estimator)
    net = build(estimator)
    assert len(net.history) == 0
    assert torch.equal(weights_of(net), weights_of(build(linear())))
    assert torch.equal(weights_of(estimator), fitted)


def test_initial_weights_come_from_their_stream_alone():
    torch.manual_seed(1)
    first = weights_of(build(linear(), seed=5))
    torch.manual_seed(2)
    assert torch.equal(weights_of(build(linear(), seed=5)), first)
    assert not torch.equal(weights_of(build(linear(), seed=6)), first)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(integer_seed(5, Purpose.INIT))
        module = nn.Linear(4, 3)
    assert torch.equal(torch.cat([module.weight.flatten(), module.bias]), first)


def test_building_draws_nothing_from_global_generators():
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    build(linear())
    build(None)
    assert torch.equal(torch.get_rng_state(), torch_state)
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_state)  # noqa: NPY002


def test_the_nets_classes_are_the_codes():
    np.testing.assert_array_equal(build(linear()).classes_, [0, 1, 2])


# ---------------------------------------------------------------------------- callbacks and splits


class Noted(Callback):
    """Notes what it was shown when training began, where everybody can see it, and what it keeps itself."""

    seen = []

    def on_train_begin(self, net, X, y, **kwargs):
        self.seen[:] = (X, y, net.initialized_)
        self.kept_ = X


def test_default_callbacks_are_left_out_and_the_users_kept_in_order():
    assert read_settings(build(linear())).callbacks == ()
    net = build(linear(callbacks=[("second", Noted()), InputShapeSetter("in_features"), Noted()]))
    kinds = [type(callback) for callback in read_settings(net).callbacks]
    assert kinds == [Noted, InputShapeSetter, Noted]
    assert read_settings(net).callbacks[0] is dict(net.callbacks_)["second"]


def test_all_callbacks_may_be_disabled():
    assert read_settings(build(linear(callbacks="disable"))).callbacks == ()


def test_callbacks_see_the_data_when_the_net_is_built():
    net = build(linear(callbacks=[Noted()]))
    (noted,) = read_settings(net).callbacks
    assert noted.seen[0] is X
    assert noted.seen[1] is Y
    assert noted.seen[2]
    assert not hasattr(noted, "kept_"), "what clients are shown their own rows by has seen everybody's"


def test_a_callback_may_size_the_net(capsys):
    estimator = NeuralNetClassifier(
        nn.Linear,
        module__in_features=1,
        module__out_features=3,
        criterion=nn.CrossEntropyLoss,
        callbacks=[InputShapeSetter("in_features")],
    )
    net = build(estimator)
    assert capsys.readouterr().out == ""
    assert net.verbose == estimator.verbose == 1
    assert net.module_.weight.shape == (3, 4)
    assert net.optimizer_.param_groups[0]["params"][0] is net.module_.weight
    assert estimator.module__in_features == 1
    torch.manual_seed(9)
    assert torch.equal(weights_of(build(estimator)), weights_of(net))


@pytest.mark.parametrize("split", [None, ValidSplit(5, stratified=True)])
def test_skorchs_own_split_or_none_is_ignored(split):
    build(linear(train_split=split))


@pytest.mark.parametrize(
    "split",
    [
        ValidSplit(3, stratified=True),
        ValidSplit(5),
        ValidSplit(0.2, stratified=True),
        ValidSplit(0.2, stratified=True, random_state=0),
        lambda dataset, y=None: (dataset, None),
    ],
)
def test_a_split_of_the_users_own_is_refused(split):
    with pytest.raises(
        NetError, match=r"train_split=.* would hold out rows.*validation=share.* or X_val, y_val"
    ):
        build(linear(train_split=split))


def test_the_refused_split_is_named():
    with pytest.raises(NetError, match=r"train_split=.*ValidSplit.* would"):
        build(linear(train_split=ValidSplit(3)))


# --------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("estimator", "name"),
    [
        (LogisticRegression(), "LogisticRegression"),
        (nn.Linear(4, 3), "Linear"),
        (NeuralNetRegressor(nn.Linear), "NeuralNetRegressor"),
        (NeuralNetBinaryClassifier(nn.Linear), "NeuralNetBinaryClassifier"),
    ],
)
def test_what_is_no_skorch_classifier_is_refused(estimator, name):
    with pytest.raises(
        NetError, match=rf"got {name}\. Wrap the torch module: NeuralNetClassifier\(Module, criterion"
    ):
        build(estimator)


def test_a_criterion_without_known_logits_is_refused():
    estimator = linear().set_params(criterion=nn.MultiMarginLoss)
    with pytest.raises(NetError, match="got MultiMarginLoss"):
        build(estimator)


@pytest.mark.parametrize("name", ["drop_last", "sampler", "collate_fn"])
def test_loader_settings_that_would_choose_rows_are_refused(name):
    with pytest.raises(
        NetError, match=rf"iterator_train__{name} is not supported.*iterator_train__shuffle and batch_size"
    ):
        build(linear(**{f"iterator_train__{name}": None, "iterator_train__num_workers": 0}))


def test_loader_settings_that_only_say_how_rows_are_fetched_are_accepted():
    build(
        linear(
            iterator_train__num_workers=0, iterator_train__pin_memory=False, iterator_valid__drop_last=True
        )
    )


@pytest.mark.parametrize("epochs", [0, -1])
def test_no_local_epoch_is_refused(epochs):
    with pytest.raises(
        NetError, match=rf"max_epochs \(local epochs\) must be a whole number >= 1, got {epochs}"
    ):
        build(linear(max_epochs=epochs))


@pytest.mark.parametrize(
    "method", ["get_loss", "train_step", "train_step_single", "run_single_epoch", "fit_loop"]
)
def test_a_seam_of_skorch_that_is_never_called_is_refused(method):
    changed = type("Changed", (NeuralNetClassifier,), {method: lambda self, *args, **kwargs: None})
    with pytest.raises(
        NetError, match=rf"Changed has a {method} of its own.*child of torch\.nn\.CrossEntropyLoss"
    ):
        build(changed(nn.Linear, module__in_features=4, module__out_features=3))


# --------------------------------------------------------------------------------------- settings


def test_settings_are_those_of_the_net():
    module = nn.Sequential(
        nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Sequential(nn.BatchNorm1d(5)), nn.Linear(5, 3)
    )
    estimator = NeuralNetClassifier(
        module,
        criterion=nn.CrossEntropyLoss,
        lr=0.3,
        batch_size=17,
        max_epochs=4,
        iterator_train__shuffle=True,
    )
    net = build(estimator)
    settings = read_settings(net)
    assert (settings.epochs, settings.batch_size, settings.shuffle, settings.lr) == (4, 17, True, 0.3)
    assert settings.batch_norms == (net.module_[1], net.module_[2][0])


def test_settings_where_nothing_is_said_are_skorchs():
    settings = read_settings(build(linear()))
    assert (settings.epochs, settings.batch_size, settings.shuffle, settings.lr) == (10, 128, False, 0.01)
    assert settings.batch_norms == ()


def test_the_more_precise_setting_counts():
    settings = read_settings(
        build(linear(batch_size=8, iterator_train__batch_size=2, lr=0.1, optimizer__lr=0.25))
    )
    assert (settings.batch_size, settings.lr) == (2, 0.25)


# ---------------------------------------------------------------------------------------- tensors


class Mixed(nn.Module):
    """A parameter of each kind, a buffer that travels and one that does not."""

    def __init__(self):
        super().__init__()
        self.steps = nn.Parameter(torch.tensor([1]), requires_grad=False)
        self.w = nn.Parameter(torch.tensor([2.0], dtype=torch.float64))
        self.register_buffer("scale", torch.tensor([3.0]))
        self.register_buffer("scratch", torch.tensor([4.0]), persistent=False)


def test_tensors_are_parameters_and_persistent_buffers_in_the_modules_memory():
    module = Mixed()
    tensors = tensors_of(module)
    assert list(tensors) == ["steps", "w", "scale"]
    assert not tensors["w"].requires_grad
    tensors["w"].fill_(7)
    assert module.w.item() == 7


def test_tensors_are_written_in_place():
    module, given = Mixed(), {"w": torch.tensor([8.0]), "scale": torch.tensor([9.0])}
    parameter = module.w
    write_tensors(module, given)
    assert module.w is parameter
    assert parameter.requires_grad
    assert parameter.dtype == torch.float64
    assert (parameter.item(), module.scale.item(), module.steps.item()) == (8, 9, 1)
    given["w"].fill_(0)
    assert module.w.item() == 8


def test_the_modules_dtype_is_that_of_its_first_floating_parameter():
    assert floating_dtype(Mixed()) == torch.float64
    assert floating_dtype(nn.Linear(1, 1).half()) == torch.float16
    assert floating_dtype(nn.ReLU()) == torch.float32


class TwoOutputs(nn.Linear):
    def forward(self, X):
        return super().forward(X), "features"


def test_the_first_output_counts():
    net = build(NeuralNetClassifier(TwoOutputs(4, 3), criterion=nn.CrossEntropyLoss))
    batch = torch.ones(2, 4)
    torch.testing.assert_close(forward(net, batch), nn.functional.linear(batch, *net.module_.parameters()))


class Doubles(NeuralNetClassifier):
    def infer(self, x, **fit_params):
        return super().infer(2 * x, **fit_params)


def test_a_subclass_may_change_infer():
    batch = torch.ones(2, 4)
    module = nn.Linear(4, 3)
    plain, doubled = (
        build(kind(module, criterion=nn.CrossEntropyLoss)) for kind in (NeuralNetClassifier, Doubles)
    )
    torch.testing.assert_close(forward(doubled, batch), forward(plain, 2 * batch))


def test_the_default_net_is_the_mlp_of_the_package():
    assert type(build(None).module_) is MLP
