"""Rules of participation inside a federation: who trains, from which model, with which weight, at what cost."""

import numpy as np
import pytest

from fedrela_sk._random import Purpose, numpy_stream
from fedrela_sk.algorithms import LocalOnly
from fedrela_sk.federation.clients._sampling import sample_cohort
from fedrela_sk.participation import (
    Choice,
    ClusteredSampling,
    Mediators,
    OptimalSampling,
    Participation,
    UniformSampling,
)
from tests.algorithms.helpers import GROUPS, TwoLayers, X, Y, fit, local_sgd, three_classes, weight
from tests.federation.helpers import make_spec

START, LR, STEPS = 0.5, 0.5, 2
FOUR = np.array([0, 0, 1, 2, 2, 3])  # clients of 2, 1, 2 and 1 rows
MODEL = 8  # bytes of the one weight
UPDATE = MODEL + 8  # and its own


def end_of(client, groups=GROUPS, start=START):
    own = groups == client
    return local_sgd(start, X[own], Y[own], LR, STEPS)


def four(rule, **params):
    return fit("fedavg", data=(X, Y, FOUR), participation=rule, **params)


@pytest.mark.parametrize("share", [0.3, 0.7, 1.0])
def test_uniform_sampling_is_a_share_of_the_clients(share):
    data = three_classes(n_clients=7)
    a, b = (
        fit("fedavg", TwoLayers, data, n_rounds=4, participation=rule).predict_proba(data[0])
        for rule in (share, UniformSampling(share))
    )
    np.testing.assert_array_equal(a, b)


def test_clustered_sampling_weighs_by_how_often_a_client_was_drawn():
    fed = four(ClusteredSampling(0.5), random_state=3)
    choice = ClusteredSampling(0.5).choose(0, numpy_stream(3, Purpose.PARTICIPATION, 0), [2, 1, 2, 1])
    ends = [end_of(group[0], FOUR) for group in choice.groups]
    assert weight(fed) == pytest.approx(np.average(ends, weights=choice.weights), abs=1e-14)
    assert fed.history_[0].participants == tuple(sorted(group[0] for group in choice.groups))
    assert fed.history_[0].bytes_up == UPDATE * len(ends)


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_optimal_sampling_adds_displacements_by_their_absolute_weights(engine):
    rule = OptimalSampling(0.5)
    fed = four(rule, random_state=1, engine=engine)
    sizes = np.array([2, 1, 2, 1])
    moved = np.array([end_of(client, FOUR) for client in range(4)]) - START
    senders, absolute = rule.select(0, numpy_stream(1, Purpose.SELECTION, 0), sizes, np.abs(moved))
    assert 0 < len(senders) < 4
    assert abs(absolute.sum() - 1) > 0.01
    assert weight(fed) == pytest.approx(START + (absolute * moved[senders]).sum(), abs=1e-14)
    record = fed.history_[0]
    assert record.participants == (0, 1, 2, 3)
    assert record.bytes_up == UPDATE * len(senders) + 4 * 8  # and every client's norm
    assert record.bytes_down == 4 * MODEL


def test_optimal_sampling_of_everybody_is_fedavg():
    assert weight(four(OptimalSampling(1.0))) == pytest.approx(weight(four(1.0)), abs=1e-15)


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_mediators_hand_the_model_on(engine):
    fed = four(Mediators(n_clients=2), engine=engine)
    counts = np.array([np.bincount(Y[client == FOUR], minlength=2) for client in range(4)])
    groups = Mediators(n_clients=2).choose(0, np.random.default_rng(0), counts.sum(1), counts).groups
    assert sorted(map(len, groups)) == [2, 2]
    ends = [end_of(second, FOUR, start=end_of(first, FOUR)) for first, second in groups]
    rows = [counts[list(group)].sum() for group in groups]
    assert weight(fed) == pytest.approx(np.average(ends, weights=rows), abs=1e-14)
    record = fed.history_[0]
    assert sorted(record.participants) == [0, 1, 2, 3]
    assert record.bytes_up == 4 * (UPDATE + 2 * 8)  # and a histogram of two classes each
    assert record.bytes_down == 4 * MODEL


def test_a_chain_weighs_by_default_as_much_as_its_clients():
    class Pairs(Participation):
        def __init__(self, share=1.0):
            self.share = share

        def _choose(self, round, stream, sizes, counts):
            return Choice(((0, 1), (2,), (3,)))

    ends = [end_of(1, FOUR, start=end_of(0, FOUR)), end_of(2, FOUR), end_of(3, FOUR)]
    assert weight(four(Pairs())) == pytest.approx(np.average(ends, weights=[3, 2, 1]), abs=1e-14)
    with_weights = four(Pairs(), client_weight=[1.0, 3.0, 2.0, 4.0])
    assert weight(with_weights) == pytest.approx(np.average(ends, weights=[4, 2, 4]), abs=1e-14)


def test_mediators_of_one_client_are_fedavg():
    assert weight(four(Mediators(n_clients=1), n_rounds=3)) == pytest.approx(
        weight(four(1.0, n_rounds=3)), abs=1e-15
    )


@pytest.mark.parametrize(
    "rule", [ClusteredSampling(0.5), OptimalSampling(0.5), Mediators(2, share=0.7)], ids=repr
)
def test_engines_agree_and_workers_change_nothing(rule):
    data = three_classes(n_clients=6)
    settings = {"module": TwoLayers, "data": data, "n_rounds": 4, "participation": rule}
    settings["net"] = {"batch_size": 7, "iterator_train__shuffle": True}
    loop, stacked, workers = (
        fit("fedavg", **settings, **how).predict_proba(data[0])
        for how in ({"engine": "loop"}, {"engine": "stacked"}, {"engine": "stacked", "n_jobs": 2})
    )
    np.testing.assert_allclose(loop, stacked, atol=1e-10)
    np.testing.assert_array_equal(stacked, workers)


def test_a_chain_goes_on_without_a_client_that_has_no_row_left():
    class DropFirst:
        """Takes every row of the first client out of training."""

        def fit(self, Q, y):
            return self

        def relabel(self, Q, y, uniforms=None):
            return y, np.full(len(y), len(y) != 4)

    fed = fit("fedavg", n_rounds=2, relabeler=DropFirst(), relabel_at=1, participation=Mediators(2))
    first = fit("fedavg", n_rounds=1, participation=Mediators(2))
    assert fed.history_[1].participants == (1,)
    assert weight(fed) == pytest.approx(end_of(1, start=weight(first)), abs=1e-14)


@pytest.mark.parametrize("rule", [ClusteredSampling(0.5), OptimalSampling(0.5), Mediators(2)], ids=repr)
def test_methods_whose_clients_send_no_model_are_refused(rule):
    with pytest.raises(ValueError, match=r"does not go with LocalOnly.*UniformSampling"):
        fit(LocalOnly(), participation=rule)
    fit(LocalOnly(), participation=UniformSampling(0.5))


def test_a_rule_out_of_range_is_refused_at_the_first_round():
    with pytest.raises(ValueError, match="share"):
        fit("fedavg", participation=ClusteredSampling(1.5))


def test_groups_are_ordered_by_their_first_client():
    class Rule(Participation):
        needs_counts = False

        def choose(self, round, stream, sizes, counts):
            return Choice(((3, 0), (1,), (2,)), weights=(5.0, 1.0, 2.0))

        _choose = choose

        def report_nbytes(self, n_classes):
            return 0

    specs = [make_spec(key, [key], key) for key in range(4)]
    cohort = sample_cohort(Rule(), specs, 0, 0, sizes=np.ones(4), counts=None)
    assert [[spec.key for spec in group] for group in cohort.groups] == [[1], [2], [3, 0]]
    assert cohort.weights == {1: 1.0, 2: 2.0, 0: 5.0}
    assert [spec.key for spec in cohort.specs] == [0, 1, 2, 3]
