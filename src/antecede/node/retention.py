"""Applies retention to a node's journal, and compacts the records that its protocol keeps."""

import asyncio
from typing import TYPE_CHECKING, Final

from antecede.journal import Retention

if TYPE_CHECKING:
    from antecede.node.node import Node

#: Between two rounds.
_PAUSE_S: Final = 2.0

#: Kept records are compacted when they have grown by so much, and to twice their size.
KEPT_BYTES: Final = 1024 * 1024


async def keep_within(node: "Node") -> None:
    """Keep the journal and the kept records within their bounds, for as long as the node runs."""
    journal, config = node.journal, node.config
    if journal is None:
        return
    wanted = Retention(
        age_us=None if config.retain_s is None else int(config.retain_s * 1_000_000), bytes_max=config.retain_bytes
    )
    compacted, kept_bytes = node.hub.position, journal.kept_bytes
    while True:
        await asyncio.sleep(_PAUSE_S)
        if wanted.age_us is not None or wanted.bytes_max is not None:
            await journal.retain(wanted)
        # With several partitions, the records of a message name its dependencies again: they grow faster.
        grown = journal.kept_bytes - kept_bytes > max(KEPT_BYTES, kept_bytes)
        if grown or node.hub.position - compacted >= config.shorten_every:
            await node.protocol.compact_journal(journal)
            compacted, kept_bytes = node.hub.position, journal.kept_bytes
