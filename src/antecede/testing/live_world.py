"""Live worlds: the same processes in real drivers, over a transport of one's choice.

To put a transport under test, subclass `LiveWorld` and say how to make it:

    class MyWorld(LiveWorld):
        async def make_transport(self, node: int, incarnation: int) -> Transport:
            return MyTransport(node, PacketCodec(self.subject.name, self.subject.packets), ...)

        def linked(self) -> None:
            ...                  # after all have started: tell them where the others are, if they need telling

All nodes live in one process and one event loop, so what happened is known exactly. The scenario's network model is put
in front of the transport (`node.fault_injection`): a transport must carry packets, not lose them on purpose. With a
directory every node has a journal there; then nodes can crash, and the trace judged is what the *journals* say.
"""

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from antecede.core import Message
from antecede.journal import Journal, export_rows
from antecede.journal.batch import Batch
from antecede.node.driver import Driver
from antecede.node.fault_injection import FaultyTransport, LinkFaults
from antecede.sim.network import Network
from antecede.testing.world import TOPIC, ConformanceError, Subject, World
from antecede.trace import Event, Recorder, Row, payload_digest
from antecede.wire.codec import PacketCodec
from antecede.wire.memory import MemoryNetwork
from antecede.wire.tcp import TcpLimits, TcpTransport
from antecede.wire.transport import Transport

#: How long a condition may take to come true. Generous: a run that passes never gets near it.
_PATIENCE_S: Final = 60.0

_CLUSTER: Final = "conformance"

_MEMBERSHIP: Final = {"subscribe": Event.SUBSCRIBE, "unsubscribe": Event.UNSUBSCRIBE}


class LiveWorld(World):
    """Processes in drivers."""

    def __init__(self, subject: Subject, nodes: int, network: Network, directory: Path | None = None) -> None:
        super().__init__(subject, nodes, network)
        self.crashes = directory is not None
        self.drivers: dict[int, Driver] = {}
        self.transports: dict[int, Transport] = {}
        self.journals: dict[int, Journal] = {}
        self._directory = directory
        self._make_process = subject.build(nodes)
        self._recorder = Recorder()
        self._seen = dict.fromkeys(range(nodes), 0)
        self._faults: LinkFaults | None = None

    @abstractmethod
    async def make_transport(self, node: int, incarnation: int) -> Transport:
        """A transport for `node`, not yet started. `incarnation` rises with every life of the node."""

    def linked(self) -> None:
        """Every node that is up has started: introduce them to each other."""

    async def start(self) -> None:
        self._faults = LinkFaults(self.cut)
        for node in range(self.nodes):
            await self._bring_up(node)
        self.linked()

    async def stop(self) -> None:
        for driver in self.drivers.values():
            await driver.close()
        for journal in self.journals.values():
            await journal.close()

    def publish(self, node: int, payload: bytes) -> None:
        self.drivers[node].publish(TOPIC, payload)

    def suspect(self, node: int, peer: int) -> None:
        self.drivers[node].peer_down(peer)

    def trust(self, node: int, peer: int) -> None:
        self.drivers[node].peer_up(peer)

    async def crash(self, node: int) -> None:
        self.up.discard(node)
        self.drivers.pop(node).abort()
        del self.transports[node]
        await asyncio.to_thread(self.journals.pop(node).abort)

    async def recover(self, node: int) -> None:
        await self._bring_up(node)
        self.up.add(node)
        self.linked()

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        end = asyncio.get_running_loop().time() + _PATIENCE_S
        while not condition():
            for node, driver in self.drivers.items():
                if driver.stopped.done():
                    raise ConformanceError(f"node {node} stopped: {driver.stopped.exception()}")
            if asyncio.get_running_loop().time() > end:
                raise self.in_vain(what)
            await asyncio.sleep(0.002)

    async def pause(self, delay_us: int) -> None:
        await asyncio.sleep(delay_us / 1_000_000)

    def rows(self) -> Iterable[Row]:
        if self._directory is None:
            return self._recorder.rows()
        return export_rows([self._path(node) for node in range(self.nodes)])

    # -- inside ------------------------------------------------------------------------------------------------------

    async def _bring_up(self, node: int) -> None:
        journal = None
        if self._directory is not None:
            journal = await Journal.open(self._path(node), cluster=_CLUSTER, kept=self.subject.kept)
            await journal.set_node(node)
            await self._replay(node, journal)
            self.journals[node] = journal
        assert self._faults is not None
        inner = await self.make_transport(node, journal.identity.incarnation if journal else 1)
        process = self._make_process(node)
        driver = Driver(
            process,
            FaultyTransport(inner, self._faults, process.size),
            lambda batch: self._took(node, batch),
            journal=journal,
        )
        self.transports[node] = inner
        self.drivers[node] = driver
        await driver.start()

    async def _replay(self, node: int, journal: Journal) -> None:
        """What was committed and not yet given to the application when the node crashed: a reader's cursor at work."""
        while self._seen[node] < journal.position:
            page = await journal.read(self._seen[node])
            for item in page.items:
                self.take(node, item.message)
            self._seen[node] = page.position

    def _took(self, node: int, batch: Batch) -> None:
        if batch.first <= self._seen[node] and batch.deliveries:
            raise ConformanceError(f"node {node} delivered position {batch.first} after {self._seen[node]}")
        if self._directory is None:
            self._record(node, batch)
        self._seen[node] += len(batch.deliveries)
        for message in batch.deliveries:
            self.take(node, message)

    def _record(self, node: int, batch: Batch) -> None:
        for what in batch.in_order():
            if isinstance(what, Message):
                self._add(Event.DELIVER, node, batch.time_us, what)
            elif what.message is not None:
                self._add(Event.PUBLISH, node, batch.time_us, what.message)
            else:
                self._recorder.add(_MEMBERSHIP[what.what], batch.time_us, node, topic=what.topic)

    def _add(self, event: Event, node: int, time_us: int, message: Message) -> None:
        self._recorder.add(
            event,
            time_us,
            node,
            topic=message.topic,
            source=message.source,
            seq=message.seq,
            digest=payload_digest(message.payload),
        )

    def _path(self, node: int) -> Path:
        assert self._directory is not None
        return self._directory / f"node-{node}.journal"


class MemoryWorld(LiveWorld):
    """Nodes in one process, packets by reference."""

    def __init__(self, subject: Subject, nodes: int, network: Network, directory: Path | None = None) -> None:
        super().__init__(subject, nodes, network, directory)
        self._memory = MemoryNetwork()

    async def make_transport(self, node: int, incarnation: int) -> Transport:
        return self._memory.transport(node, incarnation=incarnation)


class TcpWorld(LiveWorld):
    """Nodes with a port each on loopback: real sockets, real frames."""

    async def make_transport(self, node: int, incarnation: int) -> Transport:
        codec = PacketCodec(self.subject.name, self.subject.packets)
        limits = TcpLimits(pause_s=0.01, pause_s_max=0.2, grace_s=1.0)
        return TcpTransport(node, codec, cluster=_CLUSTER, incarnation=incarnation, limits=limits)

    def linked(self) -> None:
        ends = [end for end in self.transports.values() if isinstance(end, TcpTransport)]
        for end in ends:
            for other in ends:
                if other is not end:
                    end.set_peer(other.node, *other.address)
