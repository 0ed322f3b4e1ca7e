"""Commits by other programs to a topic's table: who makes them, and what has to become of them (decision 080).

What Delta readers see is replayed here beside what the topic has. They may differ from a foreign commit on until a commit of
Tidelog has named all that it touched again; at the end they are the same.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from typing import Any

from log_format import layout
from tests.simulation.simulated.truth import Violation

Actions = list[dict[str, Any]]


class ForeignCommits:
    """What foreign commits made of one table."""

    def __init__(self) -> None:
        self._touched: set[str] = set()
        self._seen: dict[str, bool] = {}
        """What Delta readers see: the files, and which of them are in the archive."""
        self._was_touched = False
        self._properties: Mapping[str, str] = {}
        self.metadata: dict[str, Any] = {}
        """The newest ``metaData`` of Tidelog."""

    def takes(self, actions: Actions) -> bool:
        """Whether a commit is foreign; then it is followed here."""
        info: dict[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
        is_foreign = not str(info.get("engineInfo")).startswith("tidelog")
        self._replay(actions)
        if is_foreign:
            self._touched |= {
                str(action[kind]["path"]) for action in actions for kind in ("add", "remove") if kind in action
            }
        else:
            self.metadata = _metadata_in(actions) or self.metadata
        return is_foreign

    def _replay(self, actions: Actions) -> None:
        said = _metadata_in(actions)
        self._properties = self._properties if said is None else said["configuration"]
        for action in actions:
            if (remove := action.get("remove")) is not None:
                self._seen.pop(remove["path"], None)
        for action in actions:
            if (add := action.get("add")) is not None:
                self._seen[add["path"]] = "tidelog.archive" in (add.get("tags") or {})

    def without_what_is_put_back(self, actions: Actions, files: Mapping[str, bool]) -> Actions:
        """The actions of a commit of Tidelog but for those that only undo foreign ones. ``files``: those of the topic before."""
        kept = []
        for action in actions:
            add, remove = action.get("add"), action.get("remove")
            path = (add or remove or {}).get("path")
            if path in self._touched:
                is_archived = add is not None and "tidelog.archive" in (add.get("tags") or {})
                if (add is not None and files.get(path) is is_archived) or (remove is not None and path not in files):
                    continue
            kept.append(action)
        named = {(action.get("add") or action.get("remove") or {}).get("path") for action in actions}
        self._was_touched, self._touched = bool(self._touched), self._touched - named
        return kept

    def events(self, files: Mapping[str, bool]) -> list[str]:
        """What a commit of Tidelog did. ``files``: those of the topic now. Raises ``Violation``."""
        if self._touched:
            return []
        if self._seen != files:
            raise Violation(f"Delta readers see {self._seen}, and the topic has {files}")
        return ["put back"] if self._was_touched else []

    def end(self, topic: str, files: Mapping[str, bool]) -> None:
        """Maintenance has got through: what is foreign is put back. Raises ``Violation``."""
        if self._seen != files or self._properties != self.metadata["configuration"]:
            raise Violation(f"{topic}: Delta readers see {self._seen}, {self._properties}, and the topic has {files}")


def _metadata_in(actions: Actions) -> dict[str, Any] | None:
    return next((action["metaData"] for action in actions if "metaData" in action), None)


class OtherWriter:
    """A program that does not look at the table's protocol. ``put`` puts an object if absent, ``get`` gets one."""

    def __init__(
        self, rng: random.Random, root: str, put: Callable[[str, bytes], None], get: Callable[[str], bytes]
    ) -> None:
        self._rng = rng
        self._root = root
        self._put = put
        self._get = get
        self._count = 0

    def commit(self, version: int, files: Mapping[str, bool], metadata: dict[str, Any]) -> None:
        """Commit one operation as the next version. ``files``: those in the table; ``metadata``: its newest ``metaData``."""
        some = self._rng.sample(sorted(files), min(len(files), self._rng.choice((1, 1, 2))))
        kind = self._rng.choice(("DELETE", "OPTIMIZE", "WRITE", "SET TBLPROPERTIES"))
        actions: Actions = [{"commitInfo": {"engineInfo": "delta-rs:py-1.6.0", "operation": kind, "timestamp": 0}}]
        if kind in {"DELETE", "OPTIMIZE"}:
            actions += [
                {"remove": {"path": path, "dataChange": kind == "DELETE", "deletionTimestamp": 0}} for path in some
            ]
        if kind in {"OPTIMIZE", "WRITE"} and some:
            actions.append(self._added(some[0], is_new=kind == "WRITE"))
        if kind == "SET TBLPROPERTIES":
            configuration = metadata["configuration"] | {"delta.appendOnly": "false"}
            actions.append({"metaData": metadata | {"configuration": configuration}})
        data = "\n".join(map(json.dumps, actions)).encode()
        self._put(layout.table_commit_key(self._root, version), data)

    def _added(self, source: str, *, is_new: bool) -> dict[str, Any]:
        """A file with the rows of another one, as the table's own may be."""
        self._count += 1
        data = self._get(f"{self._root}{source}")
        path = f"part-{self._count:05d}.parquet"
        self._put(f"{self._root}{path}", data)
        return {
            "add": {"path": path, "size": len(data), "modificationTime": 0, "dataChange": is_new, "partitionValues": {}}
        }
