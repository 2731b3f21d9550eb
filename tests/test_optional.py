"""Libraries that need not be installed: what they are called, and what is said without them."""

import sys

import pytest

from fedrela_sk._optional import data_frame, import_extra


def test_a_module_that_is_there_is_returned():
    assert import_extra("json.decoder", "Somebody") is sys.modules["json.decoder"]


@pytest.mark.parametrize(
    ("given", "name"),
    [(("absent.part", "Who"), "absent"), (("absent.part", "Who", "Absentee"), "Absentee")],
    ids=["package", "library"],
)
def test_the_error_names_who_needs_what_and_how_to_get_it(given, name):
    with pytest.raises(ImportError) as caught:
        import_extra(*given, instead=", or not.")
    assert str(caught.value) == (
        f"Who needs {name}, which could not be imported (No module named 'absent'). "
        "Install it with: pip install 'fedrela_sk[plots]', or not."
    )


def test_options_of_a_data_frame_are_passed_on():
    pytest.importorskip("pandas")
    frame = data_frame({"a": [1, 2], "b": [3, 4]}, index=["x", "y"])
    assert frame.loc["y", "b"] == 4


def test_a_data_frame_without_pandas(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(
        ImportError, match=r"A data frame needs pandas.*'fedrela_sk\[plots\]'\. .*available as arrays"
    ):
        data_frame({})
