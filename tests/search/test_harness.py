"""A fifth search, as a newcomer would write it: a toy protocol, a trial and a run. The harness finds its errors."""

import random
from collections.abc import Callable, Sequence

import msgspec
import pytest

from antecede.core import Message, Packet, Process
from antecede.protocols.options import MakeProcess
from antecede.search import harness
from antecede.search.harness import ORDER, Run, Verdict
from antecede.trace import Row

NODES = range(4)


class Toy(Process):
    """Sends each message to all others, once; delivers in the order of arrival, or of each source's numbers."""

    def __init__(self, node: int, *, in_order: bool) -> None:
        super().__init__(node)
        self._in_order = in_order
        self._early: dict[tuple[int, int], Message] = {}
        self._next = dict.fromkeys(NODES, 1)

    def publish(self, topic: str, payload: bytes) -> Message:
        message = Message(topic, self.node, self._next[self.node], (), payload)
        self._next[self.node] += 1
        self.out.deliver(message)
        for other in NODES:
            if other != self.node:
                self.out.send(other, Carrier((message,)))
        return message

    def receive(self, sender: int, packet: Packet) -> None:
        (message,) = packet.messages
        if not self._in_order:
            self.out.deliver(message)
            return
        self._early[sender, message.seq] = message
        while (found := self._early.pop((sender, self._next[sender]), None)) is not None:
            self.out.deliver(found)
            self._next[sender] += 1

    def size(self, packet: Packet) -> int:
        return 1

    @property
    def held(self) -> int:
        return len(self._early)


class Carrier(Packet, frozen=True, gc=False):
    messages: tuple[Message, ...] = ()


class ToyTrial(harness.Trial, frozen=True, kw_only=True):
    actions: int = 30
    answers: float = 0.0
    in_order: bool = True


class ToyRun(Run[ToyTrial]):
    @staticmethod
    def draw(seed: int) -> ToyTrial:
        rng = random.Random(f"{seed}/trial")
        return ToyTrial(window_of_time=rng.choice([500.0, 2000.0]))

    @property
    def nodes(self) -> range:
        return NODES

    def founders(self) -> dict[str, list[int]]:
        return {"all": list(NODES)}

    def maker(self) -> MakeProcess:
        return lambda node: Toy(node, in_order=self.trial.in_order)

    def actions(self) -> Sequence[tuple[int, Callable[[], None]]]:
        return [(self.trial.actions, self._act)]

    def _act(self) -> None:
        if (found := self.somewhere()) is not None:
            self.publish(*found)

    def rules(self, rows: Sequence[Row]) -> tuple[str, ...]:
        return ("fifo", "complete") if self.trial.in_order else ORDER


@pytest.mark.parametrize("seed", range(5))
def test_what_keeps_its_promise_passes(seed: int) -> None:
    verdict = ToyRun.search(seed)
    assert verdict.ok, verdict.words
    assert verdict.messages == 30
    assert verdict.deliveries == 120
    assert verdict == ToyRun.search(seed)


def test_what_does_not_is_found() -> None:
    found = [ToyRun.search(seed, ToyTrial(in_order=False)) for seed in range(5)]
    assert any("fifo" in verdict.violated for verdict in found), found


def test_a_process_that_waits_for_ever_is_blocked() -> None:
    verdicts = [ToyRun.search(seed, ToyTrial(loss=0.2)) for seed in range(3)]
    assert any("complete" in verdict.violated and "holds" in verdict.offences["blocked"] for verdict in verdicts)


def test_a_run_that_never_rests_is_restless(monkeypatch: pytest.MonkeyPatch) -> None:
    def receive(self: Toy, sender: int, packet: Packet) -> None:
        self.out.send(sender, packet)

    monkeypatch.setattr(Toy, "receive", receive)
    monkeypatch.setattr(ToyRun, "events_max", 1000)
    assert "restless" in ToyRun.search(0).violated


def test_crashes_recoveries_and_suspicions_happen() -> None:
    verdict: Verdict = ToyRun.search(1, ToyTrial(crashes=3, false_suspicions=3))
    assert verdict.crashed == 3
    assert set(verdict.violated) >= {"complete"}, "the toy has no memory"


def test_a_trial_is_data() -> None:
    trial = ToyTrial(loss=0.1)
    assert msgspec.json.decode(msgspec.json.encode(trial), type=ToyTrial) == trial
