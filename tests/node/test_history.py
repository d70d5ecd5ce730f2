"""What a node's memory says of the deliveries in it."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecede.core import Message
from antecede.core.partitions import Partitions
from antecede.journal.batch import Batch
from antecede.node.history import History, add_run, cut_runs, runs_of
from tests.client.running import awaited


def filled(sources: list[int], *, entries_max: int) -> tuple[History, dict[int, int]]:
    """A history of deliveries of these sources, in batches; and how far each source is."""
    history = History(None, 0, partitions=Partitions(1, 1, "main"), entries_max=entries_max, bytes_max=1 << 30)
    delivered: dict[int, int] = {}
    for first in range(0, len(sources), 7):
        messages = []
        for source in sources[first : first + 7]:
            delivered[source] = delivered.get(source, 0) + 1
            messages.append(Message("main", source, delivered[source], (), b""))
        batch = Batch(first=first + 1, time_us=0, deliveries=messages, changes=[], held_us={})
        history.append(batch, ["a"] * len(messages), runs_of([one.source for one in messages], messages))
        history.forget(history.excess)
    return history, delivered


@pytest.mark.parametrize("seed", range(6))
@awaited
async def test_how_far_each_source_was_at_a_position(seed: int) -> None:
    draw = random.Random(seed)
    sources = [draw.choice([0, 0, 0, 1, draw.randrange(2, 9)]) for _ in range(draw.randrange(1, 4000))]
    history, delivered = filled(sources, entries_max=draw.randrange(100, 3000))
    for _ in range(40):
        position = draw.randrange(history.first - 1, len(sources) + 1)
        found = await history.reached_at(position, delivered)
        assert found == {source: sources[:position].count(source) for source in delivered}


@awaited
async def test_a_feed_that_begins_in_the_past_does_not_look_at_all_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client opens and closes such feeds as fast as it can write."""
    history, delivered = filled([0] * 20_000, entries_max=30_000)
    delivered[1] = 0  # a source without messages
    looked = 0
    streams = history.partitions.streams

    def counted(messages: Any) -> list[int]:
        nonlocal looked
        looked += len(messages)
        return streams(messages)

    monkeypatch.setattr(Partitions, "streams", lambda self, messages: counted(messages))
    for position in range(100):
        await history.reached_at(position, delivered)
    assert looked < 20_000 + 100 * 1024


@given(st.lists(st.integers(0, 2), min_size=1, max_size=30), st.data())
def test_the_runs_of_a_part_are_those_of_its_messages(sources: list[int], data: st.DataObject) -> None:
    numbers = dict.fromkeys(sources, 0)
    messages = []
    for source in sources:
        numbers[source] += 1 + data.draw(st.sampled_from([0, 0, 0, 1]))
        messages.append(Message("main", source, numbers[source]))
    at = data.draw(st.integers(0, len(sources) - 1))
    count = data.draw(st.integers(1, len(sources) - at))
    part = runs_of(sources[at : at + count], messages[at : at + count])
    assert cut_runs(runs_of(sources, messages), at, count) == part
    joined: list[tuple[int, int, int]] = []
    for message in messages:
        add_run(joined, (message.source, message.seq, 1))
    assert joined == runs_of(sources, messages)
