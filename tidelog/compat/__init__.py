"""Classes of Kafka's Python clients over Tidelog's HTTP API: a program changes its imports and its addresses.

``tidelog.compat.kafka`` stands for kafka-python, ``tidelog.compat.confluent_kafka`` for confluent-kafka. Here lives what
translates: names, defaults, units, errors. What it means to send and to read lives in the SDK. What has no counterpart is
refused by name, never ignored; settings that only tune sockets and brokers are taken and have no effect.
"""
