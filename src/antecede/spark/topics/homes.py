"""The nodes of a cluster, as one query or one task sees them: it asks each partition of one of its homes.

A home that does not answer, lacks messages or has not delivered them yet is passed over; the next one is asked. If no
home is left, the query waits for up to `reconnect` seconds, and asks all of them again.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from time import monotonic, sleep
from typing import Final, Generic, NamedTuple, Self, TypeVar

from antecede.client.bulk import BrokenError
from antecede.core import AntecedeError
from antecede.core.errors import RefusedError, StoppedError, UnreachableError
from antecede.core.partitions import Partitions, message_name, split_stream
from antecede.spark.topics.frontiers import Frontier, covers, highest, of_partitions
from antecede.spark.topics.options import Where
from antecede.spark.topics.stores import NodeStore
from antecede.wire.backoff import may_pass
from antecede.wire.bulk import Layout, Plan, Planned

T = TypeVar("T")

log = logging.getLogger("antecede.spark")

#: Between two rounds in which no home answered.
_PAUSE_S: Final = 0.25


class Elsewhere(AntecedeError):
    """A home cannot give what is wanted of some partitions."""

    def __init__(self, partitions: Collection[int], why: str, *, lost: bool = False) -> None:
        super().__init__(why)
        self.partitions = frozenset(partitions)
        #: It never will.
        self.lost = lost


class At(NamedTuple, Generic[T]):
    """What a node answered for some partitions."""

    store: NodeStore
    partitions: tuple[int, ...]
    answer: T


#: Errors of a node that another home may not have.
DOWN: Final = (UnreachableError, RefusedError, BrokenError, StoppedError)


@dataclass(frozen=True)
class Wanted:
    """The messages of these partitions behind one frontier, up to another, and how they are to be divided."""

    partitions: tuple[int, ...]
    had: Frontier
    #: None: as far as there are any.
    until: Frontier | None = None
    rows_max: int = 0
    bytes_max: int = 0
    slice_rows: int = 0
    #: In a cluster with one partition: the positions of both frontiers, by node.
    positions: Mapping[int, int] = field(default_factory=dict)
    lasts: Mapping[int, int] = field(default_factory=dict)

    def question(self, partitions: tuple[int, ...], node: int) -> Plan:
        """What to ask of a node."""
        until = None if self.until is None else tuple(of_partitions(self.until, partitions).items())
        return Plan(
            partitions=partitions,
            had=tuple(of_partitions(self.had, partitions).items()),
            until=until,
            position=self.positions.get(node),
            last=self.lasts.get(node),
            rows_max=self.rows_max,
            bytes_max=self.bytes_max,
            slice_rows=self.slice_rows,
        )


class Homes:
    """A context manager. It dials nodes when they are asked for the first time."""

    def __init__(
        self, where: Where, topics: tuple[str, ...], known: Collection[str] = (), *, patient: bool = True
    ) -> None:
        """`known`: addresses of nodes beside those of the url."""
        self._where = where
        self._topics = topics
        #: The addresses of all nodes that were named or told, host:port each.
        self.known = tuple(dict.fromkeys([*where.addresses, *known]))
        self._patience_s = where.reconnect_s if patient else 0
        self._layout: Layout | None = None
        self._only: int | None = None
        self._stores: dict[int, NodeStore] = {}
        self._by_address: dict[str, NodeStore] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for store in self._by_address.values():
            store.__exit__(*exception)

    @property
    def layout(self) -> Layout:
        """Which nodes there are, and which of them keep which partitions."""
        if self._layout is None:
            self._layout = self._patiently(self._ask_any)
            told = [address for _, address, _ in self._layout.nodes if address]
            self.known = tuple(dict.fromkeys([*self.known, *told]))
        return self._layout

    @property
    def several(self) -> bool:
        """Has the cluster several partitions?"""
        return self.layout.partitions > 1

    def partitions(self) -> tuple[int, ...]:
        """The partitions that may hold a topic which is wanted."""
        every = Partitions(self.layout.partitions, self.layout.levels, "")
        return tuple(sorted(frozenset().union(*[every.of_filter(pattern) for pattern in self._topics])))

    def check(self) -> None:
        """Raise an error if no node can be reached, or these topics are not granted."""
        self.at(self.layout.node).check()

    def at(self, slot: int) -> NodeStore:
        """The node with this slot. Raises `UnreachableError`, `RefusedError`."""
        if slot not in self._stores:
            address = next((address for node, address, _ in self.layout.nodes if node == slot), "")
            if not address:
                raise UnreachableError(f"node {slot}", "it is not in the cluster any more, or has no address")
            store = self.dial(address)
            if store.node != slot:
                raise UnreachableError(address, f"it is node {store.node}, not {slot}")
            self._stores[slot] = store
        return self._stores[slot]

    def dial(self, address: str) -> NodeStore:
        """The node at this address."""
        store = self._by_address.get(address)
        if store is None:
            store = NodeStore(replace(self._where, url=f"antecede://{address}"), self._topics, patient=False)
            store.__enter__()
            self._by_address[address] = store
            self._stores[store.node] = store
        return store

    def stay_at(self, node: int | None) -> None:
        """Ask this node only; None: any home."""
        self._only = node

    def forget(self, address: str) -> None:
        """`hang_up` by address, if that was dialled."""
        if address in self._by_address:
            self.hang_up(self._by_address[address])

    def hang_up(self, store: NodeStore) -> None:
        """The connection broke. The node is dialled again when it is asked the next time."""
        self._stores = {slot: one for slot, one in self._stores.items() if one is not store}
        self._by_address = {address: one for address, one in self._by_address.items() if one is not store}
        store.__exit__(None, None, None)

    # -- asking the homes of partitions --------------------------------------------------------------------------------

    def each(
        self,
        partitions: Collection[int],
        ask: Callable[[NodeStore, tuple[int, ...]], T],
        prefer: Mapping[int, int] | None = None,
    ) -> list[At[T]]:
        """Call `ask` for all partitions, in groups, each at a home. `prefer`: by partition, a node to ask first.

        `ask` raises `Elsewhere` for partitions that must be asked at another home. Raises that, or `UnreachableError`,
        for a partition of which no home can answer.
        """
        found: list[At[T]] = []
        todo = set(partitions)
        passed: dict[tuple[int, int], Exception] = {}
        deadline = monotonic() + self._patience_s
        while todo:
            groups, stuck = self._assign(todo, passed, prefer or {})
            if stuck is not None:
                self._give_up(stuck, passed, at_once=monotonic() >= deadline)
                passed.clear()
                self._layout = None
                sleep(_PAUSE_S)
                continue
            for slot, group in groups.items():
                try:
                    store = self.at(slot)
                    found.append(At(store, group, ask(store, group)))
                    todo.difference_update(group)
                except Elsewhere as why:
                    passed.update({(slot, partition): why for partition in why.partitions})
                except DOWN as error:
                    if not may_pass(error):
                        raise
                    passed.update({(slot, partition): error for partition in range(self.layout.partitions)})
                    if slot in self._stores:
                        self.hang_up(self._stores[slot])
        return found

    def plan(self, wanted: Wanted, prefer: Mapping[int, int]) -> list[At[Planned]]:
        """`Plan` at the homes of its partitions. All messages up to `until`, if that is given, are there by now.

        Messages that no home has at a position are in the answer (`Planned.lacking`).
        """
        tolerated: set[int] = set()

        def ask(store: NodeStore, partitions: tuple[int, ...]) -> Planned:
            planned = store.plan(wanted.question(partitions, store.node))
            lacking = {split_stream(stream)[0] for stream, _, _ in planned.lacking} - tolerated
            if lacking:
                raise Elsewhere(lacking, in_words(planned.lacking), lost=True)
            reached = highest(wanted.had, dict(planned.present))
            behind = [one for one in partitions if not covers(reached, of_partitions(wanted.until or {}, [one]))]
            if behind:
                names = ", ".join(f"p{one}" for one in behind)
                raise Elsewhere(behind, f"node {store.node} has not delivered all of {names} yet")
            return planned

        while True:
            try:
                return self.each(wanted.partitions, ask, prefer)
            except Elsewhere as error:
                tolerated |= error.partitions

    def _assign(
        self, todo: Collection[int], passed: Mapping[tuple[int, int], Exception], prefer: Mapping[int, int]
    ) -> tuple[dict[int, tuple[int, ...]], int | None]:
        """Which node to ask for which of these partitions; and a partition for which there is no node, if any.

        Partitions are spread evenly over the homes that are up.
        """
        layout = self.layout
        up = {slot for slot, _, is_up in layout.nodes if is_up}
        groups: dict[int, list[int]] = {}
        for partition in sorted(todo):
            left = [slot for slot in self._homes_of(partition) if (slot, partition) not in passed]
            left = [slot for slot in left if slot in up] or left
            if not left:
                return {}, partition
            contact = layout.node if layout.partitions == 1 else -1
            wanted = next((slot for slot in (prefer.get(partition, -1), contact) if slot in left), None)
            chosen = min(left, key=lambda slot: len(groups.get(slot, ()))) if wanted is None else wanted
            groups.setdefault(chosen, []).append(partition)
        return {slot: tuple(group) for slot, group in groups.items()}, None

    def _homes_of(self, partition: int) -> tuple[int, ...]:
        if self._only is not None:
            return (self._only,)
        return self.layout.homes[partition] if partition < len(self.layout.homes) else ()

    def _give_up(self, partition: int, passed: Mapping[tuple[int, int], Exception], *, at_once: bool) -> None:
        """Raise why no home can answer for this partition, if that is certain or there is no time left."""
        homes = self._homes_of(partition)
        reasons = [passed[slot, partition] for slot in homes]
        lost = [why for why in reasons if isinstance(why, Elsewhere) and why.lost]
        if lost:  # it can ask the others by stream and number
            raise Elsewhere([partition], str(lost[0]), lost=True)
        if at_once:
            names = ", ".join(map(str, homes))
            why = "; ".join(dict.fromkeys(map(str, reasons))) or "there are none"
            raise UnreachableError(f"a home of partition p{partition} (nodes {names})", why)

    def _ask_any(self) -> Layout:
        """The layout, from the first node that answers."""
        problem: AntecedeError | None = None
        for address in self.known:
            try:
                return self.dial(address).layout()
            except DOWN as error:
                problem = error if problem is None or not may_pass(error) else problem
                self.forget(address)
        assert problem is not None
        raise problem

    def _patiently(self, attempt: Callable[[], T]) -> T:
        deadline = monotonic() + self._patience_s
        while True:
            try:
                return attempt()
            except DOWN as error:
                if not may_pass(error) or monotonic() >= deadline:
                    raise
            sleep(_PAUSE_S)


def in_words(lacking: Collection[tuple[int, int, int]]) -> str:
    """Messages that are missing, by name."""
    some = [
        message_name(at, first) if first == last else f"{message_name(at, first)} to {message_name(at, last)}"
        for at, first, last in list(lacking)[:5]
    ]
    more = f" and {len(lacking) - 5} more ranges" if len(lacking) > 5 else ""
    return f"messages {', '.join(some)}{more} are at none of their homes: retention removed them, or they were lost"
