"""Copy records that contain a text from topic to topic, each once.

``python examples/spark_topic_to_topic.py STORE FROM TO TEXT CHECKPOINT`` copies the present records and ends. Run again, it
continues, even after a kill. Both topics must exist.
"""

import sys

from pyspark.sql.functions import col

from spark_pipeline import session

if len(sys.argv) < 6:
    sys.exit(__doc__)
STORE, FROM, TO, TEXT, CHECKPOINT = sys.argv[1:6]

spark = session(STORE, app_name="spark_topic_to_topic")
records = spark.readStream.format("tidelog").options(store=STORE, subscribe=FROM, startingOffsets="earliest").load()
matching = records.where(col("value").cast("string").contains(TEXT)).select("key", "value")
writing = matching.writeStream.format("tidelog").options(store=STORE, topic=TO, checkpointLocation=CHECKPOINT)
writing.trigger(availableNow=True).start().awaitTermination()
spark.stop()
