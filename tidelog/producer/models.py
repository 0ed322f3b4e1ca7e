"""Models as values: their documents, and the registration of their schemas."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.producer.conversion import as_bytes
from tidelog.schemas.models import document_of, is_model


class Models:
    """What a producer does with values that are models. ``register``: registers a model under a subject; None: nobody does.

    Thread-safe: a model may be registered twice, which changes nothing.
    """

    def __init__(self, register: Callable[[type, str], None] | None) -> None:
        self._register = register
        self._registered: set[tuple[str, type]] = set()

    def needs_registration(self, topic: str, value: object) -> bool:
        """Return whether the value's model is to be registered first."""
        return self._register is not None and (topic, type(value)) not in self._registered and is_model(type(value))

    def register(self, topic: str, model: type) -> None:
        """Register a model as the topic's values. Raises as ``Schemas.register``, and ``TypeError`` as ``json_schema``."""
        if self._register is not None:
            self._register(model, f"{topic}-value")
            self._registered.add((topic, model))

    def bytes_of(self, topic: str, value: object) -> bytes:
        """Return a value as bytes: a model as a JSON document, registered where that is wanted. Raises ``TypeError``."""
        if isinstance(value, str):
            return value.encode()
        if not is_model(type(value)):
            return as_bytes(value, "value")
        if self.needs_registration(topic, value):
            self.register(topic, type(value))
        return document_of(value)
