"""A sampler on one client's rows: what stays, what is new, what is left alone."""

import numpy as np
import pytest
from imblearn.over_sampling import ADASYN, SMOTE, BorderlineSMOTE, RandomOverSampler
from imblearn.under_sampling import RandomUnderSampler
from sklearn.base import BaseEstimator

from fedrela_sk._labels import array_of
from fedrela_sk.exceptions import LabelError
from fedrela_sk.local_data import resample
from tests.names import CONTAINERS

CLASSES = np.array(["a", "b", "c"])


def rows(*counts, n_features=2, seed=0):
    stream = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(counts)), counts)
    return stream.normal(size=(len(y), n_features)) + y[:, None], y


def test_smote_adds_rows_between_those_of_a_class_and_keeps_the_originals():
    X, y = rows(12, 6)
    result = resample(SMOTE(k_neighbors=3), X, y, CLASSES, 5)
    assert result.kept.tolist() == list(range(18))
    assert result.note is None
    assert np.bincount(result.y).tolist() == [12, 12]
    assert result.y[18:].tolist() == [1] * 6
    own = X[y == 1]
    assert (result.X_new >= own.min(0)).all()
    assert (result.X_new <= own.max(0)).all()
    expected, _ = SMOTE(k_neighbors=3, random_state=5).fit_resample(X, CLASSES[y])
    np.testing.assert_array_equal(result.X_new, expected[18:])


def test_one_seed_one_result_and_the_sampler_stays_as_it_is():
    X, y = rows(12, 6)
    sampler = SMOTE(k_neighbors=3, random_state=7)
    a, b, c = (resample(sampler, X, y, CLASSES, seed).X_new for seed in (1, 1, 2))
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)
    assert sampler.random_state == 7


def test_repeated_rows_are_no_new_ones():
    X, y = rows(9, 2)
    result = resample(RandomOverSampler(), X, y, CLASSES, 0)
    assert len(result.X_new) == 0
    assert np.bincount(result.y).tolist() == [9, 9]
    np.testing.assert_array_equal(y[result.kept], result.y)
    assert set(range(11)) <= set(result.kept.tolist())


def test_rows_may_go():
    X, y = rows(9, 2)
    result = resample(RandomUnderSampler(), X, y, CLASSES, 0)
    assert np.bincount(result.y).tolist() == [2, 2]
    np.testing.assert_array_equal(y[result.kept], result.y)


def test_shaken_copies_are_new_rows():
    X, y = rows(9, 3)
    result = resample(RandomOverSampler(shrinkage=0.5), X, y, CLASSES, 0)
    assert len(result.kept) == 12
    assert len(result.X_new) == 6
    assert result.y[len(result.kept) :].tolist() == [1] * 6


class Rewrites(BaseEstimator):
    """Gives other rows than it got."""

    def fit_resample(self, X, y):
        return X[:2] * 10, y[:2]


def test_a_tool_that_keeps_no_original():
    X, y = rows(3, 3)
    result = resample(Rewrites(), X, y, CLASSES, 0)
    assert len(result.kept) == 0
    np.testing.assert_array_equal(result.X_new, X[:2] * 10)
    assert result.y.tolist() == [0, 0]


class Bare:
    """Knows nothing of parameters."""

    def fit_resample(self, X, y):
        return np.vstack([X, X[:1]]), np.append(y, y[0])


def test_any_object_will_do():
    X, y = rows(3, 3)
    assert resample(Bare(), X, y, CLASSES, 0).y.tolist() == [0, 0, 0, 1, 1, 1, 0]


@pytest.mark.parametrize("sampler", [SMOTE(), BorderlineSMOTE(), ADASYN()], ids=lambda s: type(s).__name__)
def test_a_class_too_small_keeps_its_rows_and_is_named(sampler):
    X, y = rows(30, 20, 2)
    result = resample(sampler, X, y, CLASSES, 0)
    counts = np.bincount(result.y, minlength=3)
    assert counts[2] == 2
    assert counts[1] > 20
    assert result.note.startswith("classes ['c'] stayed as they are (")
    np.testing.assert_array_equal(np.sort(y[result.kept]), np.sort(result.y[: len(result.kept)]))
    np.testing.assert_array_equal(y[result.kept], result.y[: len(result.kept)])


def test_rows_of_several_small_classes_keep_their_labels():
    X, y = rows(30, 20, 2, 1)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    result = resample(SMOTE(), X, y, np.array(list("abcd")), 0)
    assert result.note.startswith("classes ['c', 'd'] stayed as they are (")
    np.testing.assert_array_equal(y[result.kept], result.y[: len(result.kept)])
    assert np.bincount(result.y).tolist() == [30, 30, 2, 1]


@pytest.mark.parametrize(("counts", "reason"), [((5,), "one class only"), ((8, 1), "n_neighbors")])
def test_where_nothing_can_be_done_all_rows_stay(counts, reason):
    X, y = rows(*counts)
    result = resample(SMOTE(), X, y, CLASSES, 0)
    assert result.kept.tolist() == list(range(len(y)))
    np.testing.assert_array_equal(result.y, y)
    assert len(result.X_new) == 0
    assert result.note.startswith("nothing was resampled (")
    assert reason in result.note


def test_a_balanced_client_is_returned_as_it_is():
    X, y = rows(7, 7)
    result = resample(SMOTE(), X, y, CLASSES, 0)
    assert result.kept.tolist() == list(range(14))
    assert len(result.X_new) == 0


def test_images_are_tables_to_a_sampler_and_images_again():
    X, y = rows(12, 6, n_features=8)
    result = resample(SMOTE(k_neighbors=3), X.reshape(-1, 2, 2, 2), y, CLASSES, 5)
    assert result.X_new.shape == (6, 2, 2, 2)
    np.testing.assert_array_equal(
        result.X_new.reshape(6, -1), resample(SMOTE(k_neighbors=3), X, y, CLASSES, 5).X_new
    )


@pytest.mark.parametrize("kind", CONTAINERS)
def test_classes_of_any_kind_are_resampled(kind):
    """An error of the sampler about labels would count as too few rows, and leave everything as it is."""
    X, y = rows(12, 6, 3)
    result = resample(RandomOverSampler(), X, y, array_of(CONTAINERS[kind][1]), 0)
    assert result.note is None
    assert np.bincount(result.y).tolist() == [12, 12, 12]


def test_a_label_that_nobody_has_is_refused():
    class Renames(BaseEstimator):
        def fit_resample(self, X, y):
            return X, np.full(len(y), "z")

    with pytest.raises(LabelError, match=r"Renames.fit_resample returned the label 'z'.*\['a', 'b', 'c'\]"):
        resample(Renames(), *rows(5, 5), CLASSES, 0)
