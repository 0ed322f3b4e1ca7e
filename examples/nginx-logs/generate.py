"""Write an access log as nginx does, and rotate it as logrotate does: ``python generate.py DIRECTORY``; Ctrl-C ends it."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import gzip
import random
import time
from pathlib import Path

PATHS = ["/", "/products", "/products/7", "/cart", "/checkout", "/static/app.js", "/api/orders"]
AGENTS = ["Mozilla/5.0 (X11; Linux x86_64)", "curl/8.5.0", "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X)"]
KEPT = 5


def line(chance: random.Random) -> str:
    """Return one request in nginx's ``combined`` format."""
    address = f"192.0.2.{chance.randrange(1, 255)}"
    now = datetime.datetime.now(datetime.UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
    status = chance.choices([200, 304, 404, 500], [90, 5, 4, 1])[0]
    path, agent = chance.choice(PATHS), chance.choice(AGENTS)
    return f'{address} - - [{now}] "GET {path} HTTP/1.1" {status} {chance.randrange(100, 50_000)} "-" "{agent}"\n'


def rotate(log: Path) -> None:
    """Rename ``access.log`` to ``.1``, compress ``.1`` to ``.2.gz``, and so on; delete the oldest file."""
    log.with_name(f"{log.name}.{KEPT}.gz").unlink(missing_ok=True)
    for number in range(KEPT - 1, 1, -1):
        older = log.with_name(f"{log.name}.{number}.gz")
        if older.exists():
            older.rename(log.with_name(f"{log.name}.{number + 1}.gz"))
    newest = log.with_name(f"{log.name}.1")
    if newest.exists():
        log.with_name(f"{log.name}.2.gz").write_bytes(gzip.compress(newest.read_bytes()))
        newest.unlink()
    log.rename(newest)


def main() -> None:
    """Write until Ctrl-C, or ``--lines`` lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--lines-per-second", type=float, default=100.0)
    parser.add_argument("--lines", type=int, help="end after so many")
    parser.add_argument("--rotate-every", type=int, default=10_000, metavar="LINES")
    arguments = parser.parse_args()
    arguments.directory.mkdir(parents=True, exist_ok=True)
    log = arguments.directory / "access.log"
    chance = random.Random()
    written = 0
    while arguments.lines is None or written < arguments.lines:
        with log.open("a") as file:
            file.write(line(chance))
        written += 1
        if written % arguments.rotate_every == 0:
            rotate(log)
        time.sleep(1 / arguments.lines_per_second)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
