"""Where ``tidelog produce`` takes records from (lines, NDJSON, JSON, CSV, Parquet), and how it sends them."""
