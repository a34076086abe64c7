"""What a node keeps about itself in its data directory: its name and id, how often it started, and the cluster it belongs to.

The directory belongs to one node of one cluster. Under another name, or at a store that knows another cluster, its queues would
look as if nobody wanted them; so the node refuses to start rather than to clean up.
"""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

FILE: Final = "node.json"
FORMAT: Final = 1


class WrongDirectory(Exception):
    """The directory is another node's, or cannot be read; the sentence says what to do."""


@dataclass(frozen=True, slots=True)
class Keepsake:
    node: str
    id: str
    starts: int = 0
    cluster: str = ""           # the cluster's id; empty before the first start and after a reset
    coordination: str = ""      # the store that `join_cluster` chose; empty: as configured
    format: int = FORMAT

    @staticmethod
    def load(directory: Path, node: str) -> Keepsake:
        """What the directory tells, or a new node's beginning."""
        path = directory / FILE
        try:
            known = json.loads(path.read_text(encoding="utf-8"))
            found = Keepsake(**{name: known[name] for name in Keepsake.__dataclass_fields__ if name in known})
        except FileNotFoundError:
            return Keepsake(node, uuid.uuid4().hex)
        except (OSError, ValueError, TypeError) as fault:
            raise WrongDirectory(f"{path} cannot be read ({fault}): restore it from a backup, or move the data directory "
                                 "away to start as a new node") from None
        if found.format > FORMAT:
            raise WrongDirectory(f"{path} has format {found.format}, this release reads up to {FORMAT}: start the release "
                                 "that wrote it, or a newer one")
        if found.node != node:
            raise WrongDirectory(f"the data directory {directory} belongs to node {found.node} and this is {node}: a node "
                                 "cannot be renamed; start it under its name, or give it another directory")
        return found

    def save(self, directory: Path) -> None:
        path = directory / FILE
        fresh = path.with_suffix(".new")
        with fresh.open("w", encoding="utf-8") as file:
            json.dump(asdict(self), file)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
        sync_directory(directory)

    def started(self, cluster: str) -> Keepsake:
        return replace(self, starts=self.starts + 1, cluster=cluster)

    def joined(self, coordination: str) -> Keepsake:
        return replace(self, coordination=coordination, cluster="")


def sync_directory(directory: Path) -> None:
    number = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
