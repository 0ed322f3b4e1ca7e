"""Programs: each is run by ``python -m spark_pipeline.jobs.<name>`` or, as a file, by ``spark-submit``."""
