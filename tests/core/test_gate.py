"""The gate, in cases a person can read. A message is written as its name: `a2` is the second of stream `a`.

Random cases and what a message may cost are in test_gate_properties.py.
"""

import pytest

from antecede.core import Counters, Gate, UsageError, Verdict
from antecede.core.gate import Need

READY, WAITING, DUPLICATE, LATE, FULL = (
    Verdict.READY,
    Verdict.WAITING,
    Verdict.DUPLICATE,
    Verdict.LATE,
    Verdict.FULL,
)


def place(name: str) -> Need:
    """`a2` → ("a", 2)."""
    return name[0], int(name[1:])


def offer(gate: Gate[str], name: str, *needs: str) -> Verdict:
    """Offer the message `name`, which stands at its own place (`a2+b1`: at two) and needs what is named."""
    pos = [place(part) for part in name.split("+")]
    return gate.offer(name, pos, [place(need) for need in needs])


# -- order ------------------------------------------------------------------------------------------------------------


def test_triangle() -> None:
    """A → C and A → B → C, the long way first: what B said after hearing A waits for A."""
    carol: Gate[str] = Gate()
    assert offer(carol, "b1", "a1") is WAITING
    assert carol.drain() == []
    assert offer(carol, "a1") is READY
    assert carol.drain() == ["a1", "b1"]


def test_chain_in_reverse() -> None:
    gate: Gate[str] = Gate()
    assert offer(gate, "d1", "c1") is WAITING
    assert offer(gate, "c1", "b1") is WAITING
    assert offer(gate, "b1", "a1") is WAITING
    assert gate.held == 3
    assert gate.drain() == []
    assert offer(gate, "a1") is READY
    assert gate.drain() == ["a1", "b1", "c1", "d1"]
    assert gate.held == 0
    assert gate.missing() == {}


def test_a_source_is_heard_in_its_own_order_without_saying_so() -> None:
    gate: Gate[str] = Gate()
    assert offer(gate, "a3") is WAITING
    assert offer(gate, "a2") is WAITING
    assert offer(gate, "a1") is READY
    assert gate.drain() == ["a1", "a2", "a3"]


def test_concurrent_messages_do_not_wait_for_each_other() -> None:
    gate: Gate[str] = Gate()
    assert offer(gate, "b1") is READY
    assert offer(gate, "a1") is READY
    assert gate.drain() == ["b1", "a1"]


def test_ready_is_not_delivered_until_drained() -> None:
    """A packet's messages are all in before any of them is delivered."""
    gate: Gate[str] = Gate()
    assert offer(gate, "a1") is READY
    assert offer(gate, "b1", "a1") is WAITING
    assert gate.reached("a") == 0
    assert gate.drain() == ["a1", "b1"]
    assert gate.reached("a") == 1
    assert gate.drain() == []


def test_several_needs_are_all_waited_for_whatever_order_they_come_in() -> None:
    for order in (["a1", "b1", "c1"], ["c1", "b1", "a1"], ["b1", "c1", "a1"]):
        gate: Gate[str] = Gate()
        assert offer(gate, "z1", "a1", "b1", "c1") is WAITING
        out: list[str] = []
        for name in order:
            assert "z1" not in out
            offer(gate, name)
            out += gate.drain()
        assert out == [*order, "z1"]


def test_a_need_below_what_was_reached_is_met() -> None:
    gate: Gate[str] = Gate()
    for name in ("a1", "a2", "a3"):
        offer(gate, name)
    gate.drain()
    assert offer(gate, "b1", "a2") is READY


def test_what_is_missing_is_what_somebody_waits_for_first() -> None:
    gate: Gate[str] = Gate()
    offer(gate, "z1", "a2", "b7")
    offer(gate, "y1", "a5")
    assert gate.missing() == {"a": 5}
    gate.skip("a", 2)
    assert gate.missing() == {"a": 5, "b": 7}


# -- duplicates -------------------------------------------------------------------------------------------------------


def test_a_duplicate_of_what_was_delivered() -> None:
    gate: Gate[str] = Gate()
    offer(gate, "a1")
    gate.drain()
    assert offer(gate, "a1") is DUPLICATE
    assert gate.drain() == []


def test_a_duplicate_of_what_is_ready_or_held() -> None:
    gate: Gate[str] = Gate()
    assert offer(gate, "a1") is READY
    assert offer(gate, "a1") is DUPLICATE
    assert offer(gate, "a3") is WAITING
    assert offer(gate, "a3") is DUPLICATE
    assert gate.drain() == ["a1"]
    assert gate.held == 1
    offer(gate, "a2")
    assert gate.drain() == ["a2", "a3"]


# -- floors: a joiner -------------------------------------------------------------------------------------------------


def test_a_joiner_does_not_wait_for_what_was_before_its_time() -> None:
    gate: Gate[str] = Gate()
    gate.floor("a", 5)
    assert offer(gate, "b1", "a5") is READY
    assert offer(gate, "a6") is READY
    assert gate.drain() == ["b1", "a6"]


def test_a_joiner_drops_what_comes_from_before_its_time() -> None:
    gate: Gate[str] = Gate()
    gate.floor("a", 5)
    assert offer(gate, "a5") is DUPLICATE
    assert gate.drain() == []


def test_subscribe_first_hold_arrivals_then_apply_the_floor() -> None:
    gate: Gate[str] = Gate()
    for name in ("a7", "a4", "a6", "a5"):
        assert offer(gate, name) is WAITING
    gate.floor("a", 5)
    assert gate.drain() == ["a6", "a7"]
    assert gate.held == 0


def test_a_floor_drops_also_what_was_ready() -> None:
    gate: Gate[str] = Gate()
    offer(gate, "a1")
    gate.floor("a", 1)
    assert gate.drain() == []
    assert gate.reached("a") == 1


def test_a_floor_never_sinks() -> None:
    gate: Gate[str] = Gate()
    gate.floor("a", 5)
    gate.floor("a", 3)
    assert gate.reached("a") == 5
    assert offer(gate, "a4") is DUPLICATE


def test_before_our_time_in_one_stream_and_news_in_another() -> None:
    """A message to two groups, of which we joined one late: the other group must get it, and go on."""
    gate: Gate[str] = Gate()
    gate.floor("a", 3)
    assert offer(gate, "a2+b1") is READY
    assert gate.drain() == ["a2+b1"]
    assert offer(gate, "a2+b1") is DUPLICATE
    assert offer(gate, "b2") is READY
    assert gate.drain() == ["b2"]


def test_a_floor_does_not_drop_what_is_held_and_news_in_another_stream() -> None:
    gate: Gate[str] = Gate()
    assert offer(gate, "a2+b1") is WAITING
    gate.floor("a", 3)
    assert gate.drain() == ["a2+b1"]
    assert gate.reached("b") == 1


# -- skipping: giving up ----------------------------------------------------------------------------------------------


def test_skip_releases_and_what_was_given_up_is_late() -> None:
    gate: Gate[str] = Gate()
    assert offer(gate, "a3") is WAITING
    gate.skip("a", 2)
    assert gate.drain() == ["a3"]
    assert offer(gate, "a1") is LATE
    assert offer(gate, "a2") is LATE
    assert offer(gate, "a3") is DUPLICATE
    assert gate.drain() == []


def test_skip_fills_only_the_holes() -> None:
    """a2 is held for b1: it keeps its turn, and a4 waits for it although a3 was given up."""
    gate: Gate[str] = Gate()
    offer(gate, "a2", "b1")
    offer(gate, "a4")
    gate.skip("a", 3)
    assert gate.drain() == []
    offer(gate, "b1")
    assert gate.drain() == ["b1", "a2", "a4"]


def test_skip_does_not_make_late_what_was_dealt_with() -> None:
    gate: Gate[str] = Gate()
    gate.mark_settled("a", 2)
    gate.skip("a", 3)
    assert [offer(gate, name) for name in ("a1", "a2", "a3")] == [LATE, DUPLICATE, LATE]


def test_a_late_message_shown_with_a_tag_is_a_duplicate_from_then_on() -> None:
    gate: Gate[str] = Gate()
    gate.skip("a", 1)
    assert offer(gate, "a1") is LATE
    gate.mark_settled("a", 1)
    assert offer(gate, "a1") is DUPLICATE


# -- accounting: dealt with outside -----------------------------------------------------------------------------------


def test_a_publisher_accounts_for_its_own_messages() -> None:
    gate: Gate[str] = Gate()
    gate.mark_settled("me", 1)
    assert offer(gate, "b1", "a1") is WAITING
    gate.mark_settled("a", 1)
    assert gate.drain() == ["b1"]


def test_accounting_beyond_a_hole_counts_once_the_hole_is_filled() -> None:
    gate: Gate[str] = Gate()
    gate.mark_settled("a", 2)
    gate.mark_settled("a", 3)
    assert offer(gate, "a2") is DUPLICATE
    assert offer(gate, "a4") is WAITING
    assert gate.reached("a") == 0
    offer(gate, "a1")
    assert gate.drain() == ["a1", "a4"]
    assert gate.reached("a") == 4


def test_a_floor_swallows_what_was_accounted_for_below_it() -> None:
    gate: Gate[str] = Gate()
    for n in (2, 4, 6, 9):
        gate.mark_settled("a", n)
    gate.floor("a", 5)
    assert gate.reached("a") == 6
    gate.floor("a", 8)
    assert gate.reached("a") == 9


def test_what_was_shown_out_of_order_is_not_delivered_a_second_time() -> None:
    """a1 waits too long for b1 and is shown with a tag: nobody waits for it any more, and it does not come again."""
    gate: Gate[str] = Gate()
    offer(gate, "a1", "b1")
    offer(gate, "a2")
    gate.mark_settled("a", 1)
    assert gate.drain() == ["a2"]
    offer(gate, "b1")
    assert gate.drain() == ["b1"]
    assert offer(gate, "a1") is DUPLICATE
    assert gate.held == 0


# -- bounds -----------------------------------------------------------------------------------------------------------


def test_full_is_not_taken_and_can_be_offered_again() -> None:
    gate: Gate[str] = Gate(held_max=2)
    assert offer(gate, "a3") is WAITING
    assert offer(gate, "a2") is WAITING
    assert offer(gate, "a5") is FULL
    assert gate.held == 2
    assert offer(gate, "b1") is READY  # what waits for nothing is always taken
    assert offer(gate, "a1") is READY
    assert gate.drain() == ["b1", "a1", "a2", "a3"]
    assert offer(gate, "a5") is WAITING
    assert offer(gate, "a4") is READY
    assert gate.drain() == ["a4", "a5"]


def test_a_gate_holds_something() -> None:
    with pytest.raises(UsageError, match="held_max 0"):
        Gate(held_max=0)


# -- positions that jump ----------------------------------------------------------------------------------------------


def test_without_contiguous_positions_only_needs_are_waited_for() -> None:
    """Rounds: a broker that was silent in rounds 1 and 2 speaks in 3."""
    gate: Gate[str] = Gate(contiguous=False)
    assert offer(gate, "a3") is READY
    assert offer(gate, "b5", "a3") is WAITING
    assert offer(gate, "c9", "b4") is WAITING
    assert gate.drain() == ["a3", "b5", "c9"]
    assert gate.reached("b") == 5


def test_a_jump_wakes_everybody_it_passes_in_the_order_they_waited_for() -> None:
    gate: Gate[str] = Gate(contiguous=False)
    for n in (40, 23, 7):
        offer(gate, f"z{n}", f"a{n}")
    assert offer(gate, "a30") is READY
    assert gate.drain() == ["a30", "z7", "z23"]
    assert gate.missing() == {"a": 40}


def test_skip_with_jumps_does_not_pass_a_held_message() -> None:
    """c1 needs a3, which is here but waits: giving up on a5 must not let c1 out before it."""
    gate: Gate[str] = Gate(contiguous=False)
    offer(gate, "a3", "b1")
    offer(gate, "c1", "a3")
    gate.skip("a", 5)
    assert gate.drain() == []
    offer(gate, "b1")
    assert gate.drain() == ["b1", "a3", "c1"]
    gate.skip("a", 5)
    assert gate.reached("a") == 5
    assert offer(gate, "a4") is LATE


# -- several streams --------------------------------------------------------------------------------------------------


def test_a_message_in_two_streams_waits_for_its_turn_in_both() -> None:
    gate: Gate[str] = Gate()
    assert offer(gate, "a2+b2") is WAITING
    assert offer(gate, "a3") is WAITING
    offer(gate, "a1")
    assert gate.drain() == ["a1"]
    offer(gate, "b1")
    assert gate.drain() == ["b1", "a2+b2", "a3"]
    assert (gate.reached("a"), gate.reached("b")) == (3, 2)


def test_a_message_in_no_stream_waits_for_its_needs_only() -> None:
    gate: Gate[str] = Gate()
    gate.floor("z", 1)
    assert gate.offer("note", [], [("a", 1)]) is WAITING
    offer(gate, "a1")
    assert gate.drain() == ["a1", "note"]


def test_streams_may_be_anything_hashable() -> None:
    gate: Gate[str] = Gate()
    assert gate.offer("second", [((3, "rooms/42"), 2)]) is WAITING
    assert gate.offer("first", [((3, "rooms/42"), 1)]) is READY
    assert gate.drain() == ["first", "second"]


# -- memory -----------------------------------------------------------------------------------------------------------


def test_what_is_over_takes_no_room() -> None:
    """After a life of every kind of trouble only counters are left, one a stream."""
    gate: Gate[str] = Gate()
    for name, *needs in (["a3"], ["a2", "b1"], ["a5"], ["c1", "a5"], ["b1"], ["d2"], ["e1", "b2"]):
        offer(gate, name, *needs)
    gate.mark_settled("d", 4)
    gate.mark_settled("d", 6)
    gate.floor("d", 5)
    gate.mark_settled("e", 1)
    gate.mark_settled("a", 4)
    offer(gate, "a1")
    offer(gate, "b2")
    assert gate.drain() == ["b1", "a1", "b2", "a2", "a3", "a5", "c1"]
    assert gate.held == 0
    assert {stream: gate.reached(stream) for stream in "abcde"} == {"a": 5, "b": 2, "c": 1, "d": 6, "e": 1}
    assert not gate._inside
    assert not gate._void
    assert not gate._beyond
    assert not gate._got._waiting


# -- counters ---------------------------------------------------------------------------------------------------------


def test_counters_hold_until_every_need_is_met() -> None:
    counters: Counters[str] = Counters()
    assert counters.wait("now", [])
    assert not counters.wait("later", [("a", 2), ("b", 1)])
    assert counters.waiting == 1
    assert counters.raise_to("a", 1) == []
    assert counters.raise_to("a", 5) == []
    assert counters.missing() == {"b": 1}
    assert counters.raise_to("b", 1) == ["later"]
    assert counters.waiting == 0


def test_counters_only_rise() -> None:
    counters: Counters[str] = Counters()
    counters.raise_to("a", 3)
    assert counters.raise_to("a", 2) == []
    assert counters.level["a"] == 3
    assert counters.met([("never heard of", 0)])
    assert not counters.met([("never heard of", 1)])
    assert list(counters.level) == ["a"]


def test_an_item_may_wait_for_the_same_counter_twice() -> None:
    counters: Counters[str] = Counters()
    counters.wait("item", [("a", 1), ("a", 3)])
    assert counters.raise_to("a", 1) == []
    assert counters.raise_to("a", 2) == []
    assert counters.raise_to("a", 3) == ["item"]


def test_a_stream_that_is_forgotten_begins_anew() -> None:
    gate: Gate[str] = Gate()
    gate.floor("a", 3)
    assert gate.offer("four", (("a", 4),)) is Verdict.READY
    assert gate.drain() == ["four"]
    gate.forget("a")
    assert gate.reached("a") == 0
    assert gate.offer("one", (("a", 1),)) is Verdict.READY
