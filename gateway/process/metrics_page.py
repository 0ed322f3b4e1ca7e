"""One page of metrics for several workers: each sample with the label ``worker``.

Source: the Prometheus text format 0.0.4.
"""

from __future__ import annotations

from collections.abc import Mapping


def merge_pages(pages: Mapping[int, str]) -> str:
    """Merge the metrics pages of workers, by their numbers, into one. A family's samples are grouped, as the format demands."""
    heads: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for number, page in sorted(pages.items()):
        family = ""
        for line in page.splitlines():
            if line.startswith(("# HELP ", "# TYPE ")):
                family = line.split(" ", 3)[2]
                head = heads.setdefault(family, [])
                if line not in head:
                    head.append(line)
            elif line and not line.startswith("#"):
                samples.setdefault(family, []).append(_labelled(line, number))
    families = dict.fromkeys([*heads, *samples])
    return "".join(f"{line}\n" for name in families for line in (*heads.get(name, ()), *samples.get(name, ())))


def _labelled(sample: str, number: int) -> str:
    """Add a label to ``name{a="b"} 1`` or ``name 1``. A label's value may have spaces and braces, a name neither, so only the
    first brace counts."""
    label = f'worker="{number}"'
    name, brace, rest = sample.partition("{")
    if brace and " " not in name:
        return f"{name}{{{label},{rest}"
    name, _, value = sample.partition(" ")
    return f"{name}{{{label}}} {value}"
