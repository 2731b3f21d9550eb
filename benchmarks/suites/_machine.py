"""Versions and hardware, to stand beside every figure."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version

from benchmarks.suites._commits import commit


def machine():
    """Facts about this machine and the libraries, as a dictionary."""
    names = ("fedrela_sk", "torch", "numpy", "scipy", "scikit-learn", "skorch", "joblib")
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: _version(name) for name in names},
    }


def facts_of_run():
    """`machine`, and the commit of the code: what a page says whose figures come from one run."""
    return machine() | {"commit": commit()}


def _version(name):
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"
