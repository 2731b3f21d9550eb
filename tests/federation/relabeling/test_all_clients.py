"""Many clients relabeled at once get what each of them gets by itself."""

import inspect
from types import FunctionType

import numpy as np
import pytest
import torch

from fedrela_sk import FedReLaRelabeler
from fedrela_sk._random import Purpose, client_stream_id, uniforms
from fedrela_sk.exceptions import ClientError, NotFiniteError
from fedrela_sk.federation.relabeling import _all_clients as _relabeling_together
from fedrela_sk.federation.relabeling._all_clients import AllRows, relabel_clients
from fedrela_sk.federation.relabeling._one_client import RelabelStep
from fedrela_sk.federation.relabeling._settings import POSTERIOR_DEFAULTS
from fedrela_sk.relabel._relabeler import overrides_nothing
from fedrela_sk.training._posteriors import posteriors
from tests.federation.helpers import (
    Logits,
    WithDropout,
    make_fed,
    make_net,
    make_rows,
    make_spec,
    relabel_client,
)

N_ROWS = 300
X, CODES = make_rows(N_ROWS)
CLASSES = np.array(["common", "rare", "scarce"])
LABELS = CLASSES[CODES]
OWNER = np.where(
    np.arange(N_ROWS) == 7, 5, np.random.default_rng(1).integers(0, 5, N_ROWS)
)  # client 5: one row
ROUND = 4


def make_specs(set_aside=False):
    """Six clients; with `set_aside` a third of the rows of all but the last do not train."""
    specs = []
    for k in range(6):
        rows = np.flatnonzero(k == OWNER)
        stay = rows[np.arange(len(rows)) % 3 != 1] if set_aside else rows
        specs.append(make_spec(f"client {k}", rows, k, train_rows=stay))
    return specs


def own_nets(module=Logits):
    """A net for all clients, and a function that puts a client's own model into it."""
    torch.manual_seed(0)
    net = make_net(module).initialize()
    net.module_.double()
    first = {name: tensor.clone() for name, tensor in net.module_.state_dict().items()}

    def model(spec):
        net.module_.load_state_dict({name: tensor * (1 + spec.position) for name, tensor in first.items()})
        return net

    return model


def together(relabeler, specs, model=None, X=X, weights=None, settings=(), seed=0, **told):
    step = RelabelStep(relabeler, CLASSES, seed, POSTERIOR_DEFAULTS | dict(settings), 16, **told)
    rows = AllRows(torch.from_numpy(X), LABELS, CODES, weights)
    return relabel_clients(step, specs, ROUND, rows, own_nets() if model is None else model)


def one_by_one(relabeler, specs, model=None, weights=None, settings=(), seed=0):
    model = own_nets() if model is None else model
    return [
        relabel_client(
            relabeler,
            model(spec),
            torch.from_numpy(X[spec.train_rows]),
            LABELS[spec.train_rows],
            CLASSES,
            spec,
            ROUND,
            seed,
            POSTERIOR_DEFAULTS | dict(settings),
            16,
            None if weights is None else weights[spec.train_rows],
        )
        for spec in specs
    ]


def assert_same_results(ours, theirs):
    n_changed = 0
    for one, other in zip(ours, theirs, strict=True):
        assert one.round == other.round == ROUND
        assert one.codes.dtype == other.codes.dtype == np.int64
        np.testing.assert_array_equal(one.codes, other.codes)
        np.testing.assert_array_equal(one.keep, other.keep)
        assert one.keep.dtype == bool
        own, alone = one.relabeler, other.relabeler
        assert own.get_params()["random_state"] == alone.get_params()["random_state"]
        assert type(own.random_state) is type(alone.random_state)
        np.testing.assert_array_equal(own.classes_, alone.classes_)
        for name in ("class_count_", "mean_", "scale_", "threshold_"):
            np.testing.assert_allclose(getattr(own, name), getattr(alone, name), rtol=1e-12, atol=1e-15)
        np.testing.assert_array_equal(own.report().row, alone.report().row)
        np.testing.assert_array_equal(own.report().new, alone.report().new)
        n_changed += len(own.report())
    return n_changed


@pytest.fixture
def accelerated(monkeypatch):
    """The CPU counts as an accelerator; the kinds of posteriors that are relabeled together are recorded."""
    monkeypatch.setattr(_relabeling_together, "ACCELERATORS", {"cpu"})
    plain, kinds = _relabeling_together.relabel_many, []

    def spy(relabeler, rows, *others):
        kinds.append((type(rows.Q), rows.Q.dtype))
        return plain(relabeler, rows, *others)

    monkeypatch.setattr(_relabeling_together, "relabel_many", spy)
    return kinds


class NeverTogether:
    """Stands for the pass over all clients where it must not be used."""

    def __init__(self, monkeypatch):
        monkeypatch.setattr(_relabeling_together, "relabel_many", self)

    def __call__(self, *arguments):
        raise AssertionError("relabeled together")


@pytest.mark.parametrize("set_aside", [False, True])
@pytest.mark.parametrize("weights", [None, np.random.default_rng(0).integers(0, 4, N_ROWS) + 0.5])
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"classes": ["scarce", "common", "rare"]},
        {"normalization": "minmax", "target": "argmax_of_successes", "max_ratio": 1},
    ],
    ids=["plain", "classes in another order", "minmax"],
)
def test_they_get_what_they_get_by_themselves(params, weights, set_aside):
    relabeler, specs = FedReLaRelabeler(0.3, **params), make_specs(set_aside)
    ours = together(relabeler, specs, weights=weights, seed=3)
    assert assert_same_results(ours, one_by_one(relabeler, specs, weights=weights, seed=3)) > 10
    assert not hasattr(relabeler, "classes_")


@pytest.mark.parametrize("set_aside", [False, True])
@pytest.mark.parametrize("weights", [None, np.random.default_rng(0).integers(0, 4, N_ROWS) + 0.5])
@pytest.mark.parametrize("settings", [{}, {"mode": "train", "passes": 2}], ids=["eval", "train"])
def test_an_accelerator_gives_them_the_same(settings, weights, set_aside, accelerated):
    relabeler, specs = FedReLaRelabeler(0.3), make_specs(set_aside)
    ours = together(relabeler, specs, weights=weights, settings=settings)
    theirs = one_by_one(relabeler, specs, weights=weights, settings=settings)
    assert assert_same_results(ours, theirs) > 10
    assert accelerated == [(torch.Tensor, torch.float64)]


def test_off_accelerators_numpy_relabels(accelerated, monkeypatch):
    monkeypatch.setattr(_relabeling_together, "ACCELERATORS", {"cuda"})
    together(FedReLaRelabeler(0.3), make_specs())
    assert accelerated == [(np.ndarray, np.float64)]


def test_every_client_brings_its_own_model_and_streams():
    specs, settings = make_specs(), {"mode": "train", "passes": 2}
    relabeler = FedReLaRelabeler(0.3)
    ours = together(relabeler, specs, own_nets(WithDropout), settings=settings)
    theirs = one_by_one(relabeler, specs, own_nets(WithDropout), settings=settings)
    assert assert_same_results(ours, theirs) > 10


def test_draws_are_those_of_the_clients_streams():
    specs, model = make_specs(set_aside=True), own_nets()
    for spec, result in zip(specs, together(FedReLaRelabeler(0.5), specs), strict=True):
        rows = spec.train_rows
        drawn = uniforms(0, Purpose.RELABEL, (len(spec.rows), 3), ROUND, client_stream_id(spec.key))
        Q = posteriors(model(spec), torch.from_numpy(X[rows]), 3)
        own = drawn[np.isin(spec.rows, rows)]
        expected = result.relabeler.relabel(Q, LABELS[rows], uniforms=own)
        np.testing.assert_array_equal(CLASSES[result.codes], expected)


def test_order_and_company_change_no_bit():
    specs, relabeler = make_specs(), FedReLaRelabeler(0.3)
    whole = {spec.key: result for spec, result in zip(specs, together(relabeler, specs), strict=True)}
    turned = dict(zip([spec.key for spec in specs[::-1]], together(relabeler, specs[::-1]), strict=True))
    for spec in specs:
        (alone,) = together(relabeler, [spec])
        for result in (whole[spec.key], turned[spec.key]):
            np.testing.assert_array_equal(alone.codes, result.codes)
            assert alone.relabeler.mean_.tobytes() == result.relabeler.mean_.tobytes()
            assert alone.relabeler.scale_.tobytes() == result.relabeler.scale_.tobytes()
            assert alone.relabeler.threshold_.tobytes() == result.relabeler.threshold_.tobytes()


class Child(FedReLaRelabeler):
    """Overrides a method, to no effect: it is asked client by client."""

    def relabel(self, Q, y, uniforms=None):
        return super().relabel(Q, y, uniforms)


def test_children_that_override_something_are_asked_client_by_client(monkeypatch):
    specs = make_specs()
    plain = together(FedReLaRelabeler(0.3), specs)
    NeverTogether(monkeypatch)
    children = together(Child(0.3), specs)
    assert all(type(result.relabeler) is Child for result in children)
    assert assert_same_results(plain, children) > 10
    with pytest.raises(AssertionError, match="relabeled together"):
        together(FedReLaRelabeler(0.3), specs)


METHODS = {
    name: value
    for name, value in inspect.getmembers_static(FedReLaRelabeler)
    if isinstance(value, FunctionType | classmethod | staticmethod | property)
}


def test_the_methods_were_found():
    assert {"fit", "relabel", "transform", "report", "_learn", "_values", "__init__", "get_params"} <= set(
        METHODS
    )


@pytest.mark.parametrize("name", METHODS)
def test_a_child_that_overrides_any_method_is_asked_client_by_client(name, monkeypatch):
    """Whatever it may do there: here the same."""
    child, specs = type("Child", (FedReLaRelabeler,), {name: METHODS[name]}), make_specs()[:2]
    mixed_in = type("Mixed", (type("Mixin", (), {name: METHODS[name]}), FedReLaRelabeler), {})
    grandchild = type("Grandchild", (child,), {})
    plain = together(FedReLaRelabeler(0.3), specs)
    NeverTogether(monkeypatch)
    for kind in (child, mixed_in, grandchild):
        assert not overrides_nothing(kind(0.3))
    assert_same_results(plain, together(child(0.3), specs))


def test_a_child_that_overrides_nothing_takes_the_pass(monkeypatch):
    class Documented(FedReLaRelabeler):
        """The same, with words, a note and a method of its own."""

        note = "from the bank"

        def n_rarer(self):
            return int(np.count_nonzero(self.prior_weight_))

    specs = make_specs()
    plain, children = (together(kind(0.3), specs) for kind in (FedReLaRelabeler, Documented))
    assert all(type(result.relabeler) is Documented for result in children)
    assert assert_same_results(plain, children) > 10
    assert children[0].relabeler.n_rarer() == 2
    NeverTogether(monkeypatch)
    with pytest.raises(AssertionError, match="relabeled together"):
        together(Documented(0.3), specs)


@pytest.mark.parametrize("kind", [FedReLaRelabeler, Child])
@pytest.mark.parametrize("classes", [None, ["scarce", "common", "rare"]])
def test_classes_that_nobody_has_are_no_targets(kind, classes):
    """In the order of the relabeler's own classes."""
    specs = [make_spec("here", np.flatnonzero(CODES < 2))]
    everywhere = together(kind(0.3, classes=classes), specs)[0]
    assert (everywhere.codes == 2).any()
    told = together(kind(0.3, classes=classes), specs, targets=np.array([True, True, False]))[0]
    assert not (told.codes == 2).any()
    assert (told.codes != CODES[CODES < 2]).any()


WHERE = r"Relabeling of client 'client 0' before round 4"


def test_parameters_that_are_none():
    with pytest.raises(ClientError, match=rf"{WHERE} failed: InvalidParameterError: .*'tau'"):
        together(FedReLaRelabeler(tau=2.0), make_specs())


def test_classes_that_lack_a_label_name_the_client_that_has_it():
    specs = make_specs()
    has = next(spec for spec in specs if "scarce" in LABELS[spec.train_rows])
    relabeler = FedReLaRelabeler(0.0, classes=["common", "rare", "odd"])
    with pytest.raises(
        ClientError, match=rf"client {has.key!r} before round 4 failed: LabelError: .*'scarce'"
    ):
        together(relabeler, specs)
    without = [make_spec("here", np.flatnonzero(CODES < 2)[:50])]
    assert together(relabeler, without)[0].relabeler.classes_[2] == "odd"


@pytest.mark.parametrize("devices", [{"cuda"}, {"cpu"}])
def test_rows_that_are_no_posteriors_name_the_client(devices, monkeypatch):
    monkeypatch.setattr(_relabeling_together, "ACCELERATORS", devices)
    collect = RelabelStep.posteriors

    def spoil(step, net, X, spec, round):
        return collect(step, net, X, spec, round) * (0.5 if spec.position == 3 else 1)

    monkeypatch.setattr(RelabelStep, "posteriors", spoil)
    with pytest.raises(
        ClientError, match=r"'client 3' before round 4 failed: PosteriorError: Row 0 .* sums to 0.5"
    ):
        together(FedReLaRelabeler(), make_specs())


def test_posteriors_that_are_not_finite_name_the_client():
    poisoned = X.copy()
    specs = make_specs()
    poisoned[specs[2].rows[4]] = np.nan
    with pytest.raises(
        NotFiniteError, match=r"^Relabeling of client 'client 2' before round 4: .*its row 4 is not finite"
    ):
        together(FedReLaRelabeler(), specs, X=poisoned)


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_a_whole_federation_is_the_same_on_an_accelerator(engine, accelerated, monkeypatch):
    owner = np.random.default_rng(0).integers(0, 6, N_ROWS)
    settings = {"clients": None, "n_rounds": 5, "relabel_at": 2, "relabel_every": 1, "engine": engine}

    def fitted():
        return make_fed(relabeler=FedReLaRelabeler(0.3), **settings).fit(X, CODES, groups=owner)

    ours = fitted()
    monkeypatch.setattr(_relabeling_together, "ACCELERATORS", {"cuda"})
    theirs = fitted()
    assert [kind for kind, _ in accelerated] == [torch.Tensor] * 3 + [np.ndarray] * 3
    np.testing.assert_array_equal(ours.y_relabeled_, theirs.y_relabeled_)
    np.testing.assert_array_equal(ours.predict_proba(X), theirs.predict_proba(X))
    assert ours.relabeled_mask_.sum() > 10
    np.testing.assert_allclose(ours.relabel_report().rho, theirs.relabel_report().rho, rtol=1e-11)


def test_a_whole_federation_is_the_same_either_way():
    owner = np.random.default_rng(0).integers(0, 6, N_ROWS)
    settings = {"clients": None, "n_rounds": 5, "relabel_at": 2, "relabel_every": 1, "participation": 0.5}
    plain, child = (
        make_fed(relabeler=kind(0.3), **settings).fit(X, CODES, groups=owner)
        for kind in (FedReLaRelabeler, Child)
    )
    np.testing.assert_array_equal(plain.y_relabeled_, child.y_relabeled_)
    np.testing.assert_array_equal(plain.predict_proba(X), child.predict_proba(X))
    assert plain.relabeled_mask_.sum() > 10
    one, other = plain.relabel_report(), child.relabel_report()
    for name in ("client", "round", "row", "old", "new"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_allclose(one.rho, other.rho, rtol=1e-12)
