"""Fetching: arguments handed on, and errors that say what to do."""

from urllib.error import URLError

import pandas as pd
import pytest
import sklearn.datasets
from sklearn.utils import Bunch

from fedrela_sk.datasets._openml import fetch
from fedrela_sk.exceptions import DatasetError


def fetch_seven(**options):
    return fetch(7, "fetch_seven", n_rows=3, data_home="home", remedy="or count to three.", **options)


def test_arguments_reach_scikit_learn(monkeypatch):
    calls = []

    def fake(**arguments):
        calls.append(arguments)
        return Bunch(data=pd.DataFrame({"a": [1, 2, 3]}))

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fake)
    assert fetch_seven(as_frame=True).data["a"].tolist() == [1, 2, 3]
    assert calls == [{"data_id": 7, "data_home": "home", "as_frame": True}]


def test_no_network(monkeypatch):
    def offline(**arguments):
        raise URLError("Name or service not known")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", offline)
    message = (
        r"fetch_seven could not get data set 7 .*URLError: .*Name or service.*data_home; or count to three"
    )
    with pytest.raises(DatasetError, match=message) as caught:
        fetch_seven()
    assert isinstance(caught.value, OSError)
    assert isinstance(caught.value.__cause__, URLError)


def test_other_errors_pass(monkeypatch):
    def wrong(**arguments):
        raise ValueError("md5 checksum does not match")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", wrong)
    with pytest.raises(ValueError, match="md5 checksum"):
        fetch_seven()


def test_other_number_of_rows(monkeypatch):
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", lambda **arguments: Bunch(data=[[1], [2]]))
    with pytest.raises(DatasetError, match=r"has 2 rows, expected 3: .*clear_data_home\); or count to three"):
        fetch_seven()
