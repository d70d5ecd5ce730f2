"""Errors that homes which change could have made, one at a time. Each patches `protocols.homes` while a run lasts."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from antecede.protocols.homes.copies import Copies
from antecede.protocols.homes.duties import Duties
from antecede.protocols.homes.reading import Candidates, Found, read_elsewhere
from antecede.protocols.homes.records import HomeState, ReadStream, Steps
from antecede.search import homes as search_homes


@contextmanager
def lets_go_too_early() -> Iterator[None]:
    """A former home leaves as soon as it is none any more, though the homes have yet to fetch the past."""
    with patch.object(Duties, "_is_free", lambda self, partition: True):
        yield


@contextmanager
def calls_every_member_whole() -> Iterator[None]:
    """A home says that it is whole when it has joined, though it has yet to fetch the past."""
    state = Duties.state

    def hasty(self: Duties, number: int, partition: int, *, lacks: bool, **known: Any) -> HomeState:
        del lacks
        return state(self, number, partition, lacks=False, **known)

    with patch.object(Duties, "state", hasty):
        yield


@contextmanager
def trusts_nodes_that_leave() -> Iterator[None]:
    """Two nodes that leave the cluster at a time rely on each other."""
    state = Duties.state

    def stays(self: Duties, number: int, partition: int, **known: Any) -> HomeState:
        goes, self._goes = self._goes, False
        try:
            return state(self, number, partition, **known)
        finally:
            self._goes = goes

    with patch.object(Duties, "state", stays), patch.object(Duties, "leaving", lambda self, now: frozenset()):
        yield


@contextmanager
def counts_floors_as_copies() -> Iterator[None]:
    """A message that predates the join of a home counts as kept there."""
    with patch.object(Copies, "keeps", lambda self, peer, seq: seq <= self.reached.get(peer, 0)):
        yield


@contextmanager
def takes_silence_for_no() -> Iterator[None]:
    """A message is taken for gone though a home or member that may have it did not answer."""

    def sure(question: ReadStream, candidates: Candidates, trusts: Any) -> Steps[Found]:
        found = yield from read_elsewhere(question, candidates, trusts)
        return found._replace(certain=True)

    with patch("antecede.protocols.homes.reading.read_elsewhere", sure):
        yield


@contextmanager
def reads_no_past() -> Iterator[None]:
    """A new home takes itself for whole without fetching anything."""

    def nothing(*about: object) -> Steps[bool]:
        del about
        yield from ()
        return True

    with patch.object(search_homes, "fetch", nothing):
        yield
