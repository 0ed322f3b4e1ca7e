"""Measurements of the whole line, each beside a floor measured in the same run. ``python -m benchmarks --help``."""
