"""X of any kind becomes the module's numbers: dtypes, data frames, images."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fedrela_sk.exceptions import NotFiniteError
from tests.federation.helpers import (
    Conv,
    Logits,
    WithBatchNorm,
    assert_same_weights,
    make_fed,
    make_net,
    make_rows,
)

X, Y = make_rows(60)
WHOLE = np.round(X * 4).astype(np.int64)
NET32 = make_net(Logits, module__dtype=torch.float32)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble, ">f8"])
def test_floats(dtype):
    given = WHOLE.astype(dtype)
    fed = make_fed(NET32).fit(given, Y)
    assert_same_weights(fed, make_fed(NET32).fit(WHOLE.astype(np.float32), Y))
    assert fed.predict_proba(given).dtype == np.float64
    np.testing.assert_array_equal(fed.predict_proba(given), fed.predict_proba(WHOLE))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.uint16, np.int32, np.int64, np.uint64, bool])
def test_integers_and_bools(dtype):
    given = (np.abs(WHOLE) % 2).astype(dtype)
    fed = make_fed().fit(given, Y)
    assert_same_weights(fed, make_fed().fit(given.astype(np.float64), Y))


@pytest.mark.parametrize(
    "given",
    [
        pd.DataFrame(X, columns=["a", "b", "c"]),
        pd.DataFrame(X, columns=[0, 1, 2]),
        pd.DataFrame(X, columns=["a", "b", "c"], index=np.arange(60)[::-1]),
        pd.DataFrame(X).convert_dtypes(),
        pd.DataFrame(X.astype(object)),
        X.tolist(),
        np.asfortranarray(X),
    ],
    ids=["names", "integer names", "index", "nullable", "objects", "lists", "fortran"],
)
def test_containers(given):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fed = make_fed().fit(given, Y)
        assert_same_weights(fed, make_fed().fit(X, Y))
        np.testing.assert_array_equal(fed.predict_proba(given), make_fed().fit(X, Y).predict_proba(X))


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "boolean", "Int8"])
def test_nullable_columns(dtype):
    frame = pd.DataFrame(np.abs(WHOLE) % 2).astype(dtype)
    assert_same_weights(make_fed().fit(frame, Y), make_fed().fit(np.abs(WHOLE) % 2, Y))


def test_columns_of_mixed_numbers():
    frame = pd.DataFrame({"a": X[:, 0], "b": WHOLE[:, 1], "c": X[:, 2] > 0})
    fed = make_fed().fit(frame, Y)
    assert fed.feature_names_in_.tolist() == ["a", "b", "c"]
    assert_same_weights(fed, make_fed().fit(np.c_[X[:, 0], WHOLE[:, 1], X[:, 2] > 0], Y))


def test_missing_values_of_pandas_are_named():
    frame = pd.DataFrame(WHOLE).astype("Int64")
    frame.iloc[7, 1] = pd.NA
    with pytest.raises(NotFiniteError, match=r"contains NaN in row 7 \(client \d\).*SimpleImputer"):
        make_fed().fit(frame, Y)


def test_names_are_remembered_and_compared():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    fed = make_fed().fit(frame, Y)
    assert fed.n_features_in_ == 3
    assert fed.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names should match"):
        fed.predict(frame[["b", "a", "c"]])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        fed.predict(X)
    assert not hasattr(make_fed().fit(X, Y), "feature_names_in_")
    with pytest.raises(ValueError, match="X has 2 features, but FederatedClassifier is expecting 3"):
        make_fed().fit(X, Y).predict(X[:, :2])


@pytest.mark.parametrize("output", ["default", "pandas"])
def test_the_output_of_a_fitted_column_transformer(output):
    frame = pd.DataFrame({"amount": X[:, 0], "kind": np.array(["a", "b"])[(X[:, 1] > 0).astype(int)]})
    columns = make_column_transformer(
        (StandardScaler(), ["amount"]), (OneHotEncoder(sparse_output=False), ["kind"])
    ).set_output(transform=output)
    fed = make_fed().fit(columns.fit_transform(frame), Y)
    assert_same_weights(fed, make_fed().fit(np.asarray(columns.transform(frame), dtype=float), Y))
    piped = make_pipeline(columns, make_fed()).fit(frame, Y)
    np.testing.assert_array_equal(piped.predict(frame), fed.predict(columns.transform(frame)))


@pytest.mark.parametrize("engine", ["loop", "auto"])
def test_images(engine):
    images = np.random.default_rng(0).normal(size=(60, 1, 4, 4))
    images[:, 0, 1:3, 1:3] += Y[:, None, None]
    fed = make_fed(make_net(Conv), engine=engine, n_rounds=20).fit(images, Y)
    Q = fed.predict_proba(images)
    assert Q.shape == (60, 3)
    assert fed.score(images, Y) > np.bincount(Y).max() / 60
    assert fed.engine_.startswith("loop")  # "auto": convolutions on a CPU


def test_the_data_of_the_caller_stay_as_they_are():
    class InPlace(Logits):
        """Writes to its input."""

        def forward(self, X):
            return super().forward(X.mul_(2.0))

    before, labels = X.copy(), Y.copy()
    fed = make_fed(make_net(InPlace), validation=0.2, n_rounds=2).fit(X, Y)
    Q = fed.predict_proba(X)
    np.testing.assert_array_equal(X, before)
    np.testing.assert_array_equal(Y, labels)
    np.testing.assert_array_equal(fed.predict_proba(X), Q)


def test_data_that_may_not_be_written():
    frozen = X.copy()
    frozen.setflags(write=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fed = make_fed().fit(frozen, Y)
        fed.predict(frozen)
    assert_same_weights(fed, make_fed().fit(X, Y))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_rows_that_are_not_finite_name_their_client(value):
    poisoned = X.copy()
    poisoned[17, 1] = value
    groups = np.where(np.arange(60) < 30, "first", "second")
    with pytest.raises(NotFiniteError, match=r"(NaN|infinity) in row 17 \(client 'first'\); 1 rows"):
        make_fed(clients=None).fit(poisoned, Y, groups=groups)
    with pytest.raises(NotFiniteError, match=r"Input X contains (NaN|infinity) in row 17; 1 rows"):
        make_fed().fit(X, Y).predict(poisoned)
    with pytest.raises(NotFiniteError, match=r"Input X_val contains (NaN|infinity) in row 17; 1 rows"):
        make_fed().fit(X, Y, X_val=poisoned, y_val=Y)


def test_numbers_too_large_for_the_module_are_not_blamed_on_the_rate():
    huge = X.copy()
    huge[5, 0] = 1e39
    with pytest.raises(
        NotFiniteError, match=r"row 5 \(client \d\) that is too large for .*float32, got 1e\+39"
    ):
        make_fed(NET32).fit(huge, Y)
    with pytest.raises(NotFiniteError, match=r"Input X has a number in row 5 that is too large"):
        make_fed(NET32).fit(X, Y).predict(huge)
    with pytest.raises(NotFiniteError, match=r"Input X_val has a number in row 5 that is too large"):
        make_fed(NET32).fit(X, Y, X_val=huge, y_val=Y)


def test_text_is_refused():
    with pytest.raises(ValueError, match="Column 0 of X holds 'a', which is no number"):
        make_fed().fit(np.full((60, 3), "a"), Y)


def test_a_module_without_a_net_around_it_is_sized_to_the_data():
    fed = make_fed(clients=3).set_params(estimator=None).fit(X, Y)
    assert [tuple(p.shape) for p in fed.net_.module_.parameters()][::2] == [(64, 3), (32, 64), (3, 32)]
    assert fed.get_params()["estimator"] is None


def test_batch_norm_in_a_whole_run():
    fed = make_fed(make_net(WithBatchNorm, batch_size=8), n_rounds=10).fit(X, Y)
    assert np.isfinite(fed.predict_proba(X)).all()
