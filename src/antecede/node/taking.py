"""The partitions that a node takes, and why.

A node takes a partition while it is one of its homes, and while a feed of its clients or a release of staged rows needs
it. In a cluster with one partition every node takes it. A node that needs a partition joins it, and goes on
when the protocol reports the membership (`Process.reports_membership`). It leaves a partition that it has not needed
for a while. Nodes compute the homes from the roster, so they agree once their rosters do.

Rules of this file:
* A feed opens when the node has joined all partitions it needs. So its first message is the first behind the join.
* Deliveries of a partition before its join are missing here. A feed that would read them ends with a gap
  (`history.Gap`). So does one over a membership that the node did not ask for: no node had the messages any more that
  this one missed, and the protocol joined anew.
* A node leaves what it joined for a feed or a release, in this life, and was never a home of in this life. Other
  partitions it leaves once their homes have everything (`protocols.homes`).
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from antecede.core.errors import StoppedError
from antecede.core.partitions import homes, split_stream
from antecede.journal.batch import Batch
from antecede.node.predecessors import After
from antecede.protocols.homes.duties import Duties

if TYPE_CHECKING:
    from antecede.node.node import Node

log = logging.getLogger("antecede.node")

#: Within this a node that starts must have heard from every member that is up.
_JOIN_S: Final = 120.0

#: The same where there are several partitions. Then it starts without those that it could not join.
_JOIN_SOON_S: Final = 10.0

#: How long a node that leaves the cluster waits until the others have its messages.
_LEAVE_S: Final = 30.0

#: Between two looks at homes and at partitions that are not needed any more.
_PAUSE_S: Final = 1.0


#: How long a node that is said to leave counts as gone already when homes are computed.
_LEAVING_S: Final = 60.0


class Taking:
    """The partitions of one node."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        #: Memberships that the node has asked for, by the change that will be reported and the name of the partition.
        self._asked: dict[tuple[str, str], asyncio.Future[None]] = {}
        #: By partition: how many feeds need it; and until when it is taken though no feed does, by the loop's clock.
        self._feeds: Counter[int] = Counter()
        self._until: dict[int, float] = {}
        #: The partitions that this node must keep.
        self.duties = Duties(-1, node.config.replicas, _LEAVING_S)

    def begin(self) -> None:
        """Before the driver starts: expect the memberships that this node needs and has not got yet."""
        self.duties.node = self._node.slot
        self._find_homes()
        partitions, process = self._node.partitions, self._node.process
        names = [name for number, name in enumerate(partitions.names) if self._needed(number) or process.wants(name)]
        self._expect("subscribe", [name for name in names if not process.takes(name)])

    async def join(self) -> None:
        """Return when this node is a member of every partition that it needs. Raises `StoppedError`.

        A partition that depends on messages of a node that is down cannot be joined until that node is back. So where
        there are several, the node waits for `_JOIN_SOON_S` only; feeds that need the others open later.
        """
        node, process = self._node, self._node.process
        names = [name for _, name in self._asked]
        for name in names:
            if not process.wants(name):
                node.driver.subscribe(name)
        try:
            async with asyncio.timeout(_JOIN_S if node.partitions.count == 1 else _JOIN_SOON_S):
                await self._settled("subscribe", names)
        except TimeoutError:
            waits = "; ".join(process.unfinished())
            if node.partitions.count > 1:
                log.warning("node %d starts without some of its partitions: it %s", node.slot, waits[:2000])
                return
            raise StoppedError(f"node {node.slot} could not join within {_JOIN_S:g} s: it {waits}") from None
        if node.partitions.count == 1:  # else the hub was told with the batch (`changed`)
            node.hub.delivered.update(self.reached(node.partitions.names[0]))

    async def leave(self) -> None:
        """Leave every partition. Return when all members have this node's messages, or after a while."""
        node, process = self._node, self._node.process
        if node.partitions.count > 1:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LEAVE_S):
                    await node.homes.hand_over()
        names = [name for name in node.partitions.names if process.wants(name)]
        self._expect("unsubscribe", names)
        for name in names:
            node.driver.unsubscribe(name)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LEAVE_S):
                await self._settled("unsubscribe", names)
                while any(process.leaving(name) or not self._delivered_elsewhere(name) for name in names):
                    await asyncio.sleep(0.01)

    def _delivered_elsewhere(self, name: str) -> bool:
        """Has a member delivered what this node published in this life? Else it could be lost with this node's slot."""
        node, process = self._node, self._node.process
        last, replicas = process.last_published(name), node.driver.replicas
        others = process.members(name) - {node.slot}  # one that is down comes back: this node does not
        if (
            not others
            or replicas is None
            or not node.protocol.live.forgets
            or node.continuity.had_published(name, last)
        ):
            return True
        return any(replicas.acknowledged(name, peer) >= last for peer in others)

    # -- interest ------------------------------------------------------------------------------------------------------

    def need(self, partitions: Iterable[int], then: Callable[[], None]) -> None:
        """A feed needs these partitions, until `release`. Calls `then` when this node takes all of them."""
        wanted = frozenset(partitions)
        self._feeds.update(wanted)
        self._take(wanted, then)

    def release(self, partitions: Iterable[int]) -> None:
        """A feed that needed these partitions has ended."""
        until = asyncio.get_running_loop().time() + self._node.config.linger_s
        for partition in partitions:
            self._feeds[partition] -= 1
            self._until[partition] = max(until, self._until.get(partition, 0.0))

    def publishes(self, partition: int) -> bool:
        """A release publishes in this partition. Returns whether this node takes it already."""
        if self._node.partitions.count > 1:
            self._until[partition] = asyncio.get_running_loop().time() + self._node.config.linger_s
        return self.takes(partition)

    def wait(self, partition: int, then: Callable[[], None]) -> None:
        """Join this partition, and call `then`."""
        self._take(frozenset((partition,)), then)

    def takes(self, partition: int) -> bool:
        """Does this node take the partition, and mean to go on with it?"""
        name, process = self._node.partitions.names[partition], self._node.process
        return process.takes(name) and process.wants(name)

    def here(self, after: After) -> After:
        """Those of these messages that this node delivers: it takes their partitions, or is about to.

        A partition that it is leaving is none of these.
        """
        if self._node.partitions.count == 1:
            return after
        names, wants = self._node.partitions.names, self._node.process.wants
        mine = {one for one in {split_stream(stream)[0] for stream, _ in after} if wants(names[one])}
        return tuple([one for one in after if split_stream(one[0])[0] in mine])

    def why(self, partition: int) -> list[str]:
        """Why this node takes the partition, in words; nothing: it does not."""
        if not self._node.process.takes(self._node.partitions.names[partition]):
            return []
        found = ["home"] if partition in self.homes else []
        feeds = self._feeds[partition]
        found += [f"{feeds} feed{'' if feeds == 1 else 's'}"] if feeds else []
        if found or self._node.partitions.count == 1:
            return found
        return ["needed lately"] if self.duties.is_passing(partition) else ["former home"]

    async def keep_up(self) -> None:
        """Join partitions that this node becomes a home of; leave those that it has not needed for a while."""
        while self._node.partitions.count > 1:
            await asyncio.sleep(_PAUSE_S)
            self._find_homes()
            now = asyncio.get_running_loop().time()
            process, driver = self._node.process, self._node.driver
            awaited = self._node.hub.awaited
            for partition, name in enumerate(self._node.partitions.names):
                needed = self._needed(partition) or self._until.get(partition, 0.0) > now or partition in awaited
                if needed and not process.wants(name):
                    self._expect("subscribe", [name])
                    driver.subscribe(name)
                elif not needed and self.takes(partition) and self.duties.may_leave(partition):
                    self.duties.left(partition)
                    driver.unsubscribe(name)

    def former(self) -> list[int]:
        """The partitions that this node takes without need, as a former home of them."""
        count, passing = self._node.partitions.count, self.duties.is_passing
        return [one for one in range(count) if self.takes(one) and not passing(one) and not self._needed(one)]

    def _take(self, partitions: frozenset[int], then: Callable[[], None]) -> None:
        process, driver, names = self._node.process, self._node.driver, self._node.partitions.names
        missing = [partition for partition in sorted(partitions) if not self.takes(partition)]
        if not missing:
            then()
            return
        for partition in missing:
            name = names[partition]
            asked = self._asked.get(("subscribe", name))
            if asked is None or asked.done():
                self._expect("subscribe", [name])
            if not process.wants(name):
                self.duties.take_in_passing(partition)
                driver.subscribe(name)
        self._node.tasks.start("joins partitions", self._when_taken([names[one] for one in missing], then))

    async def _when_taken(self, names: list[str], then: Callable[[], None]) -> None:
        await self._settled("subscribe", names)
        then()

    def _needed(self, partition: int) -> bool:
        return self._node.partitions.count == 1 or partition in self.homes or self._feeds[partition] > 0

    def _find_homes(self) -> None:
        count = self._node.partitions.count
        if count > 1:
            self.duties.find_homes(count, self.members(), asyncio.get_running_loop().time())

    @property
    def homes(self) -> frozenset[int]:
        """Partitions of which this node is a home."""
        return self.duties.homes

    def members(self) -> list[int]:
        """The slots of all members of the cluster."""
        return [one.slot for one in self._node.roster.members.values() if not one.left]

    def homes_of(self, partition: int) -> tuple[int, ...]:
        """The homes of a partition."""
        return homes(partition, self.members(), self._node.config.replicas)

    def copies_max(self, partition: int) -> int:
        """On how many other nodes a message can be for good. With several partitions, only its homes keep it."""
        if self._node.partitions.count == 1:
            return len(self._node.roster.others())
        return len(frozenset(self.homes_of(partition)) - {self._node.slot})

    def counts(self, name: str, peer: int) -> bool:
        """Does a copy at `peer` count? In a cluster with several partitions only homes keep a message for good."""
        number = self._node.partitions.number(name)
        return self._node.partitions.count == 1 or peer in self.homes_of(number)

    # -- what the protocol reports -------------------------------------------------------------------------------------

    def changed(self, batch: Batch) -> None:
        """Take note of the memberships in a batch."""
        several = self._node.partitions.count > 1
        for change in batch.changes:
            if change.what != "publish" and self._node.partitions.number(change.topic) >= 0:
                asked = self._asked.get((change.what, change.topic))
                expected = asked is not None and not asked.done()
                if change.what == "subscribe" and (several or not expected or self._node.ready):
                    # Where there is one partition, a node asks for it when it starts only.
                    self._joined(batch, change.topic, change.after, expected and several)
                if asked is not None and expected:
                    asked.set_result(None)

    def _joined(self, batch: Batch, name: str, after: int, asked: bool) -> None:
        """The node joined a partition: as it asked; or anew, since no node has messages any more that it missed."""
        node = self._node
        reached = {node.partitions.stream(name, source): seq for source, seq in batch.reached[name].items()}
        gap = node.hub.gap(batch, after, reached, node.partitions.number(name), joined=asked)
        if not asked:
            log.error("node %d: %s", node.slot, gap.in_words())
        if node.journal is not None and node.partitions.count > 1:
            node.tasks.start("notes what it lacks", node.journal.note_join(gap.as_join(name)))

    def reached(self, name: str) -> dict[int, int]:
        """By stream of the partition called `name`: how far this node is."""
        stream = self._node.partitions.stream
        return {stream(name, source): seq for source, seq in self._node.process.delivered(name).items()}

    def status(self) -> list[dict[str, Any]]:
        """For each partition that this node takes or publishes in: why, its homes and members, and what passed.

        `lag`: by home, how many of this node's messages it lacks. `lacking`: how many earlier ones this node lacks.
        """
        process, counts = self._node.process, self._node.hub.counts
        found = []
        for number, name in enumerate(self._node.partitions.names if self._node.partitions.count > 1 else ()):
            taken, behind = process.takes(name), process.lagging(name)
            if taken or counts.partition_published[number]:
                found.append(
                    {
                        "partition": number,
                        "taken": taken,
                        "why": self.why(number),
                        "homes": list(self.homes_of(number)),
                        "members": sorted(process.members(name)),
                        "delivered": counts.partition_delivered[number],
                        "bytes": counts.partition_bytes[number],
                        "published": counts.partition_published[number],
                        "published_bytes": counts.partition_published_bytes[number],
                        "lag": {home: behind[home] for home in self.homes_of(number) if home in behind},
                        "lacking": self._node.homes.lacking(number),
                    }
                )
        return found

    def _expect(self, what: str, names: list[str]) -> None:
        loop = asyncio.get_running_loop()
        self._asked.update({(what, name): loop.create_future() for name in names})

    async def _settled(self, what: str, names: list[str]) -> None:
        for name in names:
            await asyncio.shield(self._asked[what, name])
