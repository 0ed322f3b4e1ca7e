"""Kafka's console tools, as their scripts start them."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.kafka_clients.tried.programs import Failed, expect, expect_in, java, run, tool


def topics(servers: str, directory: Path) -> None:
    """kafka-topics: create, list, describe, alter, delete."""
    del directory
    at = ("--bootstrap-server", servers)
    made = tool(
        "TopicCommand", *at, "--create", "--topic", "tool.topics", "--partitions", 3, "--config", "retention.ms=3600000"
    )
    expect_in("Created topic tool.topics", made)
    again = run(java("org.apache.kafka.tools.TopicCommand", *at, "--create", "--topic", "tool.topics"), may_fail=True)
    expect_in("TopicExistsException", again)
    tool("TopicCommand", *at, "--create", "--if-not-exists", "--topic", "tool.topics")
    expect_in("tool.topics", tool("TopicCommand", *at, "--list"))
    described = tool("TopicCommand", *at, "--describe", "--topic", "tool.topics")
    expect_in("PartitionCount: 3", described)
    expect_in("retention.ms=3600000", described)
    tool("TopicCommand", *at, "--alter", "--topic", "tool.topics", "--partitions", 5)
    expect_in("PartitionCount: 5", tool("TopicCommand", *at, "--describe", "--topic", "tool.topics"))
    tool("TopicCommand", *at, "--delete", "--topic", "tool.topics")
    if "tool.topics" in tool("TopicCommand", *at, "--list"):
        raise Failed("a deleted topic is listed")


def configs(servers: str, directory: Path) -> None:
    """kafka-configs: describe, alter, delete of a topic's; describe a broker's."""
    del directory
    at = ("--bootstrap-server", servers)
    tool("TopicCommand", *at, "--create", "--topic", "tool.configs", "--partitions", 1)
    command = "kafka.admin.ConfigCommand"
    of = (*at, "--entity-type", "topics", "--entity-name", "tool.configs")
    run(java(command, *of, "--alter", "--add-config", "cleanup.policy=[compact,delete],retention.ms=7200000"))
    described = run(java(command, *of, "--describe"))
    expect_in("retention.ms=7200000", described)
    expect_in("cleanup.policy=compact,delete", described)
    run(java(command, *of, "--alter", "--delete-config", "retention.ms"))
    if "retention.ms=7200000" in run(java(command, *of, "--describe")):
        raise Failed("a deleted setting is still there")
    expect_in("segment.bytes=", run(java(command, *of, "--describe", "--all")))
    refused = run(java(command, *of, "--alter", "--add-config", "no.such.setting=1"), may_fail=True)
    expect_in("no.such.setting", refused)


def console(servers: str, directory: Path) -> None:
    """kafka-console-producer, kafka-console-consumer: keys, headers, a group."""
    del directory
    at = ("--bootstrap-server", servers)
    tool("TopicCommand", *at, "--create", "--topic", "tool.console", "--partitions", 2)
    lines = "".join(f"h:{number}\tk{number}\tv{number}\n" for number in range(100))
    properties = ("--reader-property", "parse.key=true", "--reader-property", "parse.headers=true")
    producer = "org.apache.kafka.tools.ConsoleProducer"
    run(java(producer, *at, "--topic", "tool.console", *properties), given=lines)
    shown = ("--formatter-property", "print.key=true", "--formatter-property", "print.headers=true")
    wanted = set(lines.splitlines())
    consumer = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    for more in (("--group", "tool.console"), ("--partition", "0", "--offset", "earliest")):
        start = () if "--partition" in more else ("--from-beginning",)
        said = run(
            java(consumer, *at, "--topic", "tool.console", *start, *more, *shown, "--timeout-ms", "15000"),
            may_fail=True,
        )
        got = [line for line in said.splitlines() if line.startswith("h:")]
        if "--group" in more:
            expect(sorted(got), sorted(wanted), "records")
        elif not got or not set(got) <= wanted:
            raise Failed(f"partition 0 has {len(got)} records")


def groups(servers: str, directory: Path) -> None:
    """kafka-consumer-groups: list, describe, reset offsets, delete."""
    del directory
    at = ("--bootstrap-server", servers)
    tool("TopicCommand", *at, "--create", "--topic", "tool.groups", "--partitions", 1)
    run(java("org.apache.kafka.tools.ConsoleProducer", *at, "--topic", "tool.groups"), given="a\nb\nc\n")
    consumer = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    for protocol in ("classic", "consumer"):
        group = f"tool.groups.{protocol}"
        with_protocol = ("--command-property", f"group.protocol={protocol}")
        of = (*at, "--topic", "tool.groups", "--group", group, "--from-beginning", "--max-messages", 3)
        run(java(consumer, *of, *with_protocol, "--timeout-ms", 30000))
        command = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
        expect_in(group, run(java(command, *at, "--list")))
        described = run(java(command, *at, "--describe", "--group", group))
        if not re.search(rf"{re.escape(group)}\s+tool\.groups\s+0\s+3\s+3\s+0\b", described):
            raise Failed(f"{protocol}: described as {described.strip()[-200:]!r}")
        reset = ("--reset-offsets", "--to-earliest", "--topic", "tool.groups", "--execute")
        run(java(command, *at, "--group", group, *reset))
        described = run(java(command, *at, "--describe", "--group", group))
        if not re.search(r"tool\.groups\s+0\s+0\s+3\s+3\b", described):
            raise Failed(f"{protocol}: after the reset described as {described.strip()[-200:]!r}")
        run(java(command, *at, "--delete", "--group", group))


def share_groups(servers: str, directory: Path) -> None:
    """kafka-share-groups, kafka-console-share-consumer: set, consume, list, describe, reset and delete offsets, delete."""
    del directory
    at = ("--bootstrap-server", servers)
    topic, group = "tool.shares", "tool.shares.group"
    times = ("--config", "message.timestamp.type=LogAppendTime")
    tool("TopicCommand", *at, "--create", "--topic", topic, "--partitions", 1, *times)
    run(java("org.apache.kafka.tools.ConsoleProducer", *at, "--topic", topic), given="a\nb\nc\n")
    entity = ("--entity-type", "groups", "--entity-name", group)
    run(java("kafka.admin.ConfigCommand", *at, "--alter", *entity, "--add-config", "share.auto.offset.reset=earliest"))
    expect_in("share.auto.offset.reset=earliest", run(java("kafka.admin.ConfigCommand", *at, "--describe", *entity)))
    consumer = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
    found = run(java(consumer, *at, "--topic", topic, "--group", group, "--max-messages", 3, "--timeout-ms", 30000))
    expect(found.split(), ["a", "b", "c"], "consumed")
    command = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
    expect_in(group, run(java(command, *at, "--list")))
    described = run(java(command, *at, "--describe", "--group", group))
    if not re.search(rf"{re.escape(group)}\s+tool\.shares\s+0\s+3\s+0\b", described):
        raise Failed(f"described as {described.strip()[-200:]!r}")
    expect_in("Empty", run(java(command, *at, "--describe", "--state", "--group", group)))
    run(java(command, *at, "--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute"))
    again = ("--formatter-property", "print.timestamp=true", "--max-messages", 3, "--timeout-ms", 30000)
    found = run(java(consumer, *at, "--topic", topic, "--group", group, *again))
    expect(re.findall(r"(\w+):\d+\s(\w)", found), [("LogAppendTime", one) for one in "abc"], "consumed again")
    expect_in(topic, run(java(command, *at, "--delete-offsets", "--group", group, "--topic", topic)))
    described = run(java(command, *at, "--describe", "--group", group))
    if re.search(rf"{re.escape(group)}\s+tool\.shares\s+0\s", described):
        raise Failed(f"described after its offsets' deletion as {described.strip()[-200:]!r}")
    run(java(command, *at, "--delete", "--group", group))
    if group in run(java(command, *at, "--list")):
        raise Failed("it is listed after its deletion")


def delete_records(servers: str, directory: Path) -> None:
    """kafka-delete-records, kafka-get-offsets."""
    at = ("--bootstrap-server", servers)
    tool("TopicCommand", *at, "--create", "--topic", "tool.delete", "--partitions", 1)
    run(java("org.apache.kafka.tools.ConsoleProducer", *at, "--topic", "tool.delete"), given="a\nb\nc\nd\n")
    wanted = directory / "delete.json"
    wanted.write_text(json.dumps({"partitions": [{"topic": "tool.delete", "partition": 0, "offset": 3}], "version": 1}))
    said = tool("DeleteRecordsCommand", *at, "--offset-json-file", wanted)
    expect_in("low_watermark: 3", said)
    expect_in("tool.delete:0:3", tool("GetOffsetShell", *at, "--topic", "tool.delete", "--time", "earliest"))
    expect_in("tool.delete:0:4", tool("GetOffsetShell", *at, "--topic", "tool.delete", "--time", "latest"))


def verifiable(servers: str, directory: Path) -> None:
    """kafka-verifiable-producer, kafka-verifiable-consumer."""
    del directory
    at = ("--bootstrap-server", servers)
    tool("TopicCommand", *at, "--create", "--topic", "tool.verifiable", "--partitions", 4)
    said = tool("VerifiableProducer", *at, "--topic", "tool.verifiable", "--max-messages", 2000, "--acks", -1)
    sent = json.loads(said.strip().splitlines()[-1])
    expect((sent["sent"], sent["acked"]), (2000, 2000), "sent and acknowledged")
    of = (*at, "--topic", "tool.verifiable", "--group-id", "tool.verifiable", "--max-messages", 2000)
    said = tool("VerifiableConsumer", *of, "--reset-policy", "earliest")
    consumed = sum(one["count"] for one in map(json.loads, said.splitlines()) if one["name"] == "records_consumed")
    expect(consumed, 2000, "consumed")


def performance(servers: str, directory: Path) -> None:
    """kafka-producer-perf-test, kafka-consumer-perf-test."""
    del directory
    at = ("--bootstrap-server", servers)
    tool("TopicCommand", *at, "--create", "--topic", "tool.perf", "--partitions", 4)
    of = ("--topic", "tool.perf", "--num-records", 100_000, "--record-size", 100, "--throughput", -1)
    said = tool("ProducerPerformance", *of, "--bootstrap-server", servers, "--command-property", "linger.ms=50")
    expect_in("100000 records sent", said)
    said = run(
        java("org.apache.kafka.tools.ConsumerPerformance", *at, "--topic", "tool.perf", "--num-records", 100_000)
    )
    expect_in("100000", said)


def acls(servers: str, directory: Path) -> None:
    """kafka-acls: says that there are none with auth=off."""
    del directory
    said = run(java("org.apache.kafka.tools.AclCommand", "--bootstrap-server", servers, "--list"), may_fail=True)
    if "auth=off" not in said and "SecurityDisabled" not in said:
        raise Failed(said.strip()[-200:])


def others(servers: str, directory: Path) -> None:
    """kafka-cluster, kafka-broker-api-versions, kafka-log-dirs, kafka-leader-election, kafka-features."""
    del directory
    at = ("--bootstrap-server", servers)
    expect_in("Cluster ID", tool("ClusterTool", "cluster-id", *at))
    expect_in("Produce(0)", tool("BrokerApiVersionsCommand", *at))
    tool("TopicCommand", *at, "--create", "--topic", "tool.others")
    expect_in("tool.others", tool("LogDirsCommand", *at, "--describe", "--topic-list", "tool.others"))
    election = ("--election-type", "preferred", "--topic", "tool.others", "--partition", 0)
    expect_in("already", tool("LeaderElectionCommand", *at, *election).lower())
