from pathlib import Path

import pytest

from fedrela_sk._main._arguments import Clients, Options, read_arguments


def test_defaults():
    options = read_arguments([])
    assert options == Options("loans", Clients(), None, (0.0, 0.02, 0.05, 0.1, 0.2), 0, Path("fedrela_out"))


def test_everything_given():
    line = "--data fars --clients 40:0.1 --rounds 7 --tau 0.3 0.1 0.3 --seed 5 --out a/b"
    options = read_arguments(line.split())
    assert options == Options("fars", Clients(40, 0.1), 7, (0.0, 0.1, 0.3), 5, Path("a/b"))


def test_clients():
    assert read_arguments(["--clients", "natural"]).clients == Clients()
    assert read_arguments(["--clients", "3"]).clients == Clients(3, None)


def test_help_names_every_option_and_every_data_set(capsys):
    with pytest.raises(SystemExit) as stop:
        read_arguments(["--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    for word in ["--data", "--clients", "--rounds", "--tau", "--seed", "--out", "9,857", "40,000", "99,759"]:
        assert word in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--data cars", "invalid choice: 'cars'"),
        ("--clients 1", "integer K >= 2, or K:ALPHA with ALPHA > 0 such as 40:0.3; got '1'"),
        ("--clients 4:0", "got '4:0'"),
        ("--clients 4:x", "got '4:x'"),
        ("--clients some", "got 'some'"),
        ("--clients 4:nan", "got '4:nan'"),
        ("--rounds 1", "an integer >= 2, so that a round is left after re-labeling; got '1'"),
        ("--rounds 2.5", "got '2.5'"),
        ("--tau 5", "a share in [0, 1], such as 0.05 for 5 %; got '5'"),
        ("--tau -0.1", "got '-0.1'"),
        ("--tau much", "got 'much'"),
        ("--tau nan", "got 'nan'"),
        ("--seed -1", "an integer from 0 to 2**32 - 1; got '-1'"),
    ],
)
def test_values_that_make_no_sense(arguments, message, capsys):
    with pytest.raises(SystemExit) as stop:
        read_arguments(arguments.replace(" -", "=-").split())
    assert stop.value.code == 2
    assert message in capsys.readouterr().err
