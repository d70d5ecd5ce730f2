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
    from antecede.core.errors import AntecedeError, LimitError, ProtocolError, UsageError
    from antecede.live.client.bus import Bus
    from antecede.live.client.connect import connect
    from antecede.live.client.errors import (
        ConnectionLostError,
        DeniedError,
        LostHistoryError,
        PublishError,
        SlowReaderError,
    )
    from antecede.live.client.feed import Feed
    from antecede.live.client.message import Message, MessageId
    from antecede.live.client.sync import SyncBus, connect_sync
    from antecede.live.errors import GapError, JournalError, RefusedError, StoppedError, UnreachableError
    from antecede.live.node.config import NodeConfig
    from antecede.live.node.node import Node

_WHERE = {
    "AntecedeError": "core.errors",
    "Bus": "live.client.bus",
    "ConnectionLostError": "live.client.errors",
    "DeniedError": "live.client.errors",
    "Feed": "live.client.feed",
    "GapError": "live.errors",
    "JournalError": "live.errors",
    "LimitError": "core.errors",
    "LostHistoryError": "live.client.errors",
    "Message": "live.client.message",
    "MessageId": "live.client.message",
    "Node": "live.node.node",
    "NodeConfig": "live.node.config",
    "ProtocolError": "core.errors",
    "PublishError": "live.client.errors",
    "RefusedError": "live.errors",
    "SlowReaderError": "live.client.errors",
    "StoppedError": "live.errors",
    "SyncBus": "live.client.sync",
    "UnreachableError": "live.errors",
    "UsageError": "core.errors",
    "connect": "live.client.connect",
    "connect_sync": "live.client.sync",
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
