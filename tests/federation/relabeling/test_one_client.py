"""The relabeling step of one client."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator, clone
from torch import nn

from fedrela_sk import FedReLaRelabeler
from fedrela_sk._random import Purpose, client_stream_id, uniforms
from fedrela_sk.exceptions import ClientError, NotFiniteError
from fedrela_sk.federation.relabeling._report import relabel_report
from fedrela_sk.federation.relabeling._settings import POSTERIOR_DEFAULTS, check_relabel_posteriors
from fedrela_sk.nets import Augmentation
from fedrela_sk.training._posteriors import posteriors
from tests.federation.helpers import (
    Logits,
    WithBatchNorm,
    WithDropout,
    make_net,
    make_rows,
    make_spec,
    relabel_client,
)

X, CODES = make_rows(40)
CLASSES = np.array(["common", "rare", "scarce"])
LABELS = CLASSES[CODES]
SPEC = make_spec("here", np.arange(40) * 2)


class Recorder(BaseEstimator):
    """Keeps what it is given and answers what it is told to."""

    def __init__(self, answer=None, classes=None, random_state=None):
        self.answer = answer
        self.classes = classes
        self.random_state = random_state

    def fit(self, Q, y):
        self.fitted_ = (Q, y)
        return self

    def relabel(self, Q, y, uniforms=None):
        self.given_ = (Q, y, uniforms)
        return y if self.answer is None else self.answer


class Bare:
    """The least that a relabeler must be."""

    def fit(self, Q, y):
        self.n_rows = len(y)

    def relabel(self, Q, y, uniforms):
        return y


def relabel(relabeler, module=Logits, *, X=X, y=LABELS, spec=SPEC, round=4, seed=0, settings=(), **options):
    torch.manual_seed(0)
    net = make_net(module, **options).initialize()
    settings = POSTERIOR_DEFAULTS | dict(settings)
    X = torch.from_numpy(X).to(next(net.module_.parameters()).dtype)
    return relabel_client(relabeler, net, X, y, CLASSES, spec, round, seed, settings, 16), net, X


def test_defaults_and_keys_left_out():
    assert check_relabel_posteriors(None) == {"passes": 1, "augment": False, "mode": "eval", "late": "next"}
    given = {"passes": np.int64(5), "mode": "train"}
    assert check_relabel_posteriors(given) == POSTERIOR_DEFAULTS | given
    released = {"passes": 5, "augment": True, "mode": "train", "late": "never"}
    assert check_relabel_posteriors(released) == released
    assert given == {"passes": 5, "mode": "train"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pases": 2}, r"unknown key 'pases'; known keys: \['augment', 'late', 'mode', 'passes'\]"),
        ({"mode": "test"}, r"relabel_posteriors\['mode'\] must be one of \('eval', 'train'\), got 'test'"),
        ({"late": None}, r"relabel_posteriors\['late'\] must be one of \('next', 'never'\), got None"),
        ({"augment": "yes"}, r"relabel_posteriors\['augment'\] must be one of \(True, False\), got 'yes'"),
        ({"passes": 0}, r"relabel_posteriors\['passes'\] must be an integer >= 1 or 'training', got 0"),
        ({"passes": 2.0}, r"relabel_posteriors\['passes'\] must be an integer >= 1 or 'training', got 2.0"),
        ({"passes": True}, r"relabel_posteriors\['passes'\] must be an integer >= 1 or 'training', got True"),
    ],
)
def test_settings_that_are_none(settings, message):
    with pytest.raises(ValueError, match=message):
        check_relabel_posteriors(settings)


def test_a_relabeler_gets_posteriors_labels_classes_and_the_streams_uniforms():
    given = Recorder()
    result, net, tensor = relabel(given)
    own = result.relabeler
    assert own is not given
    assert not hasattr(given, "fitted_")
    Q, y = own.fitted_
    np.testing.assert_array_equal(Q, posteriors(net, tensor, 3))
    np.testing.assert_array_equal(y, LABELS)
    assert own.given_[0] is Q
    np.testing.assert_array_equal(
        own.given_[2], uniforms(0, Purpose.RELABEL, (40, 3), 4, client_stream_id("here"))
    )
    assert own.classes is CLASSES
    assert own.random_state is not None
    assert result.round == 4
    np.testing.assert_array_equal(result.codes, CODES)
    assert result.keep.all()


def test_a_clients_own_random_state_is_replaced_by_the_federations():
    states = {
        (seed, round, key): relabel(
            Recorder(random_state=7), seed=seed, round=round, spec=make_spec(key, SPEC.rows)
        )[0].relabeler.random_state
        for seed in (0, 1)
        for round in (4, 5)
        for key in ("here", "there")
    }
    assert len(set(states.values())) == len(states)
    again = relabel(Recorder(random_state=8))[0].relabeler.random_state
    assert again == states[0, 4, "here"]


def test_classes_that_a_relabeler_has_are_kept():
    own = relabel(Recorder(classes=CLASSES[::-1]))[0].relabeler
    assert own.classes.tolist() == CLASSES[::-1].tolist()


def test_a_relabeler_needs_no_more_than_two_methods():
    given = Bare()
    result = relabel(given)[0]
    assert result.relabeler.n_rows == 40
    assert not hasattr(given, "n_rows")


def test_draws_of_a_row_do_not_depend_on_the_rows_set_aside():
    whole = relabel(Recorder())[0].relabeler.given_[2]
    stay = np.arange(0, 40, 3)
    spec = make_spec("here", SPEC.rows, train_rows=SPEC.rows[stay])
    part = relabel(Recorder(), X=X[stay], y=LABELS[stay], spec=spec)[0].relabeler.given_[2]
    np.testing.assert_array_equal(part, whole[stay])


def test_new_labels_become_codes():
    new = CLASSES[(CODES + 1) % 3]
    result = relabel(Recorder(new.tolist()))[0]
    np.testing.assert_array_equal(result.codes, (CODES + 1) % 3)
    keep = np.arange(40) % 2 == 0
    result = relabel(Recorder((new, keep)))[0]
    np.testing.assert_array_equal(result.codes, (CODES + 1) % 3)
    np.testing.assert_array_equal(result.keep, keep)


WHERE = r"Relabeling of client 'here' before round 4"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (LABELS[:5], rf"{WHERE}: `relabel` must return 40 labels.*got shapes \(5,\) and \(40,\)"),
        ((LABELS, np.ones(40)), rf"{WHERE}: .*boolean mask of the rows to keep.*mask dtype float64"),
        ((LABELS, np.ones(3, bool)), rf"{WHERE}: .*got shapes \(40,\) and \(3,\)"),
        (np.full(40, "odd"), rf"{WHERE}: `relabel` returned the label .*'odd'.*not among \['common', 'rare'"),
    ],
)
def test_answers_that_are_none(answer, message):
    with pytest.raises(ClientError, match=message):
        relabel(Recorder(answer))


def test_errors_of_a_relabeler_name_client_and_round():
    class Broken(Recorder):
        def fit(self, Q, y):
            raise RuntimeError("no luck")

    with pytest.raises(ClientError, match=rf"{WHERE} failed: RuntimeError: no luck") as caught:
        relabel(Broken())
    assert isinstance(caught.value.__cause__, RuntimeError)
    with pytest.raises(ClientError, match=rf"{WHERE} failed: .*tau"):
        relabel(FedReLaRelabeler(tau=2.0))


def test_posteriors_that_are_not_finite_are_refused():
    class Overflows(Logits):
        def forward(self, X):
            return super().forward(X) + torch.where(X[:, :1] > 2, torch.inf, 0.0)

    with pytest.raises(
        NotFiniteError, match=rf"{WHERE}: the posterior of its row \d+ is not finite, got \[nan"
    ):
        relabel(FedReLaRelabeler(), Overflows)


def test_weights_reach_a_relabeler_that_takes_them():
    class Weighted(Recorder):
        def fit(self, Q, y, sample_weight=None):
            self.weights_ = sample_weight
            return super().fit(Q, y)

    net, weights = make_net().initialize(), np.arange(1.0, 41)
    for relabeler, expected in ((Weighted(), weights), (Recorder(), None)):
        result = relabel_client(
            relabeler, net, torch.from_numpy(X), LABELS, CLASSES, SPEC, 4, 0, POSTERIOR_DEFAULTS, 16, weights
        )
        assert getattr(result.relabeler, "weights_", None) is expected


def seen(module, **settings):
    """Posteriors as a relabeler sees them, and the net afterwards."""
    result, net, tensor = relabel(Recorder(), module, settings=settings)
    return result.relabeler.fitted_[0], net, tensor


def test_train_mode_uses_batch_statistics_and_leaves_running_ones_alone():
    before = make_net(WithBatchNorm).initialize().module_.state_dict()
    evaluated, _, _ = seen(WithBatchNorm)
    trained, net, _ = seen(WithBatchNorm, mode="train")
    assert np.abs(trained - evaluated).max() > 1e-3
    after = net.module_.state_dict()
    for name in ("1.running_mean", "1.running_var", "1.num_batches_tracked"):
        assert torch.equal(after[name], before[name])


def test_train_mode_is_the_mean_over_passes_of_shuffled_batches():
    one, two = (seen(WithBatchNorm, mode="train", passes=passes)[0] for passes in (1, 2))
    assert not np.array_equal(one, two)  # the second pass meets other batches
    np.testing.assert_allclose(two.sum(1), 1, atol=1e-12)
    np.testing.assert_array_equal(one, seen(WithBatchNorm, mode="train")[0])


def test_dropout_draws_from_the_federations_streams():
    one, again = (seen(WithDropout, mode="train")[0] for _ in range(2))
    np.testing.assert_array_equal(one, again)
    result, net, tensor = relabel(Recorder(), WithDropout, settings={"mode": "train"}, round=5)
    assert not np.array_equal(one, result.relabeler.fitted_[0])
    state = torch.get_rng_state()
    settings = POSTERIOR_DEFAULTS | {"mode": "train"}
    relabel_client(Recorder(), net, tensor, LABELS, CLASSES, SPEC, 4, 0, settings, 16)
    assert torch.equal(state, torch.get_rng_state())


class Shift(Augmentation):
    """Adds noise while it trains."""

    def forward(self, X):
        return X + torch.randn_like(X) if self.training else X


class Augmented(nn.Sequential):
    def __init__(self):
        super().__init__(Shift(), Logits(3, 3), nn.Dropout(0.0))


def test_only_augmentation_layers_augment():
    plain = seen(Augmented)[0]
    augmented = seen(Augmented, augment=True)[0]
    assert np.abs(plain - augmented).max() > 1e-2
    np.testing.assert_allclose(seen(Augmented, mode="train")[0], plain, rtol=0, atol=1e-12)
    mean = seen(Augmented, augment=True, passes=200)[0]
    assert np.abs(mean - augmented).mean() > np.abs(mean - plain).mean()


def test_one_row_has_posteriors_in_train_mode_too():
    spec = make_spec("here", [3])
    settings = {"mode": "train", "augment": True, "passes": 5}
    result, net, tensor = relabel(
        Recorder(), WithBatchNorm, X=X[:1], y=LABELS[:1], spec=spec, settings=settings
    )
    np.testing.assert_allclose(result.relabeler.fitted_[0], posteriors(net, tensor, 3), atol=1e-12)


def test_uniforms_nest_the_changed_rows_in_tau():
    X, codes = make_rows(400)
    spec, changed = make_spec("here", np.arange(400)), []
    for tau in (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8):
        new = relabel(FedReLaRelabeler(tau), X=X, y=CLASSES[codes], spec=spec)[0].codes
        changed.append(set(np.flatnonzero(new != codes)))
    assert changed[0] == set()
    assert len(changed[-1]) > len(changed[2]) > 0
    for less, more in pairwise(changed):
        assert less <= more


def test_the_report_lists_the_changed_rows_of_all_clients():
    specs = [
        make_spec("a", np.arange(40) * 2, 0),
        make_spec("b", [1], 1),
        make_spec("c", np.arange(40) * 2 + 1, 2),
    ]
    y = np.empty(80, dtype=LABELS.dtype)
    y[0::2] = y[1::2] = LABELS
    new, results = y.copy(), {}
    for spec, round in ((specs[0], 4), (specs[2], 6)):
        results[spec.position] = relabel(FedReLaRelabeler(0.3), spec=spec, round=round)[0]
        new[spec.rows] = CLASSES[results[spec.position].codes]
    report = relabel_report(specs, results, y, new)
    assert len(report) == np.count_nonzero(new != y) > 4
    for key, position, round in (("a", 0, 4), ("c", 2, 6)):
        own = report.client == key
        rows = report.row[own]
        np.testing.assert_array_equal(rows, specs[position].rows[(new != y)[specs[position].rows]])
        assert (report.round[own] == round).all()
        np.testing.assert_array_equal(report.old[own], y[rows])
        np.testing.assert_array_equal(report.new[own], new[rows])
        theirs = results[position].relabeler.report()
        for name in ("posterior", "z", "threshold", "rho"):
            np.testing.assert_array_equal(getattr(report, name)[own], getattr(theirs, name))
    assert (report.rho > 0).all()


def test_a_relabeler_without_numbers_leaves_them_unknown():
    new = LABELS.copy()
    new[[3, 5]] = "scarce"
    spec = make_spec("here", np.arange(40))
    result = relabel(Recorder(new), spec=spec)[0]
    report = relabel_report([spec], {0: result}, LABELS, new)
    changed = np.flatnonzero(new != LABELS)
    np.testing.assert_array_equal(report.row, changed)
    for name in ("posterior", "z", "threshold", "rho"):
        assert np.isnan(getattr(report, name)).all()


def test_numbers_of_other_rows_are_not_passed_on():
    class Subset(FedReLaRelabeler):
        """A child that undoes what its parent did, but for one row."""

        def relabel(self, Q, y, uniforms=None):
            new = super().relabel(Q, y, uniforms)
            new[np.flatnonzero(new != y)[1:]] = y[np.flatnonzero(new != y)[1:]]
            return new

    spec = make_spec("here", np.arange(40))
    result = relabel(clone(Subset(0.4)), spec=spec)[0]
    new = CLASSES[result.codes]
    report = relabel_report([spec], {0: result}, LABELS, new)
    assert len(report) == 1
    assert np.isnan(report.rho).all()


def test_a_report_that_was_never_written_is_none():
    class Own(FedReLaRelabeler):
        """A child that draws by itself, so that its parent has nothing to report."""

        def relabel(self, Q, y, uniforms=None):
            return np.full_like(y, "rare")

    spec = make_spec("here", np.arange(40))
    result = relabel(Own(), spec=spec)[0]
    report = relabel_report([spec], {0: result}, LABELS, CLASSES[result.codes])
    np.testing.assert_array_equal(report.row, np.flatnonzero(LABELS != "rare"))
    assert np.isnan(report.posterior).all()


def test_no_relabeling_gives_an_empty_report():
    report = relabel_report([SPEC], {}, LABELS, LABELS)
    assert len(report) == 0
    assert report.old.dtype == LABELS.dtype
