"""Schemas of values: JSON Schemas made of models, their registration, and values as models.

::

    from tidelog import schemas

    schemas.register(Order, "orders-value")

A model is a dataclass, a msgspec Struct or a pydantic model; messages that Protobuf generated are values as well
(``protobuf``). What is not here: the check of values, which gateways do.
"""

from tidelog.calls.schemas import Schemas
from tidelog.schemas.avro_encoder import avro_encoder
from tidelog.schemas.json_schema import Digits, json_schema
from tidelog.schemas.registration import register

__all__ = ["Digits", "Schemas", "avro_encoder", "json_schema", "register"]
