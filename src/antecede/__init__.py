"""Publish/subscribe whose messages arrive after what they depend on.

    async with antecede.connect("antecede://127.0.0.1:7400", name="carol") as bus:
        async with bus.subscribe("questions/#", "answers/#") as feed:
            async for message in feed:            # an answer never precedes its question
                await bus.publish("answers/python", b"re: " + message.payload)

Names are loaded when they are first used: `import antecede` alone costs next to nothing.
"""

import os
from typing import TYPE_CHECKING

from antecede.loading import lazy_names, load_interpreted

__version__ = "0.1.0"

if os.environ.get("ANTECEDE_PURE", "0") != "0":
    load_interpreted()

if TYPE_CHECKING:
    from antecede.client.bus import Bus
    from antecede.client.connect import connect
    from antecede.client.feed import Feed
    from antecede.client.message import Message
    from antecede.client.sync import SyncBus, connect_sync
    from antecede.core.errors import (
        AntecedeError,
        ConnectionLostError,
        DeniedError,
        GapError,
        JournalError,
        LimitError,
        LostHistoryError,
        MissingExtraError,
        ProtocolError,
        PublishError,
        RefusedError,
        SlowReaderError,
        StoppedError,
        UnreachableError,
        UsageError,
    )
    from antecede.embedded import Node
    from antecede.node.config import NodeConfig
    from antecede.wire.cursors import MessageId

__all__ = [
    "AntecedeError",
    "Bus",
    "ConnectionLostError",
    "DeniedError",
    "Feed",
    "GapError",
    "JournalError",
    "LimitError",
    "LostHistoryError",
    "Message",
    "MessageId",
    "MissingExtraError",
    "Node",
    "NodeConfig",
    "ProtocolError",
    "PublishError",
    "RefusedError",
    "SlowReaderError",
    "StoppedError",
    "SyncBus",
    "UnreachableError",
    "UsageError",
    "connect",
    "connect_sync",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "client.bus": ("Bus",),
        "client.connect": ("connect",),
        "client.feed": ("Feed",),
        "client.message": ("Message",),
        "client.sync": ("SyncBus", "connect_sync"),
        "core.errors": (
            "AntecedeError",
            "ConnectionLostError",
            "DeniedError",
            "GapError",
            "JournalError",
            "LimitError",
            "LostHistoryError",
            "MissingExtraError",
            "ProtocolError",
            "PublishError",
            "RefusedError",
            "SlowReaderError",
            "StoppedError",
            "UnreachableError",
            "UsageError",
        ),
        "embedded": ("Node",),
        "node.config": ("NodeConfig",),
        "wire.cursors": ("MessageId",),
    },
)
