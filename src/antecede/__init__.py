"""Publish/subscribe whose messages arrive after what they depend on.

    async with antecede.connect("antecede://127.0.0.1:7400", name="carol") as bus:
        async with bus.subscribe("questions/#", "answers/#") as feed:
            async for message in feed:            # an answer never precedes its question
                await bus.publish("answers/python", b"re: " + message.payload)

Names are loaded when they are first used: `import antecede` alone costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from antecede.client.bus import Bus
    from antecede.client.connect import connect
    from antecede.client.feed import Feed
    from antecede.client.message import Message, MessageId
    from antecede.client.sync import SyncBus, connect_sync
    from antecede.core.errors import (
        AntecedeError,
        ConnectionLostError,
        DeniedError,
        GapError,
        JournalError,
        LimitError,
        LostHistoryError,
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

_WHERE = {
    "AntecedeError": "core.errors",
    "Bus": "client.bus",
    "ConnectionLostError": "core.errors",
    "DeniedError": "core.errors",
    "Feed": "client.feed",
    "GapError": "core.errors",
    "JournalError": "core.errors",
    "LimitError": "core.errors",
    "LostHistoryError": "core.errors",
    "Message": "client.message",
    "MessageId": "client.message",
    "Node": "embedded",
    "NodeConfig": "node.config",
    "ProtocolError": "core.errors",
    "PublishError": "core.errors",
    "RefusedError": "core.errors",
    "SlowReaderError": "core.errors",
    "StoppedError": "core.errors",
    "SyncBus": "client.sync",
    "UnreachableError": "core.errors",
    "UsageError": "core.errors",
    "connect": "client.connect",
    "connect_sync": "client.sync",
}

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


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'antecede' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"antecede.{_WHERE[name]}"), name)
    return value
