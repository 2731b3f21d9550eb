"""What changes clients' own rows: resampling before round 0 and after each relabeling, mixing in every batch."""

import numpy as np
import pytest
from imblearn.over_sampling import SMOTE, RandomOverSampler
from sklearn.base import BaseEstimator

from fedrela_sk import FedReLaRelabeler
from fedrela_sk._random import Purpose, client_stream_id, numpy_stream
from fedrela_sk.algorithms import Algorithm
from fedrela_sk.exceptions import ClientError, NotFiniteError
from fedrela_sk.local_data import Mixup, Remix
from tests.algorithms.helpers import (
    GROUPS,
    TwoLayers,
    X,
    Y,
    fit,
    local_sgd,
    ragged_classes,
    three_classes,
    weight,
)

START, LR, STEPS = 0.5, 0.5, 2


class Doubles(BaseEstimator):
    """Adds the negative of every row of class 1, as class 1."""

    def fit_resample(self, X, y):
        new = -X[y == 1]
        return np.vstack([X, new]), np.concatenate([y, np.ones(len(new), int)])


def doubled(client, y=Y):
    own = client == GROUPS
    x, y = X[own, 0], np.asarray(y)[own]
    return np.concatenate([x, -x[y == 1]]), np.concatenate([y, np.ones((y == 1).sum(), int)])


def test_new_rows_train_but_the_average_counts_the_originals():
    fed = fit("fedavg", local_data=Doubles())
    ends = [local_sgd(START, *doubled(client), LR, STEPS) for client in (0, 1)]
    assert weight(fed) == pytest.approx(np.average(ends, weights=[4, 2]), abs=1e-14)
    assert fed.history_[0].n_samples == 6 + 3
    assert fed.class_count_.tolist() == [3, 3]
    assert fed.y_relabeled_.tolist() == Y.tolist()


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_repeated_rows_of_a_sampler_count_as_often(engine):
    data = three_classes()
    fed = fit("fedavg", TwoLayers, data, engine=engine, local_data=RandomOverSampler())
    plain = fit("fedavg", TwoLayers, data, engine=engine)
    counts = [np.bincount(data[1][data[2] == client]) for client in range(3)]
    expected = sum(n.max() * (n > 0).sum() for n in counts)
    assert fed.history_[0].n_samples == expected
    assert not np.allclose(fed.predict_proba(data[0]), plain.predict_proba(data[0]))


class Flip:
    """Relabels the first row of every client to the other class."""

    def fit(self, Q, y):
        return self

    def relabel(self, Q, y, uniforms=None):
        new = np.array(y)
        new[0] = 1 - new[0]
        return new


def test_after_relabeling_the_originals_are_resampled_with_their_new_labels():
    fed = fit("fedavg", n_rounds=2, local_data=Doubles(), relabeler=Flip(), relabel_at=1)
    new = Y.copy()
    new[[0, 4]] = 0
    first = np.average([local_sgd(START, *doubled(k), LR, STEPS) for k in (0, 1)], weights=[4, 2])
    second = np.average([local_sgd(first, *doubled(k, new), LR, STEPS) for k in (0, 1)], weights=[4, 2])
    assert weight(fed) == pytest.approx(second, abs=1e-14)
    assert [record.n_samples for record in fed.history_] == [9, 7]


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_tau_zero_draws_no_other_rows(engine):
    """A relabeling that changes no label leaves what a random sampler made as it was."""
    data = three_classes()
    settings = {"module": TwoLayers, "data": data, "engine": engine, "n_rounds": 4}
    settings |= {"local_data": RandomOverSampler(), "relabel_at": 1, "relabel_every": 1}
    zero, none, some = (
        fit("fedavg", **settings, relabeler=relabeler).predict_proba(data[0])
        for relabeler in (FedReLaRelabeler(0.0), None, FedReLaRelabeler(0.3))
    )
    np.testing.assert_array_equal(zero, none)
    assert not np.allclose(some, none)


def test_a_new_row_weighs_as_much_as_the_mean_row_of_its_class():
    weights = np.array([1.0, 3.0, 1.0, 1.0, 2.0, 1.0])
    x, y = X[:, 0], Y
    moved = []
    for own, mean in ((GROUPS == 0, 2.0), (GROUPS == 1, 2.0)):
        extra = own & (y == 1)
        rows = np.concatenate([x[own], -x[extra]])
        labels = np.concatenate([y[own], y[extra]])
        w = np.concatenate([weights[own], np.full(extra.sum(), mean)])
        slope = np.average((1 / (1 + np.exp(-START * rows)) - labels) * rows, weights=w)
        moved.append(START - LR * slope)
    fed = fit_weighted(weights)
    assert weight(fed) == pytest.approx(np.average(moved, weights=[6, 3]), abs=1e-14)


def fit_weighted(weights):
    fed = fit("fedavg", local_data=Doubles(), epochs=1)
    return fed.fit(X, Y, groups=GROUPS, sample_weight=weights)


def test_a_sampler_does_not_see_rows_without_weight():
    weights = np.array([1.0, 0.0, 1.0, 1.0, 0.0, 1.0])
    left = weights > 0
    without = fit("fedavg", local_data=Doubles(), epochs=1, data=(X[left], Y[left], GROUPS[left]))
    assert weight(fit_weighted(weights)) == weight(without)


def test_what_a_sampler_cannot_do_is_in_the_record():
    data = three_classes()
    fed = fit("fedavg", TwoLayers, data, local_data=SMOTE(k_neighbors=8), n_rounds=2)
    notes = fed.history_[0].notes
    assert any(note.startswith("local_data at client 2: classes [2] stayed as they are (") for note in notes)
    assert fed.history_[1].notes == notes


@pytest.mark.parametrize("local_data", [SMOTE(k_neighbors=1), RandomOverSampler()], ids=repr)
def test_engines_and_workers_agree(local_data):
    data = three_classes(n_clients=5)
    settings = {
        "module": TwoLayers,
        "data": data,
        "n_rounds": 4,
        "local_data": local_data,
        "participation": 0.7,
    }
    settings |= {"relabeler": FedReLaRelabeler(0.3), "relabel_at": 2}
    loop, stacked, workers = (
        fit("fedavg", **settings, **how)
        for how in ({"engine": "loop"}, {"engine": "stacked"}, {"engine": "stacked", "n_jobs": 2})
    )
    np.testing.assert_allclose(loop.predict_proba(data[0]), stacked.predict_proba(data[0]), atol=1e-10)
    np.testing.assert_array_equal(stacked.predict_proba(data[0]), workers.predict_proba(data[0]))
    assert stacked.relabeled_mask_.any()


def test_memory_changes_nothing(tmp_path):
    data = three_classes(n_clients=5)
    settings = {"module": TwoLayers, "data": data, "n_rounds": 4, "local_data": SMOTE(k_neighbors=1)}
    settings |= {"relabeler": FedReLaRelabeler(0.3), "relabel_at": 2}
    plain, first, second = (
        fit("fedavg", **settings, memory=memory).predict_proba(data[0])
        for memory in (None, tmp_path, tmp_path)
    )
    assert len(list(tmp_path.glob("*.json"))) == 1
    np.testing.assert_array_equal(plain, first)
    np.testing.assert_array_equal(plain, second)


class DropsOneClass(Flip):
    """Leaves clients of a single class without rows."""

    def relabel(self, Q, y, uniforms=None):
        return y, np.full(len(y), len(np.unique(y)) > 1)


def test_a_client_without_rows_has_no_note_of_its_sampler_with_memory_or_not(tmp_path):
    settings = {
        "module": TwoLayers,
        "data": ragged_classes(),
        "n_rounds": 3,
        "local_data": RandomOverSampler(),
    }
    settings |= {"relabeler": DropsOneClass(), "relabel_at": 1}
    notes = [
        [record.notes for record in fit("fedavg", **settings, memory=memory).history_]
        for memory in (None, tmp_path, tmp_path)
    ]
    assert notes[0] == notes[1] == notes[2]
    assert [sum("nothing was resampled" in note for note in round) for round in notes[0]] == [2, 0, 0]
    assert notes[0][1] == ("client 3 has no row left", "client 4 has no row left")


class Breaks(BaseEstimator):
    """Fails, or makes a row that is no row."""

    def __init__(self, how):
        self.how = how

    def fit_resample(self, X, y):
        if self.how == "fails":
            raise TypeError("no")
        return np.vstack([X, X[:1] * np.inf]), np.append(y, y[0])


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ("fails", ClientError, "local_data failed at client 0 before round 0: TypeError: no"),
        ("infinite", NotFiniteError, "made a row at client 0 that is not finite"),
    ],
)
def test_a_sampler_that_breaks_names_the_client(how, error, message):
    with pytest.raises(error, match=message):
        fit("fedavg", local_data=Breaks(how))


def test_a_wrong_setting_of_a_sampler_is_no_small_client():
    with pytest.raises(ValueError, match="k_neighbors"):
        fit("fedavg", local_data=SMOTE(k_neighbors=-1))
    with pytest.raises(ValueError, match="alpha"):
        fit("fedavg", local_data=Mixup(alpha=-1))
    with pytest.raises(ValueError, match="local_data"):
        fit("fedavg", local_data=FedReLaRelabeler())


def mixed_by_hand(rule, client, weights=None):
    """The weight after full-batch steps on mixed rows, and the loss of each step."""
    own = client == GROUPS
    x, y = X[own, 0], Y[own]
    weights = np.ones(len(y)) if weights is None else weights[own]
    stream = numpy_stream(0, Purpose.LOCAL_DATA, 0, client_stream_id(client))
    w = START
    for _ in range(STEPS):
        mix = rule.mix(y, np.bincount(y, weights, minlength=2), stream)
        rows = mix.x_share * x + (1 - mix.x_share) * x[mix.partner]
        target = mix.y_share * y + (1 - mix.y_share) * y[mix.partner]
        w -= LR * np.average((1 / (1 + np.exp(-w * rows)) - target) * rows, weights=weights)
    return w


@pytest.mark.parametrize("rule", [Mixup(1.0), Remix(alpha=0.5, kappa=1.0)], ids=repr)
def test_batches_are_mixed_as_by_hand(rule):
    fed = fit("fedavg", local_data=rule)
    ends = [mixed_by_hand(rule, client) for client in (0, 1)]
    assert weight(fed) == pytest.approx(np.average(ends, weights=[4, 2]), abs=1e-14)
    weights = np.array([1.0, 2.0, 0.5, 1.0, 3.0, 1.0])
    weighted = fed.fit(X, Y, groups=GROUPS, sample_weight=weights)
    ends = [mixed_by_hand(rule, client, weights) for client in (0, 1)]
    assert weight(weighted) == pytest.approx(np.average(ends, weights=[4.5, 4]), abs=1e-14)


def test_mixing_nothing_is_plain_training():
    assert weight(fit("fedavg", local_data=Mixup(0))) == pytest.approx(weight(fit("fedavg")), abs=1e-15)


class RowLoss(Algorithm):
    """Twice the squared score."""

    own_loss = True

    def client_row_losses(self, logits, y, local):
        return (logits[:, 1] - y) ** 2


class WholeLoss(Algorithm):
    """A loss from the model itself."""

    own_loss = True

    def client_loss(self, model, batch, local):
        return batch.mean(model(batch.x)[:, 1])


def test_losses_of_rows_are_mixed_and_other_losses_refuse():
    fed = fit(RowLoss(), local_data=Mixup(1.0), epochs=1)
    ends = []
    for client in (0, 1):
        own = client == GROUPS
        x, y = X[own, 0], Y[own]
        mix = Mixup().mix(y, None, numpy_stream(0, Purpose.LOCAL_DATA, 0, client_stream_id(client)))
        rows = mix.x_share * x + (1 - mix.x_share) * x[mix.partner]
        slope = 2 * rows * (START * rows - (mix.y_share * y + (1 - mix.y_share) * y[mix.partner]))
        ends.append(START - LR * slope.mean())
    assert weight(fed) == pytest.approx(np.average(ends, weights=[4, 2]), abs=1e-14)
    with pytest.raises(ValueError, match=r"Mixup.* WholeLoss makes a loss of its own"):
        fit(WholeLoss(), local_data=Mixup())


def test_mixing_runs_in_the_loop():
    fed = fit("fedavg", local_data=Mixup(), engine="auto", data=three_classes(n_clients=5), module=TwoLayers)
    assert fed.engine_.startswith("loop (Mixup() draws partners")
    workers = fit(
        "fedavg",
        local_data=Mixup(),
        engine="auto",
        n_jobs=2,
        data=three_classes(n_clients=5),
        module=TwoLayers,
    )
    for name, tensor in fed.net_.module_.state_dict().items():
        np.testing.assert_array_equal(tensor, workers.net_.module_.state_dict()[name])
