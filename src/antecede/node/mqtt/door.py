"""Admission of MQTT connections: they count with all other connections of the node (`wire.admission`).

A connection is a stranger's until its CONNECT is complete. When there are too many strangers, the oldest one of the
host that has the most makes way, as at the node's own port. So silent sockets cannot keep a client out.
"""

import asyncio
from typing import TYPE_CHECKING

from antecede.wire.admission import HandshakeQueue, origin
from antecede.wire.transport import Reason

if TYPE_CHECKING:
    from antecede.node.mqtt.connection import DeviceConnection
    from antecede.node.node import Node


class Door:
    """The MQTT connections of one node."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._admission = node.listener.admission
        self._strangers = HandshakeQueue["DeviceConnection"](self._admission.limits.handshakes_max)
        #: Each with the origin that it counts for.
        self._inside: dict[DeviceConnection, str] = {}
        self._trimming: asyncio.TimerHandle | None = None

    def all(self) -> "list[DeviceConnection]":
        return list(self._inside)

    def enter(self, connection: "DeviceConnection") -> bool:
        """May this connection stay?"""
        counted, admission = origin(connection.host), self._admission
        refusal = admission.admit(counted)
        if refusal is not None:
            self._make_way(self._strangers.make_room(None if admission.full else counted))
            refusal = admission.admit(counted)
        if refusal is not None:
            self.refused(connection, refusal, "before CONNECT")
            return False
        self._inside[connection] = counted
        self._strangers.enter(connection, counted)
        if self._strangers.over and self._trimming is None:
            loop = asyncio.get_running_loop()
            self._trimming = loop.call_later(admission.limits.excess_s, self._trim)
        return True

    def welcome(self, connection: "DeviceConnection") -> None:
        """A client has come in."""
        counted = self._inside[connection]
        self._strangers.leave(connection, counted)
        self._strangers.welcomed(counted)

    def leave(self, connection: "DeviceConnection") -> None:
        counted = self._inside.pop(connection, None)
        if counted is not None:
            self._strangers.leave(connection, counted)
            self._admission.left(counted)

    def refused(self, connection: "DeviceConnection", reason: str, detail: str) -> None:
        """Count a refusal, and log the first of its kind."""
        self._admission.refused(connection.host, reason, f"MQTT: {detail}")

    def close(self) -> None:
        if self._trimming is not None:
            self._trimming.cancel()

    def _trim(self) -> None:
        self._trimming = None
        self._make_way(self._strangers.excess())

    def _make_way(self, connections: "list[tuple[DeviceConnection, str]]") -> None:
        for connection, counted in connections:
            self._admission.refused(counted, Reason.BUSY, "MQTT: without CONNECT, it made way for a newer one")
            connection.abort()
            self.leave(connection)
