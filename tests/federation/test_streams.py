"""One seed, one result: under any backend, order of clients and of fits, and whatever else draws."""

import pickle
import subprocess
import sys

import joblib
import numpy as np
import pytest
import torch
from sklearn.base import clone
from skorch.callbacks import Callback

from fedrela_sk import DirichletSplit, FedReLaRelabeler
from tests.federation.helpers import (
    WithDropout,
    assert_close_weights,
    assert_same_weights,
    make_fed,
    make_net,
    make_rows,
    weights_of,
)

X, Y = make_rows(60)
GROUPS = np.array(["a", "b", "c", "d"])[np.random.default_rng(0).integers(0, 4, 60)]


def shuffled(**params):
    """A federation in which everything that can be drawn is drawn."""
    net = make_net(WithDropout, batch_size=8, max_epochs=2, iterator_train__shuffle=True)
    defaults = {
        "clients": DirichletSplit(5, alpha=0.5),
        "n_rounds": 4,
        "relabeler": FedReLaRelabeler(0.3),
        "participation": 0.7,
        "relabel_posteriors": {"mode": "train", "passes": 2},
        "validation": 0.2,
    }
    return make_fed(net, **(defaults | params))


def facts(fed):
    """Everything that a seed decides, but for seconds."""
    records = [{k: v for k, v in record.as_dict().items() if k != "seconds"} for record in fed.history_]
    return repr((records, fed.y_relabeled_.tolist(), [rows.tolist() for rows in fed.clients_]))


@pytest.mark.parametrize("engine", ["loop", "auto"])
def test_same_seed_same_result_whatever_torch_and_numpy_hold(engine):
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002
    one = shuffled(engine=engine).fit(X, Y)
    torch.rand(7)
    np.random.rand(7)  # noqa: NPY002
    other = shuffled(engine=engine).fit(X, Y)
    assert_same_weights(one, other)
    assert facts(one) == facts(other)
    assert facts(one) != facts(shuffled(engine=engine, random_state=1).fit(X, Y))


def test_a_fit_leaves_the_global_generators_as_they_were():
    torch.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002
    before, state = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    shuffled().fit(X, Y).predict_proba(X)
    assert torch.equal(before, torch.get_rng_state())
    np.testing.assert_array_equal(state, np.random.get_state()[1])  # noqa: NPY002


def test_a_fit_again_is_the_same_fit():
    fed = shuffled().fit(X, Y)
    first = weights_of(fed)
    fed.fit(X, Y)
    assert_close_weights(weights_of(fed), first, atol=0)


def test_random_state_of_scikit_learns_kinds():
    def weights(random_state):
        return make_fed(random_state=random_state).fit(X, Y)

    state = np.random.RandomState(0)
    assert_same_weights(weights(np.random.RandomState(0)), weights(state))
    with pytest.raises(AssertionError):
        assert_same_weights(weights(np.random.RandomState(0)), weights(state))  # it went on
    np.random.seed(0)  # noqa: NPY002
    one = weights(None)
    np.random.seed(0)  # noqa: NPY002
    assert_same_weights(one, weights(None))
    with pytest.raises(ValueError, match=r"must be an int in the range .* Got -1 instead"):
        weights(-1)


@pytest.mark.parametrize("engine", ["loop", "auto"])
@pytest.mark.parametrize(("backend", "n_jobs"), [("threading", 3), ("loky", 2)])
def test_any_joblib_backend(backend, n_jobs, engine):
    def fit(seed):
        return shuffled(random_state=seed, engine=engine).fit(X, Y)

    expected = [fit(seed) for seed in range(3)]
    before = torch.get_rng_state()
    fitted = joblib.Parallel(n_jobs=n_jobs, backend=backend)(joblib.delayed(fit)(seed) for seed in range(3))
    assert torch.equal(before, torch.get_rng_state())
    for one, other in zip(expected, fitted, strict=True):
        assert_same_weights(one, other)
        assert facts(one) == facts(other)


def test_any_process_and_hash_seed():
    code = (
        "import pickle, sys; from tests.federation.test_streams import *;"
        "fed = shuffled(clients=None).fit(X, Y, groups=GROUPS);"
        "sys.stdout.buffer.write(pickle.dumps((weights_of(fed), facts(fed))))"
    )
    fed = shuffled(clients=None).fit(X, Y, groups=GROUPS)
    printed = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONHASHSEED": "11", "OMP_NUM_THREADS": "1"},
        capture_output=True, check=True,
    ).stdout  # fmt: skip
    weights, told = pickle.loads(printed)
    assert_close_weights(weights, weights_of(fed), atol=0)
    assert told == facts(fed)


def by_group(order=slice(None), names=None, **params):
    groups = GROUPS if names is None else np.array([names[group] for group in GROUPS])
    params = {"validation": None} | params
    return shuffled(clients=None, **params).fit(X[order], Y[order], groups=groups[order])


def test_rows_may_be_put_in_any_order_that_keeps_each_clients_own():
    """Streams are keyed by client, and a row by its place among the client's own rows."""
    order = np.argsort(GROUPS, kind="stable")
    one, other = by_group(), by_group(order)
    assert_same_weights(one, other)
    np.testing.assert_array_equal(one.y_relabeled_[order], other.y_relabeled_)


def test_rows_in_another_order_inside_a_client_are_another_draw_of_batches():
    order = np.arange(60)[::-1]
    with pytest.raises(AssertionError):
        assert_same_weights(by_group(), by_group(order))


def test_full_batches_do_not_see_the_order_of_rows_at_all():
    order = np.random.default_rng(1).permutation(60)
    fed = make_fed(clients=None)
    one = weights_of(clone(fed).fit(X, Y, groups=GROUPS))
    other = weights_of(clone(fed).fit(X[order], Y[order], groups=GROUPS[order]))
    assert_close_weights(one, other, atol=1e-14)


def test_names_of_clients_key_their_streams():
    """Another name, other draws; names that change nothing but the order change the sums' rounding."""
    with pytest.raises(AssertionError):
        assert_same_weights(by_group(), by_group(names={"a": "p", "b": "q", "c": "r", "d": "s"}))
    fed = make_fed(clients=None)
    renamed = np.array([{"a": 4, "b": 3, "c": 2, "d": 1}[group] for group in GROUPS])
    one, other = clone(fed).fit(X, Y, groups=GROUPS), clone(fed).fit(X, Y, groups=renamed)
    assert_close_weights(weights_of(one), weights_of(other), atol=1e-14)


def test_a_clients_draws_do_not_depend_on_the_other_clients():
    def batches_of(groups):
        seen = {}
        # the loss of a client in its first round is a function of its own rows and batches alone
        fed = shuffled(clients=None, participation=1.0, n_rounds=1, validation=None, relabeler=None)
        for key in ("a", "b"):
            own = groups == key
            alone = clone(fed).set_params(random_state=0).fit(X[own], Y[own], groups=groups[own])
            seen[key] = alone.history_[0].train_loss
        return seen

    together = shuffled(clients=None, participation=1.0, n_rounds=1, validation=None, relabeler=None)
    together.fit(X, Y, groups=np.where(np.isin(GROUPS, ["a", "b"]), GROUPS, "a"))
    pooled = np.where(np.isin(GROUPS, ["a", "b"]), GROUPS, "a")
    losses = batches_of(pooled)
    share = np.array([np.mean(pooled == key) for key in ("a", "b")])
    assert together.history_[0].train_loss == pytest.approx(share @ [losses["a"], losses["b"]], rel=1e-6)


class Batches(Callback):
    """The first feature of every row, batch by batch."""

    seen = []

    def on_batch_begin(self, net, batch=None, training=None, **kwargs):
        Batches.seen.append(batch[0][:, 0].tolist())


def batches(shuffle, **net):
    Batches.seen.clear()
    net = make_net(batch_size=8, callbacks=[Batches()], iterator_train__shuffle=shuffle, max_epochs=2, **net)
    make_fed(net, clients=1, n_rounds=2).fit(X, Y)
    sizes = [len(batch) for batch in Batches.seen]
    assert sizes == ([8] * 7 + [4]) * 4
    return np.concatenate(Batches.seen).reshape(4, 60)


def test_batches_are_shuffled_exactly_when_skorch_would():
    plain, mixed = batches(False), batches(True)
    np.testing.assert_array_equal(plain, np.tile(X[:, 0], (4, 1)))
    np.testing.assert_array_equal(np.sort(mixed), np.sort(plain))
    for one in range(4):
        for other in range(one):
            assert not np.array_equal(mixed[one], mixed[other])


def test_the_split_is_drawn_from_the_seed_and_the_splitter_stays():
    splitter = DirichletSplit(5, alpha=0.5)
    one = make_fed(clients=splitter).fit(X, Y)
    other = make_fed(clients=splitter).fit(X, Y)
    assert vars(splitter) == vars(DirichletSplit(5, alpha=0.5))
    assert facts(one) == facts(other)
    assert facts(one) != facts(make_fed(clients=splitter, random_state=1).fit(X, Y))


def test_clients_that_a_splitter_leaves_out_are_recorded():
    fed = make_fed(clients=DirichletSplit(40, alpha=0.05, random_state=0)).fit(X, Y)
    left_out = 40 - len(fed.clients_)
    assert left_out > 0
    assert fed.history_.notes == [f"The splitter left out {left_out} clients without rows."]
    assert fed.history_.empty_clients == ()


def test_participants_do_not_depend_on_what_is_trained():
    one = make_fed(clients=8, participation=0.4, n_rounds=6).fit(X, Y)
    other = make_fed(
        make_net(lr=0.01), clients=8, participation=0.4, n_rounds=6, relabeler=FedReLaRelabeler(0.3)
    )
    other.fit(X, Y)
    participants = [record.participants for record in one.history_]
    assert participants == [record.participants for record in other.history_]
    assert all(len(keys) == 3 for keys in participants)
    assert len(set(participants)) > 1
