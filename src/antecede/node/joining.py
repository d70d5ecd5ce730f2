"""Joining a cluster: exchange rosters with the nodes that run, and ask one of them for a slot.

An exchange is one short conversation over the port that nodes and clients use (role "roster"). The caller sends its
roster and perhaps asks for a slot; the other side merges it, gives the slot, and answers with its own roster. A
newcomer exchanges rosters with every node it can reach, then asks the node with the lowest slot among them. So slots
are given by one node, as long as newcomers reach the same nodes.

A node without seeds founds a cluster. With seeds, only the first of them founds one, and only when no other seed
answers; the others wait. So a cluster whose nodes all start at once comes up as one.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from antecede.core import ProtocolError, UsageError
from antecede.core.errors import JournalError, RefusedError, StoppedError, UnreachableError
from antecede.node.continuity import Evidence
from antecede.node.roster import Member, Roster
from antecede.wire.address import split_address
from antecede.wire.backoff import Backoff
from antecede.wire.cluster_key import ClusterKey
from antecede.wire.codec import Hello, RecordCodec, Welcome
from antecede.wire.frames import FrameConnection, Owner
from antecede.wire.handshake import greet
from antecede.wire.listener import Tls
from antecede.wire.transport import Reason

log = logging.getLogger("antecede.node")

ROLE: Final = "roster"
SPEAKS: Final = "roster/1"
_BYTES_MAX: Final = 8 * 1024 * 1024
_WAIT_S: Final = 5.0

_Members = Annotated[tuple[Member, ...], Meta(max_length=1 << 16)]


class SlotRequest(msgspec.Struct, frozen=True, array_like=True):
    """Ask for a slot."""

    name: Annotated[str, Meta(max_length=256)]
    key: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
    #: This one, if it is free; −1: any.
    slot: Annotated[int, Meta(ge=-1, lt=1 << 16)] = -1


class RosterTable(msgspec.Struct, frozen=True, array_like=True, tag="table"):
    """The roster of one side. `slots`: how many it takes the cube to have. `request`: from a node without a slot."""

    slots: int
    members: _Members
    request: SlotRequest | None = None
    #: The caller asks what the other side knows of the messages of this slot, its own (`continuity`); −1: it does not.
    about: Annotated[int, Meta(ge=-1, lt=1 << 16)] = -1
    #: The answer to that.
    evidence: Evidence | None = None


CODEC: Final = RecordCodec[RosterTable]((RosterTable,), frame_bytes_max=_BYTES_MAX)


class RosterService:
    """Answers exchanges: merges the roster that comes in, and sends its own."""

    def __init__(
        self,
        roster: Roster,
        heard: Callable[[list[Member]], None],
        evidence: Callable[[int], Awaitable[Evidence]],
        refused: Callable[[FrameConnection, str, str], None],
        *,
        secured: bool,
    ) -> None:
        """`secured`: a caller must show the certificate of a node. `heard` is told of entries that changed, `refused`
        of callers that were turned away. `evidence` says what this node knows of another one's messages.
        """
        self._refused = refused
        self._roster = roster
        self._secured = secured
        self._heard = heard
        self._evidence = evidence
        self._answering: set[asyncio.Task[None]] = set()

    def judge(self, connection: FrameConnection, hello: Hello) -> Callable[[], Owner]:
        if hello.speaks != SPEAKS:
            raise RefusedError(connection.host, Reason.PACKETS, f"we speak {SPEAKS}")
        if self._secured and self._holder(connection) is None:
            raise RefusedError(connection.host, Reason.UNTRUSTED, "only a node of this cluster may claim a slot")
        return lambda: self

    def _holder(self, connection: FrameConnection) -> str | None:
        """The name of the node's certificate that a caller has shown; None: without TLS, or it has shown none."""
        if not self._secured:
            return None
        from antecede.wire.security.tls import holder  # noqa: PLC0415 - cryptography is slow to load

        shown = holder(connection.certificate())
        return None if shown is None or shown.role != "node" else shown.name

    def frame(self, connection: FrameConnection, body: memoryview) -> None:
        for table in CODEC.decode(body):
            if table.slots != self._roster.slots:
                raise ProtocolError(f"the caller has slots = {table.slots}, this node has {self._roster.slots}")
            news = self._roster.merge(table.members)
            request = table.request
            if request is not None:
                given = self._roster.give(request.key, request.name, request.slot, self._holder(connection))
                news += [] if given is None else [given]
            if news:
                self._heard(news)
            task = asyncio.get_running_loop().create_task(self._answer(connection, table.about))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

    async def _answer(self, connection: FrameConnection, about: int) -> None:
        evidence: Evidence | None = None
        if about >= 0:
            with suppress(JournalError, StoppedError):  # a node that cannot look it up does not know
                evidence = await self._evidence(about)
        members = tuple(self._roster.members.values())
        connection.write(CODEC.frame(RosterTable(self._roster.slots, members, None, -1, evidence)))

    def malformed(self, connection: FrameConnection, error: ProtocolError) -> None:
        self._refused(connection, Reason.MALFORMED, f"roster: {error}")

    def writable(self, connection: FrameConnection) -> None:
        """Rosters are small."""

    def closed(self, connection: FrameConnection) -> None:
        """Nothing is kept for a connection."""


class _Exchange:
    """The caller's end of one exchange."""

    def __init__(self, answered: "asyncio.Future[RosterTable]") -> None:
        self.answered = answered

    def frame(self, connection: FrameConnection, body: memoryview) -> None:
        for table in CODEC.decode(body):
            if not self.answered.done():
                self.answered.set_result(table)

    def malformed(self, connection: FrameConnection, error: ProtocolError) -> None:
        self._fail(str(error))

    def writable(self, connection: FrameConnection) -> None:
        """Rosters are small."""

    def closed(self, connection: FrameConnection) -> None:
        self._fail("it closed the connection; do both agree on the number of slots?")

    def _fail(self, why: str) -> None:
        if not self.answered.done():
            self.answered.set_exception(UnreachableError("a node", why))


class RosterClient:
    """Exchanges rosters with other nodes, for one that joins or has joined."""

    def __init__(
        self,
        roster: Roster,
        *,
        cluster: str,
        name: str,
        about: int = -1,
        wanted: int = -1,
        tls: Tls | None = None,
        key: ClusterKey | None = None,
        agreement: Mapping[str, str] | None = None,
    ) -> None:
        """`agreement`: settings on which all nodes must agree; a node whose values differ refuses the exchange.

        `about`: the slot of this node, if it has one already, for others to say what they know of it.
        """
        self.roster = roster
        self.about = about
        #: By address: what that node last knew of the messages of this one. A node speaks for its own slot only.
        self.evidence: dict[str, Evidence] = {}
        self._cluster = cluster
        self._name = name
        self._wanted = wanted
        self._agreement = dict(agreement or {})
        self._tls = tls
        self._key = key

    async def exchange(
        self, address: str, *, me: Member | None = None, request: SlotRequest | None = None
    ) -> list[Member]:
        """Exchange rosters with the node at `address`; return the entries that changed ours.

        `me`: this node's own entry, if it is newer than the roster's. Raises `RefusedError` or `UnreachableError`.
        """
        host, port = split_address(address)
        answered: asyncio.Future[RosterTable] = asyncio.get_running_loop().create_future()
        slot, holder = -1, None

        def adopt(connection: FrameConnection, welcome: Welcome) -> Owner:
            nonlocal slot, holder
            slot = welcome.node
            if self._tls is not None:
                self._tls.check(connection, welcome)
                holder = self._tls.name_in(connection.certificate())
            return _Exchange(answered)

        hello = Hello(cluster=self._cluster, speaks=SPEAKS, role=ROLE, name=self._name, agreement=self._agreement)
        context = None if self._tls is None else self._tls.client
        connection = await greet(
            host, port, hello, adopt, tls=context, timeout_s=_WAIT_S, bytes_max=_BYTES_MAX, key=self._key
        )
        try:
            mine = self.roster.members
            members = tuple((mine if me is None else mine | {me.slot: me}).values())
            connection.write(CODEC.frame(RosterTable(self.roster.slots, members, request, self.about)))
            async with asyncio.timeout(_WAIT_S):
                table = await answered
        except TimeoutError:
            raise UnreachableError(address, "it did not answer") from None
        finally:
            answered.cancel()
            connection.close()
        news = self.roster.merge(table.members)
        owner = None if self._tls is None else self._tls.holder_of(slot)
        if table.evidence is not None and table.evidence.node == slot and owner == holder:  # else asked again later
            self.evidence[address] = table.evidence
        return news

    async def exchange_all(self, addresses: set[str], *, me: Member | None = None) -> tuple[set[str], list[Exception]]:
        """Exchange rosters with all these addresses and with those that the answers name.

        Returns the addresses that answered, and the errors of the others.
        """
        asked: set[str] = set()
        reached: set[str] = set()
        problems: list[Exception] = []
        while addresses - asked:
            todo = sorted(addresses - asked)
            asked.update(todo)
            answers = await asyncio.gather(*[self.exchange(one, me=me) for one in todo], return_exceptions=True)
            for address, answer in zip(todo, answers, strict=True):
                if isinstance(answer, RefusedError | UnreachableError):
                    problems.append(answer)
                elif isinstance(answer, BaseException):
                    raise answer
                else:
                    reached.add(address)
            addresses = addresses | self.roster.addresses()
        return reached, problems

    async def take_slot(self, seeds: tuple[str, ...], own: str) -> Member:
        """This node's entry, with its slot, as the cluster knows it. Waits for a seed, with growing pauses.

        The entry of another key says that this node lost its slot (`Roster.displaced`).
        """
        failures = 0
        backoff = Backoff(random.Random(f"{self._name}/{self.roster.key}"), first_s=0.2)
        while True:
            reached, problems = await self.exchange_all((set(seeds) | self.roster.addresses()) - {own})
            if self.roster.displaced is not None:
                return self.roster.displaced
            refusal = next((one for one in problems if isinstance(one, RefusedError) and _final(one)), None)
            if refusal is not None and not reached:
                raise refusal
            mine = self.roster.mine()
            if mine is None and not reached and (not seeds or own == seeds[0]):
                mine = self.roster.give(self.roster.key, self._name, self._wanted)
            elif mine is None and reached:
                mine = await self._request_slot(reached)
            if mine is not None:
                return mine
            if failures in (0, 5) and not reached:
                log.warning("no seed answers yet (%s); waiting", "; ".join(map(str, problems)))
            failures += 1
            await asyncio.sleep(backoff.pause_s(failures))

    async def _request_slot(self, reached: set[str]) -> Member | None:
        """Ask the node with the lowest slot for one. None: it did not answer; look again."""
        givers = sorted([member for member in self.roster.others() if member.address in reached], key=lambda m: m.slot)
        if not givers:
            return None  # the others are starting, too
        try:
            await self.exchange(givers[0].address, request=SlotRequest(self._name, self.roster.key, self._wanted))
        except UnreachableError:
            return None
        mine = self.roster.mine()
        if mine is None:
            remedy = "forget nodes that are gone for good (antecede cluster forget), or found a cluster with more slots"
            raise UsageError("slots", self.roster.slots, "every slot is taken", remedy)
        return mine


def _final(error: RefusedError) -> bool:
    return error.reason in (Reason.CLUSTER, Reason.VERSION, Reason.UNTRUSTED, Reason.PACKETS, Reason.SETTINGS)
