"""Spark reading a topic, beside its Kafka source and beside a source that reads nothing."""
