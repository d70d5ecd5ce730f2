"""Rivals with fixed groups under random schedules, and the searches find a mistake in each."""

import pytest

from antecede.core import Message
from antecede.protocols.delta_causal import DeltaCausal
from antecede.protocols.delta_causal.process import _Group as DeltaGroup
from antecede.protocols.message_history.process import _Group
from antecede.protocols.probabilistic_clocks import ProbabilisticClocks
from antecede.protocols.probabilistic_clocks.process import Stamped
from antecede.protocols.safe_links.forgetting import Along, ForgettingLinks
from antecede.protocols.safe_links.options import SafeLinksOptions
from antecede.search.fixed_groups import DeltaCausalRun, FixedGroupsRun, HistoryRun, SafeLinksRun, VectorClocksRun
from antecede.search.registry import find_search

RUNS: dict[str, type[FixedGroupsRun]] = {
    "safe-links": SafeLinksRun,
    "message-history": HistoryRun,
    "delta-causal": DeltaCausalRun,
    "vector-clocks": VectorClocksRun,
}


@pytest.mark.parametrize("name", RUNS)
def test_promises_hold(name: str) -> None:
    for seed in range(20):
        verdict = find_search(name).run(seed)
        assert verdict.ok, f"seed {seed}: {verdict.words}"


@pytest.mark.parametrize("seed", [47, 63, 133])
def test_messages_of_one_tick_are_in_order(seed: int) -> None:
    """A message waited for a lost one, whose predecessor was held, and became ready in the same tick behind it."""
    verdict = DeltaCausalRun.search(seed)
    assert verdict.ok, verdict.words


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_promises_hold_in_many_runs(name: str) -> None:
    for seed in range(2000):
        verdict = find_search(name).run(seed)
        assert verdict.ok, f"seed {seed}: {verdict.words}"


def test_the_trials_are_of_every_kind() -> None:
    safe = [options for seed in range(40) if isinstance(options := SafeLinksRun.draw(seed).options, SafeLinksOptions)]
    assert len({(one.forget, bool(one.changes)) for one in safe}) == 4
    for run in (HistoryRun, DeltaCausalRun):
        assert {bool(run.draw(seed).loss) for seed in range(20)} == {False, True}


# -- mutations --------------------------------------------------------------------------------------------------------


def finds(name: str, *rules: str) -> bool:
    """Does one of the first runs violate one of these rules?"""
    return any(not set(rules).isdisjoint(RUNS[name].search(seed).violated) for seed in range(60))


def test_messages_that_are_not_remembered_for_a_new_link_come_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    new = ForgettingLinks._is_new

    def forgetful(self: ForgettingLinks, message: Message, sender: int | None) -> bool:
        openings, self._openings = self._openings, {}
        try:
            return new(self, message, sender)
        finally:
            self._openings = openings

    monkeypatch.setattr(ForgettingLinks, "_is_new", forgetful)
    assert finds("safe-links", "exactly-once")


def test_a_buffer_that_begins_too_late_loses_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a node delivers between its two steps reaches the peer the long way, behind what the new link carries."""
    step = ForgettingLinks._step

    def late(self: ForgettingLinks, packet: Along) -> None:
        if packet.step == "done":
            self._buffers[packet.question] = []
        step(self, packet)

    monkeypatch.setattr(ForgettingLinks, "_step", late)
    assert finds("safe-links", "causal", "fifo")


def test_a_history_of_ones_own_messages_loses_order(monkeypatch: pytest.MonkeyPatch) -> None:
    past = _Group.for_member

    def own(self: _Group, member: int) -> tuple[Message, ...]:
        return tuple([message for message in past(self, member) if message.source == self.node])

    monkeypatch.setattr(_Group, "for_member", own)
    assert finds("message-history", "causal")


def test_a_predecessor_given_up_before_its_deadline_loses_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused when it comes. What it depends on is not, and comes behind what depends on it."""

    expire = DeltaCausal._expire

    def impatient(self: DeltaCausal, group: DeltaGroup) -> None:
        while group.deadlines:
            _, source, seq = group.deadlines.pop()
            group.gate.skip(source, seq)
        expire(self, group)

    monkeypatch.setattr(DeltaCausal, "_expire", impatient)
    assert finds("delta-causal", "causal")


def test_a_vector_clock_that_looks_at_its_source_only_loses_order(monkeypatch: pytest.MonkeyPatch) -> None:
    receive = ProbabilisticClocks.receive

    def hasty(self: ProbabilisticClocks, sender: int, packet: Stamped) -> None:
        own = tuple([count if entry in packet.keys else 0 for entry, count in enumerate(packet.vector)])
        receive(self, sender, Stamped(packet.message, packet.keys, own))

    monkeypatch.setattr(ProbabilisticClocks, "receive", hasty)
    assert finds("vector-clocks", "causal")
