"""The sessions of a node: found or made at CONNECT, ended when their time is over, restored when the node starts.

A client is known by its client identifier. One that connects again takes its session over ([MQTT-3.1.4-3]), and its
older connection ends. A session without a connection lives for its expiry interval. Its will is published when the
connection ends without DISCONNECT: after the will delay, or when the session ends, whichever is first ([MQTT-3.1.2-8]).
"""

import asyncio
import time
from typing import TYPE_CHECKING, Final

import msgspec

from antecede.node.mqtt.publisher import Publisher
from antecede.node.mqtt.session import NEVER, DeviceSession
from antecede.node.mqtt.store import Kept
from antecede.wire.mqtt.envelopes import ApplicationMessage, seal_message
from antecede.wire.mqtt.packets import V5, Connect, Will
from antecede.wire.mqtt.properties import NO_PROPERTIES
from antecede.wire.mqtt.reasons import Reason
from antecede.wire.security.tokens import Grants

if TYPE_CHECKING:
    from antecede.node.mqtt.server import MqttServer

#: Between two looks at sessions whose time is over, and at wills that are due.
_LOOK_S: Final = 0.5


class Sessions:
    """By client identifier."""

    def __init__(self, server: "MqttServer") -> None:
        self._server = server
        self._by_id: dict[str, DeviceSession] = {}
        self._by_tag: dict[bytes, DeviceSession] = {}
        #: The node reads in its journal what it delivered before it was killed.
        self.restoring = False

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, client_id: str) -> bool:
        return client_id in self._by_id

    def belongs_to_another(self, client_id: str, owner: str) -> bool:
        """Has the client of another token a session by this identifier?"""
        session = self._by_id.get(client_id)
        return session is not None and session.owner != owner

    def get(self, client_id: str) -> DeviceSession | None:
        return self._by_id.get(client_id)

    def moved_away(self, session: DeviceSession) -> None:
        """The client has connected at another node, which has its session now ([MQTT-3.1.4-3])."""
        connection = session.connection
        if connection is not None:
            connection.leave(Reason.SESSION_TAKEN_OVER)
            session.detach()
        if not (session.will and session.will.properties.will_delay_s):  # [MQTT-3.1.3-9]: else it is not published
            session.will_due_s = 0.0
            self._publish_will_if_due(session, 0.0)
        session.will = None
        self._drop(session)

    def all(self) -> list[DeviceSession]:
        return list(self._by_id.values())

    @property
    def connected(self) -> int:
        return len([session for session in self._by_id.values() if session.connection is not None])

    def for_client(self, packet: Connect, client_id: str, grant: Grants) -> tuple[DeviceSession, bool]:
        """The session of a client, and whether it had one. The older connection of the client ends."""
        session = self._by_id.get(client_id)
        if session is not None and session.connection is not None:
            old = session.connection
            old.leave(Reason.SESSION_TAKEN_OVER)
            old.closed()
            session = self._by_id.get(client_id)
        if session is not None and (packet.clean_start or session.expired(time.time())):  # [MQTT-3.1.2-4]
            self.end(session)
            session = None
        card = self._server.cards.find(client_id, grant.name) if session is None else None
        present = session is not None  # [MQTT-3.1.2-5], [MQTT-3.1.2-6]
        if session is None:
            session = self._add(client_id)
            session.owner = grant.name
            if card is not None:
                session.connected_s = card.connected_s  # `attach` takes a later time
            if card is not None and not packet.clean_start:
                present = True
                session.adopt(card)
                for one in session.subscriptions:
                    if one.group:
                        self._server.groups.join(session, one)
        for one in session.subscriptions:  # its grants may be others now
            if not self._server.may_subscribe(grant, one.pattern):
                session.unsubscribe(one.full)
        session.will = packet.will
        session.expiry_s = expiry_s(packet)
        return session, present

    def _add(self, client_id: str) -> DeviceSession:
        session = self._by_id[client_id] = DeviceSession(self._server, client_id)
        self._by_tag[session.tag] = session
        return session

    def delivered(self, tag: bytes, packet_id: int, position: int) -> None:
        """A QoS 2 message of a client was delivered: sent again, it is the same message until PUBREL.

        `packet_id`: behind the generation of its session.
        """
        session = self._by_tag.get(tag)
        if session is None or position <= session.restored_at or packet_id >> 16 != session.generation:
            return
        number = packet_id & 0xFFFF
        if self.restoring:
            session.incoming.restore({number: position})
        elif number in session.incoming.received:  # with the protocol "total" it may be released already
            session.incoming.delivered[number] = position
        self._server.keeper.touch(session)

    def disconnected(self, session: DeviceSession, *, keep_will: bool) -> None:
        """The connection of a session is over."""
        session.detach()
        for group in list(session.groups.values()):
            group.left()
        self._left(session, keep_will=keep_will)

    def _left(self, session: DeviceSession, *, keep_will: bool) -> None:
        will = session.will
        if not keep_will:
            session.will = None  # [MQTT-3.1.2-10]
        elif will is not None:  # [MQTT-3.1.2-8]
            session.will_due_s = time.time() + min(will.properties.will_delay_s or 0, session.expiry_s)
        if session.arriving:  # the node that it came from has it still
            self._drop(session)
        elif not session.expiry_s:  # [MQTT-3.1.2-23]
            self.end(session)
        else:
            self._server.cards.tell(session)
            self._publish_will_if_due(session, time.time())
            self._server.keeper.touch(session)

    def _publish_will_if_due(self, session: DeviceSession, now_s: float) -> None:
        if session.will is not None and session.will_due_s is not None and session.will_due_s <= now_s:
            will, session.will, session.will_due_s = session.will, None, None
            self._publish(session, will)
            self._server.keeper.touch(session)

    def _publish(self, session: DeviceSession, will: Will) -> None:
        """Publish a will. Its topic was granted at CONNECT."""
        left = msgspec.structs.replace(will.properties, will_delay_s=None)
        properties = NO_PROPERTIES if left == NO_PROPERTIES else left
        message = ApplicationMessage(
            will.topic, will.payload, time.time_ns() // 1000, will.qos, will.retain, session.tag, 0, properties
        )
        grant = Grants("will", (will.topic,), ())
        Publisher(self._server.node, session, grant).publish([seal_message(message)], [None], safely=True)

    def end(self, session: DeviceSession) -> None:
        """The session is over, with all that belongs to it."""
        if session.will is not None:
            session.will_due_s = 0.0
            self._publish_will_if_due(session, 0.0)
        self._drop(session)
        self._server.cards.forget(session)

    def _drop(self, session: DeviceSession) -> None:
        if self._by_id.get(session.client_id) is session:
            del self._by_id[session.client_id]
            self._by_tag.pop(session.tag, None)
        for full in list(session.groups):
            self._server.groups.leave(session, full)
        self._server.keeper.forget(session)

    async def keep_up(self) -> None:
        """End sessions whose time is over, and publish wills that are due."""
        while True:
            await asyncio.sleep(_LOOK_S)
            now_s = time.time()
            for session in self.all():
                if session.left_s is not None:
                    self._publish_will_if_due(session, now_s)
                    if session.expired(now_s):
                        self.end(session)

    def restore(self, kept: Kept) -> None:
        """Restore the sessions of an earlier life."""
        for record in kept.sessions:
            session = self._add(record.client_id)
            session.restore(record)
            for one in record.subscriptions:
                if one.group:
                    self._server.groups.join(session, one)

    def wake(self) -> None:
        """The node is up again: the connections that there were at its end are over."""
        for session in self.all():
            if session.left_s is None:
                session.left_s = time.time()
                self._left(session, keep_will=True)


def expiry_s(packet: Connect) -> int:
    """How long the session lives without a connection. 3.1.1: for ever, or not at all."""
    if packet.version < V5:
        return 0 if packet.clean_start else NEVER
    return packet.properties.session_expiry_s or 0
