"""Numbers reach the module as they are: rounded whole numbers are an error, modules that want integers get them."""

import numpy as np
import pandas as pd
import pytest
import torch
from skorch import NeuralNetClassifier
from torch import nn

from fedrela_sk import FederatedClassifier, FedReLaRelabeler
from fedrela_sk.exceptions import NetError
from fedrela_sk.federation.setup._casting import check_exact

stream = np.random.default_rng(0)
N = 60
Y = np.arange(N) % 2
SMALL = stream.normal(size=(N, 2))
STAMPS = 1_700_000_000 + np.arange(N)


def fed(net=None, **settings):
    return FederatedClassifier(net, **({"clients": 3, "n_rounds": 2, "random_state": 0} | settings))


def frame(values):
    return pd.DataFrame({"amount": SMALL[:, 0], "when": values})


COLUMNS = {
    "time stamps": STAMPS,
    "time stamps as float64": STAMPS.astype(float),
    "time stamps with fractions": STAMPS + 0.25,
    "uint64": np.uint64(2**63) + np.arange(N, dtype=np.uint64),
    "smallest int64": np.concatenate([[np.iinfo(np.int64).min + 1], np.arange(N - 1)]),
    "first odd number": np.concatenate([[2**24 + 1], np.arange(N - 1)]),
    "negative": -STAMPS,
    "objects": STAMPS.astype(object),
    "pandas Int64": pd.array(STAMPS, dtype="Int64"),
}


@pytest.mark.parametrize("values", COLUMNS.values(), ids=COLUMNS.keys())
def test_whole_numbers_that_float32_rounds_are_an_error_that_names_the_column(values):
    with pytest.raises(
        NetError, match=r"Column 'when' of X holds .*torch.float(32|64) rounds to.*StandardScaler"
    ):
        fed().fit(frame(values), Y)
    if not isinstance(values, pd.api.extensions.ExtensionArray):
        with pytest.raises(NetError, match=r"Column 1 .*holds"):
            fed().fit(np.column_stack([np.zeros(N, dtype=values.dtype), values]), Y)


EXACT = {
    "up to 2**24": np.concatenate([[2**24, -(2**24)], np.arange(N - 2)]),
    "even": 2 * STAMPS // 512 * 512,
    "powers": 2 ** (np.arange(N) % 62),
    "smallest int64": np.full(N, np.iinfo(np.int64).min),
    "largest power of uint64": np.full(N, 2**63, dtype=np.uint64),
    "bool": Y.astype(bool),
    "uint8": np.arange(N, dtype=np.uint8),
    "large with fractions": 1e9 * stream.random(N),
}


@pytest.mark.parametrize("values", EXACT.values(), ids=EXACT.keys())
def test_numbers_that_fit_are_no_error(values):
    check_exact(np.column_stack([values]), torch.float32)


def test_float64_modules_take_more():
    check_exact(STAMPS[:, None], torch.float64)
    with pytest.raises(NetError, match=r"torch\.float64 rounds"):
        check_exact(np.array([[2**53 + 1]]), torch.float64)


@pytest.mark.parametrize(("dtype", "digits"), [(torch.float16, 11), (torch.bfloat16, 8)])
def test_shorter_dtypes_take_less(dtype, digits):
    check_exact(np.array([[2**digits]]), dtype)
    with pytest.raises(NetError, match=f"{dtype} rounds"):
        check_exact(np.array([[2**digits + 1]]), dtype)


def test_scaled_time_stamps_stay_apart():
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), fed()).fit(frame(STAMPS), Y)
    assert len(np.unique(model.predict_proba(frame(STAMPS).assign(amount=0.0))[:, 1])) == N


def test_rows_to_predict_and_to_watch_are_checked_too():
    fitted = fed().fit(frame(np.arange(N)), Y)
    with pytest.raises(NetError, match="Column 'when' of X holds"):
        fitted.predict(frame(STAMPS))
    with pytest.raises(NetError, match="of X_val holds"):
        fed().fit(frame(np.arange(N)), Y, X_val=frame(STAMPS), y_val=Y)


# --- modules that want integers ----------------------------------------------------------------------------


class Words(nn.Module):
    """A bag of words, as one would write it for skorch."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(12, 4)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.table(x).mean(1))


def words(dtype=np.int64):
    return np.random.default_rng(1).integers(0, 12, size=(N, 5)).astype(dtype)


def net(**settings):
    return NeuralNetClassifier(Words, criterion=nn.CrossEntropyLoss, lr=0.1, max_epochs=1, **settings)


@pytest.mark.parametrize("engine", ["loop", "auto"])
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
def test_an_embedding_gets_integers(engine, dtype):
    X = words(dtype)
    model = fed(net(), engine=engine, relabeler=FedReLaRelabeler(), validation=0.2).fit(X, Y)
    expected = model.net_.module_.eval()(torch.from_numpy(X.astype(np.int64))).softmax(1).detach()
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-6)


@pytest.mark.parametrize(
    "settings",
    [{"n_jobs": 2}, {"algorithm": "scaffold"}, {"algorithm": "fedrod"}, {"class_weight": "balanced"},
     {"algorithm": "fedlc"}, {"algorithm": "fednova"}],
    ids=str,
)  # fmt: skip
def test_integers_go_wherever_rows_go(settings):
    model = fed(net(), **settings).fit(words(), Y, sample_weight=1.0 + Y)
    assert np.isfinite(model.predict_proba(words(), groups=np.arange(N) % 3)).all()


def test_engines_agree_on_integers():
    double = [
        fed(
            NeuralNetClassifier(Double, criterion=nn.CrossEntropyLoss, lr=0.1), engine=engine, n_rounds=3
        ).fit(words(), Y)
        for engine in ("loop", "auto")
    ]
    np.testing.assert_allclose(*(model.predict_proba(words()) for model in double), rtol=1e-10)


class Double(Words):
    def __init__(self):
        super().__init__()
        self.double()


def test_rows_to_predict_may_be_whole_floats_and_nothing_else():
    model = fed(net()).fit(words(), Y)
    np.testing.assert_array_equal(model.predict(words().astype(float)), model.predict(words()))
    for bad in (0.5, 1e300):
        with pytest.raises(NetError, match="X holds a number in row 0 that is no int64"):
            model.predict(words() + bad)


def test_an_oversampler_that_mixes_rows_is_refused_where_rows_are_integers():
    from imblearn.over_sampling import SMOTE, RandomOverSampler

    y = (np.arange(N) % 4 == 0).astype(int)
    fed(net(), local_data=RandomOverSampler()).fit(words(), y)
    with pytest.raises(ValueError, match="made rows with fractions, but the module takes integers"):
        fed(net(), local_data=SMOTE(k_neighbors=1)).fit(words(), y)


def test_floats_for_a_module_that_wants_integers_are_an_error_as_in_skorch():
    with pytest.raises(NetError, match="The module fails on rows of shape"):
        fed(net()).fit(words().astype(float), Y)


# --- rows of another shape, and what is no table of numbers ----------------------------------------------------


class Image(nn.Sequential):
    def __init__(self):
        super().__init__(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4, 2))


def test_images_of_another_size_are_refused():
    X = stream.normal(size=(N, 1, 6, 6))
    model = fed(NeuralNetClassifier(Image, criterion=nn.CrossEntropyLoss, max_epochs=1)).fit(X, Y)
    for other in (X[..., :4], X[:, 0], X[:, [0, 0]]):
        with pytest.raises(ValueError, match=r"rows of shape .* fitted on rows of shape \(1, 6, 6\)"):
            model.predict(other)
    with pytest.raises(ValueError, match=r"X_val has rows of shape"):
        fed(NeuralNetClassifier(Image, criterion=nn.CrossEntropyLoss, max_epochs=1)).fit(
            X, Y, X_val=X[..., :4], y_val=Y
        )


def test_tables_in_place_of_images_and_the_other_way_round():
    model = fed().fit(SMALL, Y)
    with pytest.raises(ValueError, match=r"X has rows of shape \(2, 1\), .* \(2,\)"):
        model.predict(SMALL[:, :, None])
    with pytest.raises(ValueError, match=r"X has 1 features, but FederatedClassifier is expecting 2"):
        model.predict(SMALL[:, :1])


DATES = pd.date_range("2026-01-01", periods=N)


@pytest.mark.parametrize(
    "X",
    [
        pd.DataFrame({"amount": SMALL[:, 0], "when": DATES}),
        pd.DataFrame({"when": DATES}),
        pd.DataFrame({"amount": SMALL[:, 0], "when": DATES - DATES[0]}),
        pd.DataFrame({"amount": SMALL[:, 0], "when": DATES.astype(str)}),
        pd.DataFrame({"amount": SMALL[:, 0], "when": DATES.tz_localize("UTC")}),
    ],
    ids=["dates", "dates only", "durations", "words", "time zone"],
)
def test_dates_are_refused_with_their_column(X):
    with pytest.raises(ValueError, match=r"Column 'when' of X holds .* which is no number"):
        fed().fit(X, Y)


@pytest.mark.parametrize("X", [DATES.to_numpy()[:, None], (DATES - DATES[0]).to_numpy()[:, None],
                               np.column_stack([SMALL[:, 0].astype(object), DATES.astype(object)])])  # fmt: skip
def test_arrays_of_dates_are_refused_with_their_column(X):
    with pytest.raises(
        (TypeError, ValueError), match=rf"Column {X.shape[1] - 1} of X holds .* which is no number"
    ):
        fed().fit(X, Y)


@pytest.mark.parametrize(
    "X", [{"a": SMALL}, torch.utils.data.TensorDataset(torch.zeros(N, 2)), (x for x in SMALL)]
)
def test_what_cannot_be_cut_into_rows_is_named(X):
    with pytest.raises(ValueError, match=rf"X must be an array.*got {type(X).__name__}"):
        fed().fit(X, Y)
