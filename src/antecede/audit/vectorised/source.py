"""Gives the rows of a run bucket by bucket, from a trace directory or from a table in memory."""

from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecede.audit.vectorised.columns import OPTIONAL, READ
from antecede.trace import Event
from antecede.trace.directory import EVENTS, ROW, open_directory, part_of, read_part


class Source(Protocol):
    """The rows of one run."""

    @property
    def rows(self) -> int: ...
    @property
    def buckets(self) -> int: ...
    def part(self, part: str, bucket: int = 0, columns: list[str] | None = None) -> pa.Table:
        """Rows of `events`, or of one bucket of `deliveries` or `packets`, with these columns, by default `READ`."""
        ...


class DirectorySource:
    """A trace directory (`trace.directory`)."""

    def __init__(self, path: Path) -> None:
        self._directory = open_directory(path)
        self.rows = self._directory.rows
        self.buckets = self._directory.buckets

    def part(self, part: str, bucket: int = 0, columns: list[str] | None = None) -> pa.Table:
        file = self._directory.path / EVENTS if part == "events" else self._directory.file(part, bucket)
        return read_part(file, columns or READ[part], optional=OPTIONAL)


class TableSource:
    """A trace in `SCHEMA` in memory, rows in order, as one bucket."""

    def __init__(self, table: pa.Table) -> None:
        self.rows = len(table)
        self.buckets = 1
        table = table.append_column(ROW, pa.array(np.arange(len(table)), pa.int64()))
        self._parts = {}
        event = pc.cast(table["event"], pa.string())
        for part in READ:
            names = [each.name.lower() for each in Event if part_of(each) == part]
            rows = table.select(READ[part]).filter(pc.is_in(event, pa.array(names, pa.string())))
            if part != "events":
                rows = rows.take(pa.array(np.argsort(rows["node"].to_numpy(), kind="stable")))
            self._parts[part] = rows

    def part(self, part: str, bucket: int = 0, columns: list[str] | None = None) -> pa.Table:
        return self._parts[part].select(columns or READ[part])
