"""One connected MQTT client: reads its packets, answers them, and writes what its session gives it.

It trusts nothing that a client sends: `wire.mqtt.connection` checks the packets, grants the topics, and bounds what may
be under way. Two things stop it from reading: publications that are not safe yet, and a turn that was long enough
(`node.turns`).
"""

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from antecede.core.limits import STEP_COST_MAX
from antecede.node.mqtt.publisher import Done, Publisher
from antecede.node.mqtt.session import RECEIVE_MAXIMUM, DeviceSession
from antecede.wire.frames import WRITE_BYTES_HIGH
from antecede.wire.mqtt.connection import ServerConnection
from antecede.wire.mqtt.envelopes import ApplicationMessage, seal_message
from antecede.wire.mqtt.packets import (
    V5,
    Acknowledgement,
    AnyPacket,
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
    Wanted,
)
from antecede.wire.mqtt.reasons import MqttError, Reason
from antecede.wire.mqtt.subscriptions import Subscription
from antecede.wire.mqtt.topics import check_no_local, split_filter
from antecede.wire.security.tokens import ANYBODY, Grants

if TYPE_CHECKING:
    from antecede.node.mqtt.connection import DeviceConnection
    from antecede.node.mqtt.server import MqttServer

#: Publications that may be on their way to the journal, and their bytes, before the client is not read.
_UNDER_WAY_MAX: Final = RECEIVE_MAXIMUM
_UNDER_WAY_BYTES_MAX: Final = 4 * 1024 * 1024
#: What packets cost (`turns`), beside publications.
_COST: Final = 1
_SUBSCRIBE_COST: Final = 8


class Client:
    """The owner of one connection, from its CONNECT on."""

    def __init__(
        self, server: "MqttServer", connection: "DeviceConnection", rules: ServerConnection, grant: Grants
    ) -> None:
        assert rules.connect is not None
        self.server = server
        self.node = server.node
        self.connect: Connect = rules.connect
        self.grant = grant
        #: With whom it shares its turns: connections with the same token.
        self.client: object = self if grant is ANYBODY else grant.name
        self.session: DeviceSession | None = None
        self.publisher = Publisher(server.node, self.client, grant)
        self.publisher.progressed = self._read_on
        self._connection = connection
        self._rules = rules
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._flush_due = False
        self._turn_due = False
        self._over = False
        #: PUBLISH packets that came one after another: they are published together.
        self._payloads: list[bytes] = []
        self._done: list[Done | None] = []
        self._safely = False

    @property
    def version(self) -> int:
        return self._rules.version

    @property
    def host(self) -> str:
        return self._connection.host

    # -- writing -------------------------------------------------------------------------------------------------------

    @property
    def can_write(self) -> bool:
        """Does the client read what it was sent?"""
        return self._out_bytes < WRITE_BYTES_HIGH and self._connection.can_write

    def send(self, packet: AnyPacket) -> None:
        data = self._rules.encode(packet)
        if data is not None:
            self._gather(data)

    def publish(self, packet: Publish) -> bool:
        """Write a PUBLISH. False: it is larger than the client accepts ([MQTT-3.1.2-25])."""
        data = self._rules.encode_publish(packet)
        if data is None:
            return False
        self._gather(data)
        self.server.counts.sent += 1
        return True

    def release(self, packet_id: int) -> None:
        self.send(Pubrel(packet_id=packet_id))

    def _gather(self, data: bytes) -> None:
        self._out.append(data)
        self._out_bytes += len(data)
        self.flush_later()

    def flush_later(self) -> None:
        """Write what has gathered at the end of this turn."""
        if not self._flush_due:
            self._flush_due = True
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        self._flush_due = False
        if self._out:
            out, self._out = self._out, []
            stopped = self._out_bytes >= WRITE_BYTES_HIGH
            self._out_bytes = 0
            data = b"".join(out)
            self.node.counts_edge.bytes_sent += len(data)
            self._connection.write(data)
            if stopped and self._connection.can_write:
                self.writable()

    def writable(self) -> None:
        """The socket takes more bytes."""
        if self.session is not None and self.session.feed is not None:
            self.session.feed.room()
        self._read_on()

    def leave(self, reason: Reason) -> None:
        """Tell the client why, and close. [MQTT-3.14.0-1]; with 3.1.1 a server has no words for it."""
        self.flush()
        if self.version == V5 and not self._over:
            data = self._rules.encode(Disconnect(reason=reason))
            if data is not None:
                self._connection.write(data)
        self._connection.close()

    # -- reading -------------------------------------------------------------------------------------------------------

    def received(self) -> None:
        """Handle the packets that have come, until they have cost enough for a turn."""
        if self._turn_due or self._full:
            self._connection.pause()
            return
        spend = self.node.hub.turns.spend
        if self._handle_some(lambda cost: spend(self.client, cost)):
            self._connection.pause()
            self._read_on()

    @property
    def _full(self) -> bool:
        """Are enough of its publications under way?"""
        publisher = self.publisher
        return publisher.under_way >= _UNDER_WAY_MAX or publisher.bytes_under_way >= _UNDER_WAY_BYTES_MAX

    def _read_on(self) -> None:
        if self._connection.paused and not self._turn_due and not self._over and not self._full and self.can_write:
            self._turn_due = True
            self.node.hub.turns.add(self.client, self._take_turn)

    def _take_turn(self) -> int:
        self._turn_due = False
        if self._over:
            return 0
        spent = 0

        def enough(cost: int) -> bool:
            nonlocal spent
            spent += cost
            return spent >= STEP_COST_MAX

        if self._handle_some(enough):
            self._read_on()
        else:
            self._connection.resume()
        return spent + 1

    def _handle_some(self, enough: Callable[[int], bool]) -> bool:
        """Handle packets; True: there may be more, and this is enough for now."""
        try:
            for packet in self._rules.packets():
                if enough(self._handle(packet)) or self._full or not self.can_write:
                    enough(self._publish_gathered())
                    return True
                if self._over:
                    return False
            enough(self._publish_gathered())
        except MqttError as error:
            self._publish_gathered()
            self.fail(error)
        return False

    def fail(self, error: MqttError) -> None:
        """The client broke a rule ([MQTT-4.13.1-1], [MQTT-4.13.2-1])."""
        self.flush()
        self._connection.fail(error, self._rules.last_words(error))

    def closed(self, *, keep_will: bool = True) -> None:
        """The connection is over."""
        if not self._over:
            self._over = True
            self._payloads.clear()
            self.publisher.close()
            if self.session is not None and self.session.connection is self:
                self.server.disconnected(self.session, keep_will=keep_will)

    # -- packets -------------------------------------------------------------------------------------------------------

    def _handle(self, packet: AnyPacket) -> int:
        """Do what a packet asks; what that cost."""
        if type(packet) is Publish:
            return self._take(packet)
        cost = self._publish_gathered()
        session = self.session
        assert session is not None
        if isinstance(packet, Acknowledgement):
            self._acknowledged(session, packet)
        elif type(packet) is Pingreq:
            self.send(Pingresp())  # [MQTT-3.12.4-1]
        elif type(packet) is Subscribe:
            return cost + self._subscribe(session, packet)
        elif type(packet) is Unsubscribe:
            return cost + self._unsubscribe(session, packet)
        elif type(packet) is Disconnect:
            self._disconnect(session, packet)
        return cost + _COST

    def _acknowledged(self, session: DeviceSession, packet: Acknowledgement) -> None:
        """The client acknowledges a message of ours, or releases one of its own."""
        if type(packet) is Puback:
            session.outgoing.puback(packet)
        elif type(packet) is Pubrec:
            answer = session.outgoing.pubrec(packet)
            if answer is not None:
                self.send(answer)
        elif type(packet) is Pubcomp:
            session.outgoing.pubcomp(packet)
        elif type(packet) is Pubrel:
            self.send(session.incoming.release(packet))
            return
        session.acknowledged()

    def _disconnect(self, session: DeviceSession, packet: Disconnect) -> None:
        if packet.properties.session_expiry_s is not None:
            session.expiry_s = packet.properties.session_expiry_s
        # [MQTT-3.1.2-10], [MQTT-3.14.4-3]: the will is dropped, unless the client asks for it.
        self.closed(keep_will=packet.reason is Reason.DISCONNECT_WITH_WILL)
        self._connection.close()  # [MQTT-3.14.4-1], [MQTT-3.14.4-2]

    # -- PUBLISH -------------------------------------------------------------------------------------------------------

    def _take(self, packet: Publish) -> int:
        session = self.session
        assert session is not None
        self.server.counts.received += 1
        qos = packet.qos
        done: Done | None = None
        if qos:
            if not session.incoming.take(packet, self.version):
                self._acknowledge()
                return _COST
            packet_id = packet.packet_id
            done = lambda reason: self._published(packet_id, reason)  # noqa: E731
        message = ApplicationMessage(
            packet.topic,
            packet.payload,
            time.time_ns() // 1000,
            qos,
            packet.retain,
            session.tag,
            packet.packet_id if qos == 2 else 0,
            packet.properties,
        )
        cost = 0
        if self._payloads and self._safely != bool(qos):
            cost = self._publish_gathered()
        self._safely = bool(qos)
        self._payloads.append(seal_message(message))
        self._done.append(done)
        return cost + _COST

    def _publish_gathered(self) -> int:
        if not self._payloads:
            return 0
        payloads, self._payloads = self._payloads, []
        done, self._done = self._done, []
        return self.publisher.publish(payloads, done, safely=self._safely)

    def _published(self, packet_id: int, reason: Reason) -> None:
        """A QoS 1 or 2 message of this client is safe, or failed."""
        session = self.session
        if session is None or self._over:
            return
        if reason is Reason.UNSPECIFIED:
            # It may have been published. The client keeps it and sends it again.
            self.leave(Reason.SERVER_BUSY)
            return
        if reason.failed and self.version < V5:
            reason = Reason.SUCCESS  # 3.1.1: [MQTT-3.3.5-2], there is no way to refuse it
        session.incoming.settle(packet_id, reason)
        self._acknowledge()

    def _acknowledge(self) -> None:
        assert self.session is not None
        for answer in self.session.incoming.acknowledgements():
            self.send(answer)

    # -- SUBSCRIBE and UNSUBSCRIBE -------------------------------------------------------------------------------------

    def _subscribe(self, session: DeviceSession, packet: Subscribe) -> int:
        identifier = packet.properties.subscription_ids[0] if packet.properties.subscription_ids else 0
        reasons: list[Reason] = []
        waits = len(packet.wanted) + 1  # and for the end of this method: a filter may be in force at once
        retained: list[Callable[[], None]] = []

        def in_force() -> None:
            nonlocal waits
            waits -= 1
            if not waits and not self._over:
                # [MQTT-3.8.4-1], [MQTT-3.8.4-6]: one SUBACK, with a reason for each filter
                self.send(Suback(packet_id=packet.packet_id, reasons=tuple(reasons)))
                for give in retained:
                    give()

        for wanted in packet.wanted:
            reason = self._subscribe_one(session, wanted, identifier, retained, in_force)
            reasons.append(reason)
            if reason.failed:
                waits -= 1
        in_force()
        return _SUBSCRIBE_COST + 4 * len(packet.wanted)

    def _subscribe_one(
        self,
        session: DeviceSession,
        wanted: Wanted,
        identifier: int,
        retained: list[Callable[[], None]],
        then: Callable[[], None],
    ) -> Reason:
        try:
            shared = split_filter(wanted.pattern)
        except MqttError as error:
            return error.reason
        check_no_local(shared, wanted.no_local)
        if not self.server.may_subscribe(self.grant, shared.pattern):
            self.node.hub.counts.refused["subscribe"] += 1
            return Reason.NOT_AUTHORIZED
        if shared.group:
            return Reason.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED
        former = session.subscriptions.get(wanted.pattern)
        one = Subscription(
            pattern=shared.pattern,
            qos=wanted.qos,
            group=shared.group,
            no_local=wanted.no_local,
            retain_as_published=wanted.retain_as_published,
            identifier=identifier,
            since=self.node.hub.position if former is None else former.since,  # [MQTT-3.8.4-3]: nothing is missed
        )
        if not session.subscribe(one, then):
            return Reason.QUOTA_EXCEEDED
        return Reason(wanted.qos)

    def _unsubscribe(self, session: DeviceSession, packet: Unsubscribe) -> int:
        reasons = []
        for pattern in packet.patterns:
            existed = session.unsubscribe(pattern)
            reasons.append(Reason.SUCCESS if existed else Reason.NO_SUBSCRIPTION_EXISTED)
        # [MQTT-3.10.4-4], [MQTT-3.10.4-5]
        self.send(Unsuback(packet_id=packet.packet_id, reasons=tuple(reasons)))
        return _SUBSCRIBE_COST + len(packet.patterns)
