"""The processes under torture: MinIO, and gateways on it, each behind a proxy of its own. Ended by pid."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from tests.support.forked import GATEWAY
from tests.support.minio import Minio
from tests.support.server_process import ServerProcess, free_port
from tests.support.store_proxy import Proxy

BUCKET = "torture"
STORE = f"s3://{BUCKET}/log"
NO_ENVIRONMENTS: Mapping[int, Mapping[str, str]] = MappingProxyType({})


class Service:
    """MinIO and gateways, up and running."""

    def __init__(
        self,
        directory: Path,
        gateways: int,
        settings: Sequence[str] = (),
        environments: Mapping[int, Mapping[str, str]] = NO_ENVIRONMENTS,
    ) -> None:
        """``settings``: of all gateways. ``environments``: added to that of a gateway, by its index."""
        (directory / "minio").mkdir()
        self.minio = Minio(directory / "minio")
        self.environment = self.minio.environment()
        self.minio.create_bucket(BUCKET)
        self.proxies = [Proxy(self.minio.port) for _ in range(gateways)]
        self.gateways = []
        for index, proxy in enumerate(self.proxies):
            own = free_port()
            command = [*GATEWAY, "--store", STORE, "--port", str(own), "--log-level", "warning", "--workers", "1"]
            command += settings
            log = directory / f"gateway-{index}.log"
            environment = self.minio.environment(AWS_ENDPOINT_URL=f"http://127.0.0.1:{proxy.port}")
            environment |= environments.get(index, {})
            gateway = ServerProcess(f"gateway {index}", command, own, "/readyz", environment, log)
            self.gateways.append(gateway)
            gateway.start()

    @property
    def urls(self) -> list[str]:
        """Of all gateways."""
        return [gateway.url for gateway in self.gateways]

    def close(self) -> None:
        """End everything."""
        for gateway in self.gateways:
            gateway.signal(signal.SIGCONT)
            gateway.kill()
        for proxy in self.proxies:
            proxy.close()
        self.minio.signal(signal.SIGCONT)
        self.minio.kill()


@contextlib.contextmanager
def service(
    directory: Path,
    gateways: int = 3,
    settings: Sequence[str] = (),
    environments: Mapping[int, Mapping[str, str]] = NO_ENVIRONMENTS,
) -> Iterator[Service]:
    """A service for the time of the block."""
    running = Service(directory, gateways, settings, environments)
    try:
        yield running
    finally:
        running.close()
