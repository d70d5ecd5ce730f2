"""A subscriber's order by rounds: whatever is lost, repeated or overtaken, what it delivers is in causal order, and
once its broker has said how far it is and sent what was asked for, it has everything; with any number of colours."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.core import Message, TopicMessageId
from antecede.protocols.gossip.packets import Copy, Notice, Standing
from antecede.protocols.gossip.plan import Plan
from antecede.protocols.gossip.round_reader import RoundReader

GROUPS = ("g",)
BROKERS = 3


class Home:
    """A broker that has delivered some messages of a random past, in an order that respects it."""

    def __init__(self, rng: random.Random, count: int, colours: int) -> None:
        self.plan = Plan(tuple([("g", source) for source in range(BROKERS)]), colours)
        self.past: dict[TopicMessageId, frozenset[TopicMessageId]] = {}
        self.round: dict[TopicMessageId, int] = {}
        seen: list[set[TopicMessageId]] = [set() for _ in range(BROKERS)]
        times = [0] * BROKERS
        for _ in range(count):
            source = rng.randrange(BROKERS)
            for name in self.past:
                if name not in seen[source] and self.past[name] <= seen[source] and rng.random() < 0.5:
                    seen[source].add(name)
                    times[source] = max(times[source], self.round[name])
            times[source] += rng.choice([1, 1, 2, 6])
            name = TopicMessageId("g", source, 1 + sum([other.source == source for other in self.past]))
            self.past[name] = frozenset(seen[source])
            self.round[name] = times[source]
            seen[source].add(name)
        self.order: list[TopicMessageId] = []
        while len(self.order) < count:  # slow ones come late: not by rounds
            ready = [name for name in self.past if name not in self.order and self.past[name] <= set(self.order)]
            self.order.append(rng.choice(ready))

    def copy(self, name: TopicMessageId) -> Copy:
        last: dict[tuple[str, int], int] = {}
        for before in self.past[name]:
            stream = (before.topic, before.source)
            last[stream] = max(last.get(stream, 0), self.round[before])
        round_ = self.round[name]
        return Copy(Message(*name), self.plan.code(round_), self.plan.ages(round_, last))

    def notices(self) -> list[Notice]:
        return [
            Notice(GROUPS, (self.copy(name),), after=count, upto=count + 1) for count, name in enumerate(self.order, 1)
        ]

    def standing(self, delivered: int) -> Standing:
        names = self.order[:delivered]
        levels = {(name.topic, name.source): name.seq for name in names}
        clock = max([self.round[name] for name in names], default=0)
        return Standing(tuple([(*stream, seq) for stream, seq in levels.items()]), clock, GROUPS, 0, 1 + delivered)


@settings(max_examples=150, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 30), st.sampled_from([2, 4, 32]), st.sampled_from([2, 1000]))
def test_in_causal_order_and_complete(rng: random.Random, count: int, colours: int, held_max: int) -> None:
    home = Home(rng, count, colours)
    reader = RoundReader(lambda topic: True, home.plan, held_max=held_max, pull=True)
    got: list[TopicMessageId] = []

    def deliver(messages: list[Message]) -> None:
        for message in messages:
            assert message.id not in got
            assert home.past[message.id] <= set(got), f"{message.id} before what it depends on"
            got.append(message.id)

    notices = home.notices()
    kept = [notice for notice in notices if rng.random() < 0.7]
    early = {
        place: home.standing(rng.randint(0, count)) for place in rng.sample(range(count + 1), 2 if count > 1 else 1)
    }
    for place, notice in enumerate(rng.sample(kept, len(kept)) + rng.sample(kept, len(kept) // 4)):
        deliver(reader.take(notice, 0, home=True))
        if rng.random() < 0.2:  # somebody else's answer: it says nothing of what the home broker told before
            answered = rng.choice(home.order)
            deliver(reader.take(Notice(GROUPS, (home.copy(answered),)), 0, home=False))
        if place in early:
            deliver(reader.claim(early[place]))
    deliver(reader.claim(home.standing(count)))
    for _ in range(count):
        for name in home.order:
            deliver(reader.take(Notice(GROUPS, (home.copy(name),)), 0, home=True))
    assert len(got) == count
    assert not reader.held
    assert reader.late == reader.given_up == 0
