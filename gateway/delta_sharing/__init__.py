"""Delta Sharing's protocol (https://github.com/delta-io/delta-sharing/blob/main/PROTOCOL.md), for reading: topics as tables.

A file for each part: shares and their tables, a table's version, metadata and files, its changes by version, predicates, signed
URLs. What a version of a table has is in ``log_format.checkpoints.table_files``; here are paths, bodies and answers.

Absent on purpose: change data feeds, temporary credentials, asynchronous queries, pages of changes.
"""
