"""A manager's state on disk: every decision is written before another participant hears of it.

The file is a journal as nodes have (`antecede.journal`), of which only the kept records are used. A manager that was
killed comes back with every decision it had answered for, and asks its replicas for the others. Compaction replaces
records by the states they lead to: when the file is opened, and after every `_SHORTEN_AFTER` records.

The journal belongs to one manager's number in one system with so many managers and replicas, and is refused to any
other: which manager has which topic follows from these.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeAlias

from antecede.core import AntecedeError, UsageError
from antecede.journal import Journal
from antecede.journal.batch import Batch
from antecede.journal.clock import wall_us
from antecede.journal.restoring import restoring
from antecede.protocols.tno import OrderingModule
from antecede.protocols.tno.replica import Kept, KeptState

#: What kept records survive: the end of the process, or a power failure, too.
Durability: TypeAlias = Literal["process", "power"]

#: Records between two compactions: some megabytes, and less than a second of replay.
_SHORTEN_AFTER: Final = 20_000

#: What to do when the records make no sense.
_DAMAGED: Final = (
    "keep the file, and do not start this manager without it: it would give out numbers again; topics go on while more"
    " than half of their managers are up"
)


class Memory:
    """Open with `Memory.open`, `restore` once, then `keep`."""

    def __init__(self, journal: Journal, fresh: Callable[[], OrderingModule]) -> None:
        self._journal = journal
        self._fresh = fresh
        self._under_way = 0
        self._since = 0
        self._shortening: asyncio.Task[tuple[int, int]] | None = None
        self._broken = False

    @classmethod
    async def open(
        cls, path: Path, system: str, number: int, fresh: Callable[[], OrderingModule], durability: Durability
    ) -> "Memory":
        """`system`: everything that must not change from one run to the next. `fresh`: makes a module without state.

        Raises `JournalError`, `UsageError`.
        """
        journal = await Journal.open(path, cluster=system, kept=(Kept, KeptState), durability=durability)
        if journal.identity.node not in (-1, number):
            owner = journal.identity.node
            await journal.close()
            raise UsageError("journal", str(path), f"is that of manager {owner}", "give each manager its own file")
        try:
            await journal.set_node(number)
            memory = cls(journal, fresh)
            await journal.compact_kept(memory._shorten)
        except BaseException:
            await journal.close()
            raise
        return memory

    async def restore(self, module: OrderingModule) -> None:
        """Give the module its kept records; start it after that."""
        records = await self._journal.kept()
        with restoring(self._journal.path, _DAMAGED):
            module.restore(records)

    def keep(self, records: list[object], then: Callable[[], None], failed: Callable[[AntecedeError], None]) -> None:
        """Write `records`, then call `then`; calls complete in order. After a failed write nothing more is kept:
        `failed` is called once, and no `then` after it."""
        if not records and not self._under_way and not self._broken:
            then()
            return

        def done(error: Exception | None) -> None:
            self._under_way -= 1
            if error is not None and not self._broken:
                self._broken = True
                failed(error if isinstance(error, AntecedeError) else AntecedeError(str(error)))
            elif not self._broken:
                then()

        self._under_way += 1
        journal = self._journal
        now_us = wall_us()
        journal.append(
            Batch(first=journal.position + 1, time_us=now_us, deliveries=[], changes=[], held_us={}, kept=records), done
        )
        self._since += len(records)
        if self._since >= _SHORTEN_AFTER and (self._shortening is None or self._shortening.done()):
            self._since = 0
            self._shortening = asyncio.create_task(journal.compact_kept(self._shorten))
            self._shortening.add_done_callback(partial(self._shortened, failed))

    def _shortened(self, failed: Callable[[AntecedeError], None], task: "asyncio.Task[tuple[int, int]]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._broken:
            self._broken = True
            failed(error if isinstance(error, AntecedeError) else AntecedeError(str(error)))

    async def close(self) -> None:
        if self._shortening is not None:
            await asyncio.wait([self._shortening])
        await self._journal.close()

    def _shorten(self, records: list[object]) -> list[object]:
        """The states these records lead to. Runs in the journal's thread, on a module of its own."""
        module = self._fresh()
        with restoring(self._journal.path, _DAMAGED):
            module.restore(records)
        return [*module.managers_kept()]
