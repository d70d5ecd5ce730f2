"""Membership: tells transport and protocol which nodes there are, and keeps the roster in step with the others.

For the protocol a slot that no node has claimed is down from the start; it comes up when a node takes it. Whether the
owner of a slot is well, the failure detector says. Every few seconds the node exchanges rosters with another one, so
that entries it missed during a restart arrive all the same.
"""

import asyncio
import contextlib
import logging
import random
from typing import TYPE_CHECKING, Final

import msgspec

from antecede.core import UsageError
from antecede.core.errors import JournalError, RefusedError, UnreachableError
from antecede.node.joining import RosterClient, RosterService
from antecede.node.roster import Member
from antecede.wire.address import split_address

if TYPE_CHECKING:
    from antecede.node.node import Node

log = logging.getLogger("antecede.node")

#: Between two exchanges of rosters.
_PAUSE_S: Final = 5.0


class Membership:
    """The other nodes of the cluster, as one node knows them."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        #: Slots that no node has claimed, as far as we know.
        self.absent: set[int] = set()
        #: Slots of nodes that had a link to us since we started.
        self.met: set[int] = set()
        #: By slot: the incarnation of each node we have a link to.
        self.linked: dict[int, int] = {}
        self._client: RosterClient | None = None
        #: Set when a link has come up: its node may know of messages of ours that we do not.
        self._linked = asyncio.Event()
        self._me: Member | None = None
        #: By slot: the epoch that the protocol was told of.
        self._epochs: dict[int, int] = {}

    def begin(self) -> None:
        """Before the protocol starts."""
        node = self._node
        present = {member.slot for member in node.roster.others() if member.address}  # the others have yet to start
        self.absent = set(range(node.config.slots)) - present - {node.slot}
        for slot in sorted(self.absent):
            node.process.vacate(slot)
            node.process.peer_down(slot)
        self._set_peers(node.roster.others())

    def recall(self) -> None:
        """Before the driver starts, after the process was restored: tell it of owners that are gone for good."""
        node = self._node
        for member in node.roster.members.values():
            if member.epoch and member.slot != node.slot:
                self._epochs[member.slot] = member.epoch
                node.process.forget(member.slot, member.epoch)

    def service(self, secured: bool) -> RosterService:
        node = self._node
        return RosterService(node.roster, self.heard, node.continuity.evidence, node.refused, secured=secured)

    def joined(self, client: RosterClient, me: Member) -> None:
        """This node has its slot, and listens: from now on others may know its address."""
        self._client = client
        self._me = self._node.roster.signed(msgspec.structs.replace(me, address=self._node.address))
        self._node.roster.merge([self._me])
        self._node.roster.save()

    def link(self, slot: int, incarnation: int | None) -> None:
        """A link came up or went down."""
        if incarnation is None:
            self.linked.pop(slot, None)
        else:
            self.linked[slot] = incarnation
            self.met.add(slot)
            self._appeared(slot)
            self._node.continuity.linked(slot)
            self._linked.set()

    def heard(self, news: list[Member]) -> None:
        """Entries of the roster have changed."""
        node = self._node
        if node.roster.displaced is not None:
            node.continuity.displaced(node.roster.displaced)
            return
        if node.roster.clash is not None:
            other = node.roster.clash
            problem = f"is also that of {other.name} at {other.address}: two clusters were founded apart"
            node.fail(UsageError("slot", node.slot, problem, "start this node again with an empty directory"))
            return
        own = node.roster.members[node.slot]
        if own.life not in (0, node.continuity.life):
            node.continuity.superseded(
                f"start {own.incarnation} of this node runs at {own.address or 'another address'}"
            )
            return
        node.roster.save()
        for member in news:
            if member.slot != node.slot:
                self._heard_end(member)
        self._set_peers(news)
        for member in news:
            if member.key != node.roster.key and member.address and not member.left:
                self._appeared(member.slot)

    def _heard_end(self, member: Member) -> None:
        """Do what an entry asks for whose owner has left, or that begins a new epoch of its slot."""
        node, slot = self._node, member.slot
        if member.epoch > self._epochs.get(slot, 0):
            self._epochs[slot] = member.epoch
            self._vacate(slot)
            if node.driver.replicas is not None:
                node.driver.replicas.forget(slot)
            node.driver.forget(slot, member.epoch)
        elif member.left:
            self._vacate(slot)

    def _vacate(self, slot: int) -> None:
        """No node has this slot, until one appears."""
        node = self._node
        if slot not in self.absent:
            self.absent.add(slot)
            node.transport.forget(slot)
            node.driver.vacate(slot)
            node.driver.peer_down(slot)

    async def forget(self, name: str) -> str:
        """Mark the node called `name` as gone for good, and tell every node. Returns what was done, in words."""
        node, protocol = self._node, self._node.config.protocol
        if not node.protocol.live.forgets:
            problem = f"the protocol {protocol} cannot forget a node"
            raise UsageError("forget", name, problem, "start the node again, or let it leave")
        known = [one for one in node.roster.members.values() if one.name == name and not one.forgotten]
        if not known:
            named = ", ".join(sorted([one.name for one in node.roster.members.values() if not one.forgotten]))
            raise UsageError("forget", name, "is not the name of a node", f"use one of {named}")
        (member, *others) = sorted(known, key=lambda one: (not one.left, one.slot in self.linked))
        if others and not member.left and member.slot not in self.linked and others[0].slot not in self.linked:
            slots = ", ".join([str(one.slot) for one in known])
            raise UsageError("forget", name, f"is the name of several nodes (slots {slots})", "start the others first")
        if member.slot == node.slot or (member.slot in self.linked and member.slot not in node.process.down):
            problem = "is up" if member.slot != node.slot else "is the node that was asked"
            raise UsageError("forget", name, problem, "let it leave (antecede node --leave), or stop it first")
        gone = node.roster.forget(member)
        self.heard([gone])
        told: set[str] = set()
        if self._client is not None:
            told, _ = await self._client.exchange_all(node.roster.addresses(), me=self._me)
        return f"{name} (slot {member.slot}) is forgotten; told {len(told)} of the other nodes"

    async def keep_in_touch(self) -> None:
        """Send our entry to every node, then exchange rosters with one at random now and then."""
        assert self._client is not None
        client, roster = self._client, self._node.roster
        rng = random.Random(roster.key)
        await client.exchange_all(roster.addresses(), me=self._me)
        self.heard(list(roster.members.values()))
        while True:
            await self._check_evidence()
            # More often while this node starts: others may be starting, too, and not know each other yet.
            pause_s = (_PAUSE_S if self._node.ready else _PAUSE_S / 10) * rng.uniform(0.5, 1.5)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._linked.wait()
            self._linked.clear()
            strangers = [one for one in roster.addresses() if one not in client.evidence and self._is_linked(one)]
            others = strangers or sorted(roster.addresses())
            if others:
                with contextlib.suppress(RefusedError, UnreachableError):
                    news = await client.exchange(rng.choice(others), me=self._me)
                    if news:
                        self.heard(news)

    async def _check_evidence(self) -> None:
        """Stop the node if others know messages of it that it does not."""
        assert self._client is not None
        try:
            await self._node.continuity.check(self._client.evidence)
        except JournalError as error:
            self._node.fail(error)

    def _is_linked(self, address: str) -> bool:
        return any(one.address == address and one.slot in self.linked for one in self._node.roster.members.values())

    async def farewell(self) -> None:
        """Tell every node that this one has left for good."""
        if self._client is None or self._me is None:
            return
        self._me = self._node.roster.signed(msgspec.structs.replace(self._me, left=True))
        self._node.roster.merge([self._me])
        self._node.roster.save()
        await self._client.exchange_all(self._node.roster.addresses(), me=self._me)

    def _appeared(self, slot: int) -> None:
        if slot in self.absent:
            self.absent.discard(slot)
            self._node.driver.peer_up(slot)

    def _set_peers(self, members: list[Member]) -> None:
        for member in members:
            if member.slot != self._node.slot and member.address and not member.left:
                self._node.transport.set_peer(member.slot, *split_address(member.address))
