"""Query a topic with SQL: ``python examples/spark_sql.py STORE TOPIC ["SELECT … FROM topic"]``.

STORE is a directory, file:///directory or s3://bucket/prefix. The view ``topic`` has the columns of Spark's Kafka source.
"""

import sys

from spark_pipeline import read_topic, session

if len(sys.argv) < 3:
    sys.exit(__doc__)
STORE, TOPIC = sys.argv[1:3]
QUERY = (
    sys.argv[3]
    if len(sys.argv) > 3
    else "SELECT partition, count(*) AS records, max(offset) AS last_offset, max(timestamp) AS newest "
    "FROM topic GROUP BY partition ORDER BY partition"
)

spark = session(STORE, app_name="spark_sql")
read_topic(spark, STORE, TOPIC).createOrReplaceTempView("topic")
spark.sql(QUERY).show(50, truncate=60)
spark.stop()
