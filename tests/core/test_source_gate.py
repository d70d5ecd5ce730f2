"""`SourceGate` and `SourceCounters` against `Gate` and `Counters`, on random operations."""

from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.core import Counters, Gate, Message, Verdict
from antecede.core.source_gate import SourceCounters, SourceGate

#: The source whose messages are settled and never offered, as a node's own.
OWN = 5
SOURCES = st.integers(0, OWN - 1)
NUMBERS = st.integers(1, 6)
NEEDS = st.lists(st.tuples(st.integers(0, OWN), NUMBERS), max_size=4).map(tuple)

#: Settle the next position of the node's own, begin a stream later, start anew, and so on.
WHAT = st.sampled_from(["offer", "admit", "settle", "floor", "empty", "drain"])
STEPS = st.lists(st.tuples(WHAT, SOURCES, NUMBERS, NEEDS), min_size=1, max_size=80)


@given(STEPS, st.integers(1, 6))
@settings(max_examples=400)
def test_the_gate_of_one_topic_does_what_the_gate_does(steps, held_max):
    plain: Gate[Message] = Gate(held_max=held_max)
    fast = SourceGate(held_max=held_max)
    for what, source, seq, needs in steps:
        message = Message("t", source, seq, needs)
        if what == "drain":
            assert fast.drain() == plain.drain()
        elif what == "floor":
            plain.floor(source, seq)
            fast.floor(source, seq)
        elif what == "empty":
            assert fast.drain() == plain.drain()
            plain, fast = plain.emptied(), fast.emptied()
        elif what == "settle":
            own = plain.reached(OWN) + 1
            plain.mark_settled(OWN, own)
            fast.mark_settled(OWN, own)
        else:
            if what == "admit":
                assert fast.drain() == plain.drain()
                if fast.admit(message):  # the plain gate refuses more: a source for which another message waits
                    assert plain.offer(message, ((source, seq),), needs) is Verdict.READY
                    assert plain.drain() == [message]
                    continue
                assert not plain.admit(source, seq, needs)
            assert fast.offer(message) is plain.offer(message, ((source, seq),), needs)
        assert fast.held == plain.held
        assert [fast.reached(one) for one in range(OWN + 2)] == [plain.reached(one) for one in range(OWN + 2)]


@given(st.lists(st.tuples(st.sampled_from(["add", "start", "wait"]), SOURCES, NUMBERS, NEEDS), min_size=1, max_size=80))
@settings(max_examples=400)
def test_counters_of_sources_do_what_counters_do(steps):
    plain: Counters[int] = Counters()
    fast: SourceCounters[int] = SourceCounters()
    for item, (what, source, n, needs) in enumerate(steps):
        freed: list[int] = []
        if what == "add":
            fast.add(source, n, freed)
            assert freed == plain.add(source, n)
        elif what == "start":
            fast.start_after(source, n, freed)
            assert freed == plain.start_after(source, n)
        else:
            assert fast.unmet(needs) == [need for need in needs if plain.level.get(need[0], 0) < need[1]]
            assert fast.met(needs) == plain.met(needs)
            assert fast.wait(item, needs) == plain.wait(item, needs)
        assert fast.waiting == plain.waiting
        assert fast.beyond == plain.beyond
        assert [fast.reached(one) for one in range(OWN + 2)] == [plain.level.get(one, 0) for one in range(OWN + 2)]


def test_a_position_settled_twice_counts_once():
    gate = SourceGate()
    gate.mark_settled(3, 1)
    gate.mark_settled(3, 1)
    assert gate.reached(3) == 1
    assert gate.offer(Message("t", 3, 1)) is Verdict.DUPLICATE
    assert gate.reached(1000) == 0
