"""Reads a log up to a given offset, for callers that know where to end."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from antecede.logs.contract import Batch, LogAdapter

#: A log that brings nothing for so long may not have the rest any more: it is asked.
_QUIET_S: Final = 1.0


async def read_until(adapter: LogAdapter, log: int, after: int, upto: int, most: int) -> AsyncGenerator[Batch, None]:
    """Batches of at most `most` records with offsets above `after`, up to `upto`. Offsets may be missing at the end."""
    quiet_s = _QUIET_S
    while after < upto:
        async with aclosing(adapter.read(log, after, most)) as reading:
            try:
                while after < upto:
                    async with asyncio.timeout(quiet_s):
                        batch = await anext(reading)
                    after = batch.upto
                    if after > upto:
                        batch = batch._replace(records=[one for one in batch.records if one.offset <= upto], upto=upto)
                    if batch.records or batch.first:
                        yield batch
                    else:
                        after = max(after, await adapter.progress(log, after, upto))
            except TimeoutError:
                quiet_s *= 2  # the log may be slow to begin
                after = max(after, await adapter.progress(log, after, upto))
