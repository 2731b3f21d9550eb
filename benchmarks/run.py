"""Run one suite: ``python -m benchmarks.run speed``. Results go to ``benchmarks/results``."""

import argparse
import importlib

SUITES = (
    "speed",
    "drift",
    "auto_table",
    "algorithms",
    "sceptic",
    "paper",
    "cost",
    "one_client",
    "gallery",
    "claims",
)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("options", nargs=argparse.REMAINDER, help="of the suite: <suite> --help")
    known = parser.parse_args(arguments)
    importlib.import_module(f"benchmarks.suites.{known.suite}").main(known.options)


if __name__ == "__main__":
    main()
