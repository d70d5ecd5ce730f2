"""Taking a place: swapping tables with those who are there, and asking one of them for a place.

One short conversation at a time, over the port that nodes and clients use (role "roster"): the caller sends its table
and perhaps a wish for a place; the other merges, fulfils the wish, and answers with its own table. A newcomer asks
everybody it can reach, so that it knows all, and has its place from the lowest among them: so places are given by one
node, as long as newcomers see the same nodes.

A node without seeds founds a cluster. With seeds, only the first of them founds one, and only when no other answers:
the others wait. So a cluster that starts all at once comes up as one.
"""

import asyncio
import logging
import random
import ssl
from collections.abc import Callable
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from antecede.core import ProtocolError, UsageError
from antecede.core.errors import RefusedError, UnreachableError
from antecede.node.roster import Member, Roster
from antecede.wire.address import split_address
from antecede.wire.backoff import Backoff
from antecede.wire.codec import Hello, RecordCodec, Welcome
from antecede.wire.frames import FrameConnection, Owner
from antecede.wire.handshake import greet
from antecede.wire.transport import Reason

log = logging.getLogger("antecede.node")

ROLE: Final = "roster"
SPEAKS: Final = "roster/1"
_BYTES_MAX: Final = 8 * 1024 * 1024
_WAIT_S: Final = 5.0

_Members = Annotated[tuple[Member, ...], Meta(max_length=1 << 16)]


class Wish(msgspec.Struct, frozen=True, array_like=True):
    """Give me a place."""

    name: Annotated[str, Meta(max_length=256)]
    key: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
    #: This one, if it is free; −1: any.
    place: Annotated[int, Meta(ge=-1, lt=1 << 16)] = -1


class Table(msgspec.Struct, frozen=True, array_like=True, tag="table"):
    """What one side knows. `slots`: how large it takes the cube to be."""

    slots: int
    members: _Members
    wish: Wish | None = None


CODEC: Final = RecordCodec[Table]((Table,), frame_bytes_max=_BYTES_MAX)


class RosterService:
    """Answers tables with tables."""

    def __init__(self, roster: Roster, slots: int, heard: Callable[[list[Member]], None], *, secured: bool) -> None:
        """`secured`: only who shows the certificate of a node may speak."""
        self._roster = roster
        self._secured = secured
        self._slots = slots
        self._heard = heard

    def judge(self, connection: FrameConnection, hello: Hello) -> Callable[[], Owner]:
        if hello.speaks != SPEAKS:
            raise RefusedError(connection.host, Reason.PACKETS, f"we speak {SPEAKS}")
        if self._secured:
            from antecede.wire.security.tls import holder  # noqa: PLC0415 - cryptography is slow to load

            shown = holder(connection.certificate())
            if shown is None or shown.role != "node":
                raise RefusedError(connection.host, Reason.UNTRUSTED, "only a node of this cluster may claim a place")
        return lambda: self

    def frame(self, connection: FrameConnection, body: memoryview) -> None:
        for table in CODEC.decode(body):
            if table.slots != self._slots:
                raise ProtocolError(f"a cube of {table.slots} places, ours has {self._slots}")
            news = self._roster.merge(table.members)
            if table.wish is not None:
                given = self._roster.give(table.wish.key, table.wish.name, self._slots, table.wish.place)
                news += [] if given is None else [given]
            if news:
                self._heard(news)
        connection.write(CODEC.frame(Table(self._slots, tuple(self._roster.members.values()))))

    def malformed(self, connection: FrameConnection, error: ProtocolError) -> None:
        log.warning("a node at %s: %s", connection.host, error)

    def writable(self, connection: FrameConnection) -> None:
        """Tables are small."""

    def closed(self, connection: FrameConnection) -> None:
        """Nothing to tidy."""


class _Asker:
    """Owns the connection of one question."""

    def __init__(self, answered: "asyncio.Future[Table]") -> None:
        self.answered = answered

    def frame(self, connection: FrameConnection, body: memoryview) -> None:
        for table in CODEC.decode(body):
            if not self.answered.done():
                self.answered.set_result(table)

    def malformed(self, connection: FrameConnection, error: ProtocolError) -> None:
        self._fail(str(error))

    def writable(self, connection: FrameConnection) -> None:
        """Tables are small."""

    def closed(self, connection: FrameConnection) -> None:
        self._fail("it closed the connection; do both agree on the number of slots?")

    def _fail(self, why: str) -> None:
        if not self.answered.done():
            self.answered.set_exception(UnreachableError("a node", why))


class Introduction:
    """This node's side of it."""

    def __init__(
        self,
        roster: Roster,
        *,
        cluster: str,
        slots: int,
        name: str,
        place: int = -1,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.roster = roster
        self._cluster = cluster
        self._slots = slots
        self._name = name
        self._place = place
        self._tls = tls

    async def ask(self, address: str, *, me: Member | None = None, wish: Wish | None = None) -> list[Member]:
        """Swap tables with whoever is at `address`; what was new. Raises `RefusedError` or `UnreachableError`."""
        host, port = split_address(address)
        answered: asyncio.Future[Table] = asyncio.get_running_loop().create_future()

        def adopt(connection: FrameConnection, welcome: Welcome) -> Owner:
            return _Asker(answered)

        hello = Hello(cluster=self._cluster, speaks=SPEAKS, role=ROLE, name=self._name)
        connection = await greet(host, port, hello, adopt, tls=self._tls, timeout_s=_WAIT_S, bytes_max=_BYTES_MAX)
        try:
            mine = self.roster.members
            members = tuple((mine if me is None else mine | {me.slot: me}).values())
            connection.write(CODEC.frame(Table(self._slots, members, wish)))
            async with asyncio.timeout(_WAIT_S):
                table = await answered
        except TimeoutError:
            raise UnreachableError(address, "it did not answer") from None
        finally:
            answered.cancel()
            connection.close()
        return self.roster.merge(table.members)

    async def ask_all(self, addresses: set[str], *, me: Member | None = None) -> tuple[set[str], list[Exception]]:
        """Ask everybody, those included whom others tell of. Who answered, and what went wrong with the rest."""
        asked: set[str] = set()
        reached: set[str] = set()
        problems: list[Exception] = []
        while addresses - asked:
            todo = sorted(addresses - asked)
            asked.update(todo)
            answers = await asyncio.gather(*[self.ask(one, me=me) for one in todo], return_exceptions=True)
            for address, answer in zip(todo, answers, strict=True):
                if isinstance(answer, RefusedError | UnreachableError):
                    problems.append(answer)
                elif isinstance(answer, BaseException):
                    raise answer
                else:
                    reached.add(address)
            addresses = addresses | self._known()
        return reached, problems

    async def take_place(self, seeds: tuple[str, ...], own: str, incarnation: int) -> Member:
        """This node's place. Waits, with growing pauses, for a seed to answer."""
        failures = 0
        backoff = Backoff(random.Random(f"{self._name}/{incarnation}"), first_s=0.2)
        while True:
            reached, problems = await self.ask_all((set(seeds) | self._known()) - {own})
            refusal = next((one for one in problems if isinstance(one, RefusedError) and _final(one)), None)
            if refusal is not None and not reached:
                raise refusal
            place = self.roster.mine()
            if place is None and not reached and (not seeds or own == seeds[0]):
                place = self.roster.give(self.roster.key, self._name, self._slots, self._place)
            elif place is None and reached:
                place = await self._wish(reached)
            if place is not None:
                return msgspec.structs.replace(place, name=self._name, incarnation=incarnation, address="")
            if failures in (0, 5) and not reached:
                log.warning("no seed answers yet (%s); waiting", "; ".join(map(str, problems)))
            failures += 1
            await asyncio.sleep(backoff.pause_s(failures))

    async def _wish(self, reached: set[str]) -> Member | None:
        """Have a place from the lowest node there is. None: it did not answer, look again."""
        givers = sorted([member for member in self.roster.others() if member.address in reached], key=lambda m: m.slot)
        if not givers:
            return None  # they are starting themselves
        try:
            await self.ask(givers[0].address, wish=Wish(self._name, self.roster.key, self._place))
        except UnreachableError:
            return None
        place = self.roster.mine()
        if place is None:
            remedy = "start the cluster with more slots"
            raise UsageError("slots", self._slots, "all places of the cube are or were taken", remedy)
        return place

    def _known(self) -> set[str]:
        return {member.address for member in self.roster.others() if member.address}


def _final(error: RefusedError) -> bool:
    return error.reason in (Reason.CLUSTER, Reason.VERSION, Reason.UNTRUSTED, Reason.PACKETS)
