"""Inputs of ``tidelog produce`` (lines, NDJSON, JSON, CSV, Parquet), and how they are sent."""
