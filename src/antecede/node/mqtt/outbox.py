"""The messages to one MQTT client, in the order in which they are written.

They come from the session's feed, from shared subscriptions, and from the retained messages for a new subscription. One
that must wait for an acknowledgement of the client holds back all behind it. Retained messages wait for their turn: the
feed must have given everything that was delivered before the subscription.

The QoS 1 and 2 exchanges themselves are those of `wire.mqtt.flows`. Messages under way are sent again, before all
others, when the client connects again.
"""

import contextlib
import time
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from antecede.core.errors import AntecedeError
from antecede.node.mqtt.items import Item, flight_record, publish_packet
from antecede.node.mqtt.store import CardFlight, FlightRecord
from antecede.wire.mqtt.flows import Flight

if TYPE_CHECKING:
    from antecede.node.mqtt.client import Client
    from antecede.node.mqtt.session import DeviceSession


class Outbox:
    """What one client is still to be given."""

    def __init__(self, session: "DeviceSession") -> None:
        self._session = session
        self._outgoing = session.outgoing
        self._pending: deque[Item] = deque()
        #: Retained messages to be given once the feed has given everything up to a position.
        self._retained: deque[tuple[int, list[Item]]] = deque()
        #: Retained messages that were not given before the last connection ended.
        self._not_given: list[Item] = []
        #: Messages under way are being read from the journal, to be sent again before all others.
        self.held = False

    @property
    def empty(self) -> bool:
        """Does no message wait to be written?"""
        return not self._pending

    @property
    def first_position(self) -> int | None:
        """The position of the first message of the feed that waits; None: none does."""
        for item in self._pending:
            if item.group is None and not item.retained and item.position:
                return item.position
        return None

    # -- what is kept --------------------------------------------------------------------------------------------------

    def records(self) -> list[FlightRecord]:
        """Messages under way, and retained ones that were not sent yet."""
        found = [_record(one) for one in self._outgoing if one.message.position or one.released]
        return found + [flight_record(item, 0, item.given.qos) for item in self._retained_to_give()]

    def elsewhere(self) -> list[CardFlight]:
        """Messages under way that came from another node: they are at no position of this one."""
        found = [one for one in self._outgoing if not one.message.position and not one.released]
        named = [(one, one.message.name) for one in found if one.message.group is None]
        return [CardFlight(_record(one), *name) for one, name in named if name is not None]

    @property
    def all_here(self) -> bool:
        """Has every message that waits or is under way a position here?"""
        items = [*self._pending, *[flight.message for flight in self._outgoing if not flight.released]]
        return all(item.position or item.name is None or item.group is not None for item in items)

    def restore(self, record: FlightRecord, position: int) -> None:
        """Take a message up again, which is at this position in the journal here."""
        item = Item(position, None, record.given, record.retained)
        if record.packet_id:
            self._outgoing.restore([Flight(record.packet_id, record.qos, item, record.released)])
        else:
            self._not_given.append(item)

    def _retained_to_give(self) -> list[Item]:
        """Retained messages that the client is still to be given, with QoS 1 or 2."""
        waiting = [*self._not_given, *[item for item in self._pending if item.retained and item.position]]
        waiting += [item for _, items in self._retained for item in items]
        return [item for item in waiting if item.given.qos and (item.message is None or item.message.qos)]

    def unread(self) -> list[Flight[Item]]:
        """Messages under way whose payloads must be read from the journal. Identifier 0: they were not sent yet."""
        found = [flight for flight in self._outgoing if flight.message.message is None and not flight.released]
        return found + [Flight(0, 0, item) for item in self._not_given if item.message is None]

    async def read_again(self) -> None:
        """Read those payloads. A message that is no longer there is dropped."""
        for flight in self.unread():
            message = None
            with contextlib.suppress(AntecedeError):  # retention has removed it, or the node stops
                message = await self._session.server.read(flight.message.position)
            item = flight.message._replace(message=message)
            if flight.packet_id and message is None:
                self._outgoing.drop(flight.packet_id)
            elif flight.packet_id:
                flight.message = item
            else:
                self._not_given.remove(flight.message)
                self._not_given += [item] if message is not None else []

    # -- connections ---------------------------------------------------------------------------------------------------

    def opened(self) -> None:
        """A connection is there, and everything that must be sent again was read."""
        self._pending.extendleft(reversed(self._not_given))
        self._not_given = []
        self.held = False

    def closed(self) -> None:
        """The connection is gone."""
        self._not_given = self._retained_to_give()
        self._pending.clear()
        self._retained.clear()
        self.held = False
        self._outgoing.disconnected()
        if self._session.node.journal is not None:  # payloads are read again when the client is back
            for flight in self._outgoing:
                if flight.message.position:
                    flight.message = flight.message._replace(message=None)

    # -- what is to be given -------------------------------------------------------------------------------------------

    def add(self, item: Item) -> None:
        """Take a message of the feed. `pump` writes it."""
        self._pending.append(item)

    def give(self, items: Iterable[Item]) -> None:
        """Give messages that do not come from the feed, behind those that wait."""
        self._pending.extend(items)
        self.pump()

    def give_retained(self, items: list[Item]) -> None:
        """Give retained messages in their order, as the node knows them now: behind all that was delivered so far."""
        if items:
            self._retained.append((self._session.hub.position, items))
            self.retained_due()

    def retained_due(self, before: int | None = None) -> None:
        """Give the retained messages whose turn has come: the feed has reached their position, or goes `before`."""
        while self._retained:
            position, items = self._retained[0]
            feed = self._session.feed
            if before is not None:
                behind = before <= position
            else:
                behind = feed is not None and (not feed.live or feed.lagging) and feed.position < position
            if behind:
                return
            self._retained.popleft()
            self._pending.extend(items)
        if before is None:
            self.pump()

    # -- writing -------------------------------------------------------------------------------------------------------

    def takes(self, qos: int) -> bool:
        """Would a message that is given now be written at once?"""
        return not (self.held or self._pending or self._outgoing.behind or self._waits(qos))

    def _waits(self, qos: int) -> bool:
        """Must a message wait for an acknowledgement of the client?"""
        return (qos > 0 and not self._outgoing.room) or (qos < 2 and self._outgoing.unreleased > 0)

    def pump(self) -> None:
        """Write messages in their order, until one must wait for an acknowledgement."""
        session, pending, outgoing = self._session, self._pending, self._outgoing
        connection = session.connection
        if connection is None or self.held:
            return
        if outgoing.behind:
            self._send_again(connection)
        if not pending or outgoing.behind:
            return
        while pending:
            item = pending[0]
            assert item.message is not None
            qos = min(item.given.qos, item.message.qos)  # [MQTT-3.8.4-8]
            if self._waits(qos):
                return
            pending.popleft()
            if item.group is None and not item.retained:
                session.gave(item)
            flight = None
            if qos:
                flight = outgoing.begin(item, qos)
                session.keeper.touch(session)
                if qos == 2 and session.kept:  # or a node that was killed would send it by another identifier
                    connection.hold()
            if not self._write(connection, item, flight, dup=False) and flight is not None:
                outgoing.drop(flight.packet_id)  # [MQTT-3.1.2-25]
        connection.flush_later()

    def _send_again(self, connection: "Client") -> None:
        for flight in self._outgoing.again():
            if flight.released:
                connection.release(flight.packet_id)
            elif not self._write(connection, flight.message, flight, dup=True):  # [MQTT-3.3.1-1]
                self._outgoing.drop(flight.packet_id)
        connection.flush_later()

    def _write(self, connection: "Client", item: Item, flight: Flight[Item] | None, *, dup: bool) -> bool:
        """Write a PUBLISH. False: it has expired, or is larger than the client accepts."""
        if not dup and connection.takes_plain and item.plain:
            assert item.message is not None
            qos, packet_id = (0, 0) if flight is None else (flight.qos, flight.packet_id)
            make = self._session.server.opened_messages.plain_publish
            connection.write_publish(make(item.position, item.message, connection.version, qos, packet_id))
            return True
        packet = publish_packet(item, flight, dup=dup, now_us=time.time_ns() // 1000)
        return packet is not None and connection.publish(packet)


def _record(flight: Flight[Item]) -> FlightRecord:
    return flight_record(flight.message, flight.packet_id, flight.qos, flight.released)
