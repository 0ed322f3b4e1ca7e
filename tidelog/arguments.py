"""Arguments that other log clients take: refused at once, with the name that they have here.

Without these checks such a call fails late, by a time-out or an error about something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidelog.types.record import TopicPartition


def check_servers(given: object) -> None:
    """Raises ``TypeError`` for what can be no ``bootstrap_servers``."""
    if isinstance(given, Mapping):
        raise TypeError(
            "bootstrap_servers is an address, not a mapping of settings: give the address alone and each setting as an "
            "argument, such as Producer('http://127.0.0.1:8080', linger_ms=5) or "
            "Consumer('orders', group='billing', bootstrap_servers='http://127.0.0.1:8080')"
        )
    if given is None or isinstance(given, str):
        return
    if not isinstance(given, Sequence) or not all(isinstance(each, str) for each in given):
        raise TypeError(f"bootstrap_servers is an address, or a list of them, not {given!r}")


def check_topics(topics: Iterable[object]) -> None:
    """Raises ``TypeError`` for what can be no names of topics."""
    for each in topics:
        if isinstance(each, Mapping):
            check_servers(each)
        if not isinstance(each, str):
            raise TypeError(
                f"topics are given one by one, as Consumer('orders', 'clicks'), and each is text, not {_kind(each)}: "
                "write Consumer(*topics) for a list of them"
            )


def check_partitions(partitions: Iterable[object], call: str) -> None:
    """Raises ``TypeError`` for what is no ``TopicPartition``; ``call`` is how they are given here, ``{}`` standing for them."""
    for each in partitions:
        if not isinstance(each, TopicPartition):
            raise TypeError(
                f"a partition is a TopicPartition, not {_kind(each)}: write {call.format('TopicPartition(topic, 0)')}"
                + (f", or {call.format('*partitions')} for a list of them" if "[" not in call else "")
            )


def require_pyarrow(what: str) -> None:
    """Raises ``ModuleNotFoundError`` that says how to install it."""
    try:
        import pyarrow  # noqa: F401, PLC0415 - the SDK works without it
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f"{what} needs pyarrow: pip install 'tidelog[arrow]'", name="pyarrow") from None


def _kind(given: object) -> str:
    return f"the {type(given).__name__} {given!r}"
