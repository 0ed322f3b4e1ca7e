"""Apache Kafka beside Tidelog: one broker on this machine and its usual clients, measured in the same run.

``scripts/kafka.sh install`` fetches the broker's jars and an environment with the clients, outside the repository.
"""
