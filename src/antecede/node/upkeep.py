"""Applies retention to a node's journal, and compacts the records that its protocol keeps."""

import asyncio
from typing import TYPE_CHECKING, Final

from antecede.journal import Retention

if TYPE_CHECKING:
    from antecede.node.node import Node

#: Between two rounds.
_PAUSE_S: Final = 2.0


async def keep_up(node: "Node") -> None:
    """Look now and then, for as long as the node runs."""
    journal, config = node.journal, node.config
    if journal is None:
        return
    wanted = Retention(
        age_us=None if config.retain_s is None else int(config.retain_s * 1_000_000), bytes_max=config.retain_bytes
    )
    compacted = node.hub.position
    while True:
        await asyncio.sleep(_PAUSE_S)
        if wanted.age_us is not None or wanted.bytes_max is not None:
            await journal.retain(wanted)
        if node.hub.position - compacted >= config.shorten_every:
            compacted = node.hub.position
            await node.protocol.compact_journal(journal)
