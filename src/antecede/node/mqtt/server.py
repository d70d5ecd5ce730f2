"""MQTT at a node: its ports, and what happens at CONNECT.

`mqtt_port` is plain TCP, `mqtts_port` TLS, `ws_port` WebSocket. Sessions belong to one node (`sessions`); a node with a
directory keeps them, and its retained messages, over a restart and over `kill -9` (`keeping`).
"""

import asyncio
import contextlib
import logging
import secrets
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from antecede.core import UsageError
from antecede.core.errors import GapError, RefusedError
from antecede.loading import need_extra
from antecede.node.mqtt.client import Client
from antecede.node.mqtt.connection import DeviceConnection, Framing, Plain
from antecede.node.mqtt.door import Door
from antecede.node.mqtt.keeping import CARDS, Keeper
from antecede.node.mqtt.messages import OpenedMessages
from antecede.node.mqtt.moving import Cards
from antecede.node.mqtt.session import RECEIVE_MAXIMUM, DeviceSession
from antecede.node.mqtt.sessions import Sessions
from antecede.node.mqtt.shared import SharedGroups
from antecede.node.mqtt.sys_topics import SysTopics
from antecede.node.origins import Origins
from antecede.wire.accepting import Acceptor
from antecede.wire.address import is_loopback
from antecede.wire.envelope import BODY_BYTES_MAX
from antecede.wire.mqtt.connection import ServerConnection
from antecede.wire.mqtt.envelopes import ApplicationMessage
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
        self.counts = MqttCounts()
        self.opened_messages = OpenedMessages()
        self.keeper = Keeper(node, self.opened_messages)
        self.groups = SharedGroups(self)
        self.sessions = Sessions(self)
        self.keeper.received = self.sessions.delivered
        self.cards = Cards(self)
        self.keeper.card_seen = self.cards.seen
        self.sys = SysTopics(self)
        #: By the name of the setting: where it listens.
        self.ports: dict[str, int] = {}
        self._acceptors: list[Acceptor] = []
        self.door = Door(node)
        #: Judges the web pages that open connections.
        self.origins = Origins(
            node.config.http_origins,
            tokens=node.config.tokens is not None,
            ports=lambda: () if node.http is None else (node.http.port,),
        )

    # -- life ----------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Restore what was kept, then listen."""
        node, config = self.node, self.node.config
        node.hub.watchers.append(self.keeper.delivered)
        kept = self.keeper.load()
        if kept is not None:
            self.groups.positions = kept.shared
            self.sessions.restore(kept)
            self.keeper.retained.restore(kept.retained)
            self.sessions.restoring = True
            await self.keeper.look_through(kept.looked, lost=kept.lost)
            self.sessions.restoring = False
            self.sessions.wake()
        node.taking.need(node.hub.partitions.of_filter(f"{CARDS}#"), lambda: None)
        node.tasks.start("ends MQTT sessions whose time is over", self.sessions.keep_up())
        node.tasks.start("tells MQTT clients of the node ($SYS)", self.sys.keep_telling())
        for name, port, framing in (
            ("mqtt_port", config.mqtt_port, Plain),
            ("mqtts_port", config.mqtts_port, Plain),
            ("ws_port", config.ws_port, partial(_web_framing, self.origins)),
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
        """The node stops: close the ports, send DISCONNECT (0x8B) to all clients, and keep their sessions."""
        self._stop_listening()
        for session in self.sessions.all():
            if session.connection is not None:
                session.connection.leave(Reason.SERVER_SHUTTING_DOWN)
                session.connection.closed()
        for connection in self.door.all():
            connection.close()
        await asyncio.sleep(0)
        await self.cards.settle()
        self.keeper.close()

    def abort(self) -> None:
        self._stop_listening()
        for connection in self.door.all():
            connection.abort()
        self.keeper.abort()

    def _stop_listening(self) -> None:
        self.door.close()
        for acceptor in self._acceptors:
            acceptor.close()

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

    def connect(self, connection: DeviceConnection, rules: ServerConnection) -> Client | None:
        """Answer a CONNECT (3.1.4). None: the client was refused, and its connection ends."""
        packet = rules.connect
        assert packet is not None
        client_id = packet.client_id or f"antecede-{secrets.token_hex(8)}"
        told = self._answer_to(packet, client_id, rules)
        refusal, grant = self._judge(connection, packet)
        if grant is not None and rules.encode(Connack(properties=told)) is None:  # [MQTT-3.1.2-24]
            refusal, grant = Reason.PACKET_TOO_LARGE, None
        if grant is None:
            self.door.refused(connection, Refusal.UNTRUSTED, refusal.name.lower())
            connection.finish(rules.encode(Connack(reason=refusal)) or b"")  # [MQTT-3.1.4-2], [MQTT-3.2.2-7]
            return None
        self.door.welcome(connection)
        client = Client(self, connection, rules, grant)
        session, present = self.sessions.for_client(packet, client_id, grant)
        client.session = session
        session.attach(client, packet.properties.receive_maximum or 0xFFFF)
        self.keeper.touch(session)
        if session.kept:
            client.hold()
        client.send(Connack(session_present=present, properties=told))
        session.resume()
        self.cards.connected(session)
        return client

    def _judge(self, connection: DeviceConnection, packet: Connect) -> tuple[Reason, Grants | None]:
        """The grants of a client; or None and the reason for a refusal."""
        if packet.properties.authentication_method is not None:  # [MQTT-4.12.0-1]
            return Reason.BAD_AUTHENTICATION_METHOD, None
        if not packet.client_id and packet.version < V5 and not packet.clean_start:  # 3.1.1: [MQTT-3.1.3-8]
            return Reason.CLIENT_ID_NOT_VALID, None
        if len(self.sessions) >= SESSIONS_MAX and packet.client_id not in self.sessions:
            return Reason.SERVER_BUSY, None
        try:
            grant = self._grant(connection, packet)
        except RefusedError:
            return Reason.BAD_USER_NAME_OR_PASSWORD, None
        will = packet.will
        denied = will is not None and not grant.may_publish(will.topic)
        if denied or self.sessions.belongs_to_another(packet.client_id, grant.name):
            return Reason.NOT_AUTHORIZED, None
        return Reason.SUCCESS, grant

    def _grant(self, connection: DeviceConnection, packet: Connect) -> Grants:
        """The grants of a token; or of a certificate, if the client shows neither user name nor password."""
        credentials, certificate = self.node.credentials, connection.certificate
        if packet.password is not None:
            return credentials.grant(connection, packet.password.decode(errors="replace"))
        if packet.user_name is None and certificate is not None:
            return credentials.grant_holder(connection, certificate)
        return credentials.grant(connection, packet.user_name or "")

    def _answer_to(self, packet: Connect, client_id: str, rules: ServerConnection) -> Properties:
        if packet.version < V5:
            return NO_PROPERTIES
        keep_alive_s = rules.limit_keep_alive(self.node.config.mqtt_keep_alive_s)
        return Properties(
            server_keep_alive_s=keep_alive_s if keep_alive_s != packet.keep_alive_s else None,  # [MQTT-3.2.2-22]
            receive_maximum=RECEIVE_MAXIMUM,
            maximum_packet_size=PACKET_BYTES_MAX,
            topic_alias_maximum=ALIAS_MAXIMUM,
            assigned_client_id=None if packet.client_id else client_id,  # [MQTT-3.1.3-7]
        )

    # -- what sessions ask ---------------------------------------------------------------------------------------------

    def may_subscribe(self, grant: Grants, pattern: str) -> bool:
        """`$SYS` is for clients that may ask how the node is."""
        if pattern == "$SYS" or pattern.startswith("$SYS/"):
            return grant.may_ask
        return grant.may_subscribe(pattern)

    async def read(self, position: int) -> ApplicationMessage | None:
        """The message at a position; None: it is no longer there."""
        history = self.node.hub.history
        if position >= history.first:
            return self.opened_messages.open(position, history.entry(position).message.payload)
        if self.node.journal is not None:
            with contextlib.suppress(GapError):
                page = await self.node.journal.read(position - 1, limit=1)
                for item in page.items:
                    if item.position == position:
                        return self.opened_messages.open(position, item.message.payload)
        return self.keeper.retained.at(position)

    async def identify(self, position: int) -> tuple[int, int] | None:
        """Stream and number of the message at a position; None: it is no longer there."""
        hub, journal = self.node.hub, self.node.journal
        if position >= hub.history.first:
            entry = hub.history.entry(position)
            return entry.stream, entry.message.seq
        if journal is not None:
            with contextlib.suppress(GapError):
                for item in (await journal.read(position - 1, limit=1)).items:
                    message = item.message
                    return hub.partitions.stream(message.topic, message.source), message.seq
        return None

    async def find(self, stream: int, seq: int) -> int | None:
        """The position at which this node has delivered a message; None: it has not, or no longer has it."""
        hub, journal = self.node.hub, self.node.journal
        number, before = (await hub.history.locate({stream: seq})).get(stream, (0, 0))
        if number != seq:
            return None
        if before + 1 >= hub.history.first or journal is None:
            return before + 1
        name, source = hub.partitions.stream_name(stream)
        matches = lambda one: (one.topic, one.source, one.seq) == (name, source, seq)  # noqa: E731
        with contextlib.suppress(GapError):
            for item in (await journal.read(before, limit=1, matches=matches)).items:
                return item.position
        return None

    def feed_ended(self, session: DeviceSession, record: Ended) -> None:
        """A feed cannot go on: retention removed what comes next, or the node stops."""
        if record.kind == "gap":
            log.warning("MQTT client %r misses messages: %s", session.client_id, record.text)
            asyncio.get_running_loop().call_soon(session.skip_to, max(record.first - 1, 0))
        elif session.connection is not None:
            log.error("the feed of MQTT client %r ended: %s", session.client_id, record.text)
            session.connection.leave(Reason.UNSPECIFIED)


def _web_framing(origins: Origins) -> Framing:
    from antecede.node.mqtt.web import WebSocket  # noqa: PLC0415 - its library is an extra

    return WebSocket(origins)
