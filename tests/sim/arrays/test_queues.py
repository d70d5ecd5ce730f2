"""Random words, and send queues for whole steps, beside `random.Random` and `StepQueues`."""

import random

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from antecede.sim.arrays.queues import ArrayQueues
from antecede.sim.arrays.words import TwisterWords, as_bits, as_fractions
from antecede.sim.peersim import StepQueues
from antecede.sim.units import TICKS

NODES = 4
ACK_BYTES = 10


class _Constant(random.Random):
    """All words are the same one."""

    def __init__(self, word: int) -> None:
        super().__init__(0)
        self._word = word

    def getrandbits(self, k: int) -> int:
        assert k == 1
        return self._word >> 31

    def random(self) -> float:
        return float(((self._word >> 5) * (1 << 26) + (self._word >> 6)) / (1 << 53))


class _ConstantWords:
    def __init__(self, word: int) -> None:
        self._word = word

    def take(self, count: int) -> NDArray[np.uint64]:
        return np.full(count, self._word, np.uint64)


class _Clock:
    steps = 0


def test_the_same_words() -> None:
    rng, words = random.Random("a seed"), TwisterWords(random.Random("a seed"))
    for _ in range(500):  # past one refill of the twister's 624 words
        assert as_bits(words.take(1)).tolist() == [rng.getrandbits(1)]
        pair = words.take(2)
        assert as_fractions(pair[:1], pair[1:]).tolist() == [rng.random()]


#: An event: who sends, how many packets, and whether that is one short packet.
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.integers(0, NODES - 1), st.integers(1, 5), st.just(False)),
        st.tuples(st.integers(0, NODES - 1), st.just(1), st.just(True)),
    ),
    min_size=1,
    max_size=12,
)
#: What happens in the steps of a run: with so many steps after the one before, between two steps or on one.
MOMENTS = st.lists(st.tuples(st.integers(0, 12), st.booleans(), EVENTS), min_size=1, max_size=8)


@settings(deadline=None)
@given(MOMENTS, st.booleans(), st.one_of(st.integers(0, 999), st.just("zeros"), st.just("ones")))
@example([(0, False, [(0, 1, False)] * 12)], False, 0)
@example([(1, False, [(0, 1, False)] * 12), (0, False, [(0, 5, False), (1, 1, True)])], True, "ones")
def test_the_same_places_and_arrivals(
    moments: list[tuple[int, bool, list[tuple[int, int, bool]]]], bypass: bool, seed: int | str
) -> None:
    word = {"zeros": 0, "ones": (1 << 32) - 1}.get(str(seed))
    plain = StepQueues(
        random.Random(seed) if word is None else _Constant(word),
        propagation=20,
        express_bytes=ACK_BYTES if bypass else 0,
    )
    plain.record()
    plain.events = clock = _Clock()
    words = TwisterWords(random.Random(seed)) if word is None else _ConstantWords(word)
    queues = ArrayQueues(words, NODES, propagation=20)
    step, arrivals, places = 0, [], []
    for later, between, events in moments:
        step += 1 + later
        if between:  # messages only: nothing arrives there that could be acknowledged
            for sender, count, _ in events:
                clock.steps += 1
                expected = [plain.arrivals(step * TICKS + 1, sender, 0, 100)[0] for _ in range(count)]
                arrival, place = queues.between(step, sender, count)
                assert (arrival * TICKS).tolist() == expected
                places += place.tolist()
            continue
        expected = []
        for sender, count, short in events:
            clock.steps += 1
            for _ in range(count):
                expected += plain.arrivals(step * TICKS, sender, 0, ACK_BYTES if short else 100)
        senders, counts, short_ones = (np.array(values) for values in zip(*events, strict=True))
        arrival, place = queues.at(step, senders, counts, short_ones if bypass else None)
        arrivals = (arrival * TICKS).tolist()
        assert arrivals == expected
        places += place.tolist()
    assert places == list(plain.places)
