"""`$SYS`: what dashboards of MQTT read about a broker, told by the node to the clients that subscribe to it.

The values are this node's own. They do not travel between nodes and are not in the journal. A subscription is given the
present values at once, as retained messages, and those that changed every few seconds, with QoS 0.
"""

import asyncio
import time
from typing import TYPE_CHECKING, Final

from antecede import __version__
from antecede.node.mqtt.items import Item
from antecede.node.mqtt.session import DeviceSession
from antecede.wire.mqtt.envelopes import ApplicationMessage
from antecede.wire.mqtt.subscriptions import Given
from antecede.wire.topics import TopicFilter

if TYPE_CHECKING:
    from antecede.node.mqtt.server import MqttServer

#: Between two looks at the values.
_TELL_S: Final = 10.0


class SysTopics:
    """The values of one node."""

    def __init__(self, server: "MqttServer") -> None:
        self._server = server
        self._told: dict[str, str] = {}

    def values(self) -> dict[str, str]:
        """By topic."""
        server, node = self._server, self._server.node
        connected, total = server.sessions.connected, len(server.sessions)
        edge = node.counts_edge
        found: dict[str, object] = {
            "version": f"antecede {__version__}",
            "uptime": f"{int(time.monotonic() - node.started_s)} seconds",
            "clients/connected": connected,
            "clients/disconnected": total - connected,
            "clients/total": total,
            "messages/received": server.counts.received,
            "messages/sent": server.counts.sent,
            "publish/messages/received": server.counts.received,
            "publish/messages/sent": server.counts.sent,
            "bytes/received": edge.bytes_received,
            "bytes/sent": edge.bytes_sent,
            "retained messages/count": server.keeper.retained.count,
            "subscriptions/count": sum([len(session.subscriptions) for session in server.sessions.all()]),
        }
        return {f"$SYS/broker/{name}": str(value) for name, value in found.items()}

    def give(self, session: DeviceSession, pattern: str) -> None:
        """Give a new subscription the present values."""
        matches = TopicFilter(pattern).matches
        self._send(session, {topic: value for topic, value in self.values().items() if matches(topic)}, retained=True)

    async def keep_telling(self) -> None:
        while True:
            await asyncio.sleep(_TELL_S)
            readers = [session for session in self._server.sessions.all() if session.connection is not None]
            readers = [
                session for session in readers if any(one.pattern.startswith("$SYS") for one in session.subscriptions)
            ]
            if readers:
                values = self.values()
                changed = {topic: value for topic, value in values.items() if self._told.get(topic) != value}
                self._told = values
                for session in readers:
                    self._send(session, changed, retained=False)

    def _send(self, session: DeviceSession, values: dict[str, str], *, retained: bool) -> None:
        now_us = time.time_ns() // 1000
        items = []
        for topic, value in values.items():
            given = session.subscriptions.decide(topic, session.hub.position + 1, own=False)
            if given is not None:
                message = ApplicationMessage(topic, value.encode(), now_us, qos=0)
                items.append(Item(0, message, Given(0, given.identifiers, False), retained=retained))
        if items:
            session.outbox.give(items)
