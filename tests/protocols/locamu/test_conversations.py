"""Conversations: whatever links do, parcels are taken once and in order, and pasts are what was said."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.core import Message, Outbox
from antecede.protocols.locamu.conversations import Conversations, Timing
from antecede.protocols.locamu.packets import Data, Parcel

TIMING = Timing(ack_us=10, ack_every=8, retry_us=100)


def data(number: int, past: dict[int, int]) -> Data:
    return Data(Message("t", 0, number), 0, True, {1: number}, {}, past)


class End:
    """One of two neighbours."""

    def __init__(self, life: int = 1) -> None:
        self.out = Outbox()
        self.talks = Conversations(self.out, life, TIMING)
        self.taken: list[tuple[int, dict[int, int]]] = []

    def hear(self, parcel: Parcel) -> bool:
        again, parcels = self.talks.hear(7, parcel)
        for taken in parcels:
            assert taken.data is not None
            self.taken.append((taken.data.message.seq, taken.data.past))
        return again

    def sent(self) -> list[Parcel]:
        parcels = [packet for _, packet in self.out.sends]
        self.out.clear()
        return [parcel for parcel in parcels if isinstance(parcel, Parcel)]


pasts = st.lists(st.dictionaries(st.integers(0, 5), st.integers(1, 9)), min_size=1, max_size=12)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(pasts, st.integers(0, 2**32))
def test_each_once_and_in_order(said: list[dict[int, int]], seed: int) -> None:
    """Parcels are lost, repeated and reordered at random; acknowledgements and repetitions go on until all is heard."""
    rng = random.Random(seed)
    one, other = End(), End()
    one.talks.begin(7)
    under_way: list[Parcel] = []
    for number, past in enumerate(said, 1):
        one.talks.say(7, data=data(number, past))
        under_way += one.sent()
    for _ in range(200):
        if not one.talks.unheard:
            break
        rng.shuffle(under_way)
        for parcel in under_way:
            for _ in range(rng.choice([0, 1, 1, 2])):
                other.hear(parcel)
        under_way.clear()
        other.talks.acknowledge()
        for parcel in other.sent():
            if rng.random() < 0.7:
                one.hear(parcel)
        one.talks.again(7)
        under_way += one.sent()
    assert not one.talks.unheard
    assert other.taken == list(enumerate(said, 1))


def test_only_what_changed_is_said() -> None:
    one = End()
    one.talks.begin(7)
    one.talks.say(7, data=data(1, {1: 1, 2: 5}))
    one.talks.say(7, data=data(2, {1: 2, 2: 5}))
    one.talks.say(7, data=data(3, {2: 5}))
    assert [parcel.data.past for parcel in one.sent() if parcel.data] == [{1: 1, 2: 5}, {1: 2}, {1: 0}]


def test_a_new_conversation_begins_at_the_beginning_and_an_old_one_is_over() -> None:
    one, other = End(), End()
    one.talks.begin(7)
    one.talks.say(7, data=data(1, {1: 1}))
    (old,) = one.sent()
    one.talks.begin(7)
    one.talks.say(7, data=data(2, {1: 1}))
    (new,) = one.sent()
    other.hear(new)
    other.hear(old)
    assert other.taken == [(2, {1: 1})]


def test_a_later_life_is_noticed_once_and_an_earlier_one_ignored() -> None:
    first, second, other = End(1), End(2), End(1)
    for end in (first, second):
        end.talks.begin(7)
        end.talks.say(7, data=data(1, {}))
    (early,), (late,) = first.sent(), second.sent()
    assert not other.hear(early)
    assert other.hear(late)
    assert not other.hear(late)
    assert not other.hear(early)
    assert len(other.taken) == 2


def test_what_was_lost_in_bulk_follows_without_a_pause() -> None:
    one, other = End(), End()
    one.talks.begin(7)
    for number in range(1, 201):
        one.talks.say(7, data=data(number, {}))
    one.sent()  # all lost
    one.talks.again(7)
    rounds = 0
    while one.talks.unheard:
        rounds += 1
        for parcel in one.sent():
            other.hear(parcel)
        other.talks.acknowledge()
        for parcel in other.sent():
            one.hear(parcel)
    assert rounds == 4
    assert [seq for seq, _ in other.taken] == list(range(1, 201))
