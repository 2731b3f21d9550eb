"""Sparse rows: the same numbers as dense ones, a client or a chunk of them dense at a time."""

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from fedrela_sk import FederatedClassifier, FedReLaRelabeler
from fedrela_sk.exceptions import NetError, NotFiniteError
from fedrela_sk.training import Stacked
from fedrela_sk.training._sparse import SparseRows

stream = np.random.default_rng(0)
DENSE = stream.normal(size=(120, 9)) * (stream.random((120, 9)) < 0.3)
Y = (DENSE[:, 0] + 0.3 * stream.normal(size=120) > 0.4).astype(int)
FORMATS = [sparse.csr_matrix, sparse.csr_array, sparse.csc_matrix, sparse.csc_array, sparse.coo_array]


def make(**settings):
    return FederatedClassifier(**({"clients": 5, "n_rounds": 3, "relabeler": FedReLaRelabeler(), "relabel_at": 1,
                                   "random_state": 0} | settings))  # fmt: skip


def outcome(fed, X, **fit):
    fed = fed.fit(X, Y, **fit)
    return fed.predict_proba(X, groups=np.arange(120) % 5), fed.y_relabeled_


@pytest.mark.parametrize("container", FORMATS)
def test_every_format_gives_what_dense_rows_give(container):
    dense, sparse_ = outcome(make(), DENSE), outcome(make(), container(DENSE))
    for a, b in zip(dense, sparse_, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "settings",
    [
        {"engine": "loop"},
        {"engine": "stacked"},
        {"n_jobs": 2},
        {"n_jobs": 2, "engine": "loop"},
        {"validation": 0.2, "select": "best_validation"},
        {"algorithm": "fedrod"},
        {"algorithm": "local_only"},
        {"algorithm": "creff"},
        {"relabel_posteriors": {"passes": "training"}},
    ],
    ids=str,
)
def test_wherever_rows_go(settings):
    dense, sparse_ = (outcome(make(**settings), X) for X in (DENSE, sparse.csr_array(DENSE)))
    for a, b in zip(dense, sparse_, strict=True):
        np.testing.assert_array_equal(a, b)


def test_memory_and_resampled_rows(tmp_path):
    from imblearn.over_sampling import RandomOverSampler

    for settings in ({"memory": tmp_path}, {"memory": tmp_path}, {"local_data": RandomOverSampler()}):
        dense, sparse_ = (outcome(make(**settings), X) for X in (DENSE, sparse.csr_array(DENSE)))
        np.testing.assert_array_equal(dense[0], sparse_[0])


def test_validation_rows_of_the_callers():
    fits = [
        make(select="best_validation").fit(X, Y, X_val=X[:40], y_val=Y[:40])
        for X in (DENSE, sparse.csr_array(DENSE))
    ]
    assert [r.valid_score for r in fits[0].history_] == [r.valid_score for r in fits[1].history_]


def test_in_pipelines_and_searches():
    words = np.array(["red", "green", "blue", "white"])[stream.integers(0, 4, size=(120, 2))]
    encoded = make_pipeline(OneHotEncoder(), make())
    search = GridSearchCV(encoded, {"federatedclassifier__relabeler__tau": [0.0, 0.1]}, cv=2).fit(words, Y)
    assert search.best_estimator_.predict(words).shape == (120,)
    texts = [" ".join(row) for row in words]
    assert cross_val_predict(make_pipeline(TfidfVectorizer(), make()), texts, Y, cv=2).shape == (120,)
    mixed = make_column_transformer((OneHotEncoder(), [0, 1]), sparse_threshold=1.0)
    assert make_pipeline(mixed, make()).fit(words, Y).score(words, Y) > 0


@pytest.mark.parametrize(
    ("engine", "most"), [("loop", 12), (Stacked(chunk_size=2), 24)], ids=["loop", "stacked"]
)
def test_only_some_rows_are_dense_at_a_time(engine, most, monkeypatch):
    """Ten clients of 12 rows: one of them, or two that train together."""
    sizes, before = [], SparseRows.__getitem__

    def noted(self, rows):
        dense = before(self, rows)
        sizes.append(len(dense))
        return dense

    monkeypatch.setattr(SparseRows, "__getitem__", noted)
    make(engine=engine, clients=10).fit(sparse.csr_array(DENSE), Y)
    assert max(sizes) == most


def test_a_row_that_is_not_finite_is_named_with_its_client():
    X = sparse.lil_array(DENSE)
    X[7, 2] = np.nan
    with pytest.raises(NotFiniteError, match=r"contains NaN in row 7 \(client \d\); 1 rows are affected"):
        make().fit(X.tocsr(), Y)
    X[7, 2] = 1e300
    with pytest.raises(NotFiniteError, match="too large for the module's dtype"):
        make().fit(X.tocsr(), Y)


def test_whole_numbers_that_would_be_rounded_are_named():
    X = sparse.lil_array(DENSE)
    X[:, 3] = 2**24 + 1
    with pytest.raises(NetError, match=r"Column 3 of X holds 16777217"):
        make().fit(X.tocsr(), Y)


def test_the_callers_matrix_is_left_alone():
    X = sparse.csr_array((np.ones(3), [0, 0, 1], [0, 2, 3]), shape=(2, 2))
    X = sparse.vstack([X] * 20, format="csr")
    kept = X.copy()
    make(clients=2).fit(X, [0, 1] * 20)
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(X, name), getattr(kept, name))


def test_rows_come_as_tensors_of_the_matrix():
    rows = SparseRows(sparse.csr_array(DENSE.astype(np.float32)))
    assert len(rows) == 120
    assert rows.shape == (120, 9)
    assert rows.dtype == torch.float32
    for index in (slice(3, 9), [1, 1, 5], torch.tensor([2, 0])):
        np.testing.assert_array_equal(rows[index], DENSE.astype(np.float32)[index])
    np.testing.assert_array_equal(rows.take(np.array([4, 2]))[:], DENSE.astype(np.float32)[[4, 2]])
    more = rows.with_rows(torch.ones(2, 9))
    assert len(more) == 122
    np.testing.assert_array_equal(more[[121]], np.ones((1, 9)))
