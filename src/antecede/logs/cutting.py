"""A consistent cut over all logs: for each log an offset, so that whatever a record in the cut depends on is in it too.

The ends of several logs cannot be read at one moment. So they are read twice. A record below the first ends depends
only on records that were appended before the second ends were read. The records between the first and second ends are
read, and the cut is raised to whatever they name, until it does not rise any more. Every record that this adds was
appended before the second ends were read, so it ends.

A record that was in flight meanwhile may have a follower of its own writer in the cut. A feed that starts from the cut
tags it `out_of_order`.
"""

import contextlib
from contextlib import aclosing
from typing import Final

from antecede.core.errors import ProtocolError
from antecede.logs.contract import LogAdapter
from antecede.logs.reading import read_until
from antecede.protocols.logs import decode_header

_BATCH: Final = 512


async def consistent_cut(adapter: LogAdapter, logs: list[int]) -> dict[int, int]:
    """By log: the last offset within the cut."""
    checked = {log: (await adapter.bounds(log)).last for log in logs}
    cut = {log: (await adapter.bounds(log)).last for log in logs}
    while True:
        unread = [log for log in logs if checked[log] < cut[log]]
        if not unread:
            return cut
        for log in unread:
            upto = cut[log]
            for other, offset in await _named(adapter, log, checked[log], upto):
                if other in cut:
                    cut[other] = max(cut[other], offset)
            checked[log] = upto


async def _named(adapter: LogAdapter, log: int, after: int, upto: int) -> list[tuple[int, int]]:
    """The pasts of all records between two offsets."""
    found: list[tuple[int, int]] = []
    async with aclosing(read_until(adapter, log, after, upto, _BATCH)) as reading:
        async for batch in reading:
            for record in batch.records:
                if record.header is not None:
                    with contextlib.suppress(ProtocolError):  # as if it had none
                        found += decode_header(record.header).past
    return found
