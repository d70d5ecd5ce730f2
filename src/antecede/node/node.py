"""A node: its slot in the cluster, its journal, its port, and the calls by which clients publish and read.

    async with antecede.Node(directory="n0", seeds=["10.0.0.1:7400"]) as node:
        async with node.connect() as bus: ...

`start` opens the journal, takes a slot (`joining`), runs the protocol (`protocol`) over the transport (`links`), joins
its partitions (`taking`), and then lets clients in. `stop` does the reverse. A node that was killed starts again from
its journal. A node that *leaves* waits until all members have its messages, then gives up its membership for good.
"""

import asyncio
import contextlib
import logging
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from antecede.core import Message, UsageError
from antecede.core.errors import RefusedError, StoppedError
from antecede.core.partitions import Partitions
from antecede.journal import Journal
from antecede.journal.batch import Batch
from antecede.node.back_pressure import BackPressure
from antecede.node.bulk.service import BulkService
from antecede.node.config import DOMAIN, NodeConfig, make_config
from antecede.node.continuity import Continuity, Evidence
from antecede.node.credentials import Credentials
from antecede.node.directory import new_key, open_directory, store_slot, with_slots
from antecede.node.driving import NodeDriver, Replicas
from antecede.node.event_loop import loop_name
from antecede.node.following import Following
from antecede.node.history import History, known_gaps
from antecede.node.hub import Hub
from antecede.node.joining import ROLE as ROSTER
from antecede.node.joining import RosterClient
from antecede.node.links import make_links
from antecede.node.membership import Membership
from antecede.node.numbering import Numbering
from antecede.node.past.homes import Homes
from antecede.node.past.reading import PastReader
from antecede.node.promises import Promise
from antecede.node.protocol import NodeProtocol
from antecede.node.retention import keep_within
from antecede.node.roster import Member, Roster
from antecede.node.services import abort_services, put_mqtt_right, say_goodbye, start_http, start_mqtt
from antecede.node.session import Session
from antecede.node.shares import Pool
from antecede.node.status import node_status
from antecede.node.taking import Taking
from antecede.node.tasks import SupervisedTasks
from antecede.node.watch import watch
from antecede.wire.address import join_address
from antecede.wire.codec import Hello
from antecede.wire.envelope import label
from antecede.wire.frames import FrameConnection, Owner
from antecede.wire.listener import Listener
from antecede.wire.requests import ROLE as CLIENT
from antecede.wire.requests import SPEAKS as CLIENT_SPEAKS
from antecede.wire.transport import Counts, Reason, Transport
from antecede.wire.transports import TransportKind
from antecede.wire.transports import transport_kind as find_transport

if TYPE_CHECKING:
    from antecede.node.http.server import HttpServer
    from antecede.node.mqtt.server import MqttServer

P = TypeVar("P", bound=Promise)

log = logging.getLogger("antecede.node")

#: How long a node that stops waits for the connections of its port to close.
_CLOSE_S: Final = 2.0


class Node:
    """One node. Its settings are those of `NodeConfig`; `async with` starts and stops it."""

    def __init__(
        self, config: NodeConfig | None = None, *, transport_kind: TransportKind | None = None, **settings: Any
    ) -> None:
        """`transport_kind`: what carries packets to other nodes, in place of the setting `transport`."""
        if config is not None and settings:
            raise UsageError("settings", ", ".join(settings), "come beside a config", "put them into it")
        self.config = with_slots(config or make_config(settings))
        self.partitions = Partitions(self.config.partitions, self.config.partition_levels, DOMAIN)
        self.protocol = NodeProtocol(self.config)
        self.slot = -1
        self.name = self.config.name
        #: Changes with every life of a node that remembers nothing.
        self.epoch = 0
        self.sessions: set[Session] = set()
        #: Counts the memory that clients make the node hold.
        self.pool = Pool()
        #: Bytes to and from clients.
        self.counts_edge = Counts()
        self.started_s = time.monotonic()
        self.transport: Transport
        #: Makes the transport. Fault injection is a transport around it (`node.fault_injection`).
        self.transport_kind = transport_kind or find_transport(self.config.transport)
        if self.config.fault_injection:
            from antecede.node.fault_injection import inject_faults  # noqa: PLC0415 - the simulator, for tests only

            words, begin_s = self.config.fault_injection, self.config.fault_injection_from
            self.transport_kind = self.transport_kind.around(inject_faults(words, self.config.slots, begin_s))
        self.listener: Listener
        self.driver: NodeDriver
        self.hub: Hub
        self.roster: Roster
        self.http: HttpServer | None = None
        self.mqtt: MqttServer | None = None
        self.tasks = SupervisedTasks()
        self.bulk = BulkService(self)
        self.pressure = BackPressure(self)
        self.past = PastReader(self)
        self.homes = Homes(self, self.past)
        self.journal: Journal | None = None
        self.credentials = Credentials(self.config)
        #: Is it part of its cluster and open to clients?
        self.ready = False
        self._closed = False
        self._given_up = 0

    # -- life ----------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> "Node":
        await self.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Return when the node is part of its cluster and open to clients."""
        try:
            await self._start()
        except BaseException:
            await self._give_up()
            raise

    async def _start(self) -> None:
        config = self.config
        if config.directory is None:
            self.epoch = secrets.randbits(62) | 1
            self.roster = Roster(new_key(), config.slots, reuses=self.protocol.live.forgets and not config.signed)
        else:
            self.journal, self.roster = await open_directory(config.directory, config, self.protocol)
        incarnation = int(time.time()) if self.journal is None else self.journal.identity.incarnation
        self.continuity = Continuity(self, incarnation)
        self.credentials.load(linked=self.transport_kind.by_address)
        self.credentials.bind(self.roster)
        own = config.advertise or join_address(config.host, config.port)
        self.name = self.name or own
        if self.transport_kind.by_address:
            client = RosterClient(
                self.roster,
                cluster=config.cluster,
                name=self.name,
                about=-1 if self.journal is None else self.journal.identity.node,
                wanted=config.slot,
                tls=self.credentials.tls,
                key=self.credentials.key,
                agreement=self.protocol.agreement,
            )
            known = await client.take_slot(config.seeds, own)
            incarnation = self.continuity.check_start(known)
            client.about = known.slot
        else:
            known = Member(slot=max(0, config.slot), name=self.name, key=self.roster.key)
        me = msgspec.structs.replace(
            known, name=self.name, incarnation=incarnation, life=self.continuity.life, address="", left=False
        )
        self.slot = me.slot
        me = self.roster.signed(me)
        self.roster.merge([me])
        await store_slot(self.journal, me, self.protocol)  # before the roster has it: see `directory.open_roster`
        self.roster.save()
        await self._run(client.evidence if self.transport_kind.by_address else {})
        if self.transport_kind.by_address:
            self.membership.joined(client, me)
            self.tasks.start("exchanges rosters", self.membership.keep_in_touch())
        await start_http(self)
        self.tasks.start("reads certificates and tokens again", self.credentials.keep_up())
        await self.taking.join()
        await self.bulk.start()
        await start_mqtt(self)
        self.ready = True
        log.info("node %d (%s) of %s at %s on %s", self.slot, self.name, config.cluster, self.url, loop_name())

    async def _run(self, evidence: Mapping[str, Evidence]) -> None:
        config = self.config
        process = self.protocol.make(self.slot, self.roster.members[self.slot].epoch)
        self.listener, self.transport = make_links(
            self.slot,
            self.continuity,
            config,
            self.protocol,
            self.transport_kind,
            self.credentials.tls,
            self.credentials.key,
        )
        history = History(
            self.journal,
            0 if self.journal is None else self.journal.position,
            partitions=self.partitions,
            entries_max=config.recent_messages,
            bytes_max=config.recent_bytes,
        )
        if self.journal is not None:
            for gap in known_gaps(await self.journal.joins(), self.partitions):
                history.add_gap(gap)
        self.hub = Hub(history, {}, total=self.protocol.live.total_order)
        self.hub.on_jam = self._jammed
        self.membership = Membership(self)
        self.driver = NodeDriver(
            process, self.transport, self._deliver, journal=self.journal, on_link=self.membership.link
        )
        self.driver.slots = config.slots
        self.credentials.sign_messages(self.driver, self.roster)
        self.driver.journal_path = None if self.journal is None else self.journal.path
        self.process = process
        self.membership.begin()
        self.listener.serve(CLIENT, self._answer)
        self.bulk.begin(self.credentials.grant)
        roster = self.membership.service(self.credentials.tls is not None)
        self.listener.serve(ROSTER, roster.judge, members=True)
        self.past.begin()
        self.taking = Taking(self)
        self.numbering = Numbering(self.partitions, process)
        self.following = Following(self)
        await self.driver.prepare()
        self.membership.recall()
        self.taking.begin()
        self.continuity.begin()
        await self.continuity.check(evidence)
        # Before the driver starts: the protocol may find at once that messages are gone, and what was delivered is not.
        for name in self.partitions.names:
            self.hub.delivered.update(self.taking.reached(name))
        if self.journal is not None:
            await self.hub.look_up_delivered()
            for name in self.partitions.names:
                if not self.process.takes(name):
                    self.hub.exclude_outside(self.partitions.stream(name, self.slot))
        if self.protocol.live.total_order:
            self.hub.settled = lambda: self.taking.reached(DOMAIN)
        self.hub.seam = process.last_before
        self.driver.hub = self.hub
        self.driver.replicas = Replicas(self.taking.counts)
        self.driver.on_turn = self.numbering.look_again
        put_mqtt_right(self)
        await self.driver.start()
        if self.journal is not None and not self.journal.settings:
            await self.journal.set_settings(self.protocol.kept_settings)  # its records are of this protocol
        if self.transport_kind.by_address:
            await self.listener.start()
        self.tasks.start("applies retention", keep_within(self))
        self.tasks.start("takes and leaves partitions", self.taking.keep_up())
        self.tasks.start("fetches the past of its partitions", self.homes.keep_up())
        self.tasks.start("watches for messages that are missing", watch(self))
        self.tasks.start("tells feeds how far they are", self.hub.keep_telling_progress())

    async def leave(self) -> None:
        """Wait until all members have this node's messages, give up its membership for good, and stop."""
        if self.ready:
            self.ready = False
            await self.taking.leave()
            await self.membership.farewell()
        await self.stop()

    async def stop(self) -> None:
        """Stop. A node with a journal can be started again from it."""
        if self._closed:
            return
        self._closed = True
        self.ready = False
        await say_goodbye(self)
        await self.bulk.close()
        with contextlib.suppress(StoppedError):
            await self.driver.close()
        self.driver.replicas = None
        await self._give_up()

    def abort(self) -> None:
        """Stop as a crash would, for tests: nothing more is sent or written."""
        self._closed = True
        abort_services(self)
        self.driver.abort()
        self.listener.abort()
        self.tasks.cancel()
        self.past.close()
        self.bulk.abort()
        if self.journal is not None:
            self.journal.abort()

    async def _give_up(self) -> None:
        abort_services(self)
        await self.tasks.close()
        self.past.close()
        if hasattr(self, "transport"):
            self.transport.abort()
        if hasattr(self, "listener"):
            self.listener.abort()
            await self.listener.closed(_CLOSE_S)
        if self.journal is not None:
            with contextlib.suppress(StoppedError):
                await self.journal.close()

    def fail(self, error: Exception) -> None:
        """Stop at once, because of `error`."""
        self.driver._fail(error)

    async def stopped(self) -> None:
        """Return when the node has stopped. Raises the error if it stopped by itself."""
        await asyncio.shield(self.driver.stopped)

    # -- ways in -------------------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        return f"antecede://{join_address(*self.listener.address)}" if self.transport_kind.by_address else "memory://"

    @property
    def address(self) -> str:
        """Where others reach it, as host:port."""
        return self.config.advertise or join_address(*self.listener.address)

    def publish_payloads(
        self, payloads: Sequence[bytes], level: int, size: int, make_promise: Callable[[], P]
    ) -> tuple[list[tuple[int, int, int]], P | None]:
        """Publish envelopes of `size` bytes, from the first on, as far as the protocol stamps them at once.

        Returns the messages as runs (stream, first sequence number, how many), and a promise that is done when they are
        as safe as asked; None: they are. Payloads that were not published are for `publish_payload`.
        """
        if level > 1:
            return [], None
        level = self._check_level(level)
        promise = make_promise() if level == 1 else None
        runs: list[tuple[int, int, int]] = []
        at = 0
        for partition, count in self._spread(payloads):
            name = self.partitions.names[partition]
            whole = count == len(payloads)
            run = payloads if whole else payloads[at : at + count]
            # One promise is enough: the node commits all publications of one turn of the loop in one batch.
            promised, run_size = None if runs else promise, size if whole else sum(map(len, run))
            stamped = self.driver.publish_run(name, run, promised, size=run_size)
            if stamped:
                runs.append((self.partitions.stream(name, self.slot), stamped[0].seq, len(stamped)))
            sent = run_size if len(stamped) == count else sum(map(len, run[: len(stamped)]))
            self.hub.counts.count_published(partition, len(stamped), sent)
            if len(stamped) < count:
                break
            at += count
        return runs, promise

    def _spread(self, payloads: Sequence[bytes]) -> Iterable[tuple[int, int]]:
        """The partitions of envelopes that follow each other, and how many are for each."""
        if self.partitions.count == 1:
            return ((0, len(payloads)),)
        of = self.partitions.of
        return [(partition, len(list(run))) for partition, run in groupby([of(label(one)) for one in payloads])]

    def publish_payload(self, payload: bytes, level: int) -> "Message | asyncio.Future[Message]":
        """Publish an envelope. Returns the message if it is as safe as asked already, else a future of it."""
        ((partition, _),) = self._spread((payload,))
        level = self._check_level(level, partition)
        self.hub.counts.count_published(partition, 1, len(payload))
        name = self.partitions.names[partition]
        if level == 0 and self.process.stamps_now(name):
            message = self.driver.publish(name, payload)
            assert message is not None
            return message
        promise: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        if self.driver.publish(name, payload, promise) is None:
            self.pressure.count_until_stamped(promise)
            self.numbering.queued = promise
        return promise if level <= 1 else self._replicated(promise, level - 1)

    def _check_level(self, level: int, partition: int = 0) -> int:
        """The durability level that a publication asks for (`wire.requests.Publish.level`), checked."""
        if level < 0:
            level = 0 if self.journal is None else 1
        if level >= 1 and self.journal is None:
            asked = "disk" if level == 1 else f"replicated({level - 1})"
            raise UsageError(
                "durability", asked, "the node has no journal", 'start it with a directory, or use "memory"'
            )
        if level > 1 and level - 1 > (others := self.taking.copies_max(partition)):
            kind = "node" if self.partitions.count == 1 else "home"
            problem = f"this cluster has {others} other {kind}{'' if others == 1 else 's'}"
            problem += "" if self.partitions.count == 1 else " of this topic"
            raise UsageError("durability", f"replicated({level - 1})", problem, "ask for fewer copies, or add nodes")
        if level > 1 and not self.protocol.live.counts_copies:
            problem = f"with the protocol {self.config.protocol} nodes know only their neighbours' copies"
            raise UsageError("durability", f"replicated({level - 1})", problem, 'use "disk"')
        return level

    def _replicated(self, promise: "asyncio.Future[Message]", copies: int) -> "asyncio.Future[Message]":
        """A future that is done when `promise` is and so many other nodes have the message. It may be cancelled."""
        replicas = self.driver.replicas
        if replicas is None:
            raise StoppedError("the node stopped before the copies were confirmed")
        return replicas.wait(promise, copies)

    def lagging(self) -> dict[int, int]:
        """By member that is down or too far behind to be waited for: how many of this node's messages it lacks."""
        found: Counter[int] = Counter()
        for name in self.partitions.names:
            found.update(self.process.lagging(name))
        return found

    def status(self) -> dict[str, Any]:
        """The node's state as plain values."""
        return node_status(self)

    def refused(self, connection: FrameConnection, reason: str, detail: str) -> None:
        self.listener.refused(connection, reason, detail)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _answer(self, connection: FrameConnection, hello: Hello) -> Callable[[], Owner]:
        """A client dialled us."""
        if not self.ready:
            raise RefusedError(connection.host, Reason.BUSY, "the node is starting or stopping")
        if hello.speaks != CLIENT_SPEAKS:
            raise RefusedError(connection.host, Reason.PACKETS, f"we speak {CLIENT_SPEAKS}")
        grant = self.credentials.grant(connection, hello.token)

        def begin() -> Owner:
            session = Session(self, connection, hello.name or connection.host, grant)
            self.sessions.add(session)
            return session

        return begin

    def _deliver(self, batch: Batch) -> None:
        if batch.changes:
            self.taking.changed(batch)
        self.hub.deliver(batch)
        if self.process.given_up > self._given_up:
            self._given_up = self.process.given_up
            log.error(
                "node %d: %d times so far it went on without a message that no node has, or refused one that came late",
                self.slot,
                self._given_up,
            )

    def _jammed(self, jammed: bool) -> None:
        """Our own readers lag, and there is no journal to serve them from: take nothing more from peers for now."""
        if jammed:
            self.transport.pause()
        else:
            self.transport.resume()
