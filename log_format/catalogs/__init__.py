"""Topics as external Delta tables in other systems' catalogs (Unity Catalog, AWS Glue, Hive Metastore): descriptions and plans.

::

    topic      what a catalog needs to know of a topic, by its log
    columns    the columns of a table in the words of Hive and of Spark
    table      a table as it should be, and as a catalog lists it
    plan       which tables to create, alter, replace and drop

Nothing here does I/O: ``compaction/catalogs`` reads the topics, asks the catalogs and carries the plans out.
"""

__all__: list[str] = []
