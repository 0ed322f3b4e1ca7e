"""One Kafka broker (KRaft, controller in the same process) on 127.0.0.1, with Kafka's shipped settings.

Two settings differ: 8 partitions by default, as our topics here have, and requests of up to 4 MiB, so that large batches can be
measured. The broker does not fsync, which is Kafka's default: its acknowledgements are measured without.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.processes import Server, free_port, running

_PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={directory}/log
num.network.threads=3
num.io.threads=8
num.partitions=8
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
message.max.bytes=4194304
auto.create.topics.enable=false
"""
_LOGGING = """<Configuration status="ERROR">
<Appenders><Console name="c" target="SYSTEM_ERR"><PatternLayout pattern="%p %m%n"/></Console></Appenders>
<Loggers><Root level="ERROR"><AppenderRef ref="c"/></Root></Loggers>
</Configuration>
"""
_JAVA = ["java", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-Djava.awt.headless=true"]


def kept() -> Path:
    """Return the directory in which ``scripts/kafka.sh install`` puts the jars and the clients' environment."""
    return Path(os.environ.get("TIDELOG_CACHE", Path.home() / ".cache" / "tidelog")) / "kafka"


@dataclass(frozen=True, slots=True)
class Broker:
    """A running broker, or what answers as one. ``logging``: a file for Kafka's programs (``written_logging``)."""

    server: Server
    address: str
    logging: Path

    def make_topic(self, name: str) -> None:
        """Create a topic with the broker's defaults."""
        command = ["--bootstrap-server", self.address, "--create", "--topic", name]
        run_tool("org.apache.kafka.tools.TopicCommand", command, self.logging)


def tool(main_class: str, arguments: list[str], logging: Path, heap: str = "256m") -> list[str]:
    """Return the command line of one of Kafka's own programs."""
    return [
        *_JAVA,
        f"-Xmx{heap}",
        f"-Dlog4j2.configurationFile={logging}",
        "-cp",
        f"{kept() / 'libs'}/*",
        main_class,
        *arguments,
    ]


def written_logging(directory: Path) -> Path:
    """Write a file that tells Kafka's programs what to log."""
    path = directory / "log4j2.xml"
    path.write_text(_LOGGING)
    return path


def run_tool(main_class: str, arguments: list[str], logging: Path) -> str:
    """Run one of Kafka's own programs, and return its output. Raises ``RuntimeError`` with its words when it fails."""
    done = subprocess.run(
        tool(main_class, arguments, logging), capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{main_class} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


@contextlib.contextmanager
def broker() -> Iterator[Broker]:
    """Run a broker on an empty directory. Raises ``FileNotFoundError`` without its jars."""
    if not (kept() / "complete").exists():
        raise FileNotFoundError(f"no Kafka in {kept()}: run scripts/kafka.sh install")
    directory = Path(tempfile.mkdtemp(prefix="tidelog-bench-kafka-"))
    try:
        logging, properties = written_logging(directory), directory / "server.properties"
        port, controller_port = free_port(), free_port()
        properties.write_text(_PROPERTIES.format(port=port, controller_port=controller_port, directory=directory))
        cluster_id = run_tool("kafka.tools.StorageTool", ["random-uuid"], logging).split()[-1]
        run_tool("kafka.tools.StorageTool", ["format", "-t", cluster_id, "-c", str(properties)], logging)
        command = tool("kafka.Kafka", [str(properties)], logging, heap="1g")
        with running(Server(command, port, None)) as server:
            yield Broker(server, f"127.0.0.1:{port}", logging)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
