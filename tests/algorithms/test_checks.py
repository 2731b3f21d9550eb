"""Ranges of hyper-parameters: what passes, and what the refusal says."""

import numpy as np
import pytest

from fedrela_sk.algorithms._checks import check_at_least, check_choice, check_flag, check_whole


@pytest.mark.parametrize(("value", "high"), [(0, 1), (1, 1), (np.float32(0.5), 1), (1e300, np.inf)])
def test_numbers_in_their_range(value, high):
    assert check_at_least("mu", value, 0, high) is None


@pytest.mark.parametrize("value", [-1e-9, 1.5, np.nan, np.inf, "1", None, True])
def test_numbers_out_of_their_range(value):
    with pytest.raises(ValueError, match=r"mu must be a finite number >= 0 and <= 1, got "):
        check_at_least("mu", value, 0, 1)


def test_an_open_end():
    assert check_at_least("mu", 1e-9, 0, above=True) is None
    with pytest.raises(ValueError, match=r"mu must be a finite number > 0, got 0\."):
        check_at_least("mu", 0, 0, above=True)
    assert check_at_least("beta", 0.999, 0, 1, below=True) is None
    with pytest.raises(ValueError, match=r"beta must be a finite number >= 0 and < 1, got 1\."):
        check_at_least("beta", 1, 0, 1, below=True)


@pytest.mark.parametrize("value", ["two", None, ["one"], np.array(["one"])])
def test_choices(value):
    assert check_choice("form", "one", ("one", "other")) == "one"
    with pytest.raises(ValueError, match=r"form must be one of 'one', 'other'; got "):
        check_choice("form", value, ("one", "other"))


@pytest.mark.parametrize("value", [0, 1.0, "True", None])
def test_flags(value):
    assert check_flag("naive", np.True_) is None
    with pytest.raises(ValueError, match=r"naive must be True or False, got "):
        check_flag("naive", value)


@pytest.mark.parametrize("value", [0, 1.0, "1", True, None])
def test_whole_numbers(value):
    assert check_whole("n_steps", np.int64(1), 1) is None
    with pytest.raises(ValueError, match=r"n_steps must be a whole number >= 1, got "):
        check_whole("n_steps", value, 1)
