"""A gate taken down and set up again elsewhere goes on as if nothing had happened."""

import random

import pytest

from antecede.core import Gate, UsageError, Verdict
from antecede.core.gate import Need


@pytest.mark.parametrize("seed", range(60))
def test_a_resumed_gate_says_what_the_first_would_have_said(seed: int) -> None:
    rng = random.Random(seed)
    first: Gate[int] = Gate()
    second: Gate[int] = Gate()
    held: dict[int, tuple[Need, list[Need]]] = {}
    for name in range(200):
        if rng.random() < 0.1:
            moved: Gate[int] = Gate()
            moved.resume(second.settled())
            for one, (pos, needs) in held.items():
                assert moved.offer(one, (pos,), needs) is Verdict.WAITING
            second = moved
        stream, n = rng.choice("abc"), rng.randint(1, 30)
        if rng.random() < 0.1:
            first.skip(stream, n)
            second.skip(stream, n)
        needs = [(rng.choice("abc"), rng.randint(1, 30)) for _ in range(rng.randint(0, 2))]
        verdict = first.offer(name, ((stream, n),), needs)
        assert second.offer(name, ((stream, n),), needs) is verdict
        if verdict is Verdict.WAITING:
            held[name] = ((stream, n), needs)
        out = first.drain()
        # Those that waited for the same counter come in the order in which they were offered to this gate.
        assert sorted(out) == sorted(second.drain())
        for one in out:
            held.pop(one, None)
        assert first.levels() == second.levels()
        assert first.gave_up(stream, n) == second.gave_up(stream, n)
        assert first.held == second.held == len(held)


def test_a_gate_that_has_begun_does_not_resume() -> None:
    gate: Gate[str] = Gate()
    gate.offer("a", (("x", 1),))
    with pytest.raises(UsageError, match="has begun already"):
        gate.resume(Gate[str]().settled())
