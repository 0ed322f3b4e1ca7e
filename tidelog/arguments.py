"""Early checks of arguments that other log clients accept, with errors that name what to write here.

Without these checks such a call fails late, by a timeout or an unrelated error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import TypeVar

from tidelog.kafka_names import refused_argument
from tidelog.types.record import TopicPartition

T = TypeVar("T")


def check_servers(given: object) -> None:
    """Raise ``TypeError`` for a value that can't be ``bootstrap_servers``."""
    if isinstance(given, Mapping):
        raise TypeError(
            "bootstrap_servers is an address, not a mapping of settings: give only the address here, and each setting as an "
            "argument, such as Producer('http://127.0.0.1:8080', linger_ms=5) or "
            "Consumer('orders', group='billing', bootstrap_servers='http://127.0.0.1:8080')"
        )
    if given is None or isinstance(given, str):
        return
    if not isinstance(given, Sequence) or not all(isinstance(each, str) for each in given):
        raise TypeError(f"bootstrap_servers is an address, or a list of them, not {given!r}")


_CONNECTION = frozenset({"token", "token_file", "trusted_hosts", "ca_file", "cert_file", "key_file", "zone"})


def check_connection(given: Mapping[str, object]) -> None:
    """Raise ``TypeError`` for an argument name that no client accepts."""
    for name in given:
        if name not in _CONNECTION:
            raise TypeError(refused_argument(name))


def check_topics(topics: Iterable[object], compression: object = None) -> None:
    """Raise ``TypeError`` for values that can't be topic names; check ``compression`` as ``check_compression``."""
    check_compression(compression)
    for each in topics:
        if isinstance(each, Mapping):
            check_servers(each)
        if not isinstance(each, str):
            raise TypeError(
                f"topics are given one by one, as Consumer('orders', 'clicks'), and each is text, not {_kind(each)}: "
                "write Consumer(*topics) for a list of them"
            )


def each_of(names: Iterable[str], call: Callable[[str], T]) -> list[T]:
    """Return the result of ``call`` for each name, in order. An exception gets a note with the names done before.

    Raises ``TypeError`` for values that are no list of names, such as a single name, or a Kafka client's ``NewTopic``.
    """
    if isinstance(names, str):
        raise TypeError(f"topics are given as a list: [{names!r}]")
    wanted = list(names)
    for name in wanted:
        if not isinstance(name, str):
            raise TypeError(
                f"a topic is given by its name, not {_kind(name)}: its partitions and settings are arguments"
            )
    results: list[T] = []
    for name in wanted:
        try:
            results.append(call(name))
        except Exception as error:
            done = ", ".join(wanted[: len(results)]) or "none"
            error.add_note(
                f"Failed at topic {name!r}, number {len(results) + 1} of {len(wanted)}; done before it: {done[:500]}."
            )
            raise
    return results


def check_partitions(partitions: Iterable[object], call: str) -> None:
    """Raise ``TypeError`` for a value that is no ``TopicPartition``. ``call``: the right call, with ``{}`` for its partitions."""
    for each in partitions:
        if not isinstance(each, TopicPartition):
            raise TypeError(
                f"a partition is a TopicPartition, not {_kind(each)}: write {call.format('TopicPartition(topic, 0)')}"
                + (f", or {call.format('*partitions')} for a list of them" if "[" not in call else "")
            )


def check_offset(offset: object) -> None:
    """Raise ``TypeError`` for a value that is no number, such as the result of ``committed``."""
    if isinstance(offset, int) and not isinstance(offset, bool):
        return
    said = f"an offset is a number, not {_kind(offset)}"
    if isinstance(offset, Mapping):
        said += ": committed(partition) returns an offset for each partition, so write committed(partition)[partition]"
    raise TypeError(said)


def require_pyarrow(what: str) -> None:
    """Raise ``ModuleNotFoundError`` with installation instructions if pyarrow is missing."""
    try:
        import pyarrow  # noqa: F401, PLC0415 - the SDK works without it
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f"{what} needs pyarrow: pip install 'tidelog[arrow]'", name="pyarrow") from None


def zstd_available() -> bool:
    """Return whether zstandard is installed, which alone is larger than the rest of the SDK."""
    return find_spec("zstandard") is not None


def check_compression(compression: object) -> None:
    """Raise ``ValueError`` for an unknown compression, ``ModuleNotFoundError`` if its library is missing."""
    if compression not in {None, "gzip", "zstd"}:
        raise ValueError(f"compression is {compression!r}, not 'gzip', 'zstd' or None")
    if compression == "zstd" and not zstd_available():
        raise ModuleNotFoundError(
            "compression='zstd' needs zstandard: pip install 'tidelog[zstd]', or compression='gzip'", name="zstandard"
        )


def _kind(given: object) -> str:
    return f"the {type(given).__name__} {given!r}"
