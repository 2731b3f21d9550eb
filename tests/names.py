"""Names of every dtype of NumPy, pandas, polars and pyarrow: what labels, groups and clients may be called."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

# three names a kind; those called big are one name once they have been floats
BIG = [2**53, 2**53 + 1, 2**53 + 2]
HUGE = [2**63 + 1, 2**63 + 2, 2**64 - 1]
BOTH_SIGNS = [-1, 2**63, 2**63 + 1]
SMALL = [3, 5, 11]
WORDS = ["alpha", "beta, longer", "gamma"]
DAYS = [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 2), dt.datetime(2021, 5, 5, 12, 30)]
SPANS = [dt.timedelta(1), dt.timedelta(2), dt.timedelta(3, 5)]
DECIMALS = [Decimal("0.10"), Decimal("0.1000000000000000000001"), Decimal("2")]
BYTES = [b"a", b"bb", b"ccc"]


def objects(values):
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def numpy_of(dtype):
    return lambda values: np.array(values, dtype=dtype)


def pandas_of(dtype):
    return lambda values: pd.Series(values, dtype=dtype, index=np.arange(len(values))[::-1])


def arrow_dtype(kind):
    return pandas_of(pd.ArrowDtype(kind))


def polars_of(dtype=None):
    return lambda values: pl.Series("name", values, dtype=dtype)


def arrow_of(kind=None):
    return lambda values: pa.array(values, type=kind)


# name: (function of a list of names -> container, three names in order)
CONTAINERS = {
    "int8": (numpy_of(np.int8), SMALL),
    "uint16": (numpy_of(np.uint16), SMALL),
    "int64": (numpy_of(np.int64), BIG),
    "uint64": (numpy_of(np.uint64), HUGE),
    "big endian": (numpy_of(">i8"), BIG),
    "float32": (numpy_of(np.float32), [1.0, 2.0, 4.0]),
    "float64": (numpy_of(np.float64), [0.0, 1.0, 2.0]),
    "str": (np.array, WORDS),
    "StringDType": (numpy_of(np.dtypes.StringDType()), WORDS),
    "object str": (objects, WORDS),
    "object int": (objects, BIG),
    "object NumPy int": (lambda values: objects([np.int64(value) for value in values]), BIG),
    "object both signs": (objects, BOTH_SIGNS),
    "object Decimal": (objects, DECIMALS),
    "object datetime": (objects, DAYS),
    "datetime64[s]": (numpy_of("M8[s]"), DAYS),
    "datetime64[ns]": (numpy_of("M8[ns]"), [np.datetime64(1577836800000000000 + k, "ns") for k in range(3)]),
    "timedelta64": (numpy_of("m8[ms]"), SPANS),
    "masked": (np.ma.array, BIG),
    "column": (lambda values: np.array(values)[:, None], BIG),
    "list of int": (list, BIG),
    "list of both signs": (list, BOTH_SIGNS),
    "tuple of str": (tuple, WORDS),
    "Int64": (pandas_of("Int64"), BIG),
    "Int8": (pandas_of("Int8"), SMALL),
    "UInt64": (pandas_of("UInt64"), HUGE),
    "Float64": (pandas_of("Float64"), [0.0, 1.0, 2.0]),
    "pandas int64": (pandas_of("int64"), BIG),
    "pandas str": (pandas_of("str"), WORDS),
    "pandas string": (pandas_of("string"), WORDS),
    "pandas object": (pandas_of(object), WORDS),
    "pandas object int": (pandas_of(object), BIG),
    "category of str": (pandas_of("category"), WORDS),
    "category of int": (pandas_of("category"), BIG),
    "category of Int64": (lambda values: pd.Series(values, dtype="Int64").astype("category"), BIG),
    "pandas datetime": (pandas_of("datetime64[ns]"), DAYS),
    "pandas datetime with zone": (lambda values: pd.Series(values).dt.tz_localize("UTC"), DAYS),
    "pandas timedelta": (pandas_of("timedelta64[ns]"), SPANS),
    "Period": (
        lambda values: pd.Series(pd.PeriodIndex(values, freq="D")),
        ["2020-01-01", "2020-01-02", "2021-01-01"],
    ),
    "int64[pyarrow]": (arrow_dtype(pa.int64()), BIG),
    "uint64[pyarrow]": (arrow_dtype(pa.uint64()), HUGE),
    "string[pyarrow]": (pandas_of("string[pyarrow]"), WORDS),
    "large_string[pyarrow]": (arrow_dtype(pa.large_string()), WORDS),
    "timestamp[pyarrow]": (arrow_dtype(pa.timestamp("us")), DAYS),
    "decimal[pyarrow]": (arrow_dtype(pa.decimal128(30, 22)), DECIMALS),
    "dictionary[pyarrow]": (
        lambda values: pd.Series(pd.arrays.ArrowExtensionArray(pa.array(values).dictionary_encode())),
        WORDS,
    ),
    "pandas Index": (pd.Index, BIG),
    "pandas Categorical": (pd.Categorical, WORDS),
    "pandas array": (lambda values: pd.array(values, dtype="Int64"), BIG),
    "pandas frame": (lambda values: pd.DataFrame({"name": pd.Series(values, dtype="Int64")}), BIG),
    "polars Int64": (polars_of(), BIG),
    "polars UInt64": (polars_of(pl.UInt64), HUGE),
    "polars Int128": (polars_of(pl.Int128), BOTH_SIGNS),
    "polars Int8": (polars_of(pl.Int8), SMALL),
    "polars Float64": (polars_of(), [0.0, 1.0, 2.0]),
    "polars String": (polars_of(), WORDS),
    "polars Categorical": (polars_of(pl.Categorical), WORDS),
    "polars Enum": (polars_of(pl.Enum(WORDS)), WORDS),
    "polars Datetime": (polars_of(), DAYS),
    "polars Date": (polars_of(), [dt.date(2020, 1, 1), dt.date(2020, 1, 2), dt.date(2021, 1, 1)]),
    "polars Duration": (polars_of(), SPANS),
    "polars Decimal": (polars_of(pl.Decimal(30, 22)), DECIMALS),
    "polars frame": (lambda values: pl.DataFrame({"name": values}), BIG),
    "arrow int64": (arrow_of(), BIG),
    "arrow uint64": (arrow_of(pa.uint64()), HUGE),
    "arrow double": (arrow_of(), [0.0, 1.0, 2.0]),
    "arrow string": (arrow_of(), WORDS),
    "arrow timestamp": (arrow_of(), DAYS),
    "arrow decimal": (arrow_of(pa.decimal128(30, 22)), DECIMALS),
    "arrow dictionary": (lambda values: pa.array(values).dictionary_encode(), BIG),
    "arrow chunks": (lambda values: pa.chunked_array([values[:1], values[1:]]), BIG),
    "arrow table": (lambda values: pa.table({"name": values}), BIG),
}

# two names
BOOLEANS = {
    "bool": numpy_of(bool),
    "object bool": objects,
    "list of bool": list,
    "boolean": pandas_of("boolean"),
    "pandas bool": pandas_of("bool"),
    "category of bool": pandas_of("category"),
    "bool[pyarrow]": arrow_dtype(pa.bool_()),
    "polars Boolean": polars_of(),
    "arrow bool": arrow_of(),
}

# rows 2 and 4 of five have no name
MISSING = {
    "None": objects(["a", "b", None, "a", None]),
    "None among integers": objects([1, 2, None, 1, None]),
    "NaN among objects": objects(["a", "b", np.nan, "a", np.nan]),
    "NA among objects": objects(["a", "b", pd.NA, "a", pd.NA]),
    "NaT among objects": objects([*DAYS[:2], pd.NaT, DAYS[0], np.datetime64("NaT")]),
    "NaN": np.array([0.0, 1.0, np.nan, 0.0, np.nan]),
    "Decimal NaN": objects([*DECIMALS[:2], Decimal("NaN"), DECIMALS[0], Decimal("sNaN")]),
    "NaT": np.array(["2020-01-01", "2020-01-02", "NaT", "2020-01-01", "NaT"], dtype="M8[D]"),
    "NaT of spans": np.array([1, 2, "NaT", 1, "NaT"], dtype="m8[s]"),
    "masked": np.ma.array([1, 2, 3, 1, 3], mask=[0, 0, 1, 0, 1]),
    "list": [1, 2, None, 1, None],
    "list with NaN": [1.0, 2.0, float("nan"), 1.0, float("nan")],
    "Int64": pd.Series([1, 2, None, 1, None], dtype="Int64"),
    "Float64": pd.Series([1, 2, None, 1, None], dtype="Float64"),
    "boolean": pd.Series([True, False, None, True, None], dtype="boolean"),
    "pandas str": pd.Series(["a", "b", None, "a", None], dtype="str"),
    "string": pd.Series(["a", "b", None, "a", None], dtype="string"),
    "category": pd.Series(["a", "b", None, "a", None], dtype="category"),
    "category of int": pd.Series([1, 2, None, 1, None], dtype="category"),
    "pandas datetime": pd.Series([*DAYS[:2], None, DAYS[0], None]),
    "int64[pyarrow]": pd.Series([1, 2, None, 1, None], dtype="int64[pyarrow]"),
    "frame": pd.DataFrame({"name": pd.Series([1, 2, None, 1, None], dtype="Int64")}),
    "polars Int64": pl.Series([1, 2, None, 1, None]),
    "polars String": pl.Series(["a", "b", None, "a", None]),
    "polars NaN": pl.Series([1.0, 2.0, float("nan"), 1.0, None]),
    "polars Datetime": pl.Series([*DAYS[:2], None, DAYS[0], None]),
    "arrow int64": pa.array([1, 2, None, 1, None]),
    "arrow string": pa.array(["a", "b", None, "a", None]),
    "arrow chunks": pa.chunked_array([[1, 2, None], [1, None]]),
}


def container(kind, codes):
    """Names of a kind, one for every entry of `codes` (0, 1, 2)."""
    make, names = CONTAINERS[kind]
    return make([names[code] for code in np.asarray(codes).tolist()])
