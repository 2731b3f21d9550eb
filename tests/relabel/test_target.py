import numpy as np
import pandas as pd
import pytest

from fedrela_sk.exceptions import LabelError
from fedrela_sk.relabel._target import check_labels, with_labels

ROWS = [0, 1, 0, 0, 1, 2]

# name -> y as a user may hold it, and the classes a classifier should see
TARGETS = {
    "int32": (np.array(ROWS, dtype=np.int32), [0, 1, 2]),
    "gaps and negative": (np.array([-7, 40, 3])[ROWS], [-7, 3, 40]),
    "strings": (np.array(["ok", "bad", "odd"])[ROWS], ["bad", "odd", "ok"]),
    "object strings": (np.array(["ok", "bad", "odd"], dtype=object)[ROWS], ["bad", "odd", "ok"]),
    "bool": (np.array([False, True, True])[ROWS], [False, True]),
    "object bools": (np.array([False, True, True], dtype=object)[ROWS], [False, True]),
    "object ints": (np.array([5, 7, -1], dtype=object)[ROWS], [-1, 5, 7]),
    "whole floats": (np.array([0.0, 2.0, 5.0])[ROWS], [0.0, 2.0, 5.0]),
    "list of strings": (np.array(["a", "b", "c"])[ROWS].tolist(), ["a", "b", "c"]),
    "list of ints": (ROWS, [0, 1, 2]),
    "column": (np.array(ROWS).reshape(-1, 1), [0, 1, 2]),
    "series": (pd.Series(ROWS, name="target", index=list("uvwxyz")), [0, 1, 2]),
    "nullable int": (pd.Series(ROWS, dtype="Int64"), [0, 1, 2]),
    "nullable bool": (pd.Series([False, True, True], dtype="boolean")[ROWS], [False, True]),
    "pandas string": (pd.Series(["a", "b", "c"], dtype="string")[ROWS], ["a", "b", "c"]),
    "category": (pd.Series(["a", "b", "c"], dtype="category")[ROWS], ["a", "b", "c"]),
    "category of ints": (pd.Series([4, 9, 2], dtype="category")[ROWS], [2, 4, 9]),
    "frame": (pd.DataFrame({"target": ROWS}), [0, 1, 2]),
}


@pytest.fixture(params=TARGETS)
def target(request):
    return TARGETS[request.param]


@pytest.mark.filterwarnings("ignore:A column-vector y:sklearn.exceptions.DataConversionWarning")
class TestLabels:
    def test_classes_are_the_sorted_labels(self, target):
        y, classes = target
        labels, found = check_labels(y)
        assert found.tolist() == classes
        assert labels.shape == (6,)
        assert labels.tolist() == np.asarray(y).ravel().tolist()

    def test_labels_have_a_dtype_that_classifiers_take(self, target):
        labels, _ = check_labels(target[0])
        assert labels.dtype.kind in "biufU" or all(isinstance(label, str) for label in labels)

    def test_new_labels_keep_container_and_dtype(self, target):
        y, _ = target
        before = y.copy()
        labels, _ = check_labels(y)
        changed = np.array([True, False, False, True, False, False])
        new = labels[[5, 0, 0, 1, 0, 0]]
        result = with_labels(y, changed, new)
        expected = np.where(changed, new, labels)
        assert type(result) is type(y)
        assert np.asarray(result).ravel().tolist() == expected.tolist()
        assert np.asarray(y).ravel().tolist() == np.asarray(before).ravel().tolist()
        if hasattr(y, "dtype"):
            assert result.dtype == y.dtype
        if hasattr(y, "iloc"):
            assert result.index.equals(y.index)
        if hasattr(y, "name"):
            assert result.name == y.name


def test_nothing_changed_is_a_copy():
    y = np.array([1, 2])
    result = with_labels(y, np.zeros(2, bool), y)
    assert result is not y
    assert result.tolist() == [1, 2]


def test_column_vector_warns_as_in_sklearn():
    with pytest.warns(Warning, match="A column-vector y was passed"):
        check_labels(np.zeros((3, 1)))


@pytest.mark.parametrize(
    "y",
    [
        pd.Series(["a", None, "b"], dtype="string"),
        pd.Series(["a", None, "b"], dtype="category"),
        pd.Series([0, None, 1], dtype="Int64"),
        pd.Series([True, None, False], dtype="boolean"),
        pd.Series(["a", None, "b"]),
        pd.DataFrame({"y": ["a", None, "b"]}),
    ],
    ids=lambda y: str(y.dtypes if y.ndim == 1 else "frame"),
)
def test_missing_label_is_named(y):
    with pytest.raises(LabelError, match=r"label of row 1 is missing.*Drop rows without a label"):
        check_labels(y)


@pytest.mark.parametrize(
    ("y", "error", "message"),
    [
        (None, ValueError, r"requires y to be passed, but the target y is None"),
        ([], LabelError, r"y holds 0 labels.*Check how the rows were selected"),
        (np.array([1.0, np.nan]), ValueError, r"Input y contains NaN"),
        (np.array([0.1, 0.2, 0.7]), ValueError, r"Unknown label type: continuous"),
        (np.array(["a", 1], dtype=object), LabelError, r"one type, got \['int', 'str'\].*y\.astype\(str\)"),
        (np.array(["a", None], dtype=object), LabelError, r"row 1 is missing, got None.*without a label"),
        (np.array([1, "a"], dtype=object), LabelError, r"one type, got \['int', 'str'\]"),
        (np.array([{1}, {2}]), LabelError, r"holds \['set'\], which cannot name anything"),
        (np.array([1, True], dtype=object), LabelError, r"True and 1 would be the same"),
        (np.zeros((3, 2)), ValueError, r"y should be a 1d array, got an array of shape \(3, 2\)"),
    ],
    ids=str,
)
def test_bad_labels(y, error, message):
    with pytest.raises(error, match=message):
        check_labels(y)
