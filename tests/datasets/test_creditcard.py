"""The card payments of OpenML, with a local stand-in for the network."""

import functools
import sys
from urllib.error import URLError

import numpy as np
import pandas as pd
import pytest
import sklearn.datasets
from sklearn.utils import Bunch

from fedrela_sk.datasets import _creditcard, fetch_creditcard
from fedrela_sk.exceptions import DatasetError

N = 284_807


@functools.cache
def stand_in(n_frauds=492, labels=("0", "1")):
    """What OpenML sends: 29 numeric columns, and a target of two categories of text."""
    columns = [*(f"V{k}" for k in range(1, 29)), "Amount"]
    values = np.zeros((N, 29), dtype=np.float32)
    values[:, -1] = np.arange(N)
    codes = np.zeros(N, dtype=int)
    codes[:: N // n_frauds][:n_frauds] = 1
    codes[codes.cumsum() > n_frauds] = 0
    target = pd.Series(pd.Categorical.from_codes(codes, list(labels)), name="Class")
    return Bunch(data=pd.DataFrame(values, columns=columns), target=target)


@pytest.fixture
def openml(monkeypatch):
    calls = []

    def install(answer):
        def fake(**arguments):
            calls.append(arguments)
            return answer

        monkeypatch.setattr(sklearn.datasets, "fetch_openml", fake)
        return calls

    return install


def test_asks_openml_for_1597(openml, tmp_path):
    calls = openml(stand_in())
    fetch_creditcard(data_home=tmp_path)
    assert calls == [{"data_id": 1597, "data_home": tmp_path, "as_frame": True}]


@pytest.mark.parametrize("labels", [("0", "1"), ("'0'", "'1'")])
def test_frame(openml, labels):
    openml(stand_in(labels=labels))
    bunch = fetch_creditcard()
    assert bunch.data.shape == (284807, 29)
    assert (bunch.data.dtypes == np.float64).all()
    assert bunch.target.dtype == np.int64
    assert bunch.target.sum() == 492
    assert bunch.target_names == ["genuine", "fraud"]
    assert bunch.feature_names == list(bunch.data.columns)
    np.testing.assert_array_equal(bunch.amount, np.arange(N))
    assert bunch.frame.columns.tolist() == [*bunch.feature_names, "Class"]
    assert bunch.DESCR is _creditcard.__doc__


def test_arrays(openml):
    openml(stand_in())
    bunch = fetch_creditcard(as_frame=False)
    for name in ("data", "target", "amount"):
        assert isinstance(bunch[name], np.ndarray)
    assert bunch.frame is None
    X, y = fetch_creditcard(as_frame=False, return_X_y=True)
    np.testing.assert_array_equal(X, bunch.data)
    np.testing.assert_array_equal(y, bunch.target)


def test_documentation_gives_these_numbers():
    for text in (fetch_creditcard.__doc__, _creditcard.__doc__):
        for number in ("284,807", "492", "1597"):
            assert number in text
    assert "0.173 %, 577 to 1" in _creditcard.__doc__
    assert f"{100 * 492 / N:.3f}" == "0.173"
    assert f"{(N - 492) / 492:.1f}" == "577.9"


def test_other_number_of_frauds(openml):
    openml(stand_in(n_frauds=400))
    with pytest.raises(
        DatasetError, match=r"has 400 frauds, expected 492: .*clear_data_home.*use make_payments"
    ):
        fetch_creditcard()


def test_no_network(monkeypatch):
    def offline(**arguments):
        raise URLError("no route")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", offline)
    with pytest.raises(DatasetError, match=r"could not get data set 1597.*no route.*use make_payments"):
        fetch_creditcard()


def test_without_pandas(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"fetch_creditcard needs pandas.*'fedrela_sk\[plots\]'"):
        fetch_creditcard()


def test_bad_parameter():
    with pytest.raises(ValueError, match=r"'data_home' parameter of fetch_creditcard must be .* Got 3"):
        fetch_creditcard(data_home=3)


def test_the_sample_in_the_data_folder_has_the_same_columns_and_frauds(data_folder):
    # a sample of the same payments that keeps all frauds: the numbers this reader insists on are those of the source
    with np.load(data_folder / "fraud" / "creditcard_ulb_sample.npz") as sample:
        assert sample["feature_names"].tolist() == stand_in().data.columns.tolist()
        assert sample["y"].sum() == _creditcard.N_FRAUDS
