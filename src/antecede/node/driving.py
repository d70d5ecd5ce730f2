"""The driver of a node: `node.driver`, and what a node does with packets as they arrive.

The hub sees messages on arrival (for feeds that do not wait for order). Acknowledgements of peers are counted for
publishers that asked for copies. Messages in this node's name that it never published are refused.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from antecede.core import Message, Packet, Process, ProtocolError
from antecede.core.limits import CUBE_DIMENSION_MAX
from antecede.core.partitions import Partitions
from antecede.core.process import Acknowledgement
from antecede.journal.batch import Batch, Log
from antecede.journal.restoring import restoring
from antecede.node.batch_shares import BatchShares
from antecede.node.driver import Driver
from antecede.node.hub import Hub
from antecede.node.predecessors import After, Predecessors
from antecede.protocols.homes.copies import Copies
from antecede.wire.transport import Transport

if TYPE_CHECKING:
    from antecede.wire.security.signing import MessageChecker, MessageSigner

#: The source of a dependency in the message's own partition, and of one in another.
_SOURCE: Final = itemgetter(0)
_SOURCE_ACROSS: Final = itemgetter(1)


class Replicas:
    """How far each peer has kept what this node published, and the publications that wait for that.

    A peer acknowledges after it has kept what it acknowledges: keep comes before send. So a copy counted here survives
    the end of both processes, where the peer has a journal.
    """

    def __init__(self, counts: Callable[[str, int], bool]) -> None:
        """`counts`: does a copy in this partition at this peer count?"""
        self._counts = counts
        #: By partition.
        self._copies: dict[str, _Copies] = {}

    def note(self, acknowledgements: Iterable[Acknowledgement]) -> None:
        moved = set()
        for peer, name, seq, floor in acknowledgements:
            if self._of(name).copies.note(peer, seq, floor):
                moved.add(name)
        for name in moved:
            self._copies[name].moved()

    def wait(self, promise: "asyncio.Future[Message]", copies: int) -> "asyncio.Future[Message]":
        """A future that is done when `promise` is, and then `copies` peers have the message. It may be cancelled."""
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        promise.add_done_callback(partial(self._count, future, copies))
        return future

    def acknowledged(self, name: str, peer: int) -> int:
        """How far `peer` has kept what this node published in the partition called `name`, as it has said since this
        node started."""
        return self._of(name).copies.reached.get(peer, 0)

    def forget(self, peer: int) -> None:
        """`peer` is gone for good: its copies do not count, and its slot may get another owner."""
        for copies in self._copies.values():
            if copies.copies.forget(peer):
                copies.moved()

    def doubtful(self) -> list[tuple[str, int, list[int]]]:
        """Partitions, peers, and publications that wait and that the peer may have fetched: they predate its join."""
        return [(name, *one) for name, copies in self._copies.items() for one in copies.doubtful()]

    def confirm(self, name: str, peer: int, seqs: Iterable[int]) -> None:
        """`peer` has these messages of this node in the partition called `name`."""
        self._of(name).copies.confirm(peer, seqs)
        self._of(name).moved()

    def __len__(self) -> int:
        """Publications that wait for copies."""
        return sum([len(copies.waiting) + len(copies.hidden) for copies in self._copies.values()])

    def _of(self, name: str) -> "_Copies":
        found = self._copies.get(name)
        if found is None:
            found = self._copies[name] = _Copies(partial(self._counts, name))
        return found

    def _count(self, future: "asyncio.Future[Message]", copies: int, promise: "asyncio.Future[Message]") -> None:
        if future.done():
            _ = promise.cancelled() or promise.exception()
        elif promise.cancelled():
            future.cancel()
        elif (error := promise.exception()) is not None:
            future.set_exception(error)
        else:
            self._of(promise.result().topic).wait(promise.result(), copies, future)


class _Copies:
    """What peers have of the messages that this node published in one partition."""

    def __init__(self, counts: Callable[[int], bool]) -> None:
        self._counts = counts
        self.copies = Copies()
        #: How far the peers are that count, the furthest first: so many have delivered everything up to there.
        self._reached: list[int] = []
        #: Publications that wait, by the copies they ask for: an acknowledgement looks only at those that are ready.
        self.waiting = Predecessors(self._missing)
        #: Publications that predate the join of peers that would make enough copies, and how many they ask for.
        self.hidden: dict[asyncio.Future[Message], tuple[Message, int]] = {}

    def moved(self) -> None:
        """Call the publications that have enough copies now."""
        self._reached = sorted([seq for peer, seq in self.copies.reached.items() if self._counts(peer)], reverse=True)
        self.waiting.wake(list(self.waiting.streams))
        for future, (message, copies) in list(self.hidden.items()):
            self._settle(future, message, copies)
        if not self.hidden:
            self.copies.tidy()

    def doubtful(self) -> Iterator[tuple[int, list[int]]]:
        """Peers that count, and publications that wait and that they may have fetched."""
        peers = [peer for peer in self.copies.reached if self._counts(peer)]
        seqs = [message.seq for message, _ in self.hidden.values()]
        return ((peer, may) for peer in peers if (may := self.copies.may_keep(peer, seqs)))

    def wait(self, message: Message, copies: int, future: "asyncio.Future[Message]") -> None:
        wanted = ((copies, message.seq),)
        if self._missing(wanted) is None:
            self._settle(future, message, copies)
        else:
            withdraw = self.waiting.add(wanted, partial(self._settle, future, message, copies))
            future.add_done_callback(lambda _: withdraw())

    def _missing(self, wanted: After) -> tuple[int, int] | None:
        return next((one for one in wanted if self._copied(one[0]) < one[1]), None)

    def _copied(self, copies: int) -> int:
        """The last message that so many peers have delivered, or that predates their joins."""
        return self._reached[copies - 1] if copies <= len(self._reached) else 0

    def _settle(self, future: "asyncio.Future[Message]", message: Message, copies: int) -> None:
        """So many peers are beyond the message: it is safe if as many keep it."""
        if future.done():
            return
        keeps, seq = self.copies.keeps, message.seq
        if sum([keeps(peer, seq) and self._counts(peer) for peer in self.copies.reached]) >= copies:
            self.hidden.pop(future, None)
            future.set_result(message)
        elif future not in self.hidden:
            self.hidden[future] = message, copies
            future.add_done_callback(lambda _: self.hidden.pop(future, None))


class NodeDriver(Driver):
    """Shows arriving packets to the hub before the process gets them, and counts acknowledgements."""

    #: None until the node has started: what arrives before that goes to the process alone.
    hub: Hub | None = None
    replicas: Replicas | None = None
    #: Sign what this node publishes, and check the messages of others; None: nodes do not sign.
    signer: "MessageSigner | None" = None
    checker: "MessageChecker | None" = None
    #: Messages dropped because the key of their source is not known yet: they come again.
    unchecked = 0
    #: Nodes are numbered 0 … slots − 1.
    slots = 1 << CUBE_DIMENSION_MAX

    #: Called after every batch: inputs were dealt with, and what they asked for was done.
    on_turn: Callable[[], None] | None = None

    #: Where the journal is, for errors.
    journal_path: Path | None = None

    def __init__(
        self,
        process: Process,
        transport: Transport,
        application: Callable[[Batch], None],
        *,
        journal: Log | None = None,
        on_link: Callable[[int, int | None], None] | None = None,
    ) -> None:
        super().__init__(process, transport, application, journal=journal, on_link=on_link)
        #: What clients have added to the batch that gathers.
        self.shares = BatchShares()

    def _start_process(self, kept: Sequence[object]) -> None:
        with restoring(self.journal_path):
            super()._start_process(kept)

    def _release(self, batch: Batch) -> None:
        super()._release(batch)
        if self.on_turn is not None:
            self.on_turn()

    def received(self, sender: int, packets: list[Packet]) -> None:
        _check_slots(packets, self.slots)
        if self.checker is not None:
            packets = self._authentic(packets, self.checker)
        self.process.check(packets)
        if self.hub is not None:
            self._check_source(packets, self.hub.partitions)
            self.hub.arrived(packets)
        super().received(sender, packets)
        acknowledgements = self.process.out.acknowledgements
        if acknowledgements:
            if self.replicas is not None:
                self.replicas.note(acknowledgements)
            acknowledgements.clear()

    def _take(self) -> Batch:
        if self.signer is not None:
            self._sign(self.signer)
        batch = super()._take()
        self.shares.begin()
        if batch.changes:  # now: while the batch is committed, the process goes on
            joined = [change.topic for change in batch.changes if change.what == "subscribe"]
            batch.reached = {topic: self.process.delivered(topic) for topic in joined}
        return batch

    def _sign(self, signer: "MessageSigner") -> None:
        """Sign this node's messages in the packets that are about to be sent."""
        node, last = self.process.node, None
        unsigned: dict[int, Message] = {}
        for _, packet in self.process.out.sends:
            if packet is not last:  # mostly one packet to several children
                last = packet
                for message in packet.messages:
                    if message.source == node and not message.proof:
                        unsigned[id(message)] = message
        if unsigned:
            signer.sign(list(unsigned.values()))

    def _authentic(self, packets: list[Packet], checker: "MessageChecker") -> list[Packet]:
        """The packets whose messages are signed by their sources. Raises `ProtocolError` for a wrong signature."""
        found = []
        for packet in packets:
            for message in packet.messages:
                if not checker.is_signed(message):
                    if checker.knows(message.source):
                        raise ProtocolError(f"message {message.id} is not signed by its source")
                    self.unchecked += 1  # the entry of its source is under way, and the protocol sends it again
                    break
            else:
                found.append(packet)
        return found

    def _check_source(self, packets: list[Packet], partitions: Partitions) -> None:
        """Refuse messages in this node's name that it never published. What others pass on for others is trusted."""
        node = self.process.node
        for packet in packets:
            for message in packet.messages:
                if message.source != node:
                    continue
                name = partitions.names[0] if partitions.count == 1 else message.topic
                if message.seq > self.process.last_published(name):
                    raise ProtocolError(f"message {message.id} is said to be ours, and is not")


def _check_slots(packets: list[Packet], slots: int) -> None:
    """Refuse messages that name a slot which the cluster does not have, as their source or as what they depend on."""
    for packet in packets:
        for message in packet.messages:
            highest = message.source
            if message.deps:
                highest = max(highest, *map(_SOURCE, message.deps))
            if message.across:
                highest = max(highest, *map(_SOURCE_ACROSS, message.across))
            if highest >= slots:
                raise ProtocolError(f"message {message.id} names slot {highest}, there are {slots}")
