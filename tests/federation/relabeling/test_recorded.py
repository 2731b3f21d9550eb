"""`relabel_posteriors={"passes": "training"}`: posteriors come from the training steps of the round before."""

import numpy as np
import pytest
import torch

from fedrela_sk import FedReLaRelabeler
from fedrela_sk.participation import Mediators
from fedrela_sk.training import Stacked
from tests.federation.flips import Flip
from tests.federation.helpers import (
    Logits,
    WithBatchNorm,
    WithDropout,
    assert_same_weights,
    make_conductor,
    make_fed,
    make_net,
    make_spec,
)
from tests.federation.recording import GROUPS, TRAINING, X, Y, batches, fit, posteriors_seen, rounds_of


@pytest.fixture(autouse=True)
def _empty_log():
    Flip.log.clear()


# --- which posteriors -----------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["loop", "stacked"])
@pytest.mark.parametrize("relabel_at", [1, 3])
def test_a_full_batch_gives_those_of_the_model_that_was_received(engine, relabel_at):
    """One local epoch of one batch: the model received in round r - 1 is the one after r - 1 rounds."""
    fit(engine=engine, relabel_at=relabel_at)
    got = posteriors_seen()
    frozen = {"lr_schedule": lambda t: 0.0, "n_rounds": 1}  # the initial model
    received = fit(relabeler=None, **(frozen if relabel_at == 1 else {"n_rounds": relabel_at - 1}))
    for Q, key in zip(got, "abcd", strict=True):
        np.testing.assert_allclose(Q, received.predict_proba(X[key == GROUPS]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_a_round_that_moves_nothing_gives_those_of_one_pass(engine):
    """Batches of four in any order, two epochs, but a rate of 0 in the round before."""
    common = {
        "engine": engine,
        "relabeler": FedReLaRelabeler(0.2),
        "lr_schedule": lambda t: 0.0 if t == 2 else 1.0,
    }
    recorded = fit(batches(max_epochs=2), **common)
    passed = fit(batches(max_epochs=2), **(common | {"relabel_posteriors": {"passes": 1}}))
    assert recorded.relabeled_mask_.sum() > 3
    np.testing.assert_array_equal(recorded.y_relabeled_, passed.y_relabeled_)
    np.testing.assert_allclose(
        recorded.relabel_report().posterior, passed.relabel_report().posterior, rtol=0, atol=1e-12
    )
    np.testing.assert_allclose(recorded.predict_proba(X), passed.predict_proba(X), rtol=0, atol=1e-12)


def test_each_batch_meets_the_model_before_its_own_step():
    """Descent by hand: one client, batches of 20 in their order, two epochs; the second one is recorded."""
    fed = make_fed(
        make_net(batch_size=20, max_epochs=2),
        clients=1,
        n_rounds=2,
        relabeler=Flip(),
        relabel_at=1,
        relabel_posteriors=TRAINING,
    )
    start = make_fed(clients=1, n_rounds=1, lr_schedule=lambda t: 0.0).fit(X, Y).net_.module_
    W, b = start.weight.detach().numpy().copy(), start.bias.detach().numpy().copy()
    expected = np.empty((60, 3))
    for batch in [*np.arange(60).reshape(3, 20)] * 2:
        logits = X[batch] @ W.T + b
        P = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        expected[batch] = P
        error = (P - np.eye(3)[Y[batch]]) / 20
        W, b = W - 0.1 * error.T @ X[batch], b - 0.1 * error.sum(0)
    fed.fit(X, Y)
    np.testing.assert_allclose(posteriors_seen()[0], expected, rtol=0, atol=1e-12)


def test_dropout_drops_while_posteriors_are_recorded():
    fit(make_net(WithDropout, lr=1e-12))
    (recorded, *_) = posteriors_seen()
    Flip.log.clear()
    fit(make_net(WithDropout, lr=1e-12), relabel_posteriors={"passes": 1})
    assert np.abs(recorded - posteriors_seen()[0]).max() > 1e-2


@pytest.mark.parametrize("batch_norm", [False, True])
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"sample_weight": np.random.default_rng(0).integers(0, 4, 60).astype(float)},
        {"validation": 0.3, "class_weight": "balanced"},
        {"relabel_every": 1, "participation": 0.7},
        {"algorithm": "scaffold"},
        {"algorithm": "local_only"},
        {"algorithm": "fedlc", "participation": Mediators(2)},
    ],
    ids=["plain", "weights", "validation", "refresh", "scaffold", "local_only", "chains"],
)
def test_engines_agree(batch_norm, params):
    net = batches(WithBatchNorm if batch_norm else Logits, max_epochs=2)
    common = {"relabeler": FedReLaRelabeler(0.3)} | params
    loop, stacked = (fit(net, engine=engine, **common) for engine in ("loop", Stacked(chunk_size=3)))
    assert loop.relabeled_mask_.any()
    np.testing.assert_array_equal(stacked.y_relabeled_, loop.y_relabeled_)
    np.testing.assert_allclose(stacked.predict_proba(X), loop.predict_proba(X), rtol=0, atol=1e-10)
    np.testing.assert_allclose(
        stacked.relabel_report().posterior, loop.relabel_report().posterior, rtol=0, atol=1e-10
    )


class Halves:
    """A sampler that keeps every second row and adds one of its own."""

    def fit_resample(self, X, y):
        return np.r_[X[::2], X[:1] + 1.0], np.r_[y[::2], y[:1]]

    def __repr__(self):
        return "Halves()"


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_rows_that_a_sampler_left_out_have_posteriors_too(engine):
    """A rate of 0 in the round before: visited or not, every row meets the model that one pass would use."""
    common = {"local_data": Halves(), "engine": engine, "lr_schedule": lambda t: 0.0 if t == 2 else 1.0}
    fit(batches(), **common)
    recorded = posteriors_seen()
    Flip.log.clear()
    fit(batches(), **(common | {"relabel_posteriors": None}))
    assert [len(Q) for Q in recorded] == [15] * 4
    for Q, one_pass in zip(recorded, posteriors_seen(), strict=True):
        np.testing.assert_allclose(Q, one_pass, rtol=0, atol=1e-12)


def test_rows_that_a_relabeler_dropped_have_posteriors_at_the_refresh():
    fed = fit(batches(), relabeler=Flip(keep=lambda y: y > 0), relabel_every=2)
    assert fed.history_[4].n_samples == np.count_nonzero(Y)
    assert [len(Q) for Q in posteriors_seen()] == [15] * 8
    for Q in posteriors_seen():
        np.testing.assert_allclose(Q.sum(1), 1, atol=1e-12)


# --- when -----------------------------------------------------------------------------------------------


def test_each_refresh_uses_the_round_before_it():
    fit(n_rounds=8, relabel_every=2)
    got = posteriors_seen()
    assert len(got) == 12  # rounds 3, 5, 7
    for k, round in enumerate((3, 5, 7)):
        settings = {"n_rounds": round - 1} | ({"relabel_every": 2} if round > 3 else {"relabeler": None})
        received = fit(**settings)
        for Q, key in zip(got[4 * k : 4 * k + 4], "abcd", strict=True):
            np.testing.assert_allclose(Q, received.predict_proba(X[key == GROUPS]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("every", [1, 2, 50])
def test_with_all_clients_the_rounds_are_those_of_one_pass(every):
    recorded = fit(n_rounds=8, relabel_every=every)
    passed = fit(n_rounds=8, relabel_every=every, relabel_posteriors=None)
    assert rounds_of(recorded) == rounds_of(passed)


def some_of_the_clients(late="next", **params):
    settings = {"n_rounds": 14, "participation": 0.5, "random_state": 3}
    return fit(relabel_posteriors=TRAINING | {"late": late}, **(settings | params))


def test_who_was_absent_records_when_there_and_relabels_one_participation_later():
    fed = some_of_the_clients()
    expected, late = {}, 0
    for key in "abcd":
        there = [r.round for r in fed.history_ if r.round >= 2 and key in r.participants]
        late += there[0] > 2
        expected.setdefault(there[1], []).append(key)
    assert late == 2
    assert rounds_of(fed) == {round: tuple(keys) for round, keys in sorted(expected.items())}


def test_a_late_client_uses_what_it_recorded_when_it_last_took_part():
    """Full batches: the posterior of the model that it then received."""
    fed = some_of_the_clients()
    order = [(round, key) for round, keys in rounds_of(fed).items() for key in keys]
    got = posteriors_seen()
    for (round, key), Q in zip(order, got, strict=True):
        last = max(r.round for r in fed.history_ if r.round < round and key in r.participants)
        received = some_of_the_clients(n_rounds=last)
        np.testing.assert_allclose(Q, received.predict_proba(X[key == GROUPS]), rtol=0, atol=1e-12)


def test_never_needs_both_rounds():
    fed = some_of_the_clients("never", n_rounds=16, relabel_every=1)
    expected = {}
    for before, now in zip(fed.history_[2:-1], fed.history_[3:], strict=True):
        both = tuple(key for key in now.participants if key in before.participants)
        if both:
            expected[now.round] = both
    assert rounds_of(fed) == expected
    assert any(len(keys) == 1 for keys in expected.values())
    once = some_of_the_clients("never")
    assert set(rounds_of(once)) <= {3}


def test_a_client_that_is_left_without_rows_keeps_its_labels():
    rare = np.where(GROUPS == "b", 2, np.where(Y == 2, 1, Y))
    fed = fit(y=rare, relabeler=Flip(keep=lambda y: y != 2), relabel_every=1)
    assert rounds_of(fed)[3] == ("a", "b", "c", "d")
    assert rounds_of(fed)[4] == rounds_of(fed)[5] == ("a", "c", "d")


# --- what does not change -------------------------------------------------------------------------------


@pytest.mark.parametrize("module", [Logits, WithBatchNorm, WithDropout])
@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_tau_zero_equals_no_relabeler_bit_for_bit(module, engine):
    common = {"engine": engine, "relabel_every": 1, "participation": 0.8, "local_data": Halves()}
    zero = fit(batches(module), relabeler=FedReLaRelabeler(0.0), **common)
    none = fit(batches(module), relabeler=None, **common)
    assert_same_weights(zero, none)
    assert rounds_of(zero)
    assert [r.train_loss for r in zero.history_] == [r.train_loss for r in none.history_]


@pytest.mark.parametrize("engine", ["loop", "stacked"])
@pytest.mark.parametrize("algorithm", ["fedavg", "local_only", "scaffold"])
def test_nothing_more_travels(engine, algorithm):
    recorded, passed = (
        fit(batches(), engine=engine, algorithm=algorithm, relabel_every=1, relabel_posteriors=settings)
        for settings in (TRAINING, None)
    )
    for name in ("bytes_up", "bytes_down", "n_steps", "n_samples"):
        np.testing.assert_array_equal(recorded.history_.column(name), passed.history_.column(name))


@pytest.mark.parametrize(("every", "holding"), [(None, {1}), (1, {1, 2})])
def test_what_is_recorded_is_used_once_and_never_in_vain(every, holding):
    """Rounds after which clients hold posteriors: before a relabeling, and not after the last round."""
    specs = [make_spec(k, np.flatnonzero(np.arange(60) % 4 == k), k) for k in range(4)]
    settings = {"relabel_posteriors": TRAINING | {"late": "next"}, "first_relabel": 2, "relabel_every": every}
    simulation, state = make_conductor(X, Y, specs, relabeler=FedReLaRelabeler(0.1), n_rounds=4, **settings)
    sizes = []
    for round in range(4):
        simulation.run_round(state, round)
        sizes.append(
            {position: tuple(own["posteriors"].shape) for position, own in state.clients.recorded.items()}
        )
    all_rows = dict.fromkeys(range(4), (15, 3))
    assert sizes == [all_rows if round in holding else {} for round in range(4)]


def test_what_a_client_records_does_not_depend_on_the_others():
    specs = [make_spec(k, np.flatnonzero(np.arange(60) % 4 == k), k) for k in range(4)]
    settings = {"relabel_posteriors": TRAINING | {"late": "next"}, "first_relabel": 1}
    answers = []
    for poison in (False, True):
        rows = np.where((np.arange(60) % 4 == 2)[:, None] | (not poison), X, np.nan)
        simulation, state = make_conductor(
            rows, Y, specs, net=batches(), relabeler=FedReLaRelabeler(0.1), **settings
        )
        simulation.present = simulation.present if not poison else [specs[2]]
        simulation.run_round(state, 0)
        answers.append(state.clients.recorded[2]["posteriors"])
    assert torch.equal(*answers)
