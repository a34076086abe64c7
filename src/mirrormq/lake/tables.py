"""Delta tables through delta-rs: files that tasks have written are added by one commit, which also says how far each log is in.

Rules
 1. The table says what is mirrored: for each log an application transaction `mirrormq/ID` whose version is the next index, and
    `mirrormq-epoch/ID` with the epoch of the entry before it. There is no other checkpoint.
 2. Looking where a log stands and committing what follows are done on one snapshot of the table, so of two jobs that do the same
    work one fails, and nothing is in the table twice. What a task wrote for nothing is an orphan, which vacuum removes.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from deltalake.transaction import AddAction

from mirrormq.lake.errors import LakeError
from mirrormq.lake.schema import EVENTS

APP: Final = "mirrormq/"
EPOCH: Final = "mirrormq-epoch/"
VACUUM_HOURS: Final = 168
STATISTICS: Final = ("queue_id", "queue", "index", "time")
COMPRESSION: Final = "zstd"


class Overtaken(LakeError):
    """Another job has committed the same work."""


@dataclass(frozen=True)
class Written:
    """A file that a task has written, by its path below the table."""

    path: str
    size: int
    rows: int
    statistics: str


@dataclass(frozen=True)
class Place:
    """Where a lake is: a folder or an object store's URL, below which the tables are."""

    uri: str
    storage: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def at(uri: str, storage: Mapping[str, str] | None = None) -> Place:
        is_url = "://" in uri
        return Place(uri.rstrip("/") if is_url else str(Path(uri).absolute()), tuple((storage or {}).items()))

    def table(self, name: str) -> str:
        return f"{self.uri}/{name}"

    @property
    def options(self) -> dict[str, str] | None:
        return dict(self.storage) or None


class Writer:
    """Writes one Parquet file into a table's folder, in a task. A file without rows is not made."""

    def __init__(self, place: Place, table: str, schema: pa.Schema, stem: str) -> None:
        self._filesystem, root = filesystem(place, table)
        self.path = f"data/{stem}-{uuid.uuid4().hex[:12]}.parquet"
        self._full = f"{root}/{self.path}"
        self._schema = schema
        self._writer: pq.ParquetWriter | None = None
        self._rows = 0
        self._seen: dict[str, list[Any]] = {name: [] for name in STATISTICS if name in schema.names}

    def put(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        if self._writer is None:
            self._filesystem.create_dir(self._full.rpartition("/")[0], recursive=True)
            self._writer = pq.ParquetWriter(
                self._full,
                self._schema,
                filesystem=self._filesystem,
                compression=COMPRESSION,
                write_statistics=list(self._seen),
                use_dictionary=DICTIONARY,
            )
        self._writer.write_batch(batch)
        self._rows += batch.num_rows
        for name, seen in self._seen.items():
            found = pc.min_max(batch.column(name)).as_py()
            seen += [value for value in found.values() if value is not None]

    def close(self) -> list[Written]:
        if self._writer is None:
            return []
        self._writer.close()
        size = self._filesystem.get_file_info(self._full).size
        return [Written(self.path, size, self._rows, self._statistics())]

    def _statistics(self) -> str:
        low = {name: _plain(min(seen)) for name, seen in self._seen.items() if seen}
        high = {name: _plain(max(seen)) for name, seen in self._seen.items() if seen}
        return json.dumps({"numRecords": self._rows, "minValues": low, "maxValues": high, "nullCount": {}})


DICTIONARY: Final = ["vhost", "queue", "queue_id", "kind", "reason", "exchange", "routing_key", "raw_address", "raw_properties"]


def _plain(value: Any) -> Any:
    if not isinstance(value, datetime):
        return value
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def filesystem(place: Place, table: str) -> tuple[Any, str]:
    uri = place.table(table)
    if "://" not in uri:
        return pafs.LocalFileSystem(), uri
    found, path = pafs.FileSystem.from_uri(uri)
    return found, str(path)


class Table:
    def __init__(self, place: Place, name: str, schema: pa.Schema = EVENTS) -> None:
        self.place = place
        self.name = name
        self.schema = schema
        self._delta: DeltaTable | None = None

    @property
    def uri(self) -> str:
        return self.place.table(self.name)

    def exists(self) -> bool:
        return DeltaTable.is_deltatable(self.uri, self.place.options)

    def create(self) -> None:
        if "://" not in self.uri:
            Path(self.uri).mkdir(parents=True, exist_ok=True)
        DeltaTable.create(
            self.uri,
            self.schema,
            mode="ignore",
            name=self.name,
            storage_options=self.place.options,
            description="written by mirrormq lake",
        )

    def load(self, version: int | None = None) -> DeltaTable:
        """The table as it is now, or was."""
        if version is None and self._delta is not None:
            self._delta.update_incremental()
            return self._delta
        try:
            found = DeltaTable(self.uri, version=version, storage_options=self.place.options)
        except TableNotFoundError:
            raise LakeError(f"there is no table '{self.name}' in {self.place.uri}: run 'mirrormq lake mirror' first") from None
        if version is None:
            self._delta = found
        return found

    def next_indexes(self, log_ids: Iterable[str]) -> dict[str, int]:
        return self._marks(APP, log_ids)

    def epochs(self, log_ids: Iterable[str]) -> dict[str, int]:
        """Of the last entry of each log, as far as that is known."""
        return self._marks(EPOCH, log_ids)

    def _marks(self, kind: str, log_ids: Iterable[str]) -> dict[str, int]:
        delta = self.load()
        found = {log_id: delta.transaction_version(kind + log_id) for log_id in log_ids}
        return {log_id: number for log_id, number in found.items() if number is not None}

    def add(
        self, files: list[Written], advance: Mapping[str, tuple[int, int]], about: Mapping[str, str] | None = None,
        epochs: Mapping[str, int] | None = None,
    ) -> int:  # fmt: skip
        """Commit files that bring each log from its first to its second index; returns the version. Raises Overtaken."""
        delta = self.load()
        for log_id, (first, _) in advance.items():
            there = delta.transaction_version(APP + log_id)
            if there is not None and there != first:
                raise Overtaken(f"another job mirrors into {self.place.uri}: log {log_id} is at {there} there, not at {first}")
        now = int(time.time() * 1000)
        marks = [Transaction(APP + log_id, upto, now) for log_id, (_, upto) in advance.items()]
        marks += [Transaction(EPOCH + log_id, epoch, now) for log_id, epoch in (epochs or {}).items()]
        self._commit(delta, files, "append", CommitProperties(dict(about or {}), 0, marks))
        return delta.version()

    def replace(self, files: list[Written], about: Mapping[str, str] | None = None) -> None:
        """Commit files that are the whole table from now on."""
        self._commit(self.load(), files, "overwrite", CommitProperties(dict(about or {})))

    def _commit(self, delta: DeltaTable, files: list[Written], mode: str, properties: CommitProperties) -> None:
        now = int(time.time() * 1000)
        actions: list[Any] = [AddAction(file.path, file.size, {}, now, data_change=True, stats=file.statistics) for file in files]
        try:
            delta.create_write_transaction(actions, mode, delta.schema(), commit_properties=properties)
        except CommitFailedError as refusal:
            why = str(refusal).splitlines()[0]
            raise Overtaken(f"another job has written to {self.uri} at the same time: {why}") from refusal
        delta.update_incremental()

    def found(self, folder: str) -> list[Written]:
        """The Parquet files that Spark has written below the table."""
        files, root = filesystem(self.place, self.name)
        infos = files.get_file_info(pafs.FileSelector(f"{root}/{folder}"))
        return [
            Written(f"{folder}/{info.base_name}", info.size, rows, json.dumps({"numRecords": rows}))
            for info in infos
            if info.base_name.endswith(".parquet")
            for rows in [pq.read_metadata(info.path, filesystem=files).num_rows]
        ]

    def tidy(self, *, vacuum_hours: int = VACUUM_HOURS) -> dict[str, int]:
        """Make few large files of many small ones, and remove what no version of the last days needs."""
        delta = self.load()
        told = delta.optimize.compact()
        gone = delta.vacuum(vacuum_hours, dry_run=False, enforce_retention_duration=vacuum_hours >= VACUUM_HOURS)
        return {"compacted": int(told["numFilesRemoved"]), "into": int(told["numFilesAdded"]), "removed": len(gone)}

    def files(self, version: int | None = None) -> list[str]:
        return [_as_path(uri) for uri in self.load(version).file_uris()]

    def history(self) -> list[dict[str, Any]]:
        return self.load().history()


def _as_path(uri: str) -> str:
    return uri.removeprefix("file://")
