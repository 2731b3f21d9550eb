"""Checks of posteriors, scores and labels: what passes comes back unchanged, what does not is named."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.exceptions import DataConversionWarning

from fedrela_sk._checks import (
    check_classes,
    check_labels,
    check_posteriors,
    check_scores,
    classes_from_labels,
    encode_labels,
    label_dtype,
)
from fedrela_sk.exceptions import LabelError, PosteriorError

ROWS = np.array([[0.2, 0.8], [0.5, 0.5], [1.0, 0.0]])


class TestPosteriors:
    def test_float64_comes_back_without_a_copy(self):
        assert check_posteriors(ROWS) is ROWS

    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int64, bool, object])
    def test_other_dtypes_become_float64_unchanged(self, dtype):
        rows = np.array([[1, 0], [0, 1]], dtype=dtype)
        checked = check_posteriors(rows)
        assert checked.dtype == np.float64
        assert_array_equal(checked, rows.astype(float))

    def test_lists_are_taken(self):
        assert_array_equal(check_posteriors([[0.25, 0.75]]), [[0.25, 0.75]])

    def test_one_column_stands_for_two(self):
        assert_array_equal(check_posteriors([[0.25], [1.0]]), [[0.75, 0.25], [0.0, 1.0]])

    @pytest.mark.parametrize(
        ("dtype", "tolerance"), [(np.float64, 1e-6), (np.float32, 1e-4), (np.float16, 1e-2)]
    )
    def test_the_tolerance_on_sums_follows_the_dtype(self, dtype, tolerance):
        def row(error):
            return np.array([[0.5, 0.5], [0.5, 0.5 + error]], dtype=dtype)

        check_posteriors(row(0.9 * tolerance))
        check_posteriors(row(-0.9 * tolerance))
        for error in (1.1 * tolerance, -1.1 * tolerance):
            with pytest.raises(
                PosteriorError, match=rf"Row 1 of posteriors sums to .* is {tolerance:g} for {dtype.__name__}"
            ):
                check_posteriors(row(error))

    @pytest.mark.parametrize(
        ("dtype", "tolerance"), [(np.float64, 1e-6), (np.float32, 1e-4), (np.float16, 1e-2)]
    )
    def test_entries_may_leave_the_unit_interval_by_the_tolerance(self, dtype, tolerance):
        check_posteriors(np.array([[1 + 0.9 * tolerance, -0.9 * tolerance]], dtype=dtype))
        too_far = np.array([[1 + 1.2 * tolerance, -1.2 * tolerance]], dtype=dtype)
        with pytest.raises(
            PosteriorError, match=r"Row 0 of posteriors holds 1\.\d+ in column 0, expected a prob"
        ):
            check_posteriors(too_far)
        with pytest.raises(PosteriorError, match=r"Row 0 of posteriors holds -\d.* in column 1"):
            check_posteriors(np.array([[1.0, -1.2 * tolerance]], dtype=dtype))

    def test_rows_are_never_renormalized(self):
        rows = np.array([[0.5, 0.5 + 5e-7], [0.3, 0.7]])
        assert_array_equal(check_posteriors(rows), rows)

    def test_the_first_wrong_row_is_named_with_its_sum_and_a_remedy(self):
        with pytest.raises(
            PosteriorError, match=r"Row 1 of posteriors sums to 0\.93, expected 1\. .*apply softmax to"
        ):
            check_posteriors([[0.2, 0.8], [0.2, 0.73], [0.6, 0.3]])

    def test_raw_features_point_to_the_estimators_that_take_features(self):
        with pytest.raises(
            PosteriorError, match=r"holds 5\.1 in column 0.*FedReLaSampler and RelabelingClassifier"
        ):
            check_posteriors([[5.1, 3.5, 1.4]])

    @pytest.mark.parametrize(("value", "name"), [(np.nan, "NaN"), (np.inf, "inf"), (-np.inf, "-inf")])
    def test_what_is_not_finite_is_named(self, value, name):
        rows = ROWS.copy()
        rows[1, 1] = value
        with pytest.raises(PosteriorError, match=rf"Row 1 of posteriors holds {name} in column 1.*finite"):
            check_posteriors(rows)

    def test_it_is_a_value_error(self):
        with pytest.raises(ValueError, match="sums to 2"):
            check_posteriors([[1.0, 1.0]])

    def test_a_data_frame_keeps_its_precision(self):
        pd = pytest.importorskip("pandas")
        rows = np.array([[0.5, 0.5 + 5e-5]])
        assert_array_equal(check_posteriors(pd.DataFrame(rows.astype(np.float32))), rows.astype(np.float32))
        with pytest.raises(PosteriorError, match=r"sums to 1\.00005"):
            check_posteriors(pd.DataFrame(rows))

    @pytest.mark.parametrize("rows", [[0.5, 0.5], np.array([0.5, 0.5])])
    def test_one_dimension_is_refused(self, rows):
        with pytest.raises(ValueError, match="Expected 2D array"):
            check_posteriors(rows)

    def test_no_rows_are_refused(self):
        with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\)"):
            check_posteriors(np.empty((0, 2)))

    def test_words_are_refused(self):
        with pytest.raises(ValueError, match="arrays of bytes/strings"):
            check_posteriors(np.array([["a", "b"]]))


class TestScores:
    def test_any_finite_scores_pass(self):
        scores = np.array([[-3.0, 40.0, 1e150], [0.0, -1e150, 2.0]])
        assert check_scores(scores) is scores

    def test_integers_and_low_precision_become_float64(self):
        assert check_scores([[1, 2]]).dtype == np.float64
        assert check_scores(np.array([[1, 2]], dtype=np.float32)).dtype == np.float64

    def test_one_column_stands_for_two(self):
        assert_array_equal(check_scores([[2.0], [-1.0]]), [[-2.0, 2.0], [1.0, -1.0]])

    def test_what_is_not_finite_is_named(self):
        with pytest.raises(PosteriorError, match=r"Row 1 of scores holds NaN in column 0.*finite"):
            check_scores([[1.0, 2.0], [np.nan, 0.0]])

    def test_a_not_finite_entry_is_named_before_a_large_one(self):
        with pytest.raises(PosteriorError, match="Row 1 of scores holds inf in column 0"):
            check_scores([[1e200, 2.0], [np.inf, 0.0]])

    @pytest.mark.parametrize("score", [2e150, -2e150])
    def test_scores_whose_squares_overflow_are_refused(self, score):
        with pytest.raises(
            PosteriorError, match=r"Row 0 of scores holds -?2e\+150 in column 1.*1e\+150.*Divide"
        ):
            check_scores([[0.0, score]])


class TestLabels:
    @pytest.mark.parametrize(
        "y",
        [
            [0, 1, 1],
            ["a", "b", "b"],
            [True, False, True],
            [0.5, 1.5, 1.5],
            np.array(["x", "yy", "x"], object),
        ],
    )
    def test_labels_keep_their_dtype(self, y):
        checked = check_labels(y, 3)
        assert checked.dtype == np.asarray(y).dtype
        assert_array_equal(checked, y)

    def test_a_column_is_flattened_with_scikit_learns_warning(self):
        with pytest.warns(DataConversionWarning, match="column-vector"):
            assert_array_equal(check_labels([[0], [1]], 2), [0, 1])

    def test_a_missing_y_is_named(self):
        with pytest.raises(LabelError, match="requires y to be passed, but the target y is None"):
            check_labels(None, 3)

    def test_another_length_is_named(self):
        with pytest.raises(LabelError, match=r"Got 2 labels for 3 rows.*one label per row"):
            check_labels([0, 1], 3)

    @pytest.mark.parametrize("missing", [np.nan, None])
    def test_a_missing_label_is_named(self, missing):
        with pytest.raises(LabelError, match=f"row 1 is missing, got {missing}.*Drop rows without a label"):
            check_labels(np.array([0, missing, 1], dtype=object if missing is None else float), 3)

    def test_pandas_na_is_missing(self):
        pd = pytest.importorskip("pandas")
        with pytest.raises(LabelError, match="row 2 is missing, got <NA>"):
            check_labels(np.array(["a", "b", pd.NA], dtype=object), 3)


class TestClasses:
    def test_the_callers_order_is_kept(self):
        assert_array_equal(check_classes(["b", "a"], 2), ["b", "a"])

    def test_duplicates_are_named(self):
        with pytest.raises(LabelError, match=r"`classes` holds 'a' more than once: \['b', 'a', 'a'\].*once"):
            check_classes(["b", "a", "a"], 3)

    def test_another_number_than_columns_is_named(self):
        with pytest.raises(
            LabelError, match=r"names 2 classes, \[0, 1\], for 3 columns. Pass one column per class"
        ):
            check_classes([0, 1], 3)


class TestClassesFromLabels:
    def test_as_many_labels_as_columns_are_the_sorted_labels(self):
        assert_array_equal(classes_from_labels(np.array(["b", "a", "b"]), 2), ["a", "b"])
        assert_array_equal(classes_from_labels(np.array([7, -2, 5]), 3), [-2, 5, 7])

    @pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.float64])
    def test_fewer_integers_with_zero_among_them_count_the_columns(self, dtype):
        classes = classes_from_labels(np.array([0, 2, 2], dtype=dtype), 4)
        assert classes.dtype == dtype
        assert_array_equal(classes, [0, 1, 2, 3])

    def test_a_narrow_dtype_is_widened_to_count_the_columns(self):
        assert classes_from_labels(np.array([0, 2], dtype=np.uint8), 256).dtype == np.uint8
        classes = classes_from_labels(np.array([0, 2], dtype=np.uint8), 300)
        assert_array_equal(classes, np.arange(300))

    @pytest.mark.parametrize(
        "labels",
        [[1, 2], [0, 3], [-1, 0], [0.0, 1.5], ["0", "1"], [False, True], [0, 1, 2, 3], [0.0, np.inf]],
    )
    def test_anything_else_asks_for_classes(self, labels):
        with pytest.raises(
            LabelError, match=rf"Got {len(labels)} classes in y.*for 3 columns.*Pass `classes`"
        ):
            classes_from_labels(np.array(labels), 3)

    def test_a_single_class_without_zero_asks_for_classes(self):
        with pytest.raises(
            LabelError, match=r"Got 1 class in y, \[1\], for 2 columns.*0\.\.1 with 0 among them"
        ):
            classes_from_labels(np.array([1, 1]), 2)

    def test_integers_kept_as_objects_count_the_columns_too(self):
        classes = classes_from_labels(np.array([0, np.int64(2)], dtype=object), 4)
        assert classes.dtype == object
        assert classes.tolist() == [0, 1, 2, 3]

    @pytest.mark.parametrize("labels", [[False], [0.0], [0, 1.5], ["a"]])
    def test_other_objects_ask_for_classes(self, labels):
        with pytest.raises(LabelError, match="Pass `classes`"):
            classes_from_labels(np.array(labels, dtype=object), 3)

    def test_labels_without_an_order_are_refused(self):
        with pytest.raises(LabelError, match=r"make them one type, got \['int', 'str'\]"):
            classes_from_labels(np.array([1, "a"], dtype=object), 2)


class TestEncode:
    def test_positions_follow_the_order_of_the_classes(self):
        codes = encode_labels(np.array(["a", "b", "a"]), np.array(["b", "a"]))
        assert codes.dtype == np.intp
        assert_array_equal(codes, [1, 0, 1])

    def test_kinds_of_numbers_are_compared_by_value(self):
        assert_array_equal(encode_labels(np.array([True, False]), np.array([0, 1])), [1, 0])
        assert_array_equal(encode_labels(np.array([2.0, 1.0]), np.array([1, 2])), [1, 0])

    def test_labels_without_an_order_are_looked_up(self):
        classes = np.array([1, "a"], dtype=object)
        assert_array_equal(encode_labels(np.array(["a", 1, "a"], dtype=object), classes), [1, 0, 1])

    def test_an_unknown_label_is_named_with_its_row(self):
        with pytest.raises(
            LabelError, match=r"Label 5 of row 2 is not among the 3 classes \[0, 1, 2\].*`classes`"
        ):
            encode_labels(np.array([0, 1, 5]), np.arange(3))
        with pytest.raises(LabelError, match=r"Label 'c' of row 0 is not among the 2 classes \['a', 'b'\]"):
            encode_labels(np.array(["c", "a"]), np.array(["a", "b"]))


class TestDtype:
    @pytest.mark.parametrize(
        ("y", "classes", "dtype"),
        [
            (np.array([1, 2], np.int8), np.array([1, 2, 3]), np.int8),
            (np.array([1, 2], np.int8), np.array([1, 2, 300]), np.int64),
            (np.array([1, 2]), np.array([1.0, 2.0, 2.5]), np.float64),
            (np.array([True]), np.array([0, 1]), np.bool_),
            (np.array(["a"]), np.array(["a", "long"]), np.dtype("<U4")),
            (np.array(["longer"]), np.array(["longer", "a"]), np.dtype("<U6")),
            (np.array(["a"], object), np.array(["a", "long"]), np.dtype(object)),
        ],
    )
    def test_it_is_that_of_y_where_it_holds_every_class(self, y, classes, dtype):
        assert label_dtype(y, classes) == dtype
