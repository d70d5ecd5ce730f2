"""Links nodes by TCP, with or without TLS.

One connection between two nodes carries packets both ways. Either node may dial. When both do, the connection dialled
by the *lower* slot stays, and the other is retired without loss (`tcp_link`). A higher incarnation of a node replaces
the connection of a lower one; a lower one is refused. Two processes that claim one incarnation (a copied directory runs
twice) differ in their random `life`: the lower one stays. A node that is refused for another life of it is told
(`superseded`). A broken link is dialled again with back-off (`backoff`).

Packets sent while a link is down wait in the peer's queue, which has two bounds (`transport`). Beyond
`queue_bytes_high` the transport is congested, while the link is up: one dead peer must not stop the others. Beyond
`queue_bytes_max` the newest packet is dropped.

The same port answers clients and other roles (`listener.serve`).
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field

from antecede.core import Packet, UsageError
from antecede.core.errors import RefusedError, UnreachableError
from antecede.wire.address import is_dialable, join_address, split_address
from antecede.wire.admission import AdmissionLimits
from antecede.wire.backoff import Backoff
from antecede.wire.cluster_key import ClusterKey
from antecede.wire.codec import Hello, PacketCodec, Welcome
from antecede.wire.frames import FrameConnection, Owner
from antecede.wire.handshake import VERSIONS, VersionRange, greet
from antecede.wire.listener import Listener, Tls
from antecede.wire.shapes import difference
from antecede.wire.tcp_link import Link, Peer
from antecede.wire.transport import Counts, Handler, Reason, Transport


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpLimits:
    """Bounds and times of links."""

    #: Bytes queued for a peer: where senders should hold back, and where packets are dropped. The upper bound times the
    #: number of peers is what a node may hold for slow ones.
    queue_bytes_high: int = 2 * 1024 * 1024
    queue_bytes_max: int = 16 * 1024 * 1024
    #: Pauses before a broken link is dialled again: the first, and the longest.
    pause_s: float = 0.05
    pause_s_max: float = 5.0
    #: A sign of life is sent after this long without another frame; a link on which nothing came for `silent_s` is
    #: closed. This finds dead connections; suspecting dead *nodes* is for the failure detector.
    alive_s: float = 2.0
    silent_s: float = 10.0
    #: How long `close` waits for goodbyes.
    grace_s: float = 2.0
    admission: AdmissionLimits = field(default_factory=AdmissionLimits)


class TcpTransport(Transport):
    """The links of one node. `set_peer` names a peer; its link comes up when there is something to send."""

    def __init__(
        self,
        node: int,
        codec: PacketCodec,
        *,
        cluster: str,
        incarnation: int = 1,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: Tls | None = None,
        limits: TcpLimits | None = None,
        seed: str = "",
        versions: VersionRange = VERSIONS,
        agreement: Mapping[str, str] | None = None,
        listener: Listener | None = None,
        counts: Counts | None = None,
        life: int = 0,
        superseded: Callable[[str], None] | None = None,
        key: ClusterKey | None = None,
    ) -> None:
        """`agreement`: settings on which all nodes must agree; a link is refused where their values differ.

        `listener` answers nodes, too, instead of one made for `host` and `port`. `superseded` is called when a peer
        refuses this node because it has met a later life of it. `key`: what both ends of a link must prove that they
        have.
        """
        super().__init__(node, counts)
        self.codec = codec
        self.cluster = cluster
        self.incarnation = incarnation
        self.life = life
        self.limits = limits or TcpLimits()
        self.versions = versions
        self.agreement = dict(agreement or {})
        #: Answers this port; `listener.serve` adds roles beside nodes.
        self.listener = listener or Listener(
            self._welcome,
            cluster=cluster,
            host=host,
            port=port,
            tls=tls,
            limits=self.limits.admission,
            counts=self.counts,
            bytes_max=codec.frame_bytes_max,
            versions=versions,
            agreement=self.agreement,
            key=key,
        )
        self.listener.serve("node", self._answer, members=True)
        self.peers: dict[int, Peer] = {}
        self._superseded = superseded
        self._tls = tls
        self._key = key
        self._backoff = Backoff(
            random.Random(f"{seed}/{cluster}/{node}/{incarnation}"),
            first_s=self.limits.pause_s,
            longest_s=self.limits.pause_s_max,
        )
        self._handler: Handler | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._links: set[Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._dirty: list[Peer] = []
        self._last: Packet | None = None
        self._body = b""
        self._paused = False
        self._closing = False

    # -- what its user does ------------------------------------------------------------------------------------------

    async def start(self, handler: Handler) -> None:
        self._handler = handler
        await self.listener.start()
        self._sweeper = asyncio.get_running_loop().call_later(self.limits.alive_s, self._sweep)

    @property
    def address(self) -> tuple[str, int]:
        """Where it can be dialled; the port is known after `start`."""
        return self.listener.address

    def set_peer(self, node: int, host: str, port: int) -> None:
        """Note where `node` listens. A link that is up stays; the address is used for the next one."""
        if node == self.node:
            raise UsageError("peer", node, "is this node itself", "name the others")
        self._peer(node).address = (host, port)

    def forget(self, node: int) -> None:
        """Close the link to `node` and drop the packets queued for it."""
        peer = self.peers.pop(node, None)
        if peer is not None:
            self.counts.unreachable += len(peer.queue)
            if peer.dialling is not None:
                peer.dialling.cancel()
            if peer.link is not None:
                peer.link.connection.abort()
                self.link_ended(peer.link)

    def connect(self, node: int) -> None:
        """Bring the link to `node` up before there is something to send."""
        peer = self.peers.get(node)
        if peer is not None:
            self._dial(peer)

    def send(self, to: int, packet: Packet) -> None:
        peer = self.peers.get(to)
        if peer is None:
            self.counts.unreachable += 1
            return
        if packet is not self._last:  # mostly one packet to several children
            self._body = self.codec.encode(packet)
            self._last = packet
        queued = peer.queued + len(self._body)
        if queued > self.limits.queue_bytes_max:
            self.counts.overflow += 1
            return
        peer.queued = queued
        peer.queue.append(self._body)
        if not peer.dirty:
            peer.dirty = True
            self._dirty.append(peer)

    def flush(self) -> None:
        dirty, self._dirty = self._dirty, []
        for peer in dirty:
            peer.dirty = False
            self.write_to(peer)

    def pause(self) -> None:
        self._paused = True
        for link in self._links:
            link.connection.pause()

    def resume(self) -> None:
        self._paused = False
        now = asyncio.get_running_loop().time()
        for link in self._links:
            link.connection.heard = now  # nothing was read while it was paused
            link.connection.resume()

    async def close(self) -> None:
        if self._closing:
            return
        self.flush()
        self._stop()
        deadline = asyncio.get_running_loop().time() + self.limits.grace_s
        while self._links and asyncio.get_running_loop().time() < deadline:
            for link in list(self._links):
                link.connection.resume()
                if link.peer.link is not link or not link.peer.queue:
                    link.retire()
            await asyncio.sleep(0.005)
        self.abort()
        await self.listener.closed(self.limits.grace_s)

    def abort(self) -> None:
        self._handler = None
        self._stop()
        self.listener.abort()
        for link in list(self._links):
            link.connection.abort()

    # -- links -------------------------------------------------------------------------------------------------------

    def write_to(self, peer: Peer) -> None:
        """Write the packets queued for `peer` as far as its link takes them; dial when there is no link."""
        if not peer.queue:
            return
        if peer.link is None:
            self._dial(peer)
            return
        peer.link.write_queue()
        self.relief.set(peer.node, peer.queued > self.limits.queue_bytes_high)

    def hand_over(self, link: Link, packets: list[Packet]) -> None:
        if self._handler is not None:
            self._handler.received(link.peer.node, packets)

    def link_ended(self, link: Link) -> None:
        """The connection of a link is over: broken, retired by both sides, or forgotten."""
        self._links.discard(link)
        peer = link.peer
        if peer.link is not link:
            return  # another link has replaced it
        peer.link = None
        self.counts.links_down += 1
        self.relief.set(peer.node, False)
        if self._handler is not None:
            self._handler.link_down(peer.node)
        if self.peers.get(peer.node) is peer and (peer.queue or link.dialled_by == self.node):
            self._dial(peer)

    def refused(self, connection: FrameConnection, reason: str, detail: str) -> None:
        self.listener.refused(connection, reason, detail)

    def _peer(self, node: int) -> Peer:
        peer = self.peers.get(node)
        if peer is None:
            peer = self.peers[node] = Peer(node)
        return peer

    def _check_precedence(self, node: int, said: Hello | Welcome, dialled_by: int, connection: FrameConnection) -> None:
        """Raise `RefusedError` when a connection must not become the link to `node`."""
        peer = self._peer(node)
        if self._tls is not None:
            self._bind(peer, self._tls.name_in(connection.certificate()))
        old = peer.link
        if said.incarnation < peer.incarnation:
            raise RefusedError(f"node {node}", Reason.STALE, f"incarnation {peer.incarnation} has been here")
        twin = said.incarnation == peer.incarnation and 0 not in (said.life, peer.life) and said.life != peer.life
        if twin and said.life > peer.life:
            detail = f"another process has been here as incarnation {peer.incarnation}"
            raise RefusedError(f"node {node}", Reason.TWIN, detail)
        same_life = old is not None and said.incarnation == old.incarnation and not twin
        if old is not None and same_life and dialled_by not in (old.dialled_by, min(self.node, node)):
            old.sign_of_life()  # should it be dead after all, this finds out
            raise RefusedError(f"node {node}", Reason.DUPLICATE, f"node {old.dialled_by} dialled first")

    def _bind(self, peer: Peer, holder: str | None) -> None:
        """Forget what another certificate said in the name of this slot, before it was known to belong to this one."""
        if peer.holder not in (None, holder):
            if peer.link is not None:
                peer.link.connection.abort()
                self.link_ended(peer.link)
            peer.incarnation = peer.life = 0
        peer.holder = holder

    def _adopt(self, node: int, said: Hello | Welcome, connection: FrameConnection, dialled_by: int) -> Link:
        """Make `connection` the link to `node`, replacing the present one."""
        peer = self._peer(node)
        old = peer.link
        incarnation = said.incarnation
        if old is not None:
            if incarnation > old.incarnation or said.life != peer.life:
                old.connection.abort()
                self.link_ended(old)
            elif old.dialled_by == dialled_by:
                old.connection.abort()  # a node that dials again has lost the former one
                self._links.discard(old)
            else:
                old.retire()
        link = Link(self, peer, connection, dialled_by, incarnation)
        fresh = peer.link is None
        peer.link = link
        peer.incarnation = incarnation
        peer.life = said.life
        peer.failures = 0
        peer.problem = ""
        self._links.add(link)
        if self._paused:
            connection.pause()
        if fresh:
            self.counts.links_up += 1
            if self._handler is not None:
                self._handler.link_up(node, incarnation)
        return link

    def _sweep(self) -> None:
        """Send signs of life, and close connections that give none."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for link in list(self._links):
            if not self._paused and now - link.connection.heard > self.limits.silent_s:
                self.refused(link.connection, Reason.SILENT, f"node {link.peer.node} gave no sign of life")
                link.connection.abort()
            elif not link.retired:
                link.sign_of_life()
        self._sweeper = loop.call_later(self.limits.alive_s, self._sweep)

    def _stop(self) -> None:
        """Accept and dial no more."""
        self._closing = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        self.listener.stop()
        for task in self._tasks:
            task.cancel()
        self.relief.release()

    # -- dialling ----------------------------------------------------------------------------------------------------

    def _dial(self, peer: Peer) -> None:
        if peer.link is None and peer.dialling is None and peer.address is not None and not self._closing:
            peer.dialling = self._task(self._keep_dialling(peer))

    async def _keep_dialling(self, peer: Peer) -> None:
        try:
            while peer.link is None and peer.address is not None:
                if peer.failures:
                    await asyncio.sleep(self._backoff.pause_s(peer.failures))
                    if peer.link is not None:
                        return
                await self._dial_once(peer, *peer.address)
        finally:
            peer.dialling = None

    async def _dial_once(self, peer: Peer, host: str, port: int) -> None:
        def adopt(connection: FrameConnection, welcome: Welcome) -> Owner:
            if welcome.node != peer.node:
                raise RefusedError(
                    join_address(host, port), Reason.SELF, f"node {welcome.node} answered for {peer.node}"
                )
            if self._tls is not None:
                self._tls.check(connection, welcome)
            try:
                self._check_precedence(welcome.node, welcome, self.node, connection)
            except RefusedError as error:
                if error.reason != Reason.DUPLICATE:
                    raise
                # The peer used our connection until its own came up, and may have written to it.
                unwanted = Link(self, peer, connection, self.node, welcome.incarnation)
                self._links.add(unwanted)
                unwanted.retire()
                return unwanted
            link = self._adopt(welcome.node, welcome, connection, self.node)
            self.write_to(peer)
            return link

        hello = Hello(
            cluster=self.cluster,
            speaks=self.codec.name,
            node=self.node,
            incarnation=self.incarnation,
            life=self.life,
            address=join_address(*self.address),
            version=self.versions.latest,
            oldest=self.versions.oldest,
            agreement=self.agreement,
            shapes=self.codec.shapes,
        )
        try:
            await greet(
                host,
                port,
                hello,
                adopt,
                tls=None if self._tls is None else self._tls.client,
                timeout_s=self.limits.admission.handshake_s,
                bytes_max=self.codec.frame_bytes_max,
                key=self._key,
            )
        except (RefusedError, UnreachableError) as error:
            peer.failures += 1
            peer.problem = str(error)
            if isinstance(error, RefusedError) and error.reason != Reason.DUPLICATE:
                self.listener.admission.refused(host, f"by peer: {error.reason}", error.detail)
                # With TLS a later life shows itself in the roster, by a signed entry: one peer's word is not enough.
                told = self._tls is None and error.reason in (Reason.STALE, Reason.TWIN)
                if told and self._superseded is not None:
                    self._superseded(f"node {peer.node} says that {error.detail}")

    # -- answering ---------------------------------------------------------------------------------------------------

    def _answer(self, connection: FrameConnection, hello: Hello) -> Callable[[], Owner]:
        """A node dialled us."""
        if hello.speaks != self.codec.name:
            raise RefusedError(connection.host, Reason.PACKETS, f"we speak {self.codec.name}, not {hello.speaks}")
        problem = difference(self.codec.shapes, hello.shapes)
        if problem is not None:
            raise RefusedError(connection.host, Reason.PACKETS, problem)
        if hello.node < 0 or hello.node == self.node:
            raise RefusedError(connection.host, Reason.SELF, f"node {self.node} is here")
        self._check_precedence(hello.node, hello, hello.node, connection)

        def begin() -> Owner:
            link = self._adopt(hello.node, hello, connection, hello.node)
            if link.peer.address is None and is_dialable(hello.address):
                link.peer.address = split_address(hello.address)
            self.write_to(link.peer)
            return link

        return begin

    def _welcome(self) -> Welcome:
        return Welcome(node=self.node, incarnation=self.incarnation, life=self.life)

    def _task(self, work: Coroutine[None, None, None]) -> "asyncio.Task[None]":
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
