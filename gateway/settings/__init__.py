"""The gateway's settings, read once at start: command line over environment over default.

``settings``  all settings in one value, their sum in memory, and how they are read
``flush``     flushes that begin before ``flush.ms`` is over
``kafka``     the listener for Kafka's clients
``log``       the gateway's log
``tls``       certificates
``topics``    topics that no client has created
``workers``   several gateways behind one port
``zone``      the gateway's availability zone

Settings of one part that has a folder are there: ``access``, ``console``, ``history``, ``sql``, ``vending``. A topic's settings
are ``log_format.topic.config``.
"""
