import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedrela_sk.relabel import FedReLaRelabeler
from fedrela_sk.relabel.formulas._calibration import _nearest_row, recover_posteriors, transition_row


def fitted(n_classes, target="argmax", tau=0.2, n_rows=400, seed=0):
    """A relabeler fitted on random posteriors of a long tail, the posteriors, and its T and order."""
    rng = np.random.RandomState(seed)
    y = np.repeat(np.arange(n_classes), np.ceil(n_rows / 2.0 ** np.arange(1, n_classes + 1)).astype(int))
    logits = rng.normal(size=(len(y), n_classes)) + 2 * np.eye(n_classes)[y]
    Q = np.exp(logits)
    Q /= Q.sum(axis=1, keepdims=True)
    relabeler = FedReLaRelabeler(tau=tau, target=target).fit(Q, y)
    statistics = relabeler._statistics()
    order = np.argsort(relabeler.prior_weight_, kind="stable")
    return relabeler, Q, lambda values, label: transition_row(values, label, statistics, target), order


@pytest.mark.parametrize("target", ["argmax", "argmax_of_successes"])
@pytest.mark.parametrize("n_classes", [2, 3, 6])
class TestTransition:
    def test_rows_are_distributions(self, target, n_classes):
        _, Q, transition, _ = fitted(n_classes, target)
        for label in range(n_classes):
            row = transition(Q, label)
            assert np.allclose(row.sum(axis=1), 1, atol=1e-14)
            assert (row >= 0).all()

    def test_mixes_to_what_transform_gives(self, target, n_classes):
        relabeler, Q, transition, _ = fitted(n_classes, target)
        mixed = sum(Q[:, [label]] * transition(Q, label) for label in range(n_classes))
        assert np.abs(mixed - Q).max() > 0.05
        assert np.allclose(mixed, relabeler.transform(Q), atol=1e-12)

    def test_is_triangular_in_the_order(self, target, n_classes):
        _, Q, transition, order = fitted(n_classes, target)
        for place, label in enumerate(order):
            assert not transition(Q, label)[:, order[:place]].any()

    def test_frequencies_of_drawn_labels(self, target, n_classes):
        relabeler, Q, transition, _ = fitted(n_classes, target)
        x = np.argmax(1 - transition(Q, 0)[:, 0])  # the row of class 0 that moves most often
        draws = np.repeat(Q[[x]], 20_000, axis=0)
        uniforms = np.random.RandomState(1).uniform(size=draws.shape)
        new = relabeler.relabel(draws, np.zeros(len(draws), int), uniforms=uniforms)
        found = np.bincount(new, minlength=n_classes) / len(new)
        assert np.allclose(found, transition(Q[[x]], 0)[0], atol=0.015)


class TestRecover:
    @pytest.mark.parametrize("target", ["argmax", "argmax_of_successes"])
    @pytest.mark.parametrize("n_classes", [2, 3, 6])
    def test_undoes_transform(self, target, n_classes):
        relabeler, Q, transition, order = fitted(n_classes, target)
        found, saturated = recover_posteriors(transition, order, Q, relabeler.transform(Q))
        assert saturated.mean() < 0.5
        assert np.allclose(found, Q, atol=1e-9)

    def test_two_classes_by_hand(self):
        # rho = 0.5: q̃_1 = q_1 + q_0 / 2
        def half(values, label):
            return np.tile([[0.5, 0.5], [0.0, 1.0]][label], (len(values), 1))

        relabeled = np.array([[0.3, 0.7], [0.5, 0.5], [0.6, 0.4]])
        found, saturated = recover_posteriors(half, [0, 1], np.full((3, 2), 0.5), relabeled)
        # the third is out of reach: even q = (1, 0) gives q̃ = (0.5, 0.5)
        assert np.allclose(found, [[0.6, 0.4], [1.0, 0.0], [1.0, 0.0]])
        assert not saturated.any()

    @pytest.mark.parametrize(
        ("relabeled", "expected"),
        [
            ([0.1, 0.2, 0.7], [0.5, 0.2, 0.3]),  # inside: substitution alone
            ([0.3, 0.2, 0.5], [0.75, 0.25, 0.0]),  # substitution gives (1.5, 0.2, -0.7)
            ([0.21, 0.2, 0.59], [2.628 / 3.36, 0.732 / 3.36, 0.0]),  # and here (1.05, 0.2, -0.25)
        ],
    )
    def test_three_classes_by_hand(self, relabeled, expected):
        # class 0 keeps 0.2 and gives 0.8 to class 2
        T = np.array([[0.2, 0.0, 0.8], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
        found, _ = recover_posteriors(
            lambda values, label: T[[label] * len(values)],
            [0, 1, 2],
            np.full((1, 3), 1 / 3),
            np.array([relabeled]),
        )
        assert np.allclose(found, [expected])

    def test_saturated_rows_get_the_first_stage(self):
        # the second row keeps 0.05 of class 0: its inverse is meaningless
        def transition(values, label):
            return np.array([[[0.2, 0.8], [0.05, 0.95]], [[0, 1], [0, 1]]][label])

        first = np.array([[0.9, 0.1], [0.123, 0.877]])
        found, saturated = recover_posteriors(transition, [0, 1], first, np.array([[0.1, 0.9], [0.0, 1.0]]))
        assert saturated.tolist() == [False, True]
        assert np.allclose(found[0], [0.5, 0.5])
        assert np.array_equal(found[1], first[1])

    @pytest.mark.parametrize(("stays", "expected"), [(0.1, False), (0.0999, True)])
    def test_a_tenth_is_still_inverted(self, stays, expected):
        def transition(values, label):
            return np.array([[[stays, 1 - stays]], [[0.0, 1.0]]][label])

        _, saturated = recover_posteriors(transition, [0, 1], np.full((1, 2), 0.5), np.array([[0.05, 0.95]]))
        assert saturated.tolist() == [expected]

    def test_rho_of_one_stays_finite(self):
        _, Q, transition, order = fitted(6, tau=0.5)
        noise = np.random.RandomState(0).dirichlet(np.ones(6), size=len(Q))
        found, saturated = recover_posteriors(transition, order, Q, noise)
        assert 0.05 < saturated.mean() < 1
        assert np.isfinite(found).all()
        assert (found >= 0).all()
        assert np.allclose(found.sum(axis=1), 1, atol=1e-12)
        assert np.array_equal(found[saturated], Q[saturated])

    @pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
    @pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
    def test_substitution_that_overflows(self):
        # every class keeps a tenth and gives the rest to the next: substitution grows by a factor of 9 a class
        n_classes = 350
        T = 0.1 * np.eye(n_classes) + 0.9 * np.eye(n_classes, k=1)
        T[-1, -1] = 1.0
        uniform = np.full((1, n_classes), 1 / n_classes)
        found, saturated = recover_posteriors(
            lambda values, label: T[[label] * len(values)], range(n_classes), uniform, uniform
        )
        assert not saturated.any()
        assert np.isfinite(found).all()
        assert np.isclose(found.sum(), 1)
        assert np.linalg.norm(found @ T - uniform) < np.linalg.norm(uniform @ T - uniform)

    def test_blocks_do_not_matter(self, monkeypatch):
        _, Q, transition, order = fitted(4)
        noise = np.random.RandomState(0).dirichlet(np.ones(4), size=len(Q))
        expected, _ = recover_posteriors(transition, order, Q, noise)
        monkeypatch.setattr("fedrela_sk.relabel.formulas._calibration._BLOCK", 1)
        found, _ = recover_posteriors(transition, order, Q, noise)
        assert np.array_equal(found, expected)

    def test_inputs_are_left_alone(self):
        _, Q, transition, order = fitted(3)
        noise = np.random.RandomState(0).dirichlet(np.ones(3), size=len(Q))
        before = noise.copy(), Q.copy()
        recover_posteriors(transition, order, Q, noise)
        assert np.array_equal(noise, before[0])
        assert np.array_equal(Q, before[1])


unit = st.floats(0, 1, width=32)


@settings(max_examples=50, deadline=None)
@given(
    arrays(float, (4, 4), elements=unit), arrays(float, 4, elements=st.floats(0.01, 1)), st.integers(0, 999)
)
def test_nearest_is_nowhere_beaten_on_the_simplex(T, target, seed):
    T = np.triu(T) + 0.2 * np.eye(4)
    T, target = T / T.sum(axis=1, keepdims=True), target / target.sum()
    found = _nearest_row(T, target)
    assert np.isclose(found.sum(), 1)
    assert (found >= 0).all()
    rng = np.random.RandomState(seed)
    for step in (1.0, 1e-2):
        others = (1 - step) * found + step * rng.dirichlet(np.full(4, 0.5), size=200)
        distance = np.linalg.norm(others @ T - target, axis=1)
        assert np.linalg.norm(found @ T - target) <= distance.min() + 1e-9
