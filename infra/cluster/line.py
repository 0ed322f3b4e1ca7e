"""Run ``infra/kubernetes`` on a real Kubernetes: ``line.py DIRECTORY [--built] [--json]`` (make kubernetes).

It starts a node with its control plane in namespaces of their own (network, mounts, processes): all of them end with this
program, even if it fails, and are invisible to other programs of the machine. Needs root, Go, and ``apt-get install containerd
runc buildah debootstrap containernetworking-plugins iptables conntrack``. No image registry is used.

Then: ``kubectl apply -k`` (``overlays/`` has the differences from ``infra/kubernetes``), secrets by openssl, three gateways,
records through the Service, and connections that the policies of the network forbid or allow. Under load: a rolling update, a
drain, a kill, a pod deleted by force, one out of memory, a renewed certificate, the component for Kafka's clients, the
autoscaler. No record may fail, be lost or duplicated. Then maintenance, and a Spark job as a pod. ``--built`` uses the programs
and images of an earlier run in DIRECTORY.
"""
# ruff: noqa: INP001, S603, S607, T201 - a program of its own that runs programs of the system

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import disturbances
import stages
from build import archives, images, packed, programs
from node import DNS, Node, remove_groups
from run import HERE, Run

NEEDED: Final = ("containerd", "runc", "buildah", "debootstrap", "iptables", "conntrack", "go", "openssl", "unshare")
NAMESPACES: Final = (
    "setpriv", "--pdeathsig", "KILL",
    "unshare", "--net", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child=SIGKILL", "--mount-proc",
)  # fmt: skip
HIDDEN: Final = ("/var", "/opt", "/usr/libexec")
"""Directories in which parts of a cluster write at fixed paths: they see the machine's files, and their writes go to the state
directory."""
STAGES: Final = {
    "rest": disturbances.rest,
    "update": disturbances.rolling_update,
    "drain": disturbances.drain,
    "kill": disturbances.kill,
    "delete": disturbances.delete,
    "memory": disturbances.out_of_memory,
    "renew": disturbances.renew,
    "kafka": disturbances.kafka,
    "maintenance": stages.maintenance,
    "job": stages.job,
    "scale": disturbances.scale,
}


def hide(state: Path) -> None:
    """Make this process's mounts private, and redirect writes in the machine's directories to the state directory."""
    subprocess.run(["mount", "--make-rshared", "/"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
    for path in HIDDEN:
        upper, work = (state / f"hidden{path}/{part}" for part in ("upper", "work"))
        upper.mkdir(parents=True)
        work.mkdir()
        options = f"lowerdir={path},upperdir={upper},workdir={work}"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, path], check=True)
    resolver = state / "resolv.conf"
    resolver.write_text(f"nameserver {DNS}\nsearch svc.cluster.local cluster.local\noptions ndots:5\n")
    subprocess.run(["mount", "--bind", str(resolver), str(Path("/etc/resolv.conf").resolve())], check=True)


def deploy(run: Run) -> None:
    """Deploy what enforces policies, DNS, a source of metrics and a store; then Tidelog as documented: secrets, and
    ``kubectl apply -k``."""
    for name in ("policies", "coredns", "metrics-server", "minio"):
        run.node.kubectl("apply", "--filename", str(HERE / f"system/{name}.yaml"))
    for name, of in (("coredns", "kube-system"), ("metrics-server", "kube-system")):
        run.node.kubectl("rollout", "status", f"deployment/{name}", "--namespace", of, "--timeout=240s")
    run.node.kubectl("rollout", "status", "daemonset/policies", "--namespace", "kube-system", "--timeout=240s")
    run.node.kubectl("wait", "pod/minio", "--namespace", "store", "--for=condition=Ready", "--timeout=240s")
    run.say("DNS, metrics and the store are well")
    alias = "mc alias set s http://127.0.0.1:9000 minioadmin minioadmin && mc mb --ignore-existing s/tidelog"
    run.node.kubectl("exec", "minio", "--namespace", "store", "--", "sh", "-c", alias)
    run.node.kubectl("apply", "--filename", str(HERE.parent / "kubernetes/namespace.yaml"))
    run.secrets()
    run.apply("plain")
    run.until("three gateways are ready", run.settled)


def inside(directory: Path, state: Path, names: list[str]) -> dict[str, Any]:
    """Run the cluster in this process's namespaces, and return the findings."""
    hide(state)
    node = Node(state, directory / "bin")
    try:
        node.start(packed(directory))
        run = Run(node, directory / "bin")
        run.say("a cluster is up")
        deploy(run)
        stages.walk(run)
        stages.policies(run)
        with run.load():
            for name in names:
                STAGES[name](run)
        print(run.table(), file=sys.stderr, flush=True)
        stages.chart(run)
        return run.report
    finally:
        node.stop()


def outside(directory: Path, arguments: list[str], *, built: bool) -> int:
    """Build, and run the rest in new namespaces, of which only DIRECTORY's programs and images remain; return the exit status."""
    missing = [program for program in NEEDED if shutil.which(program) is None]
    if missing or os.geteuid() != 0:
        print(f"needed: root, and {' '.join(missing or NEEDED)}", file=sys.stderr)
        return 2
    began = time.monotonic()
    directory.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(1) as pool:
        # Most of an image's time is the network's, and most of a program's the processor's.
        ours = None if built else pool.submit(images, directory)
        kept = programs(directory)
        if ours is not None:
            archives(directory, kept, ours.result())
    minutes = (time.monotonic() - began) / 60
    state = directory / f"state-{os.getpid()}"
    state.mkdir()
    code = 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        code = subprocess.run(
            [*NAMESPACES, sys.executable, __file__, *arguments, "--inside", str(state)], check=False
        ).returncode
    finally:
        remove_groups()
        if code == 0:
            shutil.rmtree(state)
        else:
            for stored in state.glob("containerd*/"):
                shutil.rmtree(stored)
            print(f"what it wrote is in {state}, but for the images", file=sys.stderr)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"built in {minutes:.1f} minutes, all in {(time.monotonic() - began) / 60:.1f}; "
        f"{(used.ru_utime + used.ru_stime) / 60:.1f} minutes of a core, without what pods used",
        file=sys.stderr,
    )
    return code


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="line.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument(
        "--built", action="store_true", help="take the programs and images that an earlier run has built"
    )
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")
    parser.add_argument("--stages", default=",".join(STAGES), help="some of them, by their names")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.inside is None:
        sys.exit(outside(chosen.directory.resolve(), sys.argv[1:], built=chosen.built))
    outcome = inside(chosen.directory.resolve(), chosen.inside, chosen.stages.split(","))
    if chosen.json:
        print(json.dumps(outcome))
    sys.exit(0)
