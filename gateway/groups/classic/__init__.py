"""Kafka's classic groups: clients that assign partitions among themselves, by opaque bytes that the coordinator hands on.

``group.py`` has the phases of a rebalance, ``roster.py`` the members, ``consumer_protocol.py`` the meaning of consumers'
bytes. Neither Kafka's frames nor members whose partitions the gateway assigns are known here.
"""
