"""Redialling: pauses double up to a bound, never in step; it ends with success, patience or a refusal for good."""

import asyncio
import random

import pytest

from antecede.core.errors import RefusedError, UnreachableError
from antecede.wire.backoff import Backoff, may_pass, redial


def test_pauses_double_up_to_a_bound_and_are_shortened_at_random() -> None:
    backoff = Backoff(random.Random(1), first_s=0.1, longest_s=1.0)
    for failures in (*range(1, 20), 10_000):
        longest = min(1.0, 0.1 * 2 ** (failures - 1)) if failures < 100 else 1.0
        pauses = [backoff.pause_s(failures) for _ in range(50)]
        assert all(longest / 2 <= pause <= longest for pause in pauses)
        assert len(set(pauses)) == 50
    assert Backoff(random.Random(7)).pause_s(3) == Backoff(random.Random(7)).pause_s(3)


@pytest.mark.parametrize("reason", ["busy", "closing", "rate", "cluster", "version", "untrusted", "something new"])
def test_only_some_refusals_pass(reason: str) -> None:
    assert may_pass(RefusedError("a node", reason)) == (reason in ("busy", "closing", "rate"))
    assert may_pass(UnreachableError("a node", "away"))


class Node:
    """Fails as told, then answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.attempts = 0

    async def answer(self) -> str:
        self.attempts += 1
        if self.errors:
            raise self.errors.pop(0)
        return "here"


def dial(node: Node, patience_s: float) -> str:
    backoff = Backoff(random.Random(1), first_s=0.0001, longest_s=0.001)
    return asyncio.run(redial(node.answer, backoff, patience_s=patience_s, retried=(RefusedError, UnreachableError)))


def test_redialling_ends_with_success() -> None:
    node = Node(UnreachableError("n", "away"), RefusedError("n", "busy"), UnreachableError("n", "away"))
    assert dial(node, 60) == "here"
    assert node.attempts == 4


def test_a_refusal_for_good_is_not_repeated() -> None:
    node = Node(UnreachableError("n", "away"), RefusedError("n", "cluster"))
    with pytest.raises(RefusedError, match="cluster"):
        dial(node, 60)
    assert node.attempts == 2


def test_patience_ends_with_the_last_error() -> None:
    node = Node(UnreachableError("n", "first"), *[UnreachableError("n", "again")] * 100_000)
    with pytest.raises(UnreachableError, match="again"):
        dial(node, 0.01)


def test_other_errors_are_not_retried() -> None:
    node = Node(KeyError("a bug"))
    with pytest.raises(KeyError):
        dial(node, 60)
    assert node.attempts == 1
