"""Validation rows, which round's model is kept, and BatchNorm's rules over whole runs."""

import numpy as np
import pytest
import torch
from sklearn.metrics import balanced_accuracy_score, log_loss

from fedrela_sk import FedReLaRelabeler
from fedrela_sk.exceptions import LabelError, PartitionError
from tests.federation.helpers import (
    WithBatchNorm,
    assert_close_weights,
    assert_same_weights,
    make_fed,
    make_net,
    make_rows,
    weights_of,
)

X, Y = make_rows(80)
X_VAL, Y_VAL = make_rows(40, seed=1)


def test_a_share_of_each_client_is_set_aside():
    groups = np.repeat([0, 1, 2], [40, 37, 3])
    fed = make_fed(clients=None, validation=0.25).fit(X, Y, groups=groups)
    assert fed.history_[0].n_samples == 30 + 28 + 3
    assert fed.class_count_.sum() == 61
    assert [len(rows) for rows in fed.clients_] == [40, 37, 3]  # the rows of a client are all of its rows


def test_scores_are_those_of_the_model_of_each_round():
    fed = make_fed(n_rounds=4).fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    for n_rounds in (1, 4):
        short = make_fed(n_rounds=n_rounds).fit(X, Y)
        record, Q = fed.history_[n_rounds - 1], short.predict_proba(X_VAL)
        assert record.valid_loss == pytest.approx(log_loss(Y_VAL, Q), rel=1e-12)
        assert record.valid_score == balanced_accuracy_score(Y_VAL, Q.argmax(1))
    assert_same_weights(fed, make_fed(n_rounds=4).fit(X, Y))


def test_validation_rows_of_the_callers_kind():
    names = np.array(["x", "y", "z"])
    fed = make_fed().fit(X, names[Y], X_val=X_VAL.tolist(), y_val=names[Y_VAL].tolist())
    assert np.isfinite(fed.history_.column("valid_score")).all()
    one = make_fed().fit(X, Y, X_val=X_VAL[:1], y_val=Y_VAL[:1])
    assert set(one.history_.column("valid_score")) <= {0.0, 1.0}


def test_weights_of_validation_rows_count():
    weights = np.random.default_rng(0).integers(0, 3, 80).astype(float)
    fed = make_fed(clients=1, validation=0.4, n_rounds=1).fit(X, Y, sample_weight=weights)
    held = np.setdiff1d(np.arange(80), _trained_rows(fed))
    Q = fed.predict_proba(X[held])
    expected = log_loss(Y[held], Q, sample_weight=weights[held], labels=[0, 1, 2])
    assert fed.history_[0].valid_loss == pytest.approx(expected, rel=1e-12)


def _trained_rows(fed):
    from fedrela_sk.federation.setup._validation import hold_out
    from tests.federation.helpers import make_spec

    return hold_out(make_spec(0, np.arange(80)), fed.validation, seed=0).train_rows


@pytest.mark.parametrize(
    ("params", "data", "message"),
    [
        (
            {"validation": 0.2},
            {"X_val": X_VAL, "y_val": Y_VAL},
            r"Both validation=0.2 and X_val, y_val.*Use one",
        ),
        ({}, {"X_val": X_VAL}, "X_val and y_val belong together: pass both or neither"),
        ({}, {"y_val": Y_VAL}, "X_val and y_val belong together: pass both or neither"),
        (
            {},
            {"X_val": X_VAL, "y_val": Y_VAL[:3]},
            "X_val has 40 rows, but y_val has 3. Pass one label per row",
        ),
        (
            {},
            {"X_val": X_VAL[:, :2], "y_val": Y_VAL},
            "X has 2 features, but FederatedClassifier is expecting 3",
        ),
        (
            {"select": "best_validation"},
            {},
            "select='best_validation' needs validation rows. Set validation=share",
        ),
        (
            {"validation": 0.03},
            {},
            r"validation=0.03 sets no row .*aside: the largest client has 27 rows.*larger share",
        ),
    ],
)
def test_validation_that_makes_no_sense(params, data, message):
    with pytest.raises(ValueError, match=message):
        make_fed(**params).fit(X, Y, **data)


def test_an_unknown_validation_label_is_named():
    with pytest.raises(LabelError, match=r"y_val has the label 9 in row 2.*classes \[0, 1, 2\] of y"):
        make_fed().fit(X, Y, X_val=X_VAL[:3], y_val=[0, 1, 9])


def test_rows_with_a_weight_must_be_on_both_sides():
    weights = np.zeros(80)
    weights[_trained_rows(make_fed(validation=0.4))[0]] = 1
    with pytest.raises(ValueError, match="sets no row with a weight aside"):
        make_fed(clients=1, validation=0.4).fit(X, Y, sample_weight=weights)
    with pytest.raises(
        PartitionError, match=r"All clients are empty: validation=0.4 set every row with a weight"
    ):
        make_fed(clients=1, validation=0.4).fit(
            X,
            Y,
            sample_weight=(~np.isin(np.arange(80), _trained_rows(make_fed(validation=0.4)))).astype(float),
        )


def wavering(**params):
    """A federation whose score goes up and down."""
    return make_fed(make_net(lr=8.0), clients=4, n_rounds=8, participation=0.5, **params)


def test_the_best_round_is_kept():
    best = wavering(select="best_validation").fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    scores = best.history_.column("valid_score")
    n_best = int(np.argmax(scores)) + 1
    assert 1 < n_best < 8
    assert_same_weights(
        best, make_fed(make_net(lr=8.0), clients=4, n_rounds=n_best, participation=0.5).fit(X, Y)
    )
    assert balanced_accuracy_score(Y_VAL, best.predict(X_VAL)) == scores.max()
    assert len(best.history_) == 8
    assert best.history_.notes == []
    last = wavering().fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    assert_same_weights(last, wavering().fit(X, Y))


def test_a_best_round_before_the_relabel_round_is_noted():
    params = {"select": "best_validation", "relabeler": FedReLaRelabeler(0.3)}
    late = wavering(relabel_at=7, **params).fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    n_best = int(np.argmax(late.history_.column("valid_score")))
    assert n_best < 7
    (note,) = late.history_.notes
    assert note.startswith(f"select='best_validation' kept round {n_best} (balanced accuracy 0.")
    assert note.endswith("the relabel round 7: the selected model never saw new labels.")
    early = wavering(relabel_at=1, **params).fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    assert int(np.argmax(early.history_.column("valid_score"))) >= 1
    assert early.history_.notes == []


def test_a_select_works_with_a_share_too():
    fed = wavering(select="best_validation", validation=0.3).fit(X, Y)
    assert np.isfinite(fed.history_.column("valid_score")).all()


# BatchNorm --------------------------------------------------------------------------------------------

NET = make_net(WithBatchNorm, batch_size=4)


def test_a_last_batch_of_one_row_joins_its_neighbor_only_with_batch_norm():
    groups = np.repeat([0, 1, 2], [9, 8, 63])
    with_norm = make_fed(NET, clients=None, n_rounds=1).fit(X, Y, groups=groups)
    without = make_fed(make_net(batch_size=4), clients=None, n_rounds=1).fit(X, Y, groups=groups)
    assert with_norm.history_[0].n_steps == 2 + 2 + 16
    assert without.history_[0].n_steps == 3 + 2 + 16


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_a_client_of_one_row_trains_in_evaluation_mode_and_that_is_recorded(engine):
    groups = np.repeat(["big", "one"], [79, 1])
    fed = make_fed(NET, clients=None, n_rounds=2, engine=engine).fit(X, Y, groups=groups)
    for record in fed.history_:
        assert record.notes == ("client 'one' has one row: BatchNorm in evaluation mode",)
        assert record.participants == ("big", "one")
    assert np.isfinite(fed.predict_proba(X)).all()


def test_float_buffers_are_averaged_by_rows_and_counters_take_the_maximum():
    groups = np.repeat(["a", "b"], [50, 30])
    fed = make_fed(NET, clients=None, n_rounds=1).fit(X, Y, groups=groups)
    alone = [
        weights_of(make_fed(NET, clients=None, n_rounds=1).fit(X[own], Y[own], groups=groups[own]))
        for own in (groups == "a", groups == "b")
    ]
    together = weights_of(fed)
    assert [one["1.num_batches_tracked"] for one in alone] == [13, 8]
    assert together["1.num_batches_tracked"] == 13
    assert fed.net_.module_.state_dict()["1.num_batches_tracked"].dtype == torch.int64
    expected = {
        name: (50 * alone[0][name] + 30 * alone[1][name]) / 80 for name in together if "tracked" not in name
    }
    assert_close_weights({name: together[name] for name in expected}, expected, atol=1e-12)


def test_statistics_of_batches_are_used_in_training():
    torch.manual_seed(0)
    shifted = X + 100.0
    fed = make_fed(NET, n_rounds=3).fit(shifted, Y)
    assert weights_of(fed)["1.running_mean"].std() > 1
