"""The memory of released ids, against a set; what it forgets, and what it costs."""

import random
from typing import Any

import numpy as np
import pytest

from antecede.spark.causal import ids
from antecede.spark.causal.ids import Horizon, SeenIds, Segment, digests


class Parts(dict[tuple[int, int], bytes]):
    """A store that counts."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = self.written = 0

    def read(self, segment: int, part: int) -> bytes:
        self.reads += 1
        return self[segment, part]

    def write(self, segment: int, part: int, ids: bytes) -> None:
        assert (segment, part) not in self
        self.written += len(ids)
        self[segment, part] = ids

    def remove(self, segment: int, part: int) -> None:
        del self[segment, part]

    @property
    def ids(self) -> int:
        return sum(map(len, self.values())) // 16


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ids, "_PART_IDS", 7)
    monkeypatch.setattr(ids, "_cache", ids.OrderedDict())


@pytest.mark.parametrize("seed", range(20))
def test_it_knows_what_a_set_knows(seed: int) -> None:
    rng = random.Random(seed)
    store, segments, known = Parts(), list[Segment](), set[str]()
    for batch in range(60):
        seen = SeenIds(segments, store)
        asked = [f"id {rng.randrange(4000)}" for _ in range(rng.randrange(60))]
        assert seen.among(digests(asked)).tolist() == [one in known for one in asked]
        new = {one for one in asked if one not in known}
        seen.add(digests(sorted(new)), batch, Horizon())
        known |= new
        segments = seen.segments
        if rng.random() < 0.3:
            ids._cache.clear()  # another worker
    assert store.ids == len(known) == SeenIds(segments, store).count
    assert len(segments) < 12


def fill(horizon: Horizon, batches: int, each: int) -> tuple[Parts, list[Segment]]:
    store, segments = Parts(), list[Segment]()
    for batch in range(batches):
        seen = SeenIds(segments, store)
        seen.add(digests(range(batch * each, (batch + 1) * each)), batch, horizon)
        segments = seen.segments
    return store, segments


def test_behind_the_horizon_ids_are_forgotten_and_before_it_none() -> None:
    store, segments = fill(Horizon(rows=800), 100, 50)
    assert 800 <= store.ids <= 950  # the horizon, an eighth of it, and a batch
    seen = SeenIds(segments, store)
    assert seen.among(digests(range(4200, 5000))).all()
    assert not seen.among(digests(range(4000))).any()


def test_by_the_clock_too() -> None:
    store, segments = fill(Horizon(rows=None, ms=10), 100, 8)
    seen = SeenIds(segments, store)
    assert seen.among(digests(range(90 * 8, 800))).all()
    assert store.ids < 800


def test_a_batch_larger_than_the_horizon() -> None:
    store, segments = fill(Horizon(rows=16), 3, 100)
    assert SeenIds(segments, store).among(digests(range(284, 300))).all()
    assert store.ids <= 116


def test_each_id_is_written_a_few_times_and_a_segment_read_once() -> None:
    store, segments = fill(Horizon(), 512, 10)
    assert store.written / 16 / 5120 < 12  # the logarithm of the number of batches
    assert store.reads == 0  # this worker wrote them all
    ids._cache.clear()
    for _ in range(5):
        SeenIds(segments, store).among(digests([1, 2, 3]))
    assert store.reads == len(store)


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ids, "_CACHE_BYTES", 1000)
    store, segments = fill(Horizon(rows=400), 50, 10)
    assert sum(one.nbytes for one in ids._cache.values()) <= 1000
    assert SeenIds(segments, store).among(digests(range(100, 500))).all()


def test_digests_with_the_same_first_half() -> None:
    def pair(low: int) -> Any:
        return np.array([[7, low]], np.uint64)

    store = Parts()
    seen = SeenIds([], store)
    seen.add(np.concatenate([pair(1), pair(5), pair(9)]), 0, Horizon())
    assert [bool(seen.among(pair(low))[0]) for low in (0, 1, 5, 6, 9, 10)] == [False, True, True, False, True, False]
