"""Every error is also the builtin that a caller would catch."""

import inspect

import pytest

from fedrela_sk import exceptions

CLASSES = {
    name: kind
    for name, kind in inspect.getmembers(exceptions, inspect.isclass)
    if kind.__module__ == exceptions.__name__
}
BUILTINS = {
    "CheckError": AssertionError,
    "ClientError": ValueError,
    "DatasetError": OSError,
    "GroupsError": ValueError,
    "LabelError": ValueError,
    "NetError": ValueError,
    "NotFiniteError": (ValueError, ArithmeticError),
    "PartitionError": ValueError,
    "PosteriorError": ValueError,
}


@pytest.mark.parametrize(("name", "builtins"), BUILTINS.items())
def test_an_error_is_a_builtin_too(name, builtins):
    for builtin in builtins if isinstance(builtins, tuple) else (builtins,):
        with pytest.raises(builtin, match=r"^what was got$"):
            raise CLASSES[name]("what was got")
    assert issubclass(CLASSES[name], exceptions.FedReLaError)


@pytest.mark.parametrize("kind", CLASSES.values(), ids=list(CLASSES))
def test_no_class_stands_outside_python(kind):
    warning = issubclass(kind, Warning)
    assert warning != issubclass(kind, exceptions.FedReLaError)
    builtins = [base for base in kind.__mro__ if base.__module__ == "builtins"]
    beyond = {Exception, BaseException, object}
    assert kind is exceptions.FedReLaError or set(builtins) > beyond


def test_what_is_not_finite_is_an_error_of_a_client():
    assert issubclass(exceptions.NotFiniteError, exceptions.ClientError)


@pytest.mark.parametrize("kind", CLASSES.values(), ids=list(CLASSES))
def test_every_class_says_what_it_is_for(kind):
    assert kind.__doc__
