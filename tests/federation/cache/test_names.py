"""What code reaches through other ways than names: followed, or refused with a message."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from fedrela_sk.exceptions import MemoryWarning
from fedrela_sk.federation.cache._fingerprint import NotKeyable, describe
from tests.federation.cache.test_rounds import X, assert_same, entries, fit

HEAD = """
import builtins
import collections
import contextlib
import functools
import importlib
import operator
import os
import pickle
import random
import sys
from builtins import eval as run

import numpy as np
import torch

import own_rates
import own_rates as other_name
from own_rates import rate, Rates

NAME, OPS, HELD = "rate", {"rate": rate}, [own_rates]
"""
RATES = """
def rate(t):
    return 0.5

class Rates:
    value = 0.5
    def rate(self, t):
        return self.value
"""
FOLLOWED = {
    "by name": "def schedule(t): return rate(t)",
    "attribute": "def schedule(t): return own_rates.rate(t)",
    "attribute under another name": "def schedule(t): return other_name.rate(t)",
    "inside an inner function": "def schedule(t):\n    def inner(): return own_rates.rate(t)\n    return inner()",
    "inside a comprehension": "def schedule(t): return [own_rates.rate(t) for _ in range(1)][0]",
    "table of functions": "def schedule(t): return OPS[NAME](t)",
    "default": "def schedule(t, f=rate): return f(t)",
    "keyword default": "def schedule(t, *, f=rate): return f(t)",
    "attribute of the function": "def schedule(t): return schedule.f(t)\nschedule.f = rate",
    "partial": "schedule = functools.partial(call, rate)",
    "cached": "@functools.lru_cache\ndef schedule(t): return rate(t)",
    "cached without end": "@functools.cache\ndef schedule(t): return rate(t)",
    "cached elsewhere": "schedule = functools.cache(rate)",
    "wrapped": "@functools.wraps(np.mean)\ndef schedule(t): return rate(t)",
    "wrapped by its like": "@functools.wraps(rate)\ndef schedule(t): return own_rates.rate(t)",
    "class": "class Own(Rates):\n    def __call__(self, t): return self.rate(t)\nschedule = Own()",
    "method by getattr": "class Own(Rates):\n"
    "    def __call__(self, t): return getattr(self, NAME)(t)\nschedule = Own()",
    "bound method": "schedule = Rates().rate",
    "class method": "class Own:\n    @classmethod\n    def f(cls, t): return rate(t)\nschedule = Own.f",
    "metaclass": "class Meta(type):\n    def f(cls, t): return rate(t)\nclass Own(metaclass=Meta):\n"
    "    def __call__(self, t): return type(self).f(t)\nschedule = Own()",
    "update_wrapper": "class Own:\n    def __init__(self, f): functools.update_wrapper(self, np.mean); self.f = f\n"
    "    def __call__(self, t): return self.f(t)\nschedule = Own(rate)",
    "hidden from pickle": "class Own:\n    def __init__(self): self.f = rate\n    def __getstate__(self): return {}\n"
    "    def __call__(self, t): return self.f(t)\nschedule = Own()",
    "slots": "class Own:\n    __slots__ = ('f',)\n    def __init__(self): self.f = rate\n"
    "    def __call__(self, t): return self.f(t)\nschedule = Own()",
    "a function of autograd": "class F(torch.autograd.Function):\n"
    "    @staticmethod\n    def forward(ctx, x): return x * rate(1)\n"
    "    @staticmethod\n    def backward(ctx, g): return g\n"
    "class Net(torch.nn.Module):\n    def forward(self, x): return F.apply(x)\nschedule = Net()",
    "a package's function over it": "schedule = torch.func.vmap(rate)",
    "a generator": "def g(): yield rate(1)\ndef schedule(t): return next(g())",
    "a context": "@contextlib.contextmanager\ndef c(): yield rate(1)\n"
    "def schedule(t):\n    with c() as r: return r",
    "a class inside": "def schedule(t):\n    class A: r = own_rates.Rates.value\n    return A.r",
    "a named tuple": "P = collections.namedtuple('P', 'r')\np = P(Rates.value)\ndef schedule(t): return p.r",
    "__getattr__ of a class": "class Own:\n    def __getattr__(self, name):\n"
    "        if name.startswith('_') or name == 'get_params': raise AttributeError(name)\n        return rate\n"
    "    def __call__(self, t): return self.any(t)\nschedule = Own()",
    "made by a library": "schedule = np.vectorize(rate)\nschedule = functools.partial(call, schedule)",
}
HEAD += """
def call(f, t):
    return float(f(t))
"""
REFUSED = {
    "getattr of a module": "def schedule(t): return getattr(own_rates, NAME)(t)",
    "getattr with a fixed name": "def schedule(t): return getattr(own_rates, 'rate')(t)",
    "getattr in an inner function": "def schedule(t):\n    def inner(): return getattr(own_rates, NAME)\n"
    "    return inner()(t)",
    "a module passed on": "def of(m, t): return m.rate(t)\ndef schedule(t): return of(own_rates, t)",
    "a module under another name": "def schedule(t):\n    m = own_rates\n    return m.rate(t)",
    "vars": "def schedule(t): return vars(own_rates)['rate'](t)",
    "__dict__": "def schedule(t): return own_rates.__dict__['rate'](t)",
    "attrgetter": "def schedule(t): return operator.attrgetter(NAME)(own_rates)(t)",
    "a module in a list": "def schedule(t): return getattr(HELD[0], NAME)(t)",
    "a module as default": "def schedule(t, m=own_rates): return getattr(m, NAME)(t)",
    "a module in an object": "class Own:\n    def __init__(self): self.m = own_rates\n"
    "    def __call__(self, t): return self.m.rate(t)\nschedule = Own()",
    "import inside": "def schedule(t):\n    import own_rates\n    return own_rates.rate(t)",
    "import of a name inside": "def schedule(t):\n    from own_rates import rate\n    return rate(t)",
    "import_module": "def schedule(t): return importlib.import_module('own_rates').rate(t)",
    "__import__": "def schedule(t): return __import__('own_rates').rate(t)",
    "sys.modules": "def schedule(t): return sys.modules['own_rates'].rate(t)",
    "eval": "def schedule(t): return eval('rate(t)')",
    "eval of builtins": "def schedule(t): return builtins.eval('rate(t)', globals())",
    "eval under another name": "def schedule(t): return run('rate(t)')",
    "eval as default": "def schedule(t, f=eval): return f('rate(t)')",
    "exec": "def schedule(t):\n    d = {}\n    exec('from own_rates import rate', d)\n    return d['rate'](t)",
    "globals": "def schedule(t): return globals()[NAME](t)",
    "__globals__": "def schedule(t): return schedule.__globals__[NAME](t)",
    "a file": "def schedule(t): return float(open(PATH).read())",
    "a file in a method": "class Own:\n    def __call__(self, t):\n"
    "        with open(PATH, 'rb') as f: return float(f.read())\nschedule = Own()",
    "text of a path": "def schedule(t): return float(P.read_text())",
    "a variable of the environment": "def schedule(t): return float(os.environ['OWN_RATE'])",
    "getenv": "def schedule(t): return float(os.getenv('OWN_RATE'))",
    "NumPy's global generator": "def schedule(t): return 0.5 + 0 * np.random.rand()",
    "Python's global generator": "def schedule(t): return 0.5 + 0 * random.random()",
    "a module or another": "def schedule(t):\n    m = own_rates if t else None\n    return m.rate(t)",
    "methodcaller": "def schedule(t): return operator.methodcaller('rate', t)(own_rates)",
    "a weak reference": "import weakref\nw = weakref.ref(rate)\ndef schedule(t): return w()(t)",
    "a ufunc": "schedule = np.frompyfunc(rate, 1, 1)",
    "a generic function": "@functools.singledispatch\ndef schedule(t): return rate(t)",
    "a lambda": "schedule = lambda t: rate(t)",
}


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Write a module of the user's own and what it imports, and import both."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setenv("OWN_RATE", "0.5")

    def write_and_import(text, value="0.5"):
        Path(tmp_path, "rate.txt").write_text(value)
        path = f"from pathlib import Path\nPATH = {str(tmp_path / 'rate.txt')!r}\nP = Path(PATH)\n"
        for name, content in (
            ("own_rates", RATES.replace("0.5", value)),
            ("own_schedule", HEAD + path + text),
        ):
            Path(tmp_path, f"{name}.py").write_text(content)
            monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.invalidate_caches()
        return importlib.import_module("own_schedule").schedule

    return write_and_import


@pytest.mark.parametrize("name", FOLLOWED)
def test_an_edit_of_what_is_reached_is_seen(load, name):
    first = describe(load(FOLLOWED[name]))
    assert describe(load(FOLLOWED[name])) == first
    assert describe(load(FOLLOWED[name], "0.25")) != first


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_followed_has_no_description(load, name):
    with pytest.raises(
        NotKeyable, match=r"cannot be followed|is not known|a lambda|no stable|only as a name"
    ):
        describe(load(REFUSED[name]))


@pytest.mark.parametrize(
    "text", [FOLLOWED["method by getattr"], REFUSED["getattr of a module"]], ids=["self", "module"]
)
def test_a_fit_is_the_same_with_memory_after_an_edit(load, tmp_path, text):
    """The halves of a schedule that is reached by getattr: 0.5, then 0.25."""
    fits = []
    for value in ("0.5", "0.25"):
        schedule = load(text, value)
        for memory in (None, tmp_path / "memory"):
            if memory is not None and "own_rates, NAME" in text:
                with pytest.warns(
                    MemoryWarning, match="memory is not used: own_schedule.schedule uses the module own_rates"
                ):
                    fits.append(fit(memory, lr_schedule=schedule))
            else:
                fits.append(fit(memory, lr_schedule=schedule))
    assert_same(fits[0], fits[1])
    assert_same(fits[2], fits[3])
    assert not np.array_equal(fits[0].predict_proba(X), fits[2].predict_proba(X))
    assert len(entries(tmp_path / "memory")) == (0 if "own_rates, NAME" in text else 2)


def test_who_writes_a_file_or_asks_objects_is_followed(load):
    for text in (
        "def schedule(t):\n    with open(PATH, 'a') as f: f.write('x')\n    return 0.5",
        "def schedule(t): return getattr(t, 'real', 0.5)",
        "def schedule(t): return getattr(torch, NAME, rate)(t)",
        "def schedule(t): return np.random.default_rng(int(t)).random()",
    ):
        assert describe(load(text)) == describe(load(text))
