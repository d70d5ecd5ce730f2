"""Keeping the transport and the protocol informed of who has a place and where.

Places that nobody has claimed are down for the protocol from the start; when a node takes one, it comes up. Whether a
node that has a place is well, its failure detector says. Tables are compared with one neighbour after the other now and
then, so that news missed at a restart arrives all the same.
"""

import asyncio
import contextlib
import logging
import random
from typing import TYPE_CHECKING, Final

import msgspec

from antecede.core import UsageError
from antecede.core.errors import RefusedError, UnreachableError
from antecede.node.joining import Introduction, RosterService
from antecede.node.roster import Member
from antecede.wire.address import split_address

if TYPE_CHECKING:
    from antecede.node.node import Node

log = logging.getLogger("antecede.node")

#: Between two comparisons of tables.
_PAUSE_S: Final = 5.0


class Neighbours:
    """The other nodes, as this one deals with them."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        #: Places taken for empty.
        self.absent: set[int] = set()
        #: Nodes with a link, and their incarnation.
        self.linked: dict[int, int] = {}
        self._introduction: Introduction | None = None
        self._me: Member | None = None

    def begin(self) -> None:
        """Before the protocol starts."""
        node = self._node
        present = {member.slot for member in node.roster.others() if member.address}  # the rest has yet to start
        self.absent = set(range(node.config.slots)) - present - {node.slot}
        for slot in sorted(self.absent):
            node.process.peer_down(slot)
        self._set_peers(node.roster.others())

    def service(self, secured: bool) -> RosterService:
        return RosterService(self._node.roster, self._node.config.slots, self.heard, secured=secured)

    def introduce(self, introduction: Introduction, me: Member) -> None:
        self._introduction = introduction
        self._me = msgspec.structs.replace(me, address=self._node.address)
        self._node.roster.merge([self._me])
        self._node.roster.save()

    def link(self, slot: int, incarnation: int | None) -> None:
        """A link came up or went down."""
        if incarnation is None:
            self.linked.pop(slot, None)
        else:
            self.linked[slot] = incarnation
            self._appeared(slot)

    def heard(self, news: list[Member]) -> None:
        """The roster has changed."""
        node = self._node
        if node.roster.clash is not None:
            other = node.roster.clash
            problem = f"is also that of {other.name} at {other.address}: two clusters were founded apart"
            node.driver._fail(UsageError("place", node.slot, problem, "start this node again with an empty directory"))
            return
        node.roster.save()
        self._set_peers(news)
        for member in news:
            if member.key != node.roster.key and member.address and not member.left:
                self._appeared(member.slot)

    async def keep_in_touch(self) -> None:
        """Tell everybody where we are, then compare notes with somebody now and then."""
        assert self._introduction is not None
        rng = random.Random(self._node.roster.key)
        everybody = {member.address for member in self._node.roster.others() if member.address}
        await self._introduction.ask_all(everybody, me=self._me)
        self.heard(list(self._node.roster.members.values()))
        while True:
            # While it starts, others may too, and not all of them know each other yet.
            await asyncio.sleep((_PAUSE_S if self._node.ready else _PAUSE_S / 10) * rng.uniform(0.5, 1.5))
            others = [member for member in self._node.roster.others() if member.address]
            if others:
                with contextlib.suppress(RefusedError, UnreachableError):
                    news = await self._introduction.ask(rng.choice(others).address, me=self._me)
                    if news:
                        self.heard(news)

    async def farewell(self) -> None:
        """Say that this place is given up."""
        if self._introduction is None or self._me is None:
            return
        self._me = msgspec.structs.replace(self._me, left=True)
        self._node.roster.merge([self._me])
        self._node.roster.save()
        everybody = {member.address for member in self._node.roster.others() if member.address}
        await self._introduction.ask_all(everybody, me=self._me)

    def _appeared(self, slot: int) -> None:
        if slot in self.absent:
            self.absent.discard(slot)
            self._node.driver.peer_up(slot)

    def _set_peers(self, members: list[Member]) -> None:
        transport = self._node.tcp
        if transport is not None:
            for member in members:
                if member.slot != self._node.slot and member.address and not member.left:
                    transport.set_peer(member.slot, *split_address(member.address))
