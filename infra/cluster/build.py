"""Build of a cluster's parts into a directory, once: programs by Go, images by buildah.

``programs/`` pins Kubernetes, CoreDNS, metrics-server and Helm by version and hash. Images are built from Tidelog's unchanged
Dockerfiles, on a Debian by debootstrap instead of Python's image, and packed as archives for containerd.
"""
# ruff: noqa: INP001, S603, S607, T201 - part of a program of its own that runs programs of the system

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[1]
sys.path.append(str(ROOT / "infra/docker"))
from images import Storage, base_of  # noqa: E402

CACHE: Final = Path(os.environ.get("TIDELOG_CACHE") or Path.home() / ".cache/tidelog")
KUBERNETES: Final = "1.34.4"
"""Version of Kubernetes, as in ``programs/go.mod``."""
SECONDS_MAX: Final = 7200
PROGRAMS: Final = {
    "cluster": "./cluster",
    "coredns": "./coredns",
    "pause": "./pause",
    "policies": "sigs.k8s.io/kube-network-policies/cmd",
    "helm": "helm.sh/helm/v3/cmd/helm",
}
SYSTEM: Final = ("pause", "coredns", "metrics-server", "policies")
PLAIN: Final = ("build", "--isolation", "chroot", "--format", "docker", "--pull-never", "--layers=false")
IMAGES: Final = (*SYSTEM, "minio-stand-in", "tidelog-gateway", "tidelog-spark")


def programs(directory: Path) -> Path:
    """Return the directory of the programs, which are rebuilt if ``programs/`` has changed."""
    digest = hashlib.sha256(
        b"".join(path.read_bytes() for path in sorted((HERE / "programs").rglob("*.*")))
    ).hexdigest()
    kept, stamp = directory / "bin", directory / "bin/complete"
    if stamp.exists() and stamp.read_text() == digest:
        return kept
    kept.mkdir(parents=True, exist_ok=True)
    major, minor, _ = KUBERNETES.split(".")
    version = "k8s.io/component-base/version"
    said = f"-X {version}.gitVersion=v{KUBERNETES} -X {version}.gitMajor={major} -X {version}.gitMinor={minor}"
    for name, package in PROGRAMS.items():
        began = time.monotonic()
        subprocess.run(
            ["go", "build", "-ldflags", f"-s -w {said}", "-o", str(kept / name), package],
            cwd=HERE / "programs", env={**os.environ, "CGO_ENABLED": "0"}, check=True, timeout=SECONDS_MAX,
        )  # fmt: skip
        print(f"{name}: built in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    stamp.write_text(digest)
    return kept


def images(directory: Path) -> Storage:
    """Build the images that need none of the programs, anew: the store's stand-in, the gateway's and Spark's."""
    storage = Storage(directory)
    storage.call("rm", "--all")
    storage.call("rmi", "--prune", "--force")
    context = _context(directory)
    shutil.copytree(ROOT / "infra/docker/stand-ins", context, dirs_exist_ok=True)
    shutil.copy(CACHE / "bin/minio", context)
    storage.stand_in(base_of("gateway"))
    base = ("--build-arg", f"BASE={base_of('gateway')}")
    file = str(context / "stand-ins.Dockerfile")
    storage.call(*PLAIN, *base, "--file", file, "--target", "minio", "--tag", "minio-stand-in", str(context))
    for name in ("gateway", "spark"):
        storage.build(name)
    return storage


def archives(directory: Path, built: Path, storage: Storage) -> list[Path]:
    """Build the images of the programs, and return the archives of all images."""
    context = _context(directory)
    for program in ("pause", "coredns", "cluster", "policies"):
        shutil.copy(built / program, context)
    for name in SYSTEM:
        file = str(HERE / "system/system.Dockerfile")
        storage.call(*PLAIN, "--file", file, "--target", name, "--tag", name, str(context))
    kept = directory / "archives"
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir()
    for name in IMAGES:
        storage.call("push", name, f"docker-archive:{kept / name}.tar:docker.io/library/{name}:line")
    storage.call("rmi", "--all", "--force")
    return packed(directory)


def _context(directory: Path) -> Path:
    return directory / "stand-ins"


def packed(directory: Path) -> list[Path]:
    """Return the existing archives; raise SystemExit when one is missing."""
    found = [directory / f"archives/{name}.tar" for name in IMAGES]
    missing = [path.name for path in found if not path.exists()]
    if missing:
        raise SystemExit(f"not built: {', '.join(missing)}")
    return found
