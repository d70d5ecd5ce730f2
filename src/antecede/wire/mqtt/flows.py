"""The QoS 1 and 2 exchanges of a session, in both directions (4.3, 4.4, 4.6, 4.9).

`Outgoing`: messages to the client. Each has a packet identifier from its PUBLISH to its last acknowledgement. They are
sent again, in their order, when the client connects again. At most `receive_maximum` are under way. Clients may hand a
QoS 2 message on at its PUBREL (4.3.3, method A): while one is not released, messages of a lower QoS must wait, or the
application would get them first.

`Incoming`: messages from the client. A QoS 2 message is published when its PUBLISH comes, so that nothing overtakes it;
its identifier is kept until PUBREL, and a PUBLISH with it in between is the same message again. Acknowledgements leave
in the order of the PUBLISH packets, however long each message takes to be safe.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from antecede.wire.mqtt.packets import V5, Puback, Pubcomp, Publish, Pubrec, Pubrel
from antecede.wire.mqtt.reasons import MqttError, Reason, forbidden

M = TypeVar("M")

_IDS: Final = 65_535


@dataclass(slots=True)
class Flight(Generic[M]):
    """A message to the client that is not acknowledged yet."""

    packet_id: int
    qos: int
    message: M
    #: The client has it (PUBREC): only PUBREL is sent from now on ([MQTT-4.3.3-6]).
    released: bool = False
    #: It was sent on the present connection.
    sent: bool = True


class Outgoing(Generic[M]):
    """Messages under way to one client."""

    def __init__(self, receive_maximum: int) -> None:
        self.receive_maximum = receive_maximum
        self._flights: dict[int, Flight[M]] = {}
        self._last_id = 0
        #: How many QoS 2 messages are under way without PUBREC.
        self.unreleased = 0
        #: Some are to be sent again, before all new ones.
        self.behind = False

    def __len__(self) -> int:
        return len(self._flights)

    def __iter__(self) -> Iterator[Flight[M]]:
        """In the order in which they were first sent ([MQTT-4.6.0-1])."""
        return iter(list(self._flights.values()))

    @property
    def room(self) -> bool:
        """May another one be sent? [MQTT-3.3.4-9], [MQTT-4.9.0-2]."""
        return len(self._flights) < self.receive_maximum

    def begin(self, message: M, qos: int) -> Flight[M]:
        """Give a message an identifier that is not in use ([MQTT-2.2.1-4])."""
        packet_id = self._last_id
        while True:
            packet_id = packet_id % _IDS + 1
            if packet_id not in self._flights:
                break
        self._last_id = packet_id
        flight = self._flights[packet_id] = Flight(packet_id, qos, message)
        self.unreleased += qos == 2
        return flight

    def restore(self, flights: Iterable[Flight[M]]) -> None:
        for flight in flights:
            self._flights[flight.packet_id] = flight
            self._last_id = flight.packet_id
            self.unreleased += flight.qos == 2 and not flight.released
        self.disconnected()

    def skip_ids(self) -> None:
        """Go on with identifiers that were not in use lately: some may be under way that are not known here."""
        self._last_id = (self._last_id + _IDS // 2) % _IDS

    def disconnected(self) -> None:
        """The connection is gone: everything is sent again on the next one."""
        for flight in self._flights.values():
            flight.sent = False
        self.behind = bool(self._flights)

    def again(self) -> Iterator[Flight[M]]:
        """Those to send again now ([MQTT-4.4.0-1]), no more than the client accepts at a time ([MQTT-3.3.4-9])."""
        flights = list(self._flights.values())
        under_way = sum([flight.sent for flight in flights])
        for flight in flights:
            if not flight.sent:
                if under_way >= self.receive_maximum:
                    return
                under_way += 1
                flight.sent = True
                yield flight
        self.behind = False

    def drop(self, packet_id: int) -> None:
        """The message will not be sent after all."""
        flight = self._flights.pop(packet_id, None)
        self.unreleased -= flight is not None and flight.qos == 2 and not flight.released

    def puback(self, packet: Puback) -> Flight[M] | None:
        """The message that this acknowledges; None: none is under way by that identifier."""
        flight = self._flights.get(packet.packet_id)
        if flight is None:
            return None
        if flight.qos != 1:
            raise forbidden("packet identifier", f"PUBACK for {packet.packet_id}, which has QoS {flight.qos}")
        return self._flights.pop(packet.packet_id)

    def pubrec(self, packet: Pubrec) -> Pubrel | None:
        """The answer ([MQTT-4.3.3-4]); None: the client refused the message, which ends it ([MQTT-4.4.0-2])."""
        flight = self._flights.get(packet.packet_id)
        if flight is None:
            reason = Reason.PACKET_ID_NOT_FOUND
            return None if packet.reason.failed else Pubrel(packet_id=packet.packet_id, reason=reason)
        if flight.qos != 2:
            raise forbidden("packet identifier", f"PUBREC for {packet.packet_id}, which has QoS {flight.qos}")
        self.unreleased -= not flight.released
        if packet.reason.failed:
            del self._flights[packet.packet_id]
            return None
        flight.released = True
        return Pubrel(packet_id=packet.packet_id)

    def pubcomp(self, packet: Pubcomp) -> Flight[M] | None:
        flight = self._flights.get(packet.packet_id)
        if flight is None:
            return None
        if not flight.released:
            raise forbidden("packet identifier", f"PUBCOMP for {packet.packet_id}, which had no PUBREC")
        return self._flights.pop(packet.packet_id)


@dataclass(slots=True)
class _Due:
    """An acknowledgement that is due; None: the message is not safe yet."""

    packet_id: int
    qos: int
    reason: Reason | None


class Incoming:
    """Messages under way from one client."""

    def __init__(self, receive_maximum: int) -> None:
        self._receive_maximum = receive_maximum
        #: QoS 2: taken, and not released by PUBREL.
        self.received: set[int] = set()
        #: Of these, those whose message was delivered, with its position (0: at another node, or not known): what must
        #: be remembered when the node is killed.
        self.delivered: dict[int, int] = {}
        #: Those that another node told of, or an earlier life of this one.
        self._restored: set[int] = set()
        #: PUBLISH packets in their order, with the reason of their acknowledgement once it is known.
        self._due: deque[_Due] = deque()
        #: Identifiers whose message is not safe yet.
        self._unsafe: set[int] = set()

    def __len__(self) -> int:
        """Messages that are not acknowledged, or not released."""
        return len(self._due) + len(self.received - self._unsafe)

    def take(self, packet: Publish, version: int) -> bool:
        """Should this PUBLISH (QoS 1 or 2) be published? False: it is one that was, again; it is acknowledged again.

        [MQTT-4.3.3-10]: a QoS 2 identifier means the same message until its PUBREL. The PUBREL of one that was restored
        may have come since: it is another message if it is not marked as sent again, which [MQTT-3.3.1-1] demands.
        """
        packet_id = packet.packet_id
        if packet.qos == 2 and not packet.dup and packet_id in self._restored:
            self._forget(packet_id)
        if packet.qos == 2 and packet_id in self.received:
            safe = packet_id not in self._unsafe
            if safe or all(entry.packet_id != packet_id for entry in self._due):
                self._due.append(_Due(packet_id, 2, Reason.SUCCESS if safe else None))
            return False
        if version == V5 and len(self) >= self._receive_maximum:  # 3.3.4
            problem = f"{self._receive_maximum} messages are under way already"
            raise MqttError(Reason.RECEIVE_MAXIMUM_EXCEEDED, "packet identifier", problem)
        self._unsafe.add(packet_id)
        self._due.append(_Due(packet_id, packet.qos, None))
        if packet.qos == 2:
            self.received.add(packet_id)
        return True

    def restore(self, delivered: Mapping[int, int]) -> None:
        """These were delivered, and not released."""
        self.received.update(delivered)
        self.delivered.update(delivered)
        self._restored.update(delivered)

    @property
    def durable(self) -> dict[int, int]:
        """QoS 2 identifiers whose messages are published for good, and that are not released, with their positions."""
        return dict.fromkeys(self.received - self._unsafe, 0) | self.delivered

    def settle(self, packet_id: int, reason: Reason) -> None:
        """The message is safe, or failed."""
        self._unsafe.discard(packet_id)
        for entry in self._due:
            if entry.packet_id == packet_id and entry.reason is None:
                entry.reason = reason
                break
        if reason.failed:  # 4.3.3: a PUBREC that refuses ends the exchange
            self.received.discard(packet_id)

    def acknowledgements(self) -> Iterator[Puback | Pubrec]:
        """Those that may leave, in the order of [MQTT-4.6.0-2] and [MQTT-4.6.0-3]."""
        while self._due and (reason := self._due[0].reason) is not None:
            entry = self._due.popleft()
            kind = Puback if entry.qos == 1 else Pubrec
            yield kind(packet_id=entry.packet_id, reason=reason)

    def release(self, packet: Pubrel) -> Pubcomp:
        """[MQTT-4.3.3-11]: answer a PUBREL, also of an identifier that is not known."""
        known = packet.packet_id in self.received
        self._forget(packet.packet_id)
        return Pubcomp(packet_id=packet.packet_id, reason=Reason.SUCCESS if known else Reason.PACKET_ID_NOT_FOUND)

    def _forget(self, packet_id: int) -> None:
        self.received.discard(packet_id)
        self.delivered.pop(packet_id, None)
        self._restored.discard(packet_id)

    def disconnected(self) -> None:
        """The connection is gone: the client sends again what was not acknowledged.

        A QoS 1 message that comes again is another one. A QoS 2 message is the same, also if it is not safe yet.
        """
        self._unsafe &= self.received
        self._due.clear()
