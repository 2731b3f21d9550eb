"""When clients relabel, from which labels, and what the books say."""

import numpy as np
import pytest
from sklearn.base import clone

from fedrela_sk import FedReLaRelabeler
from fedrela_sk._random import Purpose, client_stream_id, uniforms
from fedrela_sk.exceptions import ClientError
from tests.federation.flips import Flip
from tests.federation.helpers import (
    Conv,
    WithBatchNorm,
    WithDropout,
    assert_same_weights,
    make_fed,
    make_net,
    make_rows,
    weights_of,
)

X, Y = make_rows(60)
GROUPS = np.array(["a", "b", "c", "d"])[np.arange(60) % 4]


@pytest.fixture(autouse=True)
def _empty_log():
    Flip.log.clear()


def fit(groups=GROUPS, y=Y, **params):
    defaults = {"clients": None, "n_rounds": 6, "relabeler": Flip(), "relabel_at": 3}
    return make_fed(**(defaults | params)).fit(X, y, groups=groups)


def rounds_of(fed):
    """Round to the clients that relabeled in it."""
    return {record.round: record.relabeled_clients for record in fed.history_ if record.relabeled_clients}


@pytest.mark.parametrize(
    ("relabel_at", "n_rounds", "expected"),
    [(3, 6, 3), (1, 6, 1), (5, 6, 5), (0.8, 5, 4), (0.5, 4, 2), (0.01, 3, 1), (0.99, 3, 2)],
)
def test_the_table_of_relabel_rounds(relabel_at, n_rounds, expected):
    fed = fit(relabel_at=relabel_at, n_rounds=n_rounds)
    assert fed.relabel_round_ == expected
    assert rounds_of(fed) == {expected: ("a", "b", "c", "d")}
    assert fed.history_.notes == []
    np.testing.assert_array_equal(fed.y_relabeled_, (Y + 1) % 3)
    assert fed.relabeled_mask_.all()
    assert [record.n_relabeled for record in fed.history_][expected] == 60
    assert sum(record.n_relabeled for record in fed.history_) == 60


@pytest.mark.parametrize(("relabel_at", "n_rounds"), [(6, 6), (9, 6), (1, 1), (0.5, 1)])
def test_no_round_left_is_recorded(relabel_at, n_rounds):
    fed = fit(relabel_at=relabel_at, n_rounds=n_rounds)
    assert fed.relabel_round_ is None
    assert rounds_of(fed) == {}
    assert fed.history_.notes == [f"No relabeling: no round of {n_rounds} is left to train on new labels."]
    assert not fed.relabeled_mask_.any()
    assert fed.relabelers_ == [None] * 4
    assert_same_weights(fed, fit(relabeler=None, n_rounds=n_rounds))


@pytest.mark.parametrize("relabel_at", [0, -1, 0.0, 1.0, 1.5, "late", None])
def test_a_time_that_is_none_is_refused(relabel_at):
    with pytest.raises(ValueError, match=r"'relabel_at' parameter of FederatedClassifier must be"):
        fit(relabel_at=relabel_at)


def test_training_up_to_the_relabel_round_knows_nothing_of_it():
    plain = fit(relabeler=None, n_rounds=3)
    flipped = fit(n_rounds=4)
    # the model that relabeled is the one after three plain rounds
    Q = plain.predict_proba(X[GROUPS == "a"])
    np.testing.assert_array_equal(Flip.log[0][0], Q)
    assert flipped.history_[2].train_loss == plain.history_[2].train_loss


def test_the_relabel_round_itself_trains_on_the_new_labels():
    # a relabel round is one more plain round, on the new labels, from the model of the rounds before
    flipped = fit(n_rounds=4)
    before = weights_of(fit(relabeler=None, n_rounds=3))
    towards_old = weights_of(fit(relabeler=None, n_rounds=4))
    W, b = before["weight"], before["bias"]
    logits = X @ W.T + b
    P = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    for labels, after in ((Y, towards_old), ((Y + 1) % 3, weights_of(flipped))):
        error = (P - np.eye(3)[labels]) / 60
        np.testing.assert_allclose(after["weight"], W - 0.1 * error.T @ X, rtol=0, atol=1e-12)
        np.testing.assert_allclose(after["bias"], b - 0.1 * error.sum(0), rtol=0, atol=1e-12)


def test_once_by_default_and_again_on_request():
    assert list(rounds_of(fit(n_rounds=8))) == [3]
    assert list(rounds_of(fit(n_rounds=8, relabel_every=2))) == [3, 5, 7]
    assert list(rounds_of(fit(n_rounds=8, relabel_every=1))) == [3, 4, 5, 6, 7]
    assert list(rounds_of(fit(n_rounds=8, relabel_every=50))) == [3]


def test_a_refresh_starts_from_the_original_labels():
    fed = fit(n_rounds=8, relabel_every=2)
    assert len(Flip.log) == 12
    for k, (_, given, _) in enumerate(Flip.log):
        np.testing.assert_array_equal(given, Y["abcd"[k % 4] == GROUPS])
    np.testing.assert_array_equal(fed.y_relabeled_, (Y + 1) % 3)


def test_each_relabeling_has_draws_of_its_own():
    fit(n_rounds=8, relabel_every=2)
    for k, (_, _, draws) in enumerate(Flip.log):
        round, key = 3 + 2 * (k // 4), "abcd"[k % 4]
        expected = uniforms(0, Purpose.RELABEL, (15, 3), round, client_stream_id(key))
        np.testing.assert_array_equal(draws, expected)


def absent_federation(late):
    return fit(
        n_rounds=12, participation=0.5, relabel_posteriors={"late": late}, validation=None, random_state=3
    )


def test_a_client_that_is_absent_relabels_when_it_next_takes_part():
    fed = absent_federation("next")
    first = {
        key: next(r.round for r in fed.history_ if r.round >= 3 and key in r.participants) for key in "abcd"
    }
    assert {key: round for round, keys in rounds_of(fed).items() for key in keys} == first
    assert len(set(first.values())) > 1  # somebody was late
    np.testing.assert_array_equal(fed.y_relabeled_, (Y + 1) % 3)
    # with the round of that moment
    order = [(round, key) for round, keys in rounds_of(fed).items() for key in keys]
    for (round, key), (_, _, draws) in zip(order, Flip.log, strict=True):
        np.testing.assert_array_equal(
            draws, uniforms(3, Purpose.RELABEL, (15, 3), round, client_stream_id(key))
        )


def test_a_late_client_uses_the_model_of_that_moment():
    fed = absent_federation("next")
    (_, (round, *_)) = list(rounds_of(fed).items())[1], list(rounds_of(fed))[1:]
    key = rounds_of(fed)[round][0]
    until = fit(n_rounds=round, participation=0.5, random_state=3, relabel_at=3)
    position = [k for r, keys in rounds_of(fed).items() for k in keys].index(key)
    relabeled = {k for keys in rounds_of(until).values() for k in keys}
    assert key not in relabeled
    absent_federation("next")  # the log of a whole run again, at its end
    Q = Flip.log[-4:][position][0]
    np.testing.assert_array_equal(Q, until.predict_proba(X[key == GROUPS]))


def test_never_means_never():
    fed = absent_federation("never")
    assert list(rounds_of(fed)) == [3]
    there = fed.history_[3].participants
    assert rounds_of(fed)[3] == there
    assert len(there) == 2
    np.testing.assert_array_equal(fed.relabeled_mask_, np.isin(GROUPS, there))
    for name, relabeler in zip(fed.client_names_, fed.relabelers_, strict=True):
        assert (relabeler is None) == (name not in there)


@pytest.mark.parametrize("module", [None, WithBatchNorm, WithDropout])
@pytest.mark.parametrize("engine", ["loop", "auto"])
@pytest.mark.parametrize(
    "settings", [{}, {"mode": "train", "passes": 3, "augment": True}], ids=["eval", "train"]
)
def test_tau_zero_equals_no_relabeler_bit_for_bit(module, engine, settings):
    net = make_net(batch_size=8) if module is None else make_net(module, batch_size=8)
    common = {"engine": engine, "n_rounds": 5, "relabel_every": 1, "relabel_at": 2, "participation": 0.8}
    zero = make_fed(net, relabeler=FedReLaRelabeler(0.0), relabel_posteriors=settings, **common).fit(X, Y)
    none = make_fed(net, relabeler=None, **common).fit(X, Y)
    assert_same_weights(zero, none)
    assert not zero.relabeled_mask_.any()
    assert zero.relabel_round_ == 2
    assert none.relabel_round_ is None
    assert [r.train_loss for r in zero.history_] == [r.train_loss for r in none.history_]


def test_rows_changed_are_nested_in_tau_at_the_same_posteriors():
    rng = np.random.default_rng(5)
    y = rng.choice(3, 600, p=[0.7, 0.2, 0.1])
    rows = rng.normal(size=(600, 3)) + y[:, None] * 0.5
    changed = []
    for tau in (0.0, 0.02, 0.05, 0.1, 0.3):
        fed = make_fed(n_rounds=3, relabel_at=2, relabeler=FedReLaRelabeler(tau)).fit(rows, y)
        changed.append(set(np.flatnonzero(fed.relabeled_mask_)))
    assert changed[0] == set()
    assert changed[0] < changed[2] < changed[4]
    assert changed[1] <= changed[2] <= changed[3] <= changed[4]


def test_dropped_rows_leave_training_and_every_count():
    keep_of = lambda y: y != 0  # noqa: E731
    fed = fit(relabeler=Flip(keep=keep_of), n_rounds=5, class_weight="balanced")
    np.testing.assert_array_equal(fed.kept_mask_, Y != 0)
    assert fed.history_[2].n_samples == 60
    assert fed.history_[3].n_samples == fed.history_[4].n_samples == np.count_nonzero(Y)
    np.testing.assert_array_equal(fed.class_count_, [0, *np.bincount(Y)[1:]])
    assert fed.class_count_.sum() == np.count_nonzero(Y)


def test_all_rows_of_one_client_may_be_dropped():
    rare = np.where(GROUPS == "b", 2, np.where(Y == 2, 1, Y))
    fed = fit(y=rare, relabeler=Flip(keep=lambda y: y != 2), n_rounds=5)
    assert [record.participants for record in fed.history_][3:] == [("a", "c", "d")] * 2
    assert fed.history_[4].notes == ("client 'b' has no row left",)
    assert np.isfinite(fed.predict_proba(X)).all()
    assert fed.clients_[1].tolist() == np.flatnonzero(GROUPS == "b").tolist()


def test_a_relabeler_that_leaves_nothing_is_an_error():
    with pytest.raises(ValueError, match=r"All clients are empty in round 3: relabell?ing left no row"):
        fit(relabeler=Flip(keep=lambda y: np.zeros(len(y), bool)))


def test_a_failing_relabeler_names_client_and_round():
    class Broken(Flip):
        def fit(self, Q, y):
            raise ZeroDivisionError("by zero")

    with pytest.raises(
        ClientError, match=r"Relabeling of client 'a' before round 3 failed: ZeroDivisionError"
    ):
        fit(relabeler=Broken())


def test_the_callers_relabeler_stays_as_it_is():
    given = FedReLaRelabeler(0.3, random_state=5)
    fed = fit(relabeler=given)
    assert vars(given) == vars(clone(given))
    assert fed.relabeler is given
    for own in fed.relabelers_:
        assert own is not given
        assert own.classes_.tolist() == [0, 1, 2]


def test_the_relabelers_random_state_does_not_matter():
    one, other = (fit(relabeler=FedReLaRelabeler(0.3, random_state=seed)) for seed in (1, 2))
    np.testing.assert_array_equal(one.y_relabeled_, other.y_relabeled_)
    assert_same_weights(one, other)


def test_a_report_of_every_changed_row():
    fed = fit(relabeler=FedReLaRelabeler(0.3))
    report = fed.relabel_report()
    np.testing.assert_array_equal(np.sort(report.row), np.flatnonzero(fed.relabeled_mask_))
    np.testing.assert_array_equal(report.client, GROUPS[report.row])
    np.testing.assert_array_equal(report.old, Y[report.row])
    np.testing.assert_array_equal(report.new, fed.y_relabeled_[report.row])
    assert (report.round == 3).all()
    assert (report.z > report.threshold).all()
    assert ((report.rho > 0) & (report.rho <= 1)).all()
    frame = report.to_frame()
    assert list(frame.columns)[:5] == ["client", "round", "row", "old", "new"]
    assert len(frame) == len(report) > 0


def test_weights_of_rows_reach_the_counts_of_the_relabeler():
    weights = np.random.default_rng(0).integers(1, 4, 60).astype(float)
    fed = make_fed(clients=None, n_rounds=2, relabeler=FedReLaRelabeler(0.3))
    fed.fit(X, Y, groups=GROUPS, sample_weight=weights)
    for key, own in zip(fed.client_names_, fed.relabelers_, strict=True):
        here = key == GROUPS
        np.testing.assert_array_equal(own.class_count_, np.bincount(Y[here], weights[here], minlength=3))
    np.testing.assert_array_equal(fed.class_count_, np.bincount(Y, weights))


def test_the_share_of_empty_cells_is_told_once():
    groups = np.where(Y == 2, "a", GROUPS)
    fed = fit(groups=groups, relabeler=None)
    present = {(group, label) for group, label in zip(groups, Y, strict=True)}
    assert fed.history_.empty_cell_share == pytest.approx(1 - len(present) / 12)


def test_images_are_relabeled_too():
    images = np.random.default_rng(0).normal(size=(60, 1, 4, 4)).astype(np.float32)
    fed = make_fed(make_net(Conv), relabeler=FedReLaRelabeler(0.4), n_rounds=3).fit(images, Y)
    assert fed.relabeled_mask_.any()
