"""Continuity: each life of a node goes on where the life before it ended, and one life runs at a time.

A message is named by its source and sequence number for ever, so no number may be given twice. A node gives numbers by
its journal. The journal may be behind: an older copy was put in its place, or a power failure took the end of its log.
Or two processes run from copies of one directory. The node's peers know better, so it asks them:

    at the start        every peer it can reach, before it publishes anything
    while it runs       every peer that it is linked with for the first time, and one after the other now and then

The node refuses to start, or stops, in these cases, with an error that names the case. It repairs nothing by itself.
From then on its journal is refused: a second attempt would only hide what the first one found.

    an older copy       the cluster knows a later start of this node, or the same start of another process
    numbers are behind  a peer has received a message of this node that its journal lacks
    deliveries lost     a peer was told that this node keeps a message of it, and the journal lacks it
    numbers given twice a message of this node has another content at a peer
    two at once         a peer has met another life of this node: the later start has precedence; of two processes that
                        claim the same start, the one with the lower random number (`life`)

A node that reaches no peer starts all the same: it may be the first of its cluster. Until it meets a peer, its promise
is that of its own disk alone; should its journal be behind, it stops when it meets a peer that knows, and the messages
it has acknowledged since are in its directory only.
"""

import hashlib
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from antecede.core import AntecedeError, UsageError
from antecede.core.epochs import epoch_base
from antecede.core.errors import JournalError
from antecede.core.limits import PARTITIONS_MAX
from antecede.core.message import Seq, Source
from antecede.core.partitions import stream_of
from antecede.journal.schema import REPLACE_NODE
from antecede.node.roster import Member

if TYPE_CHECKING:
    from antecede.node.node import Node


#: Messages of a node that another one remembers to compare.
_SAMPLES: Final = 8

_Count: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]


#: Sequence number, and a digest of the payload.
_Samples: TypeAlias = Annotated[tuple[tuple[Seq, Annotated[bytes, Meta(max_length=64)]], ...], Meta(max_length=64)]


class PartitionEvidence(msgspec.Struct, frozen=True, array_like=True):
    """What a node knows of another node's messages in one partition: the fields are those of `Evidence`."""

    partition: Annotated[int, Meta(ge=0, lt=PARTITIONS_MAX)]
    seen: _Count
    acknowledged: _Count
    samples: _Samples


class Evidence(msgspec.Struct, frozen=True, array_like=True):
    """What a node knows of another node's messages, in the first partition and in the others."""

    #: The slot of the node that knows it.
    node: Source
    #: The highest sequence number it has received of the other; 0: none.
    seen: _Count
    #: How far the other has acknowledged its messages; 0: not at all, or not since it started.
    acknowledged: _Count = 0
    #: Some messages of the other, delivered here.
    samples: _Samples = ()
    #: The other partitions, of which it knows anything.
    more: Annotated[tuple[PartitionEvidence, ...], Meta(max_length=PARTITIONS_MAX)] = ()


def digest(payload: bytes) -> bytes:
    """What tells two payloads apart."""
    return hashlib.blake2b(payload, digest_size=16).digest()


class Continuity:
    """Tells other nodes what this one knows of them, and checks what they know of it."""

    def __init__(self, node: "Node", incarnation: int) -> None:
        self.incarnation = incarnation
        #: Drawn at random: two processes that claim one incarnation differ in it.
        self.life = secrets.randbits(62) | 1
        self._node = node
        #: By partition: the last number published before this life. None until that is known.
        self._begun: dict[str, int] | None = None
        #: By stream: how far its messages had been delivered here when its node was linked, and when this node started.
        #: A message of that number is from before the life that was linked; a later one may be from any.
        self._marks: dict[int, list[int]] = {}
        self._checked: dict[str, Evidence] = {}

    def begin(self) -> None:
        """Note how far this node has come. Called after it has been restored, before it is linked with any other."""
        node = self._node
        names = node.partitions.names
        self._begun = {name: node.process.last_published(name) for name in names}
        reached = [node.taking.reached(name) for name in names]
        self._marks = {stream: [seq] for levels in reached for stream, seq in levels.items() if seq}

    def had_published(self, name: str, seq: int) -> bool:
        """Did this node publish this message before its present life?"""
        return seq <= self.published_before(name)

    def published_before(self, name: str) -> int:
        """The last message in the partition called `name` that this node published before its present life; 0: none."""
        return 0 if self._begun is None else self._begun.get(name, 0)

    def linked(self, slot: int) -> None:
        """Note how far messages of `slot` were delivered here before it was linked with this node."""
        for partition in range(self._node.partitions.count):
            stream = stream_of(partition, slot)
            seq = self._node.hub.delivered.get(stream, 0)
            marks = self._marks.get(stream, [])
            if seq and seq not in marks:
                self._marks[stream] = [*marks[-_SAMPLES + 1 :], seq]

    async def evidence(self, slot: int) -> Evidence:
        """What this node knows of the messages of the node with this slot."""
        held = self._held(slot)
        names = self._node.partitions.names
        first, *others = [await self._known(slot, number, held.get(name, 0)) for number, name in enumerate(names)]
        more = tuple([one for one in others if one.seen or one.acknowledged])
        return Evidence(self._node.slot, first.seen, first.acknowledged, first.samples, more)

    async def _known(self, slot: int, partition: int, held: int) -> PartitionEvidence:
        """What this node knows of the messages of `slot` in one partition. `held`: the last one that it holds."""
        node = self._node
        name, stream = node.partitions.names[partition], stream_of(partition, slot)
        acknowledged = 0 if node.driver.replicas is None else node.driver.replicas.acknowledged(name, slot)
        samples: list[tuple[int, bytes]] = []
        if node.journal is not None:
            for seq in self._marks.get(stream, ()):
                found = await node.journal.messages(name, slot, seq, seq)
                samples += [(one.seq, digest(one.payload)) for one in found]
        return PartitionEvidence(partition, self._seen(name, slot, held), acknowledged, tuple(samples))

    def _held(self, slot: int) -> dict[str, int]:
        """By partition: the highest sequence number of `slot` among the messages held here and not delivered."""
        held: dict[str, int] = {}
        for one in self._node.process.holding():
            if one.source == slot:
                held[one.topic] = max(one.seq, held.get(one.topic, 0))
        return held

    def _seen(self, name: str, slot: int, held: int) -> int:
        """The highest sequence number of a message of `slot` that this node has, delivered or held."""
        node = self._node
        delivered = node.hub.delivered.get(node.partitions.stream(name, slot), 0)
        return max(delivered, node.process.delivered(name).get(slot, 0), held)

    def displaced(self, known: Member) -> None:
        """Stop the node: it was forgotten."""
        self._node.fail(self._displaced(known))

    def _displaced(self, known: Member) -> AntecedeError:
        what = "an operator has said that it is gone for good" if known.forgotten else f"{known.name} has its slot"
        if self._node.journal is None:
            return UsageError("slot", known.slot, f"was taken from this node: {what}", "start the node again")
        return self._given_up(f"is of a node that the cluster has forgotten: {what}")

    def check_start(self, known: Member) -> int:
        """Count this start among those of the slot's epoch, and return the incarnation.

        Raises `JournalError` if the slot has gone to another epoch: this node was forgotten; or if the cluster knows a
        start of this node that is not before this one.
        """
        if known.key != self._node.roster.key:
            raise self._displaced(known)
        self.incarnation += epoch_base(known.epoch)
        if self._node.journal is not None and known.incarnation >= self.incarnation:
            where = f", last at {known.address}" if known.address else ""
            problem = f"begins start {self.incarnation} of this node, and the cluster knows start {known.incarnation}"
            raise self._given_up(f"{problem}{where}: it is an older copy, or a copy of it runs")
        return self.incarnation

    async def check(self, known: Mapping[str, Evidence]) -> None:
        """Raise `JournalError` if the evidence of peers, by their address, contradicts this node's journal."""
        if self._node.journal is None:
            return
        for address, found in known.items():
            if self._checked.get(address) != found:
                first = PartitionEvidence(0, found.seen, found.acknowledged, found.samples)
                for one in (first, *found.more):
                    problem = await self._contradiction(found.node, one)
                    if problem is not None:
                        raise self._given_up(problem)
                self._checked[address] = found

    async def _contradiction(self, peer: int, found: PartitionEvidence) -> str | None:
        node = self._node
        assert node.journal is not None
        if found.partition >= node.partitions.count:
            return None
        name = node.partitions.names[found.partition]
        published = node.process.last_published(name)
        if found.seen > published:
            theirs = f"node {peer} has message {found.seen}"
            return f"ends at message {published} of this node, and {theirs}: the journal has lost its end"
        seen = self._seen(name, peer, self._held(peer).get(name, 0))
        if found.acknowledged > seen:
            theirs = f"this node has acknowledged {found.acknowledged}"
            return f"ends at message {seen} of node {peer}, and {theirs}: the journal has lost its end"
        for seq, theirs_digest in found.samples:
            mine = await node.journal.messages(name, node.slot, seq, seq)
            if mine and digest(mine[0].payload) != theirs_digest:
                theirs = f"node {peer} has another one under that number"
                return f"has message {seq} of this node, and {theirs}: numbers were given twice"
        return None

    def superseded(self, how: str) -> None:
        """Stop the node: a peer has met another life of it, which has precedence."""
        self._node.fail(self._given_up(f"is not in use by this process alone: {how}"))

    def _given_up(self, problem: str) -> JournalError:
        """Give the journal up for good; the error to raise."""
        node = self._node
        assert node.journal is not None
        since = []
        for name, begun in (self._begun or {}).items():
            published = node.process.last_published(name)
            if published > begun:
                where = f" in partition {name}" if node.partitions.count > 1 else ""
                since.append(f"messages {begun + 1} to {published}{where}")
        if since:
            lost = f"{', '.join(since)} of this node, published since its start"
            problem = f"{problem}; others may lack {lost}: they are in this directory"
        node.journal.give_up(problem)
        return JournalError(str(node.journal.path), problem, REPLACE_NODE)
