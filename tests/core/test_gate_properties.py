"""The gate against one too simple to be wrong, on random operations; then what a message may cost."""

import sys
from collections.abc import Callable, Sequence
from types import FrameType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.core import Gate, Verdict
from antecede.core.gate import Need, Stream
from antecede.core.gate import __file__ as GATE_FILE

# -- a gate too simple to be wrong ------------------------------------------------------------------------------------


class Header:
    """A message of the differential test."""

    def __init__(self, name: int, pos: Sequence[Need], needs: Sequence[Need]) -> None:
        self.name, self.pos, self.needs = name, list(pos), list(needs)


class SlowGate:
    """Keeps everything, works every number out from scratch and looks at all that is held every time."""

    def __init__(self, contiguous: bool, held_max: int) -> None:
        self.contiguous, self.held_max = contiguous, held_max
        self.done: set[Need] = set()
        self.skipped: set[Need] = set()
        self.void: set[Need] = set()
        self.floors: dict[Stream, int] = {}
        self.inside: list[Header] = []

    def level(self, stream: Stream) -> int:
        top = self.floors.get(stream, 0)
        if not self.contiguous:
            return max([top, *(n for s, n in self.done if s == stream)])
        while (stream, top + 1) in self.done:
            top += 1
        return top

    def is_inside(self, where: Need) -> bool:
        return any(where in header.pos for header in self.inside)

    def may_go(self, header: Header) -> bool:
        needs = list(header.needs)
        if self.contiguous:
            needs += [(stream, n - 1) for stream, n in header.pos]
        return all(self.level(stream) >= n for stream, n in needs)

    def before_our_time(self, where: Need) -> bool:
        return where[1] <= self.floors.get(where[0], 0)

    def offer(self, header: Header) -> Verdict:
        news = [where for where in header.pos if not self.before_our_time(where)] or header.pos
        for where in news:
            if where[1] <= self.level(where[0]) or where in self.done or self.is_inside(where):
                return Verdict.LATE if where in self.skipped else Verdict.DUPLICATE
        header = Header(header.name, news, header.needs)
        if not self.may_go(header) and self.held() >= self.held_max:
            return Verdict.FULL
        self.inside.append(header)
        return Verdict.READY if self.may_go(header) else Verdict.WAITING

    def held(self) -> int:
        return sum(not self.may_go(header) for header in self.inside)

    def sort_out(self) -> None:
        """Take out, again and again, what has its turn and is not to be delivered."""
        for header in self.inside:
            if not self.may_go(header):
                continue
            if any(where in self.void for where in header.pos) or all(map(self.before_our_time, header.pos)):
                self.inside.remove(header)
                self.done.update(header.pos)
                return self.sort_out()
        return None

    def follow(self, delivered: Sequence[int]) -> None:
        """The real gate delivered these: each must have its turn, and nobody else may have one afterwards."""
        self.sort_out()
        for name in delivered:
            header = next((header for header in self.inside if header.name == name), None)
            assert header is not None, f"{name} was delivered and is not held"
            assert self.may_go(header), f"{name} was delivered before what it needs"
            self.inside.remove(header)
            self.done.update(header.pos)
            self.sort_out()
        left = [header.name for header in self.inside if self.may_go(header)]
        assert not left, f"{left} could have been delivered"

    def floor(self, stream: Stream, n: int) -> None:
        self.floors[stream] = max(n, self.floors.get(stream, 0))

    def skip(self, stream: Stream, n: int) -> None:
        for position in range(self.level(stream) + 1, n + 1):
            where = (stream, position)
            if self.is_inside(where):
                if not self.contiguous:
                    return
            elif where not in self.done:
                self.skipped.add(where)
                self.done.add(where)

    def mark_settled(self, stream: Stream, n: int) -> None:
        self.skipped.discard((stream, n))
        if self.is_inside((stream, n)):
            self.void.add((stream, n))
        self.done.add((stream, n))


STREAMS, LAST = "abc", 5
streams = st.sampled_from(STREAMS)
numbers = st.integers(1, LAST)
places = st.tuples(streams, numbers)
one_or_two_places = st.lists(places, min_size=1, max_size=2, unique_by=lambda where: where[0])
operation = st.one_of(
    st.tuples(st.just("offer"), one_or_two_places, st.lists(places, max_size=3)),
    st.tuples(st.just("offer"), st.lists(places, min_size=1, max_size=1), st.just([])),
    st.tuples(st.just("again"), st.integers(0, 50)),
    st.tuples(st.sampled_from(["floor", "skip", "mark_settled"]), streams, numbers),
    st.just(("drain",)),
)
# As many long runs as short ones: lists left to themselves are short.
operations = st.integers(0, 50).flatmap(lambda count: st.lists(operation, min_size=count, max_size=count))


def check_against_slow_gate(steps: Sequence[tuple[object, ...]], contiguous: bool, held_max: int) -> None:
    gate: Gate[int] = Gate(contiguous=contiguous, held_max=held_max)
    slow = SlowGate(contiguous, held_max)
    offered: list[Header] = []
    delivered: list[int] = []
    # In the end, offer something at every place there is: its verdict shows what the gate remembers of it.
    probes = [("offer", [(stream, n)], []) for stream in STREAMS for n in range(LAST, 0, -1)]
    for step in (*steps, ("drain",), *probes, ("drain",)):
        match step:
            case ("offer", list() as pos, list() as needs):
                offered.append(Header(len(offered), pos, needs))
                _same_verdict(gate, slow, offered[-1])
            case ("again", int() as which) if offered:
                _same_verdict(gate, slow, offered[which % len(offered)])
            case ("floor" | "skip" | "mark_settled" as what, stream, n):
                getattr(gate, what)(stream, n)
                getattr(slow, what)(stream, n)
            case ("drain",):
                out = gate.drain()
                slow.follow(out)
                delivered += out
        assert gate.held == slow.held()
        for stream in STREAMS:
            assert gate.reached(stream) == slow.level(stream)
        missing = gate.missing()
        assert bool(missing) == (gate.held > 0)
        assert all(n > gate.reached(stream) for stream, n in missing.items())
    assert len(delivered) == len(set(delivered)), "something was delivered twice"


def _same_verdict(gate: Gate[int], slow: SlowGate, header: Header) -> None:
    verdict = gate.offer(header.name, header.pos, header.needs)
    assert verdict is slow.offer(header)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(operations, st.booleans(), st.sampled_from([1, 3, 100]))
def test_same_as_a_gate_that_rescans_everything(
    steps: list[tuple[object, ...]], contiguous: bool, held_max: int
) -> None:
    check_against_slow_gate(steps, contiguous, held_max)


@pytest.mark.slow
@settings(max_examples=5000, deadline=None)
@given(operations, st.booleans(), st.sampled_from([1, 3, 100]))
def test_same_as_a_gate_that_rescans_everything_long_search(
    steps: list[tuple[object, ...]], contiguous: bool, held_max: int
) -> None:
    check_against_slow_gate(steps, contiguous, held_max)


# -- what a message costs ---------------------------------------------------------------------------------------------


class CountingLevels(dict[Stream, int]):
    """Counters that count how often they are read."""

    reads = 0

    def get(self, stream: Stream, default: int = 0) -> int:  # type: ignore[override]
        self.reads += 1
        return super().get(stream, default)


def counting_gate(**options: bool) -> tuple[Gate[str], CountingLevels]:
    gate: Gate[str] = Gate(**options)  # type: ignore[arg-type]
    gate._got.level = levels = CountingLevels()
    return gate, levels


def reads_with(held: int, needs: int) -> int:
    """Counter reads to offer, hold and deliver one message with so many needs while so many others are held."""
    gate, levels = counting_gate()
    for number in range(held):
        # Others wait for the same streams, beyond what this message needs, and for streams of their own.
        gate.offer("held", [(f"other {number}", 1)], [(f"s{number % 7}", 2 + number), ("never", 1)])
    levels.reads = 0
    assert gate.offer("it", [("me", 1)], [(f"s{k}", 1) for k in range(needs)]) is Verdict.WAITING
    for k in range(needs):
        gate.mark_settled(f"s{k}", 1)
    assert gate.drain() == ["it"]
    return levels.reads


@pytest.mark.parametrize("needs", [1, 4, 16])
def test_cost_does_not_depend_on_what_is_held(needs: int) -> None:
    assert reads_with(held=0, needs=needs) == reads_with(held=2000, needs=needs)


@pytest.mark.parametrize("needs", [1, 10, 100, 1000])
def test_cost_is_proportional_to_the_header(needs: int) -> None:
    assert reads_with(held=100, needs=needs) <= 4 * needs + 10


def test_a_message_resumes_where_it_stopped() -> None:
    """999 of 1000 needs were met and are not asked for again when the last one is."""
    gate, levels = counting_gate()
    gate.offer("it", [("me", 1)], [*((f"s{k}", 0) for k in range(999)), ("last", 1)])
    levels.reads = 0
    gate.mark_settled("last", 1)
    assert gate.drain() == ["it"]
    assert levels.reads < 10


def test_a_history_that_arrives_backwards_costs_its_headers() -> None:
    """Every message waits for everything before it; a gate that rescans would read half a million counters."""
    gate, levels = counting_gate()
    for n in range(1000, 0, -1):
        gate.offer(str(n), [("a", n)], [("b", 0)])
    assert gate.drain() == [str(n) for n in range(1, 1001)]
    assert levels.reads <= 8 * 1000


def instructions(act: Callable[[], object]) -> int:
    """Bytecodes executed in gate.py: unlike a clock the same on every machine, and unlike a count of reads it sees
    every loop."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> object:
        nonlocal count
        if frame.f_code.co_filename != GATE_FILE:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.interpreted
def test_a_jump_does_not_look_at_everything_that_waits() -> None:
    """Rounds rise by two at a time while thousands wait for rounds to come."""

    def work(held: int) -> int:
        gate: Gate[str] = Gate(contiguous=False)
        for number in range(held):
            gate.offer("held", [(f"other {number}", 1)], [("a", 100 + number)])
        gate.offer("a2", [("a", 2)])
        return instructions(gate.drain)

    assert work(held=2000) == work(held=10)


@pytest.mark.interpreted
def test_what_was_accounted_for_beyond_a_hole_is_not_looked_at_again_and_again() -> None:
    def work(beyond: int) -> int:
        gate: Gate[str] = Gate()
        for n in range(beyond):
            gate.mark_settled("a", 1000 + n)
        gate.offer("a1", [("a", 1)])
        return instructions(gate.drain)

    assert work(beyond=2000) == work(beyond=10)


@pytest.mark.interpreted
def test_instructions_are_counted() -> None:
    gate: Gate[str] = Gate()
    assert instructions(lambda: gate.offer("a1", [("a", 1)])) > 20
