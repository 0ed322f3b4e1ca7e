"""Models and messages of Protobuf as values: their bytes, and the registration of their schemas."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.producer.conversion import as_bytes
from tidelog.schemas.models import document_of, is_model
from tidelog.schemas.protobuf import framed, is_message


class Models:
    """What a producer does with values that are models or messages.

    Thread-safe: a model may be registered twice, which changes nothing.

    Args:
        register: registers a model under a subject; None: nobody does.
        message_id: returns the id of the schema that a message's class has in a subject.
    """

    def __init__(self, register: Callable[[type, str], None] | None, message_id: Callable[[type, str], int]) -> None:
        self._register = register
        self._message_id = message_id
        self._registered: set[tuple[str, type]] = set()
        self._ids: dict[tuple[str, type], int] = {}

    def needs_registration(self, topic: str, value: object) -> bool:
        """Return whether the registry is to be asked about the value's class first."""
        if is_message(type(value)):
            return (topic, type(value)) not in self._ids
        return self._register is not None and (topic, type(value)) not in self._registered and is_model(type(value))

    def register(self, topic: str, model: type) -> None:
        """Register a model as the topic's values, or learn the id of a message's schema.

        Raises as ``Schemas.register``, ``TypeError`` as ``json_schema``, and ``UnknownSchema`` for a message whose schema is not
        registered.
        """
        if is_message(model):
            self._ids[topic, model] = self._message_id(model, f"{topic}-value")
        elif self._register is not None:
            self._register(model, f"{topic}-value")
            self._registered.add((topic, model))

    def bytes_of(self, topic: str, value: object) -> bytes:
        """Return a value as bytes: a model as a JSON document, registered where that is wanted, a message as Confluent's
        serializer writes it. Raises ``TypeError``, ``ValueError``."""
        if isinstance(value, str):
            return value.encode()
        if is_message(type(value)):
            if self.needs_registration(topic, value):
                self.register(topic, type(value))
            return framed(value, self._ids[topic, type(value)])
        if not is_model(type(value)):
            return as_bytes(value, "value")
        if self.needs_registration(topic, value):
            self.register(topic, type(value))
        return document_of(value)
