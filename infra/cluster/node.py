"""``Node``: one node of Kubernetes with its control plane, in the namespaces of this process.

The process must have namespaces of its own (network, mounts, processes): everything that it starts dies with them. What remains
are files below the state directory and control groups, which ``remove_groups`` removes.

* etcd, apiserver, controller manager, scheduler, kubelet and kube-proxy are one program (``programs/cluster``); containerd, runc
  and the CNI's programs are Debian's.
* Pods have 10.98.0.0/24 at a bridge, Services 10.96.0.0/16, the node 10.99.0.1. The network has no route to the outside.
* The certificates are made by openssl and last for a day.
"""
# ruff: noqa: INP001, S603, T201 - part of a program of its own that runs programs of the system

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

ADDRESS: Final = "10.99.0.1"
SERVER: Final = "https://127.0.0.1:6443"
DNS: Final = "10.96.0.10"
GROUP: Final = "tidelog-cluster"
POLICIES_QUEUE: Final = 100
"""Queue of packets that wait for a verdict, as in ``system/policies.yaml``."""
GROUPS: Final = Path("/sys/fs/cgroup")
START_SECONDS_MAX: Final = 300
CALL_SECONDS_MAX: Final = 600
GROUPS_END_SECONDS_MAX: Final = 30
CONTROLLERS: Final = {"cpu", "cpuset", "hugetlb", "memory", "pids"}
"""What kubelet demands of its group, if the kernel has it."""
CONTAINERD: Final = """
version = 2
root = "{state}/containerd"
state = "{state}/containerd-run"
[plugins."io.containerd.internal.v1.opt"]
  path = "{state}/containerd-opt"
[grpc]
  address = "{state}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/library/pause:line"
  restrict_oom_score_adj = true # where root may not lower it
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{state}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
"""
KUBELET: Final = """
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {{anonymous: {{enabled: false}}, webhook: {{enabled: true}}, x509: {{clientCAFile: {state}/ca.crt}}}}
authorization: {{mode: Webhook}}
cgroupDriver: cgroupfs
cgroupRoot: /{group}
failSwapOn: false
imageGCHighThresholdPercent: 100 # no image could be had again
failCgroupV1: false
clusterDNS: ["{dns}"]
clusterDomain: cluster.local
containerRuntimeEndpoint: unix://{state}/containerd.sock
tlsCertFile: {state}/node.crt
tlsPrivateKeyFile: {state}/node.key
podLogsDir: {state}/pod-logs
evictionHard: {{memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}}
resolvConf: {state}/no-resolv.conf
"""


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def run(*command: str | Path, standard_input: str | None = None, check: bool = True) -> str:
    """Run a program and return its output. Raises SystemExit with the output when it fails."""
    done = subprocess.run(
        [str(word) for word in command],
        input=standard_input, capture_output=True, text=True, timeout=CALL_SECONDS_MAX, check=False,
        stdin=subprocess.DEVNULL if standard_input is None else None,
    )  # fmt: skip
    if check and done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}")
    return done.stdout


class Authority:
    """Certificate authority with its certificates, below one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc")
        self._key = key
        run(
            "openssl", "req", "-x509", *key, "-days", "2", "-subj", "/CN=authority",
            "-keyout", directory / "ca.key", "-out", directory / "ca.crt",
        )  # fmt: skip

    def certify(self, name: str, subject: str, names: str) -> None:
        """Create ``name.crt`` and ``name.key`` for a subject and its alternative names, both in openssl's syntax."""
        at = self.directory / name
        run("openssl", "req", *self._key, "-keyout", f"{at}.key", "-out", f"{at}.csr", "-subj", subject)
        _write(Path(f"{at}.names"), f"subjectAltName={names}\n")
        run(
            "openssl", "x509", "-req", "-in", f"{at}.csr", "-CA", self.directory / "ca.crt",
            "-CAkey", self.directory / "ca.key", "-CAcreateserial", "-days", "1", "-out", f"{at}.crt", "-extfile", f"{at}.names",
        )  # fmt: skip


class Node:
    """A cluster: ``start``, ``kubectl``, ``stop``. Logs and files are below ``state``."""

    def __init__(self, state: Path, programs: Path) -> None:
        self.state, self._program = state, programs / "cluster"
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def kubectl(self, *arguments: str, standard_input: str | None = None, check: bool = True) -> str:
        """Run a command of kubectl as the cluster's administrator, and return its output."""
        config = ("--kubeconfig", str(self.state / "admin.yaml"))
        return run(self._program, "kubectl", *config, *arguments, standard_input=standard_input, check=check)

    def get(self, *arguments: str) -> Any:
        """Return the result of ``kubectl get``."""
        return json.loads(self.kubectl("get", *arguments, "--output", "json"))

    def start(self, archives: list[Path]) -> None:
        """Start the node, and return when it is ready and has the images."""
        self._network()
        self._credentials()
        self._begin("etcd", "etcd", "--data-dir", self.state / "etcd")
        self._begin("apiserver", "kube-apiserver", *self._apiserver())
        self._until("the API answers", lambda: self.kubectl("get", "--raw", "/readyz", check=False) == "ok")
        admin = ("--kubeconfig", self.state / "admin.yaml")
        self._begin(
            "controllers", "kube-controller-manager", *admin, "--root-ca-file", self.state / "ca.crt", "--leader-elect=false",
            "--service-account-private-key-file", self.state / "accounts.key", "--use-service-account-credentials",
        )  # fmt: skip
        self._begin("scheduler", "kube-scheduler", *admin, "--leader-elect=false")
        self._containerd(archives)
        _write(self.state / "no-resolv.conf", "")
        _write(self.state / "kubelet.yaml", KUBELET.format(state=self.state, group=GROUP, dns=DNS))
        make_groups()
        self._begin(
            "kubelet", "kubelet", "--config", self.state / "kubelet.yaml", "--kubeconfig", self.state / "node.yaml",
            "--hostname-override", "node", "--node-ip", ADDRESS, "--root-dir", self.state / "kubelet",
        )  # fmt: skip
        self._begin(
            "proxy", "kube-proxy", *admin, "--hostname-override", "node", "--cluster-cidr", "10.98.0.0/24",
            "--proxy-mode", "iptables", "--conntrack-max-per-core", "0",
            "--conntrack-tcp-timeout-established", "0s", "--conntrack-tcp-timeout-close-wait", "0s",
        )  # fmt: skip
        ready = ("get", "node", "node", "--output", 'jsonpath={.status.conditions[?(@.type=="Ready")].status}')
        self._until("the node is ready", lambda: self.kubectl(*ready, check=False) == "True")

    def stop(self) -> None:
        """End the started processes; pods end with the namespaces."""
        for process in reversed(self._running.values()):
            process.terminate()
        for process in reversed(self._running.values()):
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()

    def ended(self) -> list[str]:
        """Return the parts of the cluster that have ended unexpectedly."""
        return [name for name, process in self._running.items() if process.poll() is not None]

    def _begin(self, log: str, *command: str | Path, program: str | Path | None = None) -> None:
        with (self.state / f"{log}.log").open("wb") as written:
            self._running[log] = subprocess.Popen(
                [str(word) for word in (program or self._program, *command)],
                cwd=self.state, stdin=subprocess.DEVNULL, stdout=written, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def _until(self, what: str, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_SECONDS_MAX
        while not condition():
            if self.ended() or time.monotonic() > deadline:
                logs = "\n".join(
                    (self.state / f"{name}.log").read_text()[-1500:] for name in self.ended() or self._running
                )
                raise SystemExit(f"not within {START_SECONDS_MAX} s: {what}; ended: {self.ended()}\n{logs}")
            time.sleep(0.5)
        print(f"         {what}", file=sys.stderr, flush=True)

    def _network(self) -> None:
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "node", "type", "veth", "peer", "name", "nowhere")
        run("ip", "link", "set", "nowhere", "up")
        run("ip", "addr", "add", f"{ADDRESS}/24", "dev", "node")
        run("ip", "link", "set", "node", "up")
        run("ip", "route", "add", "default", "dev", "node")
        if not Path("/proc/sys/net/bridge").exists():
            run("modprobe", "br_netfilter")
        for name in ("ipv4/ip_forward", "bridge/bridge-nf-call-iptables"):
            Path(f"/proc/sys/net/{name}").write_text("1")
        # What pods begin is judged by system/policies.yaml, if it runs; its own rule for nftables needs a kernel with nft_queue.
        queue = ("-j", "NFQUEUE", "--queue-num", str(POLICIES_QUEUE), "--queue-bypass")
        run("iptables", "-t", "mangle", "-A", "FORWARD", "-m", "conntrack", "--ctstate", "NEW", *queue)
        bridge = {"type": "bridge", "bridge": "pods", "isGateway": True, "hairpinMode": True, "ipam": {
            "type": "host-local", "dataDir": str(self.state / "ipam"), "ranges": [[{"subnet": "10.98.0.0/24"}]],
            "routes": [{"dst": "0.0.0.0/0"}]}}  # fmt: skip
        plugins = [bridge, {"type": "portmap", "capabilities": {"portMappings": True}}]
        _write(
            self.state / "cni/10-bridge.conflist",
            json.dumps({"cniVersion": "0.4.0", "name": "pods", "plugins": plugins}),
        )

    def _credentials(self) -> None:
        authority = Authority(self.state)
        authority.certify(
            "apiserver", "/CN=apiserver", f"IP:127.0.0.1,IP:{ADDRESS},IP:10.96.0.1,DNS:kubernetes.default.svc"
        )
        authority.certify("admin", "/O=system:masters/CN=admin", "DNS:admin")
        authority.certify("node", "/O=system:nodes/CN=system:node:node", f"IP:{ADDRESS},DNS:node")
        authority.certify("front", "/CN=front", "DNS:front")
        run("openssl", "genrsa", "-out", self.state / "accounts.key", "2048")
        for name in ("admin", "node"):
            cluster = {"server": SERVER, "certificate-authority": str(self.state / "ca.crt")}
            user = {
                "client-certificate": str(self.state / f"{name}.crt"),
                "client-key": str(self.state / f"{name}.key"),
            }
            config = {"apiVersion": "v1", "kind": "Config", "current-context": "c",
                      "clusters": [{"name": "c", "cluster": cluster}], "users": [{"name": "u", "user": user}],
                      "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}  # fmt: skip
            _write(self.state / f"{name}.yaml", json.dumps(config))

    def _apiserver(self) -> list[str]:
        at = self.state
        given = {
            "etcd-servers": "http://127.0.0.1:2379",
            "advertise-address": ADDRESS,
            "client-ca-file": f"{at}/ca.crt",
            "tls-cert-file": f"{at}/apiserver.crt",
            "tls-private-key-file": f"{at}/apiserver.key",
            "service-account-key-file": f"{at}/accounts.key",
            "service-account-signing-key-file": f"{at}/accounts.key",
            "service-account-issuer": "https://kubernetes.default.svc",
            "authorization-mode": "Node,RBAC",
            "service-cluster-ip-range": "10.96.0.0/16",
            "kubelet-preferred-address-types": "InternalIP",
            "kubelet-client-certificate": f"{at}/admin.crt",
            "kubelet-client-key": f"{at}/admin.key",
            "kubelet-certificate-authority": f"{at}/ca.crt",
            "requestheader-client-ca-file": f"{at}/ca.crt",
            "requestheader-allowed-names": "front",
            "requestheader-username-headers": "X-Remote-User",
            "requestheader-group-headers": "X-Remote-Group",
            "requestheader-extra-headers-prefix": "X-Remote-Extra-",
            "proxy-client-cert-file": f"{at}/front.crt",
            "proxy-client-key-file": f"{at}/front.key",
            "enable-aggregator-routing": "true",
        }
        return [f"--{name}={value}" for name, value in given.items()]

    def _containerd(self, archives: list[Path]) -> None:
        _write(self.state / "containerd.toml", CONTAINERD.format(state=self.state))
        self._begin("containerd", "--config", self.state / "containerd.toml", program="containerd")
        ctr = ("ctr", "--address", self.state / "containerd.sock", "--namespace", "k8s.io")
        self._until("containerd answers", lambda: "Server" in run(*ctr, "version", check=False))
        for archive in archives:
            run(*ctr, "images", "import", archive)


def _hierarchies(root: Path = GROUPS) -> list[Path]:
    """Return the roots of control groups: one, or with version 1 one per kind of resource."""
    if (root / "cgroup.controllers").exists():
        return [root]
    return [path for path in root.iterdir() if (path / "tasks").exists() or (path / "cgroup.procs").exists()]


def memory_group(process: int) -> Path:
    """Return the control group that limits a process's memory."""
    lines = [line.split(":", 2) for line in Path(f"/proc/{process}/cgroup").read_text().splitlines()]
    paths = {kind: path for _, kinds, path in lines for kind in kinds.split(",")}
    return GROUPS / "memory" / paths["memory"][1:] if "memory" in paths else GROUPS / paths[""][1:]


def make_groups(root: Path = GROUPS) -> None:
    """Create the control groups below which pods are. With version 2 a group has only what its parent was told to give."""
    for hierarchy in _hierarchies(root):
        if hierarchy == root:
            usable = CONTROLLERS & set((hierarchy / "cgroup.controllers").read_text().split())
            (hierarchy / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in sorted(usable)))
        group = hierarchy / GROUP
        group.mkdir(exist_ok=True)
        for name in ("cpuset.cpus", "cpuset.mems"):
            if (hierarchy / name).exists() and (group / name).exists():
                (group / name).write_text((hierarchy / name).read_text())


def remove_groups() -> None:
    """Remove the control groups; their processes have ended, or are about to."""
    deadline = time.monotonic() + GROUPS_END_SECONDS_MAX
    groups = [Path(group) for hierarchy in _hierarchies() for group, _, _ in os.walk(hierarchy / GROUP, topdown=False)]
    while groups:
        left = [group for group in groups if not _is_removed(group)]
        if left and time.monotonic() > deadline:
            raise SystemExit(f"groups are left: {left}")
        groups = left
        time.sleep(0.2)


def _is_removed(group: Path) -> bool:
    try:
        group.rmdir()
    except OSError:
        return not group.exists()
    return True
