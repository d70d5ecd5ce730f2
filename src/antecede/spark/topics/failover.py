"""Publishes batches at one of several nodes, so that a sink goes on when a node is down.

The nodes that `url` names vote on each batch (`client.claims`): a majority agrees on the node that publishes it, before
that node begins. Tasks stage their rows at two of the nodes. So if one of them is lost, the batch goes on at the other,
unless the lost one was agreed on: it may have published some of the batch already, and the query waits for it.
"""

import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar

from antecede.core import AntecedeError
from antecede.core.errors import DeniedError, RefusedError, UnreachableError
from antecede.core.message import Dependency
from antecede.spark.topics.options import SinkOptions, Where
from antecede.spark.topics.stores import call
from antecede.wire.backoff import may_pass
from antecede.wire.bulk import (
    UNNAMED,
    Answer,
    Claim,
    Discard,
    Done,
    ExtentQuery,
    ExtentReply,
    Fetch,
    Fetched,
    Question,
    Release,
    Settle,
    Stage,
    Vote,
)

if TYPE_CHECKING:
    from antecede.client.bulk import Caller

A = TypeVar("A", bound=Answer)
T = TypeVar("T")

log = logging.getLogger("antecede.spark")

#: Nodes at which rows are staged.
_COPIES: Final = 2
_PAUSE_S: Final = 0.5


@dataclass(frozen=True)
class Part:
    """Rows that a task has staged, and the addresses of the nodes that have all of them."""

    name: str
    stages: int
    nodes: tuple[str, ...]


def choose_nodes(where: Where, *, patient: bool) -> tuple[str, ...]:
    """The addresses of the nodes at which to stage rows: the first ones that answer and grant access.

    Raises the error of the last node if none does, with `patient` after the time that a query waits.
    """
    if len(where.addresses) == 1:
        with call(where, patient=patient) as caller:
            caller.ask(ExtentQuery(), ExtentReply)
        return where.addresses

    def choose() -> tuple[str, ...]:
        chosen: list[str] = []
        failed: AntecedeError | None = None
        for address in where.addresses:
            try:
                with call(_one(where, address), patient=False) as caller:
                    caller.ask(ExtentQuery(), ExtentReply)
            except AntecedeError as error:
                failed = error
            else:
                chosen.append(address)
            if len(chosen) == _COPIES:
                break
        if failed is not None and not chosen:
            raise failed
        return tuple(chosen)

    return _patiently(choose, where.reconnect_s if patient else 0, f"none of {where} answers")


class Copies:
    """Stages the rows of a task at several nodes. A node that fails is left out; the last one is waited for."""

    def __init__(self, where: Where, addresses: Sequence[str]) -> None:
        self._where, self._addresses = where, addresses
        self._callers: dict[str, Caller] = {}

    def __enter__(self) -> Self:
        for address in self._addresses if len(self._addresses) > 1 else ():
            try:
                self._callers[address] = call(_one(self._where, address), patient=False).__enter__()
            except AntecedeError as error:
                self._told(address, error)
        if not self._callers:
            last = self._addresses[0]
            self._callers[last] = call(_one(self._where, last)).__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for caller in self._callers.values():
            caller.__exit__(kind, error, trace)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that have everything so far."""
        return tuple(self._callers)

    def stage(self, stage: Stage) -> None:
        for address, caller in list(self._callers.items()):
            try:
                caller.ask(stage, Done)
            except AntecedeError as error:
                del self._callers[address]
                caller.__exit__(None, None, None)
                if self._callers:
                    self._told(address, error)
                    continue
                # It has the stages before this one, on its disk.
                self._callers[address] = call(_one(self._where, address)).__enter__()
                self._callers[address].ask(stage, Done)

    def _told(self, address: str, error: AntecedeError) -> None:
        log.warning("%s: rows are staged without it (%s)", address, error)


def publish(options: SinkOptions, producer: str, batch: int, parts: Sequence[Part]) -> None:
    """Publish the batch, part after part, at the node that the voters agree on. Called on the driver."""
    from antecede.client.claims import Voters  # noqa: PLC0415 - asyncio is slow to load

    with _Nodes(options) as nodes:
        if len(options.where.addresses) == 1:
            nodes.release(options.where.addresses[0], producer, batch, parts)
            return
        liked = nodes.liked(parts)
        if producer.startswith(UNNAMED):  # it is published by this call or never
            nodes.release(liked, producer, batch, parts)
            nodes.discard(parts)
            return
        voters = Voters(producer, options.where.addresses, nodes.vote)
        what = f"batch {batch} of {producer}"

        def settled(number: int, rows: Sequence[Part]) -> int | None:
            """Publish a batch. Returns the number of one that must be published before it, if there is one."""
            agreed = nodes.patiently(lambda: voters.agree(number, liked), f"{what} is not agreed on")
            if agreed.node:
                ends = nodes.release(agreed.node, producer, number, rows, agreed.after, claimed=True)
                nodes.patiently(lambda: voters.settle(number, agreed.node, ends), f"{what} is published, not settled")
            return agreed.earlier

        while (earlier := settled(batch, parts)) is not None:
            settled(earlier, ())  # if its node has not begun it, its rows are lost, and it is settled without any
        nodes.discard(parts)


def discard_parts(options: SinkOptions, parts: Sequence[Part]) -> None:
    """Free the disks of the nodes that have these parts."""
    with _Nodes(options) as nodes:
        nodes.discard(parts)


class _Nodes:
    """Connections to the nodes that `url` names."""

    def __init__(self, options: SinkOptions) -> None:
        self._options, self._where = options, options.where
        self._callers: dict[str, Caller] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for address in list(self._callers):
            self._close(address)

    def patiently(self, do: Callable[[], T], what: str) -> T:
        return _patiently(do, self._where.reconnect_s, what)

    def liked(self, parts: Sequence[Part]) -> str:
        """The first node that answers and has most of the parts."""
        ranked = sorted(self._where.addresses, key=lambda address: -sum(address in part.nodes for part in parts))

        def find() -> str:
            for address in ranked:
                if self._try(address, ExtentQuery(), ExtentReply) is not None:
                    return address
            raise UnreachableError(str(self._where), "none of its nodes answers")

        return self.patiently(find, f"none of {self._where} answers")

    def vote(self, address: str, question: Claim | Settle) -> Vote | None:
        return self._try(address, question, Vote)

    def release(
        self,
        address: str,
        producer: str,
        batch: int,
        parts: Sequence[Part],
        after: tuple[Dependency, ...] = (),
        *,
        claimed: bool = False,
    ) -> tuple[Dependency, ...]:
        """Let this node publish the batch, and no other. Returns its last messages then."""
        patience_s = self._options.patience_s
        what = f"batch {batch} of {producer} is to be published by {address}, which alone knows how far it is"
        self._await(address, what)
        for part in parts:
            if address not in part.nodes:
                self._copy(part, address)
        names = tuple((part.name, part.stages) for part in parts)
        question = Release(producer, batch, names, patience_s * 1000, after, claimed)
        with call(_one(self._where, address)) as caller:
            return caller.ask(question, Done, within_s=patience_s + 60.0).ends

    def _copy(self, part: Part, address: str) -> None:
        """Stage a part at another node."""
        for index in range(part.stages):
            rows = self.patiently(lambda index=index: self._fetch(part, index), f"no node has part {part.name}")  # type: ignore[misc]
            with call(_one(self._where, address)) as caller:
                caller.ask(Stage(part.name, index, rows), Done)

    def _fetch(self, part: Part, index: int) -> bytes:
        for address in part.nodes:
            found = self._try(address, Fetch(part.name, index), Fetched)
            if found is not None:
                return found.rows
        raise UnreachableError(", ".join(part.nodes), f"none of them gives part {part.name}")

    def discard(self, parts: Sequence[Part]) -> None:
        """Free the disks of nodes that answer. Others forget parts after a day."""
        for address in self._where.addresses:
            names = tuple(part.name for part in parts if address in part.nodes)
            if names:
                self._try(address, Discard(names), Done)

    def _await(self, address: str, what: str) -> None:
        """Return when the node answers. A query that waits says so in its log."""

        def dial() -> None:
            if self._try(address, ExtentQuery(), ExtentReply) is None:
                raise UnreachableError(address, "it does not answer")

        self.patiently(dial, what)

    def _try(self, address: str, question: Question, answer: type[A]) -> A | None:
        """The node's answer; None if it does not answer now, or has failed."""
        try:
            if address not in self._callers:
                self._callers[address] = call(_one(self._where, address), patient=False).__enter__()
            return self._callers[address].ask(question, answer)
        except DeniedError:
            raise
        except AntecedeError as error:
            if isinstance(error, RefusedError) and not may_pass(error):
                raise
            log.info("%s: %s", address, error)
            self._close(address)
            return None

    def _close(self, address: str) -> None:
        caller = self._callers.pop(address, None)
        if caller is not None:
            caller.__exit__(None, None, None)


def _one(where: Where, address: str) -> Where:
    return replace(where, url=f"antecede://{address}")


def _patiently(do: Callable[[], T], patience_s: float, what: str) -> T:
    """Call `do` until it succeeds, for as long as a query waits for nodes."""
    from antecede.client.claims import LostRoundError  # noqa: PLC0415 - asyncio is slow to load

    deadline = time.monotonic() + patience_s
    told = False
    while True:
        try:
            return do()
        except LostRoundError:
            time.sleep(random.uniform(0, 0.05))
        except (UnreachableError, RefusedError) as error:
            if not may_pass(error) or time.monotonic() + _PAUSE_S > deadline:
                raise
            if not told:
                log.warning("%s: %s; waiting up to %g s", what, error, patience_s)
                told = True
            time.sleep(_PAUSE_S)
