"""Sessions that move: a client that comes back at another node of the cluster goes on there.

The node that has a session tells the other nodes of it by a card. A card is a retained message on a topic of the nodes
(`$MQTT/sessions/…`), so every node keeps the last one of each session. It has the subscriptions, how far the client was
given messages, by stream, which means the same at all nodes, and the QoS 1 and 2 exchanges that are not complete. It is
written when a client connects, leaves or changes its subscriptions.

A client that connects elsewhere without Clean Start has its session made from the card. When its feed has begun, the
new node writes a card of its own, and the former node ends its session, with the connection if there is one (0x8E). Of
two sessions of one client the one with the later CONNECT stays: a CONNECT counts as later than the one on the card, and
else by the clocks of the nodes.

The new node may lack messages that the client is to be given: it took their partition later. It gives them as it gets
them from other nodes (`past.replay`), at no position of its own. Until all of them are done, the session goes on by
streams and numbers (`DeviceSession.came_from`), also after a restart.

A node that is killed writes no card when its clients leave. Then the last card is of an earlier time, and the client is
given again what it was given since: nothing is lost, and QoS 2 messages may come twice.
"""

import asyncio
import time
from typing import TYPE_CHECKING, Final

import msgspec

from antecede.core.errors import AntecedeError
from antecede.node.mqtt.keeping import CARDS
from antecede.node.mqtt.publisher import Publisher
from antecede.node.mqtt.session import NEVER, DeviceSession
from antecede.node.mqtt.store import Card, CardFlight
from antecede.wire.mqtt.envelopes import ApplicationMessage, publisher_tag, seal_message
from antecede.wire.security.tokens import Grants

if TYPE_CHECKING:
    from antecede.node.mqtt.server import MqttServer

#: How long a node that stops waits for its last cards.
_SETTLE_S: Final = 2.0

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Card).decode


def card_topic(tag: bytes) -> str:
    return CARDS + tag.hex()


def read_card(payload: bytes) -> Card | None:
    """None: the session is over, or this is no card."""
    try:
        return _decode(payload) if payload else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


class Cards:
    """What a node tells of its sessions, and knows of those of others."""

    def __init__(self, server: "MqttServer") -> None:
        self._server = server
        self._node = server.node
        #: Sessions to tell of.
        self._due: set[DeviceSession] = set()

    @property
    def _alone(self) -> bool:
        return len(self._node.roster.members) < 2

    def find(self, client_id: str, owner: str) -> Card | None:
        """The card of a session that another node has, if it is not over."""
        row = self._server.keeper.retained.get(card_topic(publisher_tag(client_id)))
        card = None if row is None else read_card(row.message.payload)
        if card is None or card.client_id != client_id or card.owner != owner or card.slot == self._node.slot:
            return None
        over = card.left_s is not None and card.expiry_s != NEVER and time.time() >= card.left_s + card.expiry_s
        return None if over else card

    def tell(self, session: DeviceSession) -> None:
        """The session has changed in what its card says."""
        if session.kept and session.expiry_s and not self._alone:
            session.told += 1
            if session not in self._due:
                self._due.add(session)
                self._node.tasks.start("tells other nodes of an MQTT session", self._tell(session))

    def connected(self, session: DeviceSession) -> None:
        """A client has connected: its session here replaces one that another node has ([MQTT-3.1.2-4])."""
        self.tell(session)
        if not session.expiry_s and not session.arriving and self.find(session.client_id, session.owner):
            name, slot, now_s = session.client_id, self._node.slot, session.connected_s
            over = Card(name, session.owner, slot, now_s, 0, now_s, (), (), (), (), session.generation)
            self._publish(session, card_topic(session.tag), _encode(over))
            self._publish(session, card_topic(session.tag), b"")

    def forget(self, session: DeviceSession) -> None:
        """The session is over."""
        session.told += 1
        topic = card_topic(session.tag)
        if self._server.keeper.retained.get(topic) is not None:
            self._publish(session, topic, b"")

    async def settle(self) -> None:
        """Wait until the last cards are published, for a moment."""
        end = time.monotonic() + _SETTLE_S
        while self._due and time.monotonic() < end:
            await asyncio.sleep(0.01)

    def seen(self, message: ApplicationMessage) -> None:
        """A card was delivered: the client of a session may have gone to another node."""
        card = read_card(message.payload)
        if card is None or card.slot == self._node.slot:
            return
        session = self._server.sessions.get(card.client_id)
        if session is None or session.arriving:
            return
        if card.connected_s > session.connected_s:
            self._server.sessions.moved_away(session)
        else:
            self.tell(session)  # both nodes must know that it is here

    async def _tell(self, session: DeviceSession) -> None:
        await asyncio.sleep(0)  # what else changes in this turn is told with it
        number = -1
        try:
            while number != session.told:
                number = session.told
                card = await self._card(session)
        except AntecedeError:
            return  # retention has removed the messages, or the node stops
        finally:
            self._due.discard(session)
        if self._server.sessions.get(session.client_id) is session:
            self._publish(session, card_topic(session.tag), _encode(card))

    async def _card(self, session: DeviceSession) -> Card:
        record = session.record()
        hub = self._node.hub
        seen = record.seen
        if seen is None:
            filters = [hub.partitions.of_filter(one.pattern) for one in record.subscriptions if not one.group]
            mine = frozenset().union(*filters)
            seen = tuple((await hub.history.read_at(record.position, dict(hub.delivered), mine)).items())
        flights = []
        for flight in record.flights:
            found = await self._server.identify(flight.position) if not flight.released else (0, 0)
            if found is not None:
                flights.append(CardFlight(flight, *found))
        flights += record.moved
        return Card(
            record.client_id,
            record.owner,
            self._node.slot,
            session.connected_s,
            record.expiry_s,
            record.left_s,
            record.subscriptions,
            seen,
            tuple(flights),
            record.received,
            record.generation,
        )

    def _publish(self, session: DeviceSession, topic: str, payload: bytes) -> None:
        message = ApplicationMessage(topic, payload, time.time_ns() // 1000, 1, True, session.tag)
        grant = Grants("session", (topic,), ())
        Publisher(self._node, session, grant).publish([seal_message(message)], [None], safely=True)
