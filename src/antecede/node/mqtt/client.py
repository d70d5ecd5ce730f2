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
from antecede.node.mqtt.subscribing import subscribe, unsubscribe
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
    Subscribe,
    Unsubscribe,
)
from antecede.wire.mqtt.reasons import MqttError, Reason
from antecede.wire.once import OncePerTurn
from antecede.wire.security.tokens import ANYBODY, Grants

if TYPE_CHECKING:
    from antecede.node.mqtt.connection import DeviceConnection
    from antecede.node.mqtt.server import MqttServer

#: Publications that may be on their way to the journal, and their bytes, before the client is not read.
_UNDER_WAY_MAX: Final = RECEIVE_MAXIMUM
_UNDER_WAY_BYTES_MAX: Final = 4 * 1024 * 1024
#: What packets cost (`turns`), beside publications.
_COST: Final = 1


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
        #: Write what has gathered, at the end of this turn.
        self.flush_later = OncePerTurn(self.flush)
        self._turn_due = False
        self._over = False
        #: PUBLISH packets that came one after another: they are published together.
        self._payloads: list[bytes] = []
        self._done: list[Done | None] = []
        self._safely = False
        #: The client has acknowledged messages.
        self._room_made = False
        #: Packets that must not leave before the session is kept (`hold`), and those behind them.
        self._held: list[bytes] = []
        self._holds = 0
        self._hold_due = False
        #: The connection ends with these bytes, behind what is held.
        self._last: bytes | None = None

    @property
    def version(self) -> int:
        return self._rules.version

    @property
    def over(self) -> bool:
        return self._over

    @property
    def host(self) -> str:
        return self._connection.host

    # -- writing -------------------------------------------------------------------------------------------------------

    @property
    def can_write(self) -> bool:
        """Does the client read what it was sent?"""
        return self._out_bytes < WRITE_BYTES_HIGH and self._connection.can_write

    def send(self, packet: AnyPacket) -> None:
        """Send an answer. The connection ends if it is larger than the client accepts ([MQTT-3.1.2-24])."""
        data = self._rules.encode(packet)
        if data is not None:
            self._gather(data)
        else:
            self.leave(Reason.PACKET_TOO_LARGE)

    def publish(self, packet: Publish) -> bool:
        """Write a PUBLISH. False: it is larger than the client accepts ([MQTT-3.1.2-25])."""
        data = self._rules.encode_publish(packet)
        if data is None:
            return False
        self.write_publish(data)
        return True

    @property
    def takes_plain(self) -> bool:
        """Can it be given a PUBLISH that was encoded for others, too?"""
        return self._rules.plain

    def write_publish(self, data: bytes) -> None:
        self._gather(data)
        self.server.counts.sent += 1

    def release(self, packet_id: int) -> None:
        self.send(Pubrel(packet_id=packet_id))

    def hold(self) -> None:
        """Packets from here on leave when the session, as it is at the end of this turn, is on disk."""
        if not self._hold_due:
            self._hold_due = True
            self._holds += 1
            asyncio.get_running_loop().call_soon(self._keep)

    def _keep(self) -> None:
        self._hold_due = False
        self.server.keeper.when_kept(self._unhold)

    def _unhold(self) -> None:
        self._holds -= 1
        if not self._holds:
            held, self._held = self._held, []
            self._out += held
            self.flush()
            if self._last is not None:
                self._end(self._last)

    def _gather(self, data: bytes) -> None:
        self._out_bytes += len(data)
        if self._holds:
            self._held.append(data)
            return
        self._out.append(data)
        self.flush_later()

    def flush(self) -> None:
        if self._out:
            out, self._out = self._out, []
            stopped = self._out_bytes >= WRITE_BYTES_HIGH
            self._out_bytes = sum(map(len, self._held))
            data = b"".join(out)
            self.node.counts_edge.bytes_sent += len(data)
            self._connection.write(data)
            if stopped and self._connection.can_write:
                self.writable()

    def writable(self) -> None:
        """The socket takes more bytes."""
        if self.session is not None:
            self.session.room()
        self._read_on()

    def leave(self, reason: Reason) -> None:
        """Tell the client why, and close. [MQTT-3.14.0-1]; with 3.1.1 a server has no words for it."""
        self._finish(self._rules.farewell(reason) if not self._over else b"")

    def _finish(self, last: bytes) -> None:
        """Write what has gathered, then `last`, and close. [MQTT-3.14.0-1]: no DISCONNECT goes before CONNACK."""
        self.flush()
        if self._holds and not self._over:
            self._last = last
            self._connection.pause()
        else:
            self._end(last)

    def _end(self, last: bytes) -> None:
        self._connection.finish(last)
        asyncio.get_running_loop().call_soon(self.closed)

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
        ended = self._over or self._last is not None
        if self._connection.paused and not self._turn_due and not ended and not self._full and self.can_write:
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
                    enough(self._settle())
                    return True
                if self._over:
                    return False
            enough(self._settle())
        except MqttError as error:
            self._settle()
            self.fail(error)
        return False

    def _settle(self) -> int:
        """Publish what has gathered, and send what the client's acknowledgements have made room for."""
        cost = self._publish_gathered()
        if self._room_made:
            self._room_made = False
            if self.session is not None and self.session.connection is self:
                self.session.acknowledged()
        return cost

    def fail(self, error: MqttError) -> None:
        """The client broke a rule ([MQTT-4.13.1-1], [MQTT-4.13.2-1])."""
        self._connection.refused(error)
        self._finish(self._rules.last_words(error))

    def closed(self, *, keep_will: bool = True) -> None:
        """The connection is over."""
        if not self._over:
            self._over = True
            self._publish_gathered()
            self.publisher.close()
            if self.session is not None and self.session.connection is self:
                self.server.sessions.disconnected(self.session, keep_will=keep_will)

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
            return cost + subscribe(self, session, packet)
        elif type(packet) is Unsubscribe:
            return cost + unsubscribe(self, session, packet)
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
                self.send_kept(session, answer)  # or a killed node would send the message again
        elif type(packet) is Pubcomp:
            session.outgoing.pubcomp(packet)
        elif type(packet) is Pubrel:
            self.send_kept(session, session.incoming.release(packet))  # the client may use the identifier again
            return
        self._room_made = True

    def send_kept(self, session: DeviceSession, packet: AnyPacket) -> None:
        """Send a packet once the session is kept as it is now."""
        if session.kept:
            self.server.keeper.touch(session)
            self.hold()
        self.send(packet)

    def _disconnect(self, session: DeviceSession, packet: Disconnect) -> None:
        if packet.properties.session_expiry_s is not None:
            session.expiry_s = packet.properties.session_expiry_s
        # [MQTT-3.1.2-10], [MQTT-3.14.4-3]: only a normal disconnection drops the will.
        self.closed(keep_will=packet.reason is not Reason.SUCCESS)
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
                self.acknowledge()
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
            session.generation << 16 | packet.packet_id if qos == 2 else 0,
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
        assert session is not None
        if reason is Reason.UNSPECIFIED:
            # It may have been published. The client keeps it and sends it again.
            self.leave(Reason.SERVER_BUSY)
            return
        if reason.failed and self.version < V5:
            reason = Reason.SUCCESS  # 3.1.1: [MQTT-3.3.5-2], there is no way to refuse it
        session.incoming.settle(packet_id, reason)
        if session.connection is not None:  # perhaps a later one than this
            session.connection.acknowledge()

    def acknowledge(self) -> None:
        """Acknowledge the messages of the client that are safe."""
        assert self.session is not None
        for answer in self.session.incoming.acknowledgements():
            self.send(answer)
