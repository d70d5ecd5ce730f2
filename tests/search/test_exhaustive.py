"""The explorer itself: fingerprints, states, verdicts, bounds. What it finds in protocols is in the next file."""

from collections import deque
from functools import partial

import pytest

from antecede.core import UsageError
from antecede.protocols.vcube_ps import options as vcube_options
from antecede.search.exhaustive import vcube_ps
from antecede.search.exhaustive.explorer import explore
from antecede.search.exhaustive.fingerprint import fingerprint
from antecede.search.exhaustive.judging import judge
from antecede.search.exhaustive.model import Model, Seen, publish
from antecede.search.exhaustive.system import State, System
from antecede.search.exhaustive.telling import tell
from antecede.search.harness import ORDER
from tests.protocols.vcube_ps import mutations_pipelined as ours
from tests.search.plain_schedules import schedules

TWO = vcube_ps.model("two messages", {0: publish("t"), 1: publish("t")})
LOSS = vcube_ps.model("one message", {0: publish("t")}, losses=1)
TOPICS = vcube_ps.model(
    "two topics",
    {0: (*publish("a"), *publish("b")), 1: publish("c")},
    {"a": (0, 2), "b": (0, 1), "c": (1, 2)},
)


def quiet_states(system: System) -> list[State]:
    """Every quiet state, by a walk in depth."""
    start = system.start()
    known, waiting, quiet = {start}, [start], []
    while waiting:
        state = waiting.pop()
        if system.is_quiet(state):
            quiet.append(state)
        for move in system.moves(state):
            after = system.apply(state, move).state
            if after not in known:
                known.add(after)
                waiting.append(after)
    return quiet


@pytest.mark.parametrize("model", [TWO, LOSS, TOPICS], ids=["two", "loss", "topics"])
def test_states_lead_to_the_same_ends_as_schedules_one_by_one(model: Model) -> None:
    system = System(model)
    ends = {tuple(system.nodes.seen[own] for own in state.nodes) for state in quiet_states(system)}
    assert ends == {run.histories for run in schedules(model)}


@pytest.mark.parametrize("mutant", [None, ours.PassesNothingOn])
def test_a_verdict_by_histories_is_that_of_every_schedule(
    mutant: type[ours.VCubePs] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The explorer judges each combination of histories once. Here each schedule is judged by itself."""
    if mutant is not None:
        monkeypatch.setattr(vcube_options, "VCubePs", mutant)
    by_history: dict[object, set[str]] = {}
    for run in schedules(TOPICS):
        by_history.setdefault(run.histories, set()).add(" ".join(judge(TOPICS, run.happenings, ORDER)))
    assert all(len(verdicts) == 1 for verdicts in by_history.values())
    found = explore(TOPICS)
    assert found.ok == all(verdicts == {""} for verdicts in by_history.values())
    assert found.ok == (mutant is None)


def test_two_explorations_are_alike() -> None:
    first, second = explore(LOSS), explore(LOSS)
    assert (first.states, first.moves, first.quiet) == (second.states, second.moves, second.quiet)
    assert first.end == "exhausted"


def test_a_violation_is_a_shortest_schedule_that_can_be_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vcube_options, "VCubePs", ours.NeverAsks)
    found = explore(LOSS)
    assert found.end == "violated"
    told = tell(LOSS, found.schedule)
    assert told.offences == found.offences
    assert told.lines[:3] == [
        "node 0: publish t → publish t/0.1, deliver t/0.1",
        "node 1 receives pub t/0.1 from node 0 → deliver t/0.1",
        "node 2 does not receive pub t/0.1 from node 0",
    ]
    assert "found at" in found.verdict


def test_a_schedule_of_another_model_is_refused() -> None:
    with pytest.raises(UsageError, match="there are 1 moves at step 0"):
        tell(LOSS, [7])


def test_a_walk_in_depth_meets_the_same_states() -> None:
    wide, deep = explore(LOSS), explore(LOSS, depth_first=True)
    assert (wide.states, wide.moves, wide.quiet, wide.outcomes) == (deep.states, deep.moves, deep.quiet, deep.outcomes)


def test_a_bound_on_states_is_told() -> None:
    found = explore(TWO, states_max=20)
    assert found.end == "states"
    assert found.ok
    assert "not exhausted" in found.verdict


def test_an_interrupt_keeps_what_was_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(known: int, done: int) -> None:
        raise KeyboardInterrupt

    found = explore(vcube_ps.MODELS["vcube-ps-four"], progress=interrupt)
    assert found.end == "interrupted"
    assert found.states > 500
    assert found.verdict.startswith("interrupted at")


def test_equal_inputs_give_equal_fingerprints_and_others_do_not() -> None:
    one, other = TWO.make(0), TWO.make(0)
    assert fingerprint(one) == fingerprint(other)
    one.publish("t", b"x")
    assert fingerprint(one) != fingerprint(other)
    other.publish("t", b"x")
    assert fingerprint(one) == fingerprint(other)


class _Slotted:
    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


def _counter() -> object:
    """A closure with a state of its own."""
    seen: list[int] = []
    return lambda: seen.append(1)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        ((1, 2), [1, 2]),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (deque([1]), deque([2])),
        (_Slotted(1), _Slotted(2)),
        (partial(print, 1), partial(print, 2)),
        (iter((1, 2)), iter((1, 3))),
        (frozenset({(1, 2)}), frozenset({(1, 3)})),
        (Seen("deliver", "t"), Seen("deliver", "u")),
    ],
    ids=lambda value: type(value).__name__,  # an address would differ from process to process
)
def test_what_differs_has_another_fingerprint(one: object, other: object) -> None:
    assert fingerprint(one) != fingerprint(other)


def test_a_fingerprint_reads_closures_and_forgets_addresses() -> None:
    one, other = _counter(), _counter()
    assert fingerprint(one) == fingerprint(other)
    assert callable(one)
    one()
    assert fingerprint(one) != fingerprint(other)
    first, second = _Slotted(1), _Slotted(1)
    assert fingerprint({id(first): first}) == fingerprint({id(second): second})


def test_a_fingerprint_refuses_what_it_cannot_read() -> None:
    with pytest.raises(TypeError, match="memoryview"):
        fingerprint(memoryview(b"x"))
