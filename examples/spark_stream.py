"""Follow a topic with Structured Streaming: ``python examples/spark_stream.py STORE TOPIC``; Ctrl-C ends it.

Prints each record as it arrives, from the topic's beginning. A real query has a permanent checkpoint, and continues from there.
"""

import signal
import sys
import tempfile
import threading

from pyspark.sql.functions import col

from spark_pipeline import session, stream_topic

if len(sys.argv) < 3:
    sys.exit(__doc__)
STORE, TOPIC = sys.argv[1:3]

spark = session(STORE, app_name="spark_stream")
records = stream_topic(spark, STORE, TOPIC).select(
    "partition", "offset", "timestamp", col("key").cast("string"), col("value").cast("string")
)
with tempfile.TemporaryDirectory() as checkpoint:
    query = records.writeStream.format("console").option("checkpointLocation", checkpoint).start()
    stopped = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: stopped.set())  # instead of pyspark's own, which ends in a traceback
    while query.isActive and not stopped.wait(1):
        pass
    query.stop()
    query.awaitTermination()  # raises the query's failure
spark.stop()
