"""Readers of a topic that is made anew, each a thread: by HTTP and event streams with its id, in groups, and by the SDK."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any, Final

from tests.torture.tortured.clients import Client, Reply
from tests.torture.tortured.renewed_history import Committed, Handed, Looked, Missing, RenewedHistory, Seen
from tidelog import Consumer, TidelogError
from tidelog.errors import UnknownTopic

WAITS_MS: Final = (0, 100, 500, 2_500)
OUT: Final = frozenset({"UNKNOWN_MEMBER", "FENCED_MEMBER", "UNKNOWN_GROUP"})
SESSION_MS: Final = 10_000
NOT_TOLD: Final = 2**63 - 1
"""In place of a high watermark that an answer does not tell."""
_FAR: Final = 1_000_000_000


def follow(client: Client, topic: str, partitions: int, history: RenewedHistory) -> None:
    """Keeps an offset of each partition with the id that it belongs to. Asks for one partition, or for all at once."""
    at: dict[int, tuple[int, str]] = dict.fromkeys(range(partitions), (0, ""))
    while not client.stopping.is_set():
        wait_ms, started = client.rng.choice(WAITS_MS), time.monotonic()
        if client.rng.random() < 0.5:
            asked = [client.rng.randrange(partitions)]
            offset, topic_id = at[asked[0]]
            path = f"/v1/topics/{topic}/partitions/{asked[0]}/records?offset={offset}&max_wait_ms={wait_ms}"
            reply = client.call("GET", path + (f"&topic_id={topic_id}" if topic_id else ""))
            parts = [reply.body if reply.status == 200 else {"error": reply.body}]
        else:
            asked = list(at)
            wanted = [_position(topic, partition, *at[partition]) for partition in asked]
            reply = client.call("POST", "/v1/fetch", {"partitions": wanted, "max_wait_ms": wait_ms})
            parts = reply.body["partitions"] if reply.status == 200 else [{"error": reply.body}]
        ended = time.monotonic()
        for partition, part in zip(asked, parts, strict=False):
            if "error" in part:
                _missing(client.name, part["error"], started, ended, history)
                continue
            history.seen.append(_seen(client.name, part, started, ended, asked=at[partition]))
            at[partition] = (part["next_offset"], part["topic_id"])
        client.stopping.wait(0.05)


def follow_stream(client: Client, reader: str, topic: str, partition: int, history: RenewedHistory) -> None:
    """Follows a partition by an event stream, and resumes it at any gateway with the id of the last event: an offset, and the
    topic's id. ``reader``: its name in the history, shared by those of other partitions."""
    path = f"/v1/topics/{topic}/partitions/{partition}/records"
    at: tuple[int, str] | None = None
    while not client.stopping.is_set():
        started = time.monotonic()
        if at is None:
            reply = client.call("GET", f"{path}?offset=0&max_records=1")
            if reply.status != 200:
                _missing(reader, reply.body, started, time.monotonic(), history)
                client.stopping.wait(0.05)
                continue
            at = (0, reply.body["topic_id"])
        offset, topic_id = at
        headers = {"Accept": "text/event-stream", "Last-Event-ID": f"{offset}@{topic_id}"}
        with client.stream(f"{path}?offset={offset}&topic_id={topic_id}", headers) as (reply, lines):
            if reply.status != 200:
                _missing(reader, reply.body, started, time.monotonic(), history)
            event: dict[str, str] = {}
            for line in lines:
                name, _, value = line.decode().strip().partition(": ")
                if name:
                    event[name] = value
                elif event.get("event") == "record":
                    following, _, event_id = event["id"].partition("@")
                    record = json.loads(event["data"])
                    history.seen.append(
                        Seen(
                            reader=reader,
                            topic_id=event_id,
                            partition=partition,
                            asked=at,
                            offsets=[record["offset"]],
                            values=[record["value"]],
                            next_offset=int(following),
                            high_watermark=NOT_TOLD,
                            started=started,
                            ended=time.monotonic(),
                        )
                    )
                    at = (int(following), event_id)
                if not name:
                    event = {}
                if client.stopping.is_set():
                    break
        client.stopping.wait(0.05)


def be_member(client: Client, group: str, topic: str, history: RenewedHistory) -> None:
    """Polls, and commits with the next poll what it got, naming the topic's id."""
    member: dict[str, Any] = {}
    commit: list[dict[str, Any]] = []
    while not client.stopping.is_set():
        wish = member or {"topics": [topic], "session_timeout_ms": SESSION_MS}
        started = time.monotonic()
        body = wish | {"max_records": 50, "max_wait_ms": client.rng.choice(WAITS_MS)}
        reply = client.call("POST", f"/v1/groups/{group}/poll", body | ({"commit": commit} if commit else {}))
        ended = time.monotonic()
        if reply.status == 200:
            member = {name: reply.body[name] for name in ("member_id", "generation")}
            commit = []
            for part in reply.body["partitions"]:
                if "error" in part:
                    _missing(client.name, part["error"], started, ended, history)
                    continue
                history.seen.append(_seen(client.name, part, started, ended, group=group))
                commit.append(_position(topic, part["partition"], part["next_offset"], part["topic_id"]))
        elif reply.code in OUT:
            member, commit = {}, []
        elif reply.code == "STALE_GENERATION":
            commit = []
        else:
            _missing(client.name, reply.body, started, ended, history)
        client.stopping.wait(0.05)


def commit_by_id(client: Client, group: str, topic: str, history: RenewedHistory) -> None:
    """The only committer of a group: offsets far beyond the log's end, some of them for an incarnation that is gone, by each way
    that offsets have over HTTP."""
    number = 0
    while not client.stopping.wait(client.rng.uniform(0, 0.3)):
        number += 1
        topic_id = client.rng.choice([life.topic_id for life in history.lives[-3:]] + [history.lives[-1].topic_id] * 3)
        started = time.monotonic()
        commit = client.rng.choice((_put, _put_at_once, _put_in_transaction))
        outcome = commit(client, group, [_position(topic, 0, _FAR + number, topic_id)])
        history.committed.append(
            Committed(
                group=group,
                topic_id=topic_id,
                offset=_FAR + number,
                outcome=outcome,
                started=started,
                ended=time.monotonic(),
            )
        )
        started = time.monotonic()
        reply = client.call("GET", f"/v1/groups/{group}/offsets")
        if reply.status == 200:
            held = [one["offset"] for one in reply.body["offsets"]]
            history.looked.append(
                Looked(group=group, offset=held[0] if held else None, started=started, ended=time.monotonic())
            )


def _put(client: Client, group: str, offsets: list[dict[str, Any]]) -> str:
    """Commit offsets; the outcome, as ``Committed`` has it."""
    return _outcome(client.call("PUT", f"/v1/groups/{group}/offsets", {"offsets": offsets}))


def _put_at_once(client: Client, group: str, offsets: list[dict[str, Any]]) -> str:
    """The same by a transaction of one request."""
    body = {"topics": [], "group_offsets": [{"group": group, "offsets": offsets}]}
    return _outcome(client.call("POST", "/v1/records", body))


def _put_in_transaction(client: Client, group: str, offsets: list[dict[str, Any]]) -> str:
    """The same in a transaction. One that nobody commits ends by its time-out."""
    begun, _, _ = client.insist("POST", "/v1/transactions", {"transactional_id": client.name, "timeout_ms": 20_000})
    if begun.status != 201:
        return "refused"
    path = f"/v1/transactions/{begun.body['transaction_id']}"
    staged, _, _ = client.insist("POST", f"{path}/offsets", {"group": group, "offsets": offsets})
    if staged.status != 202:
        client.insist("POST", f"{path}:abort")
        return "refused"
    done, _, doubt = client.insist("POST", f"{path}:commit")
    if done.status == 200 and done.body["state"] == "committed":
        return "yes"
    return "unknown" if doubt else "refused"


def _outcome(reply: Reply) -> str:
    return "yes" if reply.status == 200 else "unknown" if reply.in_doubt else "refused"


def consume(client: Client, urls: Sequence[str], topic: str, settings: dict[str, Any], history: RenewedHistory) -> None:
    """The SDK's consumer, alone or in a group. Raises what does not pass."""
    consumer = Consumer(topic, bootstrap_servers=list(urls), request_timeout_ms=5_000, **settings)
    try:
        while not client.stopping.is_set():
            records = []
            try:
                records = consumer.poll(300)
            except UnknownTopic:
                client.stopping.wait(0.05)
            except TidelogError as error:
                if not error.retryable:
                    raise
            found = [(one.partition, one.offset, (one.value or b"").decode()) for one in records]
            if found:
                history.handed.append(
                    Handed(
                        reader=client.name,
                        group=settings.get("group", ""),
                        from_latest=settings.get("auto_offset_reset") == "latest",
                        records=found,
                        ended=time.monotonic(),
                    )
                )
    finally:
        consumer.close()


def _position(topic: str, partition: int, offset: int, topic_id: str) -> dict[str, Any]:
    named = {"topic_id": topic_id} if topic_id else {}
    return {"topic": topic, "partition": partition, "offset": offset, **named}


def _missing(client: str, problem: Any, started: float, ended: float, history: RenewedHistory) -> None:
    if problem is not None and problem["error_code"] == "UNKNOWN_TOPIC":
        history.missing.append(Missing(client=client, started=started, ended=ended))


def _seen(
    reader: str,
    part: dict[str, Any],
    started: float,
    ended: float,
    *,
    asked: tuple[int, str] | None = None,
    group: str = "",
) -> Seen:
    return Seen(
        reader=reader,
        group=group,
        topic_id=part["topic_id"],
        partition=part["partition"],
        asked=asked,
        offsets=[record["offset"] for record in part["records"]],
        values=[record["value"] for record in part["records"]],
        next_offset=part["next_offset"],
        high_watermark=part["high_watermark"],
        started=started,
        ended=ended,
    )
