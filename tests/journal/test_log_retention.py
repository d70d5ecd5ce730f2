"""Retention of what is in the log and is no delivery."""

import os
from pathlib import Path

import pytest

from antecede.core.process import Change
from antecede.journal import Retention, export_rows
from antecede.journal.clock import Clock
from antecede.journal.segments import segment_bases
from tests.wire.helpers import Got, message

from .test_journal import append, opened, play
from .test_log_torture import batches, small

__all__ = ["small"]


@pytest.mark.parametrize("wanted", [Retention(age_us=50), Retention(bytes_max=5000)], ids=["age", "size"])
def test_publications_without_deliveries_do_not_fill_the_disk(wanted: Retention, tmp_path: Path, small: None) -> None:
    """A node that publishes in partitions which it does not take. Memberships stay, and so does what is young."""
    path, ran_us = tmp_path / "journal", 0

    async def test() -> None:
        nonlocal ran_us
        journal = await opened(path, clock=Clock(lambda: ran_us, lambda: ran_us))
        await journal.set_node(0)
        for number in range(1, 401):
            ran_us = number
            sent = message(number, payload=os.urandom(60))
            changes = [Change(0, "publish", "t", sent)]
            if number % 40 == 0:
                changes.append(Change(0, "subscribe", f"u{number}"))
            await append(journal, kept=[Got(sent)], changes=changes, time_us=number)
            if number % 10 == 0:
                await journal.compact_kept(lambda records: records[-1:])
                await journal.retain(wanted)
        assert 4 <= len(segment_bases(path)) <= 20
        assert [record.message.seq for record in await journal.kept()] == [400]  # type: ignore[attr-defined]
        rows = list(export_rows([path]))
        published = [row.seq for row in rows if row.event.name == "PUBLISH"]
        assert published == list(range(published[0], 401))
        assert 25 <= len(published) <= 100
        assert sum(row.event.name == "SUBSCRIBE" for row in rows) == 10
        # Deliveries that a reader needs hold back what follows them.
        await batches(journal, 5)
        await journal.set_cursor("reader", journal.removed)
        for number in range(401, 421):
            await append(journal, changes=[Change(0, "publish", "t", message(number, payload=bytes(60)))])
        for _ in range(2):
            ran_us += 1000
            await journal.retain(wanted)
        assert [row.seq for row in export_rows([path]) if row.event.name == "PUBLISH"][-20:] == list(range(401, 421))
        assert journal.removed == 0
        await journal.drop_cursor("reader")
        for _ in range(3):  # deliveries go when they are old, and what follows them when that was noted to be
            ran_us += 1000
            await journal.retain(Retention(age_us=50))
        await journal.compact_kept(lambda records: records[-1:])
        assert len(segment_bases(path)) <= 2
        await journal.close()
        journal = await opened(path, check="full")
        assert journal.removed == journal.position > 0
        await journal.close()

    play(test)
