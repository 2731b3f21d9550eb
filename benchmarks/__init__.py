"""Benchmarks: ``python -m benchmarks.run <suite>`` from the project's root."""
