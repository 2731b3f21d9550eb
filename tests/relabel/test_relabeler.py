"""FedReLaRelabeler: reference numbers, worked example, what `fit` and `relabel` do."""

import doctest
import pickle
from pathlib import Path

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import fedrela_sk
from fedrela_sk._random import Purpose, uniforms
from fedrela_sk.relabel import FedReLaRelabeler, _relabeler
from tests.relabel.made_rows import WORKED_EXAMPLE, long_tailed_rows

RELEASED = {"ddof": 0, "min_scale": 1e-6, "threshold": "order_statistic", "target": "argmax_of_successes"}
REFERENCE = np.load(Path(__file__).parents[1] / "reference" / "relabel_reference.npz")
CASES = sorted({name.split("_")[0] for name in REFERENCE})

Q, Y = long_tailed_rows(0, 300, 4)


class TestReferenceNumbers:
    """Computed by the released code."""

    def test_all_cases_are_there(self):
        assert CASES == ["case1", "case3", "case5", "case7"]

    @pytest.mark.parametrize("case", CASES)
    def test_every_number_to_1e_12_and_every_new_label(self, case):
        given = {
            name.removeprefix(f"{case}_"): REFERENCE[name] for name in REFERENCE if name.startswith(case)
        }
        rows, y = given["Q"], given["y"]
        relabeler = FedReLaRelabeler(float(given["tau"]), classes=np.arange(rows.shape[1]), **RELEASED).fit(
            rows, y
        )
        pairs = [
            (relabeler.prior_weight_, "prior_weight"),
            (relabeler.mean_, "mean"),
            (relabeler.scale_, "std"),
            (relabeler.threshold_, "threshold"),
            (relabeler.relabel_proba(rows, y), "rho"),
        ]
        for ours, name in pairs:
            assert_allclose(ours, given[name], rtol=0, atol=1e-12, err_msg=name)
        y_new = relabeler.relabel(rows, y, uniforms=given["uniform"])
        assert_array_equal(y_new, given["y_new"])
        assert np.any(y_new != y)


class TestWorkedExample:
    """Six rows, three classes, one of them absent, tau = 0.2."""

    ROWS = WORKED_EXAMPLE
    LABELS = np.array([0, 0, 0, 0, 1, 1])

    @pytest.mark.parametrize(
        ("setting", "scale", "z2", "z3", "threshold", "rho"),
        [
            (
                RELEASED,
                [0.1118, 0.0466, 0.1092],
                [-0.4472, 1.4494, -0.1603],
                [-1.3416, -0.6979, 1.6717],
                [1, 1, 0],
                {(2, 1): 0.2107, (3, 2): 0.9318},
            ),
            (
                {},
                [0.1291, 0.0538, 0.1261],
                [-0.3873, 1.2552, -0.1388],
                [-1.1619, -0.6044, 1.4477],
                [0.7071, 0.7071, 0],
                {(2, 1): 0.2496, (3, 2): 0.8952},
            ),
        ],
        ids=["released code", "paper"],
    )
    def test_every_number(self, setting, scale, z2, z3, threshold, rho):
        relabeler = FedReLaRelabeler(0.2, **setting).fit(self.ROWS, self.LABELS)
        assert_array_equal(relabeler.classes_, [0, 1, 2])
        assert_array_equal(relabeler.class_count_, [4, 2, 0])
        assert_array_equal(relabeler.prior_weight_, [0, 0.5, 1])
        assert_allclose(relabeler.mean_[:2], [[0.75, 0.1325, 0.1175], [0.2, 0.7, 0.1]], rtol=1e-14)
        assert_allclose(relabeler.scale_[0], scale, atol=5e-5)
        assert_allclose((self.ROWS[2] - relabeler.mean_[0]) / relabeler.scale_[0], z2, atol=5e-5)
        assert_allclose((self.ROWS[3] - relabeler.mean_[0]) / relabeler.scale_[0], z3, atol=5e-5)
        assert_allclose(relabeler.threshold_, threshold, atol=5e-5)
        expected = np.zeros((6, 3))
        for entry, value in rho.items():
            expected[entry] = value
        assert_allclose(relabeler.relabel_proba(self.ROWS, self.LABELS), expected, atol=5e-5)

    def test_the_report_says_which_rows_changed_and_why(self):
        relabeler = FedReLaRelabeler(0.2).fit(self.ROWS, self.LABELS)
        y_new = relabeler.relabel(self.ROWS, self.LABELS, uniforms=np.full((6, 3), 0.24))
        assert_array_equal(y_new, [0, 0, 1, 2, 1, 1])
        report = relabeler.report()
        assert_array_equal(report.row, [2, 3])
        assert_array_equal(report.old, [0, 0])
        assert_array_equal(report.new, [1, 2])
        assert_array_equal(report.posterior, [0.2, 0.3])
        assert_allclose(report.z, [1.2552, 1.4477], atol=5e-5)
        assert_allclose(report.threshold, [0.7071, 0], atol=5e-5)
        assert_allclose(report.rho, [0.2496, 0.8952], atol=5e-5)


class TestFit:
    def test_what_it_learns(self):
        relabeler = FedReLaRelabeler()
        assert relabeler.fit(Q, Y) is relabeler
        assert relabeler.n_features_in_ == 4
        assert_array_equal(relabeler.class_count_, np.bincount(Y))
        for name in ("mean_", "scale_"):
            assert getattr(relabeler, name).shape == (4, 4)
        for name in ("classes_", "class_count_", "prior_weight_", "threshold_"):
            assert getattr(relabeler, name).shape == (4,)

    def test_the_inputs_are_left_alone(self):
        rows, y = Q.copy(), Y.copy()
        relabeler = FedReLaRelabeler(0.3, random_state=0).fit(rows, y)
        relabeler.relabel(rows, y)
        relabeler.transform(rows)
        relabeler.relabel_proba(rows, y)
        assert_array_equal(rows, Q)
        assert_array_equal(y, Y)

    def test_the_defaults_are_the_papers(self):
        spelled = FedReLaRelabeler(
            0.05, normalization="zscore_tanh", ddof=1, min_scale=0, threshold="quantile", target="argmax"
        )
        assert_array_equal(
            spelled.fit(Q, Y).relabel_proba(Q, Y), FedReLaRelabeler().fit(Q, Y).relabel_proba(Q, Y)
        )

    def test_integer_weights_equal_repeated_rows(self):
        times = np.random.default_rng(0).integers(0, 4, len(Y))
        for threshold in ("quantile", "order_statistic"):
            for ddof in (0, 1):
                one = FedReLaRelabeler(0.1, threshold=threshold, ddof=ddof).fit(Q, Y, sample_weight=times)
                two = clone(one).fit(np.repeat(Q, times, axis=0), np.repeat(Y, times))
                for name in ("class_count_", "prior_weight_", "mean_", "scale_", "threshold_"):
                    assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-12, atol=1e-14)
                assert_allclose(one.relabel_proba(Q, Y), two.relabel_proba(Q, Y), rtol=0, atol=1e-12)
                draws = np.random.default_rng(1).random(Q.shape)
                assert_array_equal(one.relabel(Q, Y, uniforms=draws), two.relabel(Q, Y, uniforms=draws))

    def test_rows_of_weight_zero_are_left_out_even_of_the_classes(self):
        rows = np.vstack([Q, [[0.1, 0.2, 0.3, 0.4]]])
        weights = np.append(np.ones(len(Y)), 0)
        left_out = FedReLaRelabeler().fit(rows, np.append(Y, 99), sample_weight=weights)
        assert_array_equal(left_out.classes_, [0, 1, 2, 3])
        assert_array_equal(left_out.relabel_proba(Q, Y), FedReLaRelabeler().fit(Q, Y).relabel_proba(Q, Y))

    def test_balanced_weights_make_all_counts_equal(self):
        weights = sklearn.utils.class_weight.compute_sample_weight("balanced", Y)
        relabeler = FedReLaRelabeler(0.5).fit(Q, Y, sample_weight=weights)
        assert_array_equal(relabeler.prior_weight_, np.ones(4))
        assert not relabeler.relabel_proba(Q, Y).any()

    def test_fit_forgets_the_last_report(self):
        relabeler = FedReLaRelabeler(0.3).fit(Q, Y)
        relabeler.relabel(Q, Y)
        assert len(relabeler.report()) > 0
        relabeler.fit(Q, Y)
        with pytest.raises(
            NotFittedError, match=r"got no call of `relabel` since `fit`. Call relabel\(Q, y\)"
        ):
            relabeler.report()


class TestTau:
    @pytest.mark.parametrize("normalization", ["zscore_tanh", "minmax", "none"])
    @pytest.mark.parametrize("threshold", ["quantile", "order_statistic"])
    @pytest.mark.parametrize("n_classes", [2, 4])
    def test_zero_relabels_nothing_seen_or_new(self, normalization, threshold, n_classes):
        rows, y = long_tailed_rows(1, 100, n_classes)
        new, _ = long_tailed_rows(2, 100, n_classes)
        relabeler = FedReLaRelabeler(0, normalization=normalization, threshold=threshold).fit(rows, y)
        assert_array_equal(relabeler.threshold_, np.full(n_classes, np.inf))
        assert_array_equal(relabeler.relabel(rows, y, uniforms=np.zeros(rows.shape)), y)
        for q in (rows, new):
            assert not relabeler.relabel_proba(q, y).any()
            assert_array_equal(relabeler.transform(q), q)

    def test_no_row_above_the_order_statistic_does_the_same(self):
        rows, y = long_tailed_rows(1, 19, 3)
        new = np.eye(3)
        relabeler = FedReLaRelabeler(0.05, threshold="order_statistic").fit(rows, y)
        assert_array_equal(relabeler.threshold_, np.full(3, np.inf))
        assert_array_equal(relabeler.transform(new), new)
        assert not relabeler.relabel_proba(new, [0, 0, 0]).any()

    def test_one_takes_the_smallest_z(self):
        for threshold in ("quantile", "order_statistic"):
            relabeler = FedReLaRelabeler(1.0, threshold=threshold).fit(Q, Y)
            z = (Q - relabeler.mean_[Y]) / np.where(relabeler.scale_ == 0, 1, relabeler.scale_)[Y]
            assert_allclose(relabeler.threshold_, z.min(axis=0), rtol=1e-12)

    @pytest.mark.parametrize("target", ["argmax", "argmax_of_successes"])
    @pytest.mark.parametrize("threshold", ["quantile", "order_statistic"])
    def test_rows_changed_are_nested_in_tau(self, threshold, target):
        draws = np.random.default_rng(0).random(Q.shape)
        changed = np.zeros(len(Y), dtype=bool)
        for tau in (0, 0.002, 0.005, 0.01, 0.03, 0.05, 0.2, 0.7, 1):
            relabeler = FedReLaRelabeler(tau, threshold=threshold, target=target).fit(Q, Y)
            now = relabeler.relabel(Q, Y, uniforms=draws) != Y
            assert np.all(now[changed])
            changed = now
        assert changed.sum() > 100


class TestRelabel:
    def test_given_uniforms_decide(self):
        relabeler = FedReLaRelabeler(0.3).fit(Q, Y)
        rho = relabeler.relabel_proba(Q, Y)
        all_succeed = relabeler.relabel(Q, Y, uniforms=np.zeros(Q.shape))
        assert_array_equal(all_succeed, np.where(rho.any(axis=1), rho.argmax(axis=1), Y))
        assert_array_equal(relabeler.relabel(Q, Y, uniforms=rho), Y)

    def test_random_state_names_the_uniforms(self):
        relabeler = FedReLaRelabeler(0.3, random_state=7).fit(Q, Y)
        y_new = relabeler.relabel(Q, Y)
        assert_array_equal(y_new, relabeler.relabel(Q, Y))
        assert_array_equal(y_new, relabeler.relabel(Q, Y, uniforms=uniforms(7, Purpose.RELABEL, Q.shape)))
        assert np.any(y_new != clone(relabeler).set_params(random_state=8).fit(Q, Y).relabel(Q, Y))

    def test_without_random_state_calls_differ(self):
        relabeler = FedReLaRelabeler(0.3).fit(Q, Y)
        assert np.any(relabeler.relabel(Q, Y) != relabeler.relabel(Q, Y))

    def test_it_starts_from_the_labels_it_is_given(self):
        relabeler = FedReLaRelabeler(0.3, random_state=0).fit(Q, Y)
        once = relabeler.relabel(Q, Y)
        assert_array_equal(relabeler.relabel(Q, Y), once)
        assert np.all(once[~np.isin(np.arange(len(Y)), relabeler.report().row)] == Y[once == Y])

    def test_a_floor_and_a_ceiling(self):
        draws = np.zeros(Q.shape)
        counts = np.bincount(Y, minlength=4)
        free = FedReLaRelabeler(0.5).fit(Q, Y).relabel(Q, Y, uniforms=draws)
        floor = counts[0] - 20
        kept = FedReLaRelabeler(0.5, min_remaining=floor).fit(Q, Y)
        y_new = kept.relabel(Q, Y, uniforms=draws)
        assert np.sum((Y == 0) & (free != 0)) > 20
        assert np.sum((Y == 0) & (y_new != 0)) == 20
        rho = kept.relabel_proba(Q, Y).max(axis=1)
        left = (Y == 0) & (y_new != 0)
        assert rho[left].min() >= rho[(Y == 0) & (free != 0) & ~left].max()
        y_new = FedReLaRelabeler(0.5, max_ratio=0.5).fit(Q, Y).relabel(Q, Y, uniforms=draws)
        entered = np.bincount(y_new[y_new != Y], minlength=4)
        assert np.all(entered <= np.ceil(0.5 * counts))
        assert entered[3] == np.ceil(0.5 * counts[3]) < np.sum((free == 3) & (Y != 3))

    def test_limits_count_rows_not_weights(self):
        weights = np.where(Y == 0, 5.0, 0.25)
        relabeler = FedReLaRelabeler(0.5, min_remaining=np.sum(Y == 0) - 3).fit(Q, Y, sample_weight=weights)
        y_new = relabeler.relabel(Q, Y, uniforms=np.zeros(Q.shape))
        assert np.sum((Y == 0) & (y_new != 0)) == 3

    def test_the_report_equals_rho_and_the_posteriors(self):
        relabeler = FedReLaRelabeler(0.3, random_state=0, classes=list("abcd")).fit(
            Q, np.array(list("abcd"))[Y]
        )
        y_new = relabeler.relabel(Q, np.array(list("abcd"))[Y])
        report = relabeler.report()
        new = np.searchsorted(list("abcd"), report.new)
        assert_array_equal(report.row, np.flatnonzero(y_new != np.array(list("abcd"))[Y]))
        assert_array_equal(report.old, np.array(list("abcd"))[Y][report.row])
        assert_array_equal(report.new, y_new[report.row])
        assert_array_equal(report.posterior, Q[report.row, new])
        assert_array_equal(report.rho, relabeler.relabel_proba(Q, np.array(list("abcd"))[Y])[report.row, new])
        assert_array_equal(report.threshold, relabeler.threshold_[new])
        v = relabeler.prior_weight_
        gain = v[new] - v[Y[report.row]]
        assert_allclose(report.rho, np.tanh(report.z - report.threshold) * gain, rtol=1e-14)


class TestEstimator:
    def test_the_examples_run(self):
        failed, tried = doctest.testmod(_relabeler)
        assert (failed, tried) == (0, 8)

    def test_it_is_public(self):
        assert fedrela_sk.FedReLaRelabeler is FedReLaRelabeler

    def test_the_constructor_only_stores(self):
        classes = ["b", "a"]
        relabeler = FedReLaRelabeler(7, classes=classes, input="nonsense")
        assert relabeler.classes is classes
        assert relabeler.get_params()["tau"] == 7

    def test_all_but_tau_are_keywords(self):
        with pytest.raises(TypeError):
            FedReLaRelabeler(0.1, [0, 1])

    def test_it_can_be_pickled_with_its_report(self):
        relabeler = FedReLaRelabeler(0.3, random_state=0).fit(Q, Y)
        relabeler.relabel(Q, Y)
        copy = pickle.loads(pickle.dumps(relabeler))
        assert_array_equal(copy.transform(Q), relabeler.transform(Q))
        assert_array_equal(copy.report().row, relabeler.report().row)

    def test_weights_can_be_routed_and_posteriors_are_no_metadata(self):
        with sklearn.config_context(enable_metadata_routing=True):
            relabeler = FedReLaRelabeler().set_fit_request(sample_weight=True)
            assert relabeler.get_metadata_routing().fit.requests == {"sample_weight": True}
            assert relabeler.get_metadata_routing().transform.requests == {}
