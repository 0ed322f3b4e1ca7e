"""Clients' own tests of themselves, run against a gateway: ``python -m tests.kafka_clients.suites``.

========================  ==================================================================================
``__main__``              the program: a gateway for each suite, the table
``suite``                 what a suite is, and where it runs
``reasons``               which tests may fail, and which are left out, each with its reason
``go_modules``            a Go module of its own copy, and what ``go test`` tells
``franz_go`` …            a file for each suite
``allowed/``              of each suite a line for each test that fails: ``test | reason``
``left_out/``             of each suite a line for the tests that are not run: ``pattern | reason``
========================  ==================================================================================

1. A test that fails and is not allowed to is a failure of the run. So is one that passes and is said to fail, and a line of
   ``allowed/`` whose test did not run: it is to go.
2. A reason that begins with ``as Apache Kafka:`` was seen there. With ``--beside`` one that passes there is a failure, too.
3. Sources are run as they are. Where a suite has an address or a number of brokers written into it, a copy has another one.
"""
