"""Draws from given uniforms, worked out by hand and counted."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fedrela_sk.relabel.formulas._draw import check_uniforms, draw
from fedrela_sk.relabel.formulas._rho import Candidates


def found_in(rho):
    """Candidates of a dense matrix."""
    rho = np.asarray(rho, dtype=float)
    row, column = np.nonzero(rho)
    return Candidates(row, column, np.zeros(len(row)), rho[row, column])


def drawn(rho, uniforms, target):
    found, uniforms = found_in(rho), np.asarray(uniforms, dtype=float)
    taken = draw(found, lambda row, column: uniforms[row, column], target)
    return dict(zip(taken.row.tolist(), taken.column.tolist(), strict=True))


class TestRules:
    RHO = [[0, 0.5, 0.8]] * 5
    UNIFORMS = [
        [0.9, 0.4, 0.9],  # only class 1 succeeds
        [0.9, 0.9, 0.7],  # only class 2
        [0.9, 0.4, 0.7],  # both
        [0.0, 0.5, 0.8],  # none: a uniform equal to rho fails, a class without rho never succeeds
        [0.9, 0.9, 0.9],
    ]

    def test_the_paper_takes_the_largest_rho_once_any_draw_succeeds(self):
        assert drawn(self.RHO, self.UNIFORMS, "argmax") == {0: 2, 1: 2, 2: 2}

    def test_the_released_code_takes_the_largest_rho_that_succeeded(self):
        assert drawn(self.RHO, self.UNIFORMS, "argmax_of_successes") == {0: 1, 1: 2, 2: 2}

    @pytest.mark.parametrize("target", ["argmax", "argmax_of_successes"])
    def test_ties_go_to_the_lower_class(self, target):
        assert drawn([[0, 0.5, 0.5]], [[0.9, 0.1, 0.1]], target) == {0: 1}

    def test_a_tie_of_which_only_the_upper_succeeds(self):
        assert drawn([[0, 0.5, 0.5]], [[0.9, 0.9, 0.1]], "argmax") == {0: 1}
        assert drawn([[0, 0.5, 0.5]], [[0.9, 0.9, 0.1]], "argmax_of_successes") == {0: 2}

    @pytest.mark.parametrize("target", ["argmax", "argmax_of_successes"])
    def test_a_saturated_rho_always_succeeds(self, target):
        assert drawn([[0, 1.0]], [[0.5, np.nextafter(1, 0)]], target) == {0: 1}

    @pytest.mark.parametrize("target", ["argmax", "argmax_of_successes"])
    def test_nothing_to_draw(self, target):
        assert drawn([[0, 0]], [[0, 0]], target) == {}
        assert drawn([[0, 0.5]], [[0, 0.5]], target) == {}

    @pytest.mark.parametrize("target", ["argmax", "argmax_of_successes"])
    def test_changed_rows_keep_their_numbers(self, target):
        found = Candidates(
            np.array([0, 2, 3]), np.array([1, 0, 1]), np.array([7.0, 8.0, 9.0]), np.full(3, 0.5)
        )
        uniforms = np.array([[0.9, 0], [0, 0], [0.9, 0], [0, 0]])
        taken = draw(found, lambda row, column: uniforms[row, column], target)
        assert_array_equal(taken.row, [0, 3])
        assert_array_equal(taken.column, [1, 1])
        assert_array_equal(taken.z, [7, 9])
        assert_array_equal(taken.rho, [0.5, 0.5])


class TestFrequencies:
    """Over many draws the shares equal the closed forms."""

    N = 200_000

    def shares(self, rho, target):
        found, uniforms = found_in([rho] * self.N), np.random.default_rng(0).random((self.N, len(rho)))
        taken = draw(found, lambda row, column: uniforms[row, column], target)
        counts = np.bincount(taken.column, minlength=len(rho)) / self.N
        return [*counts, 1 - counts.sum()]

    @pytest.mark.parametrize(
        ("target", "rho", "expected"),
        [
            ("argmax_of_successes", [0, 0.5, 0.8], [0, 0.1, 0.8, 0.1]),
            ("argmax", [0, 0.5, 0.8], [0, 0, 0.9, 0.1]),
            ("argmax_of_successes", [0, 0.5, 0.5], [0, 0.5, 0.25, 0.25]),
            ("argmax", [0, 0.5, 0.5], [0, 0.75, 0, 0.25]),
            ("argmax_of_successes", [0.3, 0, 0.9, 0.6], [0.3 * 0.1 * 0.4, 0, 0.9, 0.06, 0.7 * 0.1 * 0.4]),
            ("argmax", [0.3, 0, 0.9, 0.6], [0, 0, 1 - 0.028, 0, 0.028]),
        ],
    )
    def test_shares(self, target, rho, expected):
        # five standard deviations of a share
        tolerance = 5 * 0.5 / np.sqrt(self.N)
        assert_allclose(self.shares(rho, target), expected, rtol=0, atol=tolerance)


class TestUniforms:
    def test_lists_are_taken(self):
        assert_array_equal(check_uniforms([[0, 0.5]], (1, 2)), [[0.0, 0.5]])

    def test_another_shape_is_named(self):
        with pytest.raises(
            ValueError, match=r"uniforms have shape \(3,\), expected \(3, 2\): pass one per row and"
        ):
            check_uniforms([0.1, 0.2, 0.3], (3, 2))

    @pytest.mark.parametrize("value", [1.0, -0.1, np.nan])
    def test_what_is_outside_is_named(self, value):
        with pytest.raises(
            ValueError, match=rf"Row 1 of uniforms holds {value} for class 0, expected.*\[0, 1\)"
        ):
            check_uniforms([[0.1, 0.2], [value, 0.3]], (2, 2))
