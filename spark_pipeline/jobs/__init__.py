"""Programs: each runs with ``python -m spark_pipeline.jobs.<name>`` and, as a file, with ``spark-submit``."""
