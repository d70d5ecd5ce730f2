"""Continuity: each life of a node goes on where the life before it ended, and one life runs at a time.

A message is named by its source and sequence number for ever, so no number may be given twice. A node gives numbers by
its journal. The journal may be behind: an older copy was put in its place, or a power failure took the end of its log.
Or two processes run from copies of one directory. The node's peers know better, so it asks them:

    at the start        every peer it can reach, before it publishes anything
    while it runs       every peer that it is linked with for the first time, and one after the other now and then

It must not start, or must stop, in these cases. The error says what was found; nothing is mended silently. The journal
is given up then: it is refused from there on, for a second attempt would only hide what the first one found.

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

from antecede.core.errors import JournalError
from antecede.core.message import Seq, Source
from antecede.journal.schema import REPLACE_NODE
from antecede.node.roster import Member

if TYPE_CHECKING:
    from antecede.node.node import Node


#: Messages of a node that another one remembers to compare.
_SAMPLES: Final = 8

_Count: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]


class Evidence(msgspec.Struct, frozen=True, array_like=True):
    """What a node knows of another node's messages."""

    #: The slot of the node that knows it.
    node: Source
    #: The highest sequence number it has received of the other; 0: none.
    seen: _Count
    #: How far the other has acknowledged its messages; 0: not at all, or not since it started.
    acknowledged: _Count = 0
    #: Some messages of the other, delivered here: sequence number, and a digest of the payload.
    samples: Annotated[tuple[tuple[Seq, Annotated[bytes, Meta(max_length=64)]], ...], Meta(max_length=64)] = ()


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
        #: The last number published before this life; −1 until that is known.
        self._begun = -1
        #: By slot: how far its messages had been delivered here when it was linked, and when this node started. A
        #: message of that number is from before the life that was linked; a later one may be from any.
        self._marks: dict[int, list[int]] = {}
        self._checked: dict[str, Evidence] = {}

    def begin(self) -> None:
        """Note how far this node has come. Called after it has been restored, before it is linked with any other."""
        self._begun = self._node.process.last_published(self._node.domain)
        self._marks = {source: [seq] for source, seq in self._node.process.delivered(self._node.domain).items() if seq}

    def linked(self, slot: int) -> None:
        """Note how far messages of `slot` were delivered here before it was linked with this node."""
        seq = self._node.hub.delivered.get(slot, 0)
        marks = self._marks.setdefault(slot, [])
        if seq and seq not in marks:
            self._marks[slot] = [*marks[-_SAMPLES + 1 :], seq]

    async def evidence(self, slot: int) -> Evidence:
        """What this node knows of the messages of the node with this slot."""
        node = self._node
        acknowledged = 0 if node.driver.replicas is None else node.driver.replicas.acknowledged(slot)
        samples: list[tuple[int, bytes]] = []
        if node.journal is not None:
            for seq in self._marks.get(slot, ()):
                found = await node.journal.messages(node.domain, slot, seq, seq)
                samples += [(one.seq, digest(one.payload)) for one in found]
        return Evidence(node.slot, self._seen(slot), acknowledged, tuple(samples))

    def _seen(self, slot: int) -> int:
        """The highest sequence number of a message of `slot` that this node has, delivered or held."""
        node = self._node
        held = [one.seq for one in node.process.holding() if one.source == slot and one.topic == node.domain]
        delivered = node.process.delivered(node.domain)
        return max([node.hub.delivered.get(slot, 0), delivered.get(slot, 0), *held])

    def check_start(self, known: Member) -> None:
        """Raise `JournalError` if the cluster knows a start of this node that is not before this one."""
        if self._node.journal is not None and known.incarnation >= self.incarnation:
            where = f", last at {known.address}" if known.address else ""
            problem = f"begins start {self.incarnation} of this node, and the cluster knows start {known.incarnation}"
            raise self._given_up(f"{problem}{where}: it is an older copy, or a copy of it runs")

    async def check(self, known: Mapping[str, Evidence]) -> None:
        """Raise `JournalError` if the evidence of peers, by their address, contradicts this node's journal."""
        if self._node.journal is None:
            return
        for address, found in known.items():
            if self._checked.get(address) != found:
                problem = await self._contradiction(found)
                if problem is not None:
                    raise self._given_up(problem)
                self._checked[address] = found

    async def _contradiction(self, found: Evidence) -> str | None:
        node = self._node
        assert node.journal is not None
        published = node.process.last_published(node.domain)
        if found.seen > published:
            theirs = f"node {found.node} has message {found.seen}"
            return f"ends at message {published} of this node, and {theirs}: the journal has lost its end"
        seen = self._seen(found.node)
        if found.acknowledged > seen:
            theirs = f"this node has acknowledged {found.acknowledged}"
            return f"ends at message {seen} of node {found.node}, and {theirs}: the journal has lost its end"
        for seq, theirs_digest in found.samples:
            mine = await node.journal.messages(node.domain, node.slot, seq, seq)
            if mine and digest(mine[0].payload) != theirs_digest:
                theirs = f"node {found.node} has another one under that number"
                return f"has message {seq} of this node, and {theirs}: numbers were given twice"
        return None

    def superseded(self, how: str) -> None:
        """Stop the node: a peer has met another life of it, which has precedence."""
        self._node.fail(self._given_up(f"is not in use by this process alone: {how}"))

    def _given_up(self, problem: str) -> JournalError:
        """Give the journal up for good; the error to raise."""
        node = self._node
        assert node.journal is not None
        published = node.process.last_published(node.domain) if self._begun >= 0 else -1
        if published > self._begun:
            since = f"messages {self._begun + 1} to {published} of this node, published since its start"
            problem = f"{problem}; others may lack {since}: they are in this directory"
        node.journal.give_up(problem)
        return JournalError(str(node.journal.path), problem, REPLACE_NODE)
