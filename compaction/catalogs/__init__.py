"""Topics as external Delta tables in other systems' catalogs: ``tidelog catalog sync``, once, or beside maintenance.

::

    sync       one run: read the topics and the catalog, carry out the plan (log_format/catalogs/plan.py)
    watch      runs again and again, soon after a topic was created
    topics     what the topics are now, at one request a topic
    catalog    the protocol of a catalog, and its errors
    unity, glue, hive    the catalogs
    options    the options that say which one
    __main__   the program behind the command line

There is no state but the catalog's own: a run that was killed is finished by the next one.
"""

__all__: list[str] = []
