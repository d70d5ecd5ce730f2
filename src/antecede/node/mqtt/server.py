"""MQTT at a node: its ports, and the sessions of its clients.

`mqtt_port` is plain TCP, `mqtts_port` TLS, `ws_port` WebSocket. A client is known by its client identifier: one that
connects again takes its session over ([MQTT-3.1.4-3]), and the older connection ends. A session without a connection
lives for its expiry interval.

Sessions belong to one node. They are in its memory: a node that stops or is killed forgets them.
"""

import asyncio
import logging
import secrets
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from antecede.core import ProtocolError, UsageError
from antecede.core.caches import BoundedCache
from antecede.core.errors import RefusedError
from antecede.loading import need_extra
from antecede.node.mqtt.client import Client
from antecede.node.mqtt.connection import DeviceConnection, Framing, Plain
from antecede.node.mqtt.publisher import Publisher
from antecede.node.mqtt.session import NEVER, RECEIVE_MAXIMUM, DeviceSession
from antecede.wire.accepting import Acceptor
from antecede.wire.address import is_loopback
from antecede.wire.admission import origin
from antecede.wire.envelope import BODY_BYTES_MAX
from antecede.wire.mqtt.connection import ServerConnection
from antecede.wire.mqtt.envelopes import ApplicationMessage, open_message, seal_message
from antecede.wire.mqtt.packets import V5, Connack, Connect
from antecede.wire.mqtt.properties import NO_PROPERTIES, Properties
from antecede.wire.mqtt.reasons import Reason
from antecede.wire.requests import Ended
from antecede.wire.security.tokens import Grants
from antecede.wire.transport import Reason as Refusal

if TYPE_CHECKING:
    from antecede.node.node import Node

log = logging.getLogger("antecede.node")

#: The largest packet of a client: the largest body of a message. So a whole packet fits an envelope.
PACKET_BYTES_MAX: Final = BODY_BYTES_MAX
#: Topic aliases that a client may set on a connection. Each keeps a topic name.
ALIAS_MAXIMUM: Final = 64
#: Sessions at a node, with and without a connection.
SESSIONS_MAX: Final = 65_536
#: Between two looks at sessions whose time is over.
_EXPIRE_S: Final = 1.0
#: Messages opened lately: a message to many clients is opened once.
_OPENED_MAX: Final = 4096


class _Columns(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The first two of the columns that `history` encodes one behind the other; the rest is skipped."""

    payloads: tuple[bytes, ...]
    positions: tuple[tuple[int, int], ...]


_decode_columns = msgspec.msgpack.Decoder(_Columns).decode


@dataclass(slots=True)
class MqttCounts:
    """Since the node started."""

    #: PUBLISH packets from clients and to clients.
    received: int = 0
    sent: int = 0


class MqttServer:
    """MQTT at one node."""

    def __init__(self, node: "Node") -> None:
        self.node = node
        self.sessions: dict[str, DeviceSession] = {}
        self.counts = MqttCounts()
        #: By the name of the setting: where it listens.
        self.ports: dict[str, int] = {}
        self._acceptors: list[Acceptor] = []
        self._connections: dict[DeviceConnection, str] = {}
        self._opened: BoundedCache[int, ApplicationMessage | None] = BoundedCache(_OPENED_MAX)

    # -- life ----------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        config = self.node.config
        self.node.tasks.start("ends MQTT sessions whose time is over", self._expire())
        for name, port, framing in (
            ("mqtt_port", config.mqtt_port, Plain),
            ("mqtts_port", config.mqtts_port, Plain),
            ("ws_port", config.ws_port, _web_framing),
        ):
            if port is not None:
                await self._listen(name, port, framing)

    async def _listen(self, name: str, port: int, framing: Callable[[], Framing]) -> None:
        host = self.node.config.host
        if name == "ws_port":
            need_extra("websocket", "the setting ws_port")
        guarded = name == "mqtts_port" or (name == "ws_port" and not is_loopback(host))
        acceptor = Acceptor(partial(self._accept, framing, guarded))
        try:
            self.ports[name] = await acceptor.start(host, port)
        except OSError as error:
            problem = f"cannot be listened on at {host} ({error})"
            raise UsageError(name, port, problem, "choose another, or 0 for any that is free") from None
        self._acceptors.append(acceptor)
        log.info("MQTT at %s:%d (%s)", host, self.ports[name], name)

    async def close(self) -> None:
        """The node stops: tell the clients ([MQTT-3.14.4], 0x8B), and let nobody in."""
        for acceptor in self._acceptors:
            acceptor.close()
        for session in list(self.sessions.values()):
            if session.connection is not None:
                session.connection.leave(Reason.SERVER_SHUTTING_DOWN)
        for connection in list(self._connections):
            connection.close()
        await asyncio.sleep(0)

    def abort(self) -> None:
        for acceptor in self._acceptors:
            acceptor.close()
        for connection in list(self._connections):
            connection.abort()

    # -- connections ---------------------------------------------------------------------------------------------------

    def _accept(self, framing: Callable[[], Framing], guarded: bool, host: str) -> DeviceConnection | None:
        if not self.node.ready:
            return None
        tls: ssl.SSLContext | None = None
        if guarded:
            assert self.node.credentials.tls is not None
            tls = self.node.credentials.tls.server
        rules = ServerConnection(bytes_max=PACKET_BYTES_MAX, alias_maximum=ALIAS_MAXIMUM)
        return DeviceConnection(self, rules, framing(), tls)

    def opened(self, connection: DeviceConnection) -> bool:
        """May this connection stay? It counts with the connections of all clients of this node."""
        counted = origin(connection.host)
        refusal = self.node.listener.admission.admit(counted)
        if refusal is not None:
            self.refused(connection, refusal, "before CONNECT")
            return False
        self._connections[connection] = counted
        return True

    def closed(self, connection: DeviceConnection) -> None:
        counted = self._connections.pop(connection, None)
        if counted is not None:
            self.node.listener.admission.left(counted)

    def refused(self, connection: DeviceConnection, reason: Refusal, detail: str) -> None:
        self.node.listener.admission.refused(connection.host, reason, f"MQTT: {detail}")

    def connect(self, connection: DeviceConnection, rules: ServerConnection) -> Client | None:
        """Answer a CONNECT (3.1.4). None: the client was refused, and its connection ends."""
        packet = rules.connect
        assert packet is not None
        refusal, grant = self._judge(connection, packet)
        if grant is None:
            self.refused(connection, Refusal.UNTRUSTED, refusal.name.lower())
            connection.write(rules.encode(Connack(reason=refusal)) or b"")
            connection.close()  # [MQTT-3.1.4-2], [MQTT-3.2.2-7]
            return None
        assigned = packet.client_id or f"antecede-{secrets.token_hex(8)}"
        client = Client(self, connection, rules, grant)
        session, present = self._session_for(packet, assigned)
        client.session = session
        session.will = packet.will
        session.expiry_s = _expiry_s(packet)
        session.attach(client, packet.properties.receive_maximum or 0xFFFF)
        client.send(Connack(session_present=present, properties=self._answer_to(packet, assigned)))
        session.resume()
        return client

    def _judge(self, connection: DeviceConnection, packet: Connect) -> tuple[Reason, Grants | None]:
        """The grants of a client; or None and the reason for a refusal."""
        if packet.properties.authentication_method is not None:  # [MQTT-4.12.0-1]
            return Reason.BAD_AUTHENTICATION_METHOD, None
        if not packet.client_id and packet.version < V5 and not packet.clean_start:  # 3.1.1: [MQTT-3.1.3-8]
            return Reason.CLIENT_ID_NOT_VALID, None
        if len(self.sessions) >= SESSIONS_MAX and packet.client_id not in self.sessions:
            return Reason.SERVER_BUSY, None
        token = (packet.user_name or "") if packet.password is None else packet.password.decode(errors="replace")
        try:
            grant = self.node.credentials.grant(connection, token)
        except RefusedError:
            return Reason.BAD_USER_NAME_OR_PASSWORD, None
        will = packet.will
        if will is not None and not grant.may_publish(will.topic):
            return Reason.NOT_AUTHORIZED, None
        return Reason.SUCCESS, grant

    def _session_for(self, packet: Connect, client_id: str) -> tuple[DeviceSession, bool]:
        """The session of a client, and whether it had one. The older connection of the client ends."""
        session = self.sessions.get(client_id)
        if session is not None and session.connection is not None:
            old = session.connection
            old.leave(Reason.SESSION_TAKEN_OVER)  # [MQTT-3.1.4-3]
            old.closed()
            session = self.sessions.get(client_id)
        if session is not None and packet.clean_start:  # [MQTT-3.1.2-4]
            self._end(session)
            session = None
        if session is not None:
            return session, True  # [MQTT-3.1.2-5]
        session = self.sessions[client_id] = DeviceSession(self, client_id)
        return session, False  # [MQTT-3.1.2-6]

    def _answer_to(self, packet: Connect, client_id: str) -> Properties:
        if packet.version < V5:
            return NO_PROPERTIES
        return Properties(
            receive_maximum=RECEIVE_MAXIMUM,
            maximum_packet_size=PACKET_BYTES_MAX,
            topic_alias_maximum=ALIAS_MAXIMUM,
            assigned_client_id=None if packet.client_id else client_id,  # [MQTT-3.1.3-7]
            retain_available=0,
            shared_available=0,
        )

    # -- sessions ------------------------------------------------------------------------------------------------------

    def disconnected(self, session: DeviceSession, *, keep_will: bool) -> None:
        """The connection of a session is over."""
        grant = session.connection.grant if session.connection is not None else None
        session.detach()
        will, session.will = session.will, None
        if will is not None and keep_will and grant is not None:  # [MQTT-3.1.2-8]
            properties = msgspec.structs.replace(will.properties, will_delay_s=None)
            message = ApplicationMessage(
                will.topic, will.payload, time.time_ns() // 1000, will.qos, will.retain, session.tag, 0, properties
            )
            Publisher(self.node, session, grant).publish([seal_message(message)], [None], safely=True)
        if not session.expiry_s:  # [MQTT-3.1.2-23]
            self._end(session)

    def _end(self, session: DeviceSession) -> None:
        if self.sessions.get(session.client_id) is session:
            del self.sessions[session.client_id]

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(_EXPIRE_S)
            now_s = time.time()
            for session in list(self.sessions.values()):
                left_s, expiry_s = session.left_s, session.expiry_s
                if left_s is not None and expiry_s != NEVER and now_s >= left_s + expiry_s:
                    self._end(session)

    def may_subscribe(self, grant: Grants, pattern: str) -> bool:
        return grant.may_subscribe(pattern)

    # -- what sessions ask ---------------------------------------------------------------------------------------------

    def open_items(self, piece: bytes) -> Iterator[tuple[int, ApplicationMessage]]:
        """The messages in the columns that a feed sends, with their positions."""
        columns = _decode_columns(b"\x96" + piece)  # an array of six
        at = 0
        for first, count in columns.positions:
            for position in range(first, first + count):
                message = self._open(position, columns.payloads[at])
                at += 1
                if message is not None:
                    yield position, message

    def _open(self, position: int, payload: bytes) -> ApplicationMessage | None:
        found = self._opened.get(position)
        if found is None:
            try:
                found = open_message(payload)
            except ProtocolError:  # of a peer that is no node of ours
                return None
            self._opened[position] = found
        return found

    def feed_ended(self, session: DeviceSession, record: Ended) -> None:
        """A feed cannot go on: retention removed what comes next, or the node stops."""
        if record.kind == "gap":
            log.warning("MQTT client %r misses messages: %s", session.client_id, record.text)
            asyncio.get_running_loop().call_soon(session.skip_to, max(record.first - 1, 0))
        elif session.connection is not None:
            log.error("the feed of MQTT client %r ended: %s", session.client_id, record.text)
            session.connection.leave(Reason.UNSPECIFIED)


def _expiry_s(packet: Connect) -> int:
    """How long the session lives without a connection. 3.1.1: for ever, or not at all."""
    if packet.version < V5:
        return 0 if packet.clean_start else NEVER
    return packet.properties.session_expiry_s or 0


def _web_framing() -> Framing:
    from antecede.node.mqtt.web import WebSocket  # noqa: PLC0415 - its library is an extra

    return WebSocket()
