"""The errors of the printed algorithm, and each of the corrections taken out again, one at a time.

Two printed errors cannot be made here: zero entries taken for equal (line 22), since what is zero is not there, and a
loop that changes what it walks over (line 28). That a publisher does not deliver its own (line 48) and that messages go
back to where they come from (line 9) have a test of their own, in `test_state`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import ClassVar

from antecede.overlay.extended import Extended
from antecede.overlay.graph import BaseGraph
from antecede.protocols.locamu import LoCaMu
from antecede.protocols.locamu.identifiers import Ids, link, receiver_of, sender_of
from antecede.protocols.locamu.log import Entry, Log, Names
from antecede.protocols.locamu.packets import Data
from antecede.protocols.locamu.records import Took
from antecede.protocols.locamu.routing import Routing
from antecede.protocols.locamu.state import State
from antecede.protocols.options import MakeProcess
from antecede.search.locamu import TIMING, Trial, graph_of, members_of


class Mutant(LoCaMu):
    """LoCaMu with another way to change its state."""

    state_type: ClassVar[type[State]] = State
    log_type: ClassVar[type[Log]] = Log
    routing_type: ClassVar[type[Routing]] = Routing

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self.state.__class__ = self.state_type
        self.state.log.__class__ = self.log_type
        self.state.routing.__class__ = self.routing_type


# -- printed ----------------------------------------------------------------------------------------------------------


class _CountsItself(State):
    def take(self, took: Took) -> Entry:
        entry = super().take(took)
        entry.past = entry.past | took.numbers
        return entry


class CountsItself(Mutant):
    """Line 11: the new number enters the message's dependencies. Every receiver waits for what it just got."""

    state_type = _CountsItself


class NotesFirst(Mutant):
    """Line 37 before 38: identifiers are noted, then looked for. Everything is a duplicate."""

    def _take(self, sender: int, data: Data) -> None:
        if not self.state.column.needs(data.past):
            for at, number in data.path.items():
                self.state.column.note(at, number)
        super()._take(sender, data)


class _WaitsForItself(State):
    def take(self, took: Took) -> Entry:
        self._raise_past(took.path)
        return super().take(took)


class WaitsForItself(Mutant):
    """Line 19 before 8: the past a message is passed on with contains the message; the second hop waits for it."""

    state_type = _WaitsForItself


class _Safe(LoCaMu):
    """What is safe, as in print: everything, for nobody says what is not."""

    def _is_safe(self, took: Took, to: int, numberers: Iterable[int]) -> bool:
        return True


class AnyWayIsSafe(_Safe):
    """PATHISSAFE is not defined."""


class _Printed(_CountsItself, _WaitsForItself):
    """Lines 11 and 19."""


class Printed(NotesFirst, AnyWayIsSafe):
    """Algorithm 1, as far as it can be run: all of the above."""

    state_type = _Printed


class _RaisesPast(State):
    def duplicate(self, ids: Ids) -> None:
        self._raise_past(ids)
        super().duplicate(ids)


class DuplicatesRaiseThePast(Mutant):
    """A duplicate does not wait, and its identifiers become past. Who has the third thus claims the first two."""

    state_type = _RaisesPast


class DuplicatesWait(LoCaMu):
    """Lines 33 and 38: a duplicate waits for its past like any copy, and that may be lost for ever."""

    def _take(self, sender: int, data: Data) -> None:
        if needs := self.state.column.needs(data.past):
            self.state.column.hold(sender, data, needs)
        else:
            super()._take(sender, data)


class _KeepsNames(State):
    def _note(self, ids: Ids, entry: Entry | None) -> bool:
        news = super()._note(ids, entry)
        if entry is not None:
            self.changed.pop(entry, None)
        return news


class TellsNobody(Mutant):
    """Lines 21-24: merged identifiers are not passed on."""

    state_type = _KeepsNames


class WaitsForItsSenderOnly(LoCaMu):
    """Line 33: only what the one who sent the copy numbered is waited for."""

    def _take(self, sender: int, data: Data) -> None:
        past = {
            at: number for at, number in data.past.items() if sender_of(at) == sender or receiver_of(at) != self.node
        }
        super()._take(sender, Data(data.message, data.origin, data.whole, data.path, data.alias, past))


class NumbersTooNear(LoCaMu):
    """Identifiers are given f + 1 far, not 2f. Made by `make_mutant`, which builds another graph."""


class NobodyStandsIn(LoCaMu):
    """Nobody passes on, as it was received, what a node that is down should have passed on."""

    def _lacks_as_received(self, entry: Entry, to: int) -> bool:
        return False


class NoRecords(LoCaMu):
    """Names do not travel by themselves. Made by `make_mutant`."""


# -- of our own -------------------------------------------------------------------------------------------------------


class _Nearsighted(State):
    def take(self, took: Took) -> Entry:
        entry = super().take(took)
        around = self.around
        near = {node for node, far in around.distance.items() if far <= around.f}
        entry.past = {at: n for at, n in entry.past.items() if sender_of(at) in near and receiver_of(at) in near}
        return entry


class Nearsighted(Mutant):
    """Dependencies are sent only of what is within f."""

    state_type = _Nearsighted


class _Careless(Log):
    def is_complete(self, entry: Entry) -> bool:
        return True


class ForgetsIncomplete(Mutant):
    """Forgets what everybody has, though a name may still come from those before."""

    log_type = _Careless


class ForgetsUnstable(LoCaMu):
    """Forgets what has been sent."""

    def _collect(self, names: Names) -> None:
        if isinstance(names, Entry) and all(to in names.sent for to in names.targets if to in self._active):
            names.unacked.clear()
        super()._collect(names)


class KeepsNothing(LoCaMu):
    """What it took is not kept: its numbers are given again."""

    def restore(self, records: Iterable[object]) -> None:
        super().restore(record for record in records if not isinstance(record, Took))


class NeverLooksAgain(LoCaMu):
    """A suspicion changes whom to send to, and nothing is sent again for that."""

    def _transmit_all(self, only: int | None = None) -> None:
        pass


class BaseGraphOnly(LoCaMu):
    """Without spare edges: a node that is down cuts the graph."""

    def _transmit(self, entry: Entry, to_whom: Collection[int]) -> None:
        super()._transmit(entry, [to for to in to_whom if to in self.around.neighbours])


class TakesWhatIsLate(LoCaMu):
    """A joiner is given whatever all those relays numbered for it that numbered it at all."""

    def _is_of_our_time(self, sender: int, data: Data) -> bool:
        relays = self.around.before(data.origin, self.node)[-self.around.number :]
        numbered = set(map(sender_of, data.path)).intersection(relays)
        return all(link(relay, self.node) in data.path for relay in numbered)


class _SettlesWithNeighbours(Routing):
    def _settled_towards(self, topic: str, version: int) -> dict[int, int]:
        around = self._around
        waits_for = [n for n in around.neighbours if not self._is_settled_by(n, around.me, topic, version)]
        return {
            neighbour: said.version
            for neighbour in around.neighbours
            if (said := self._heard.get((neighbour, topic))) is not None and waits_for in ([], [neighbour])
        }


class SettlesWithNeighbours(Mutant):
    """A join waits until everybody knows in which direction it is, not until all who number for it know that."""

    routing_type = _SettlesWithNeighbours


def make_mutant(mutant: type[LoCaMu]) -> Callable[[int, Trial], MakeProcess]:
    return lambda seed, trial: mutants(mutant, graph_of(seed, trial), members_of(seed, trial), trial.f)


def mutants(mutant: type[LoCaMu], base: BaseGraph, members: Mapping[str, Collection[int]], f: int) -> MakeProcess:
    """The processes of a system of mutants on this graph."""
    graph = Extended(base, f, number=f + 1 if mutant is NumbersTooNear else None)
    founding = {topic: base.directions(taken) for topic, taken in members.items()}
    return lambda node: mutant(graph.around(node), founding, TIMING, records=mutant is not NoRecords)
