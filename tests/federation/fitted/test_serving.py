"""What is kept for predicting: without rows, small, on disk without pickle, read without importing anything."""

import json
import os
import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file
from skorch import NeuralNetClassifier
from torch import nn

from fedrela_sk import FederatedClassifier, FedReLaRelabeler, load_model, save_model
from fedrela_sk.exceptions import ModelFileError
from fedrela_sk.federation import ServedClassifier
from fedrela_sk.nets import MLP, SmallCNN

stream = np.random.default_rng(0)
X = stream.normal(size=(90, 4))
Y = np.array(["calm", "fraud", "odd"])[np.arange(90) % 3]
GROUPS = np.repeat(["a", "b", "c"], 30)
METHODS = ["fedavg", "fedrod", "fedloge", "local_only", "fedetf"]


class Own(nn.Module):
    """A module of the user's own."""

    def __init__(self, width=3):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, width), nn.BatchNorm1d(width), nn.Linear(width, 3))
        self.register_buffer("scale", torch.ones(1))

    def forward(self, x):
        return self.body(x) * self.scale


class Probabilities(Own):
    def forward(self, x):
        return super().forward(x).softmax(1)


def fit(algorithm="fedavg", net=None, X=X, Y=Y, **settings):
    fed = FederatedClassifier(net, clients=None, algorithm=algorithm, relabeler=FedReLaRelabeler(), n_rounds=3,
                              random_state=0, **settings)  # fmt: skip
    return fed.fit(X, Y, groups=GROUPS)


def assert_same_answers(fed, served, X=X):
    for groups in (GROUPS, np.full(90, "unknown")):
        if groups[0] == "unknown" and fed.algorithm != "local_only":
            continue
        with pytest.warns() if groups[0] == "unknown" else nothing():
            Q, other = fed.predict_proba(X, groups=groups), served.predict_proba(X, groups=groups)
        np.testing.assert_array_equal(Q, other)
    np.testing.assert_array_equal(fed.predict(X, groups=GROUPS), served.predict(X, groups=GROUPS))
    np.testing.assert_array_equal(fed.classes_, served.classes_)
    assert served.n_features_in_ == fed.n_features_in_
    assert served.score(X, Y, groups=GROUPS) == fed.score(X, Y, groups=GROUPS)


def nothing():
    from contextlib import nullcontext

    return nullcontext()


@pytest.mark.parametrize("algorithm", METHODS)
def test_it_answers_as_the_federation_does(algorithm, tmp_path):
    fed = fit(algorithm)
    served = fed.for_serving()
    assert isinstance(served, ServedClassifier)
    save_model(fed, tmp_path / "model")
    for model in (served, pickle.loads(pickle.dumps(served)), load_model(tmp_path / "model")):
        assert_same_answers(fed, model)
        assert model.for_serving() is model


def test_it_holds_no_row_and_no_label():
    rows = 100_000
    big = stream.normal(size=(rows, 4)).astype(np.float32)
    fed = FederatedClassifier(clients=5, n_rounds=1, random_state=0).fit(big, np.arange(rows) % 2)
    served = fed.for_serving()
    net = sum(t.numel() * t.element_size() for t in fed.net_.module_.state_dict().values())
    assert len(pickle.dumps(served)) < 4 * net + 20_000
    assert not {"y_relabeled_", "clients_", "history_", "relabelers_"} & vars(served).keys()


def test_it_is_independent_of_the_federation():
    fed = fit()
    served = fed.for_serving()
    Q = served.predict_proba(X)
    with torch.no_grad():
        for p in fed.net_.module_.parameters():
            p.zero_()
    np.testing.assert_array_equal(served.predict_proba(X), Q)


def test_names_of_columns_and_labels_of_any_kind_come_back(tmp_path):
    frame = pd.DataFrame(X, columns=list("wxyz"))
    for labels in (
        Y,
        np.arange(90) % 3 + 2**60,
        np.arange(90) % 2 == 0,
        pd.Series(Y, dtype="string"),
        np.arange(90) % 3 - 0.0,
    ):
        fed = fit(X=frame, Y=labels)
        save_model(fed, tmp_path)
        served = load_model(tmp_path)
        np.testing.assert_array_equal(served.classes_, fed.classes_)
        assert served.predict(frame).dtype == fed.predict(frame).dtype
        with pytest.raises(ValueError, match="feature names"):
            served.predict(frame[list("zyxw")])


@pytest.mark.parametrize("module", [Own, Probabilities, MLP, SmallCNN])
def test_modules_of_any_kind(module, tmp_path):
    criterion = nn.NLLLoss if module is Probabilities else nn.CrossEntropyLoss
    arguments = {MLP: {"module__n_features": 4, "module__n_classes": 3, "module__hidden": (5,)},
                 SmallCNN: {"module__image_shape": (1, 4, 4), "module__n_classes": 3}}  # fmt: skip
    images = stream.normal(size=(90, 1, 4, 4)) if module is SmallCNN else X
    settings = arguments.get(module, {"module__width": 6})
    try:
        net = NeuralNetClassifier(module, criterion=criterion, lr=0.05, max_epochs=1, **settings)
        fed = fit(net=net, X=images)
    except TypeError:
        pytest.fail(f"arguments of {module.__name__} are others than the test's")
    save_model(fed, tmp_path)
    ours = module in (MLP, SmallCNN)
    if not ours:
        with pytest.raises(
            ModelFileError, match=rf"module is .*{module.__name__}, which is not imported by its name. Pass"
        ):
            load_model(tmp_path)
    for given in [None] if ours else [module, module(6)]:
        np.testing.assert_array_equal(
            load_model(tmp_path, module=given).predict_proba(images), fed.predict_proba(images)
        )
    with pytest.raises(ModelFileError, match=r"stored module is .* was passed"):
        load_model(tmp_path, module=nn.Linear(4, 3))
    if not ours:
        with pytest.raises(ModelFileError, match="Pass the module with the arguments"):
            load_model(tmp_path, module=module(7))


def test_float64_modules_stay_float64(tmp_path):
    class Double(Own):
        def __init__(self, width=3):
            super().__init__(width)
            self.double()

    fed = fit(net=NeuralNetClassifier(Double, criterion=nn.CrossEntropyLoss))
    save_model(fed, tmp_path)
    np.testing.assert_array_equal(load_model(tmp_path, Double).predict_proba(X), fed.predict_proba(X))


# --- what is not trusted ------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    save_model(fit(), tmp_path)
    return tmp_path


def change(folder, **facts):
    path = folder / "model.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | facts))


def test_no_file_is_a_pickle(folder):
    assert sorted(path.name for path in folder.iterdir()) == ["model.json", "model.safetensors"]
    json.loads((folder / "model.json").read_text())
    load_file(folder / "model.safetensors")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such bits")
def test_who_may_read_the_folder_may_read_the_model(folder):
    """A model is often written by one account and served by another."""
    (folder / "usual").write_text("")
    usual = (folder / "usual").stat().st_mode
    assert {file.stat().st_mode for file in folder.iterdir()} == {usual}


def test_damaged_files_are_refused(folder, tmp_path):
    with pytest.raises(ModelFileError, match="holds no model"):
        load_model(tmp_path / "nowhere")
    text = (folder / "model.json").read_text()
    for bad, message in ((text[:100], "is no JSON"), ("[]", "format 'list'"), ("[" * 100_000, "is no JSON")):
        (folder / "model.json").write_text(bad)
        with pytest.raises(ModelFileError, match=message):
            load_model(folder)
    (folder / "model.json").write_text(text)
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[:-4] + b"abcd")
    with pytest.raises(ModelFileError, match="checksum"):
        load_model(folder)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"format": 2}, "has format 2, expected 1"),
        ({"output": "odds"}, "output 'odds'"),
        ({"algorithm": {"name": "mine", "params": {}}}, "method 'mine' is not known"),
        (
            {"module": {"ours": None, "path": "os.system", "arguments": {}}},
            "os.system, which is not imported",
        ),
    ],
)
def test_what_the_json_says_is_checked(folder, facts, message):
    change(folder, **facts)
    with pytest.raises(ModelFileError, match=message):
        load_model(folder)


def test_a_missing_line_is_named(folder):
    facts = json.loads((folder / "model.json").read_text())
    del facts["classes"]
    (folder / "model.json").write_text(json.dumps(facts))
    with pytest.raises(ModelFileError, match="lacks 'classes'"):
        load_model(folder)


@pytest.mark.parametrize("kind", ["shape", "missing", "extra", "nan", "dtype"])
def test_tensors_are_checked_against_the_module(folder, kind):
    import hashlib

    tensors = load_file(folder / "model.safetensors")
    first = sorted(tensors)[0]
    if kind == "shape":
        tensors[first] = torch.zeros(2)
    elif kind == "missing":
        del tensors[first]
    elif kind == "extra":
        tensors["net/other"] = torch.zeros(1)
    elif kind == "nan":
        tensors[first] = tensors[first] * float("nan")
    else:
        tensors[first] = tensors[first].double()
    save_file(tensors, folder / "model.safetensors")
    change(folder, sha256=hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest())
    with pytest.raises(ModelFileError, match=r"stored tensor|lacks the module's tensor"):
        load_model(folder)


class OwnInfer(NeuralNetClassifier):
    def infer(self, x, **fit_params):
        return super().infer(x, **fit_params)


def test_what_no_file_can_hold_is_refused(tmp_path):
    fed = fit(net=OwnInfer(Own, criterion=nn.CrossEntropyLoss))
    with pytest.raises(ModelFileError, match="forward pass of its own"):
        save_model(fed, tmp_path)


def test_arguments_that_json_cannot_hold_need_an_instance(tmp_path):
    class Takes(Own):
        def __init__(self, kind):
            super().__init__()

    fed = fit(net=NeuralNetClassifier(Takes, module__kind=nn.ReLU, criterion=nn.CrossEntropyLoss))
    save_model(fed, tmp_path)
    with pytest.raises(ModelFileError, match="pass an instance"):
        load_model(tmp_path, Takes)
    np.testing.assert_array_equal(load_model(tmp_path, Takes(None)).predict_proba(X), fed.predict_proba(X))


def test_it_is_not_fitted_by_itself():
    with pytest.raises(AttributeError, match="call for_serving"):
        ServedClassifier().fit(X, Y)
