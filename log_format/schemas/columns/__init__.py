"""Values of a schema as columns of Arrow, many at once: the shape of a schema, and readers of Avro, of Protobuf and
of JSON documents.

What a value of a schema is belongs here; which schema a topic's values have does not.
"""
