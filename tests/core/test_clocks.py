"""The stampers: the papers' figures, then random histories against the whole causal past."""

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.core import Dependency, Frontier, Gate, Message, VectorClock, Verdict, clocks
from antecede.core.clocks import DomainFrontier, GroupVectors, Stamper


class Talker:
    """A process that stamps what it publishes and delivers, without a gate, what the test gives it."""

    def __init__(self, number: int, clock: Stamper) -> None:
        self.number, self.clock, self.published = number, clock, 0

    def publish(self) -> Message:
        self.published += 1
        return Message("t", self.number, self.published, self.clock.stamp())

    def deliver(self, *messages: Message) -> None:
        for message in messages:
            self.clock.observe(message)


def barrier(message: Message) -> set[Dependency]:
    """The causal barrier as the papers write it: what is carried, and the source's own previous message."""
    previous = {(message.source, message.seq - 1)} if message.seq > 1 else set()
    return {*message.deps, *previous}


def talkers(count: int, clock: type[Frontier] | type[VectorClock]) -> list[Talker]:
    return [Talker(number, clock()) for number in range(count)]


# -- the papers' figures ----------------------------------------------------------------------------------------------


def test_figure_2_4_causal_barriers() -> None:
    """cb(m1) = {m0} and cb(m3) = {m2, m1}: m0 precedes m1, which stands for it."""
    p0, p1, p2 = talkers(3, Frontier)
    m0 = p0.publish()
    m2 = p2.publish()  # concurrent with m0
    p1.deliver(m0)
    m1 = p1.publish()
    p1.deliver(m2)
    m3 = p1.publish()
    assert barrier(m0) == set()
    assert barrier(m2) == set()
    assert barrier(m1) == {(0, 1)}
    assert barrier(m3) == {(2, 1), (1, 1)}
    assert m3.deps == ((2, 1),)  # its own previous message is implied by its number


def test_figure_2_4_whoever_answers() -> None:
    """The text does not say who sends m3. Published by p0, whose own m0 is two steps back, it names both."""
    p0, p1, p2 = talkers(3, Frontier)
    m0 = p0.publish()
    m2 = p2.publish()
    p1.deliver(m0)
    m1 = p1.publish()
    p0.deliver(m1, m2)
    assert set(p0.publish().deps) == {(2, 1), (1, 1)}


def test_figure_2_4_vector_clocks_keep_the_indirect_dependency() -> None:
    """Section 2.2.3: by vectors one knows that m0 → m3, by barriers one does not."""
    p0, p1, p2 = talkers(3, VectorClock)
    m0 = p0.publish()
    p1.deliver(m0)
    m1 = p1.publish()
    p2.deliver(m0, m1)
    m3 = p2.publish()
    assert set(m3.deps) == {(0, 1), (1, 1)}

    p0, p1, p2 = talkers(3, Frontier)
    m0 = p0.publish()
    p1.deliver(m0)
    m1 = p1.publish()
    p2.deliver(m0, m1)
    assert set(p2.publish().deps) == {(1, 1)}


def test_figure_5_3_causal_barriers() -> None:
    """cb(m_{1,t,1}) = {m_{0,t,1}}; cb(m_{1,t,2}) = {m_{2,t,1}, m_{1,t,1}}, without m_{0,t,1}."""
    p0, p1, p2 = talkers(3, Frontier)
    m01, m21 = p0.publish(), p2.publish()
    p1.deliver(m01)
    m11 = p1.publish()
    p1.deliver(m21)
    m12 = p1.publish()
    assert barrier(m11) == {(0, 1)}
    assert barrier(m12) == {(2, 1), (1, 1)}


def test_figure_5_3_a_later_subscriber_does_not_wait_for_what_it_never_gets() -> None:
    """Section 5.4.1: p3 joins after m_{0,t,1} and m_{2,t,1}; here it is told so by floors, and delivers the rest."""
    p0, p1, p2 = talkers(3, Frontier)
    m01, m21 = p0.publish(), p2.publish()
    p1.deliver(m01)
    m11 = p1.publish()
    p1.deliver(m21)
    m12 = p1.publish()

    p3: Gate[Message] = Gate()
    p3.floor(0, m01.seq)
    p3.floor(2, m21.seq)
    assert p3.offer(m12, [(1, 2)], m12.deps) is Verdict.WAITING  # for m11, which will come
    assert p3.offer(m11, [(1, 1)], m11.deps) is Verdict.READY
    assert p3.drain() == [m11, m12]


# -- small print ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clock", [Frontier, VectorClock])
def test_a_stamp_is_given_once(clock: type[Frontier] | type[VectorClock]) -> None:
    me, other = talkers(2, clock)
    me.deliver(other.publish())
    assert me.publish().deps == ((1, 1),)
    assert me.publish().deps == ()


@pytest.mark.parametrize("clock", [Frontier, VectorClock])
def test_a_stamp_names_each_source_once_at_its_latest(clock: type[Frontier] | type[VectorClock]) -> None:
    me, other = talkers(2, clock)
    me.deliver(other.publish(), other.publish(), other.publish())
    assert me.publish().deps == ((1, 3),)


def test_a_frontier_leaves_only_so_much_for_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """When it looks at what was delivered changes nothing about what it says, and what it notes is bounded."""
    monkeypatch.setattr(clocks, "_COLLECTED_MAX", 4)
    me, *others = talkers(4, Frontier)
    for _ in range(30):
        for other in others:
            message = other.publish()
            for talker in (me, *others):
                if talker is not other:
                    talker.deliver(message)
            assert len(me.clock._collected) < 3 * 4  # type: ignore[attr-defined]
    assert me.publish().deps == ((3, 30),)  # the last one covers all the others


def test_a_frontier_keeps_what_is_newer_than_a_dependency() -> None:
    """1.2 is concurrent with 2.1, which depends on 1.1: both stay."""
    me, one, two = talkers(3, Frontier)
    first, second = one.publish(), one.publish()
    two.deliver(first)
    answer = two.publish()
    me.deliver(first, second, answer)
    assert set(me.publish().deps) == {(1, 2), (2, 1)}


def test_a_frontier_knows_its_size() -> None:
    frontier = Frontier()
    frontier.observe(Message("t", 1, 1))
    frontier.observe(Message("t", 2, 1))
    assert len(frontier) == 2
    frontier.observe(Message("t", 3, 1, ((1, 1), (2, 1))))
    assert len(frontier) == 1
    frontier.stamp()
    assert len(frontier) == 0


def test_a_vector_clock_counts_what_was_delivered() -> None:
    me, other = talkers(2, VectorClock)
    me.deliver(other.publish(), other.publish())
    assert isinstance(me.clock, VectorClock)
    me.clock.stamp()
    assert me.clock[1] == 2
    assert me.clock[7] == 0


def test_a_reader_of_several_feeds_names_its_maximal_elements() -> None:
    """What a client sends along (`live.client`): a source's messages may come to it out of order."""
    frontier = Frontier()
    frontier.read(1, 5)
    frontier.read(1, 4, ((2, 1),))  # an older one, on another feed
    assert frontier.entries() == ((1, 5),)
    frontier.read(3, 1, ((1, 5),))
    assert frontier.entries() == ((3, 1),)
    frontier.read(4, 2)
    assert sorted(frontier.stamp()) == [(3, 1), (4, 2)]
    assert not frontier
    frontier.put_back(((3, 1), (4, 2)))
    frontier.read(3, 2)
    frontier.put_back(((3, 1),))
    assert frontier.entries() == ((3, 2), (4, 2))


def test_a_topic_of_several_groups_is_covered_by_one_with_all_of_them() -> None:
    frontier = DomainFrontier(0, frozenset)
    for topic in ("a", "ab", "b"):
        frontier.observe(Message(topic, 1, 1), lambda *entry: True)
    assert frontier.stamp("ab", 1) == (((1, 1),), (("a", 1, 1), ("b", 1, 1)))
    assert frontier.entries() == (("ab", 0, 1),)
    assert frontier.stamp("a", 1)[1] == (("ab", 0, 1),)  # who takes b alone must still be told of it
    assert set(frontier.entries()) == {("ab", 0, 1), ("a", 0, 1)}


def test_group_vectors_name_everything() -> None:
    vectors = GroupVectors(0)
    vectors.observe(Message("a", 1, 2, ((2, 7),), b"", (("b", 3, 4),)), lambda *entry: False)
    assert vectors.stamp("a", 1) == (((1, 2), (2, 7)), (("b", 3, 4),))
    assert vectors.ahead("a") == ((1, 2), (2, 7), (0, 1))


# -- random histories against the whole causal past -------------------------------------------------------------------

Name = tuple[int, int]


class Everything:
    """Random broadcasts among `count` processes. Whoever may deliver is decided by the whole causal past of a message;
    frontiers, delta clocks and gates come along and must say the same."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.past: dict[Name, set[Name]] = {}
        self.delivered: list[set[Name]] = [set() for _ in range(count)]
        self.waiting: list[list[Name]] = [[] for _ in range(count)]
        self.under_way: list[tuple[int, Name]] = []
        self.frontiers = [Frontier() for _ in range(count)]
        self.vectors = [VectorClock() for _ in range(count)]
        self.stamps: dict[str, dict[Name, Message]] = {"frontier": {}, "delta": {}}
        self.gates: dict[str, list[Gate[Name]]] = {what: [Gate() for _ in range(count)] for what in self.stamps}

    def publish(self, node: int) -> Name:
        name = (node, sum(source == node for source, _ in self.past) + 1)
        self.past[name] = set(self.delivered[node])
        self.delivered[node].add(name)
        self.stamps["frontier"][name] = Message("t", *name, self.frontiers[node].stamp())
        self.stamps["delta"][name] = Message("t", *name, self.vectors[node].stamp())
        for gates in self.gates.values():
            gates[node].mark_settled(*name)
        self.under_way += [(to, name) for to in range(self.count) if to != node]
        return name

    def receive(self, node: int, name: Name) -> dict[str, list[Name]]:
        """What is delivered now, by the whole past and by each gate."""
        self.waiting[node].append(name)
        out = {"past": list(self._deliver_by_past(node))}
        for what, gates in self.gates.items():
            gates[node].offer(name, [name], self.stamps[what][name].deps)
            out[what] = gates[node].drain()
        for delivered in out["delta"]:
            self.vectors[node].observe(self.stamps["delta"][delivered])
        for delivered in out["frontier"]:
            self.frontiers[node].observe(self.stamps["frontier"][delivered])
        return out

    def _deliver_by_past(self, node: int) -> Iterator[Name]:
        delivered, waiting = self.delivered[node], self.waiting[node]
        while (name := next((name for name in waiting if self.past[name] <= delivered), None)) is not None:
            waiting.remove(name)
            delivered.add(name)
            yield name

    def full_clock(self, name: Name) -> dict[int, int]:
        past = self.past.get(name, set())
        return {source: max(n for s, n in past if s == source) for source in {s for s, _ in past}}

    def immediate(self, name: Name) -> set[Name]:
        """What precedes `name` with nothing in between: the transitive reduction, the slow way."""
        past = self.past[name]
        return {one for one in past if not any(one in self.past[other] for other in past)}


@st.composite
def choices(draw: st.DrawFn) -> tuple[int, list[tuple[bool, int]]]:
    """How many processes, and at each step whether somebody publishes or something arrives, and who or what."""
    length = draw(st.integers(0, 60))
    step = st.tuples(st.integers(0, 3).map(lambda die: die == 0), st.integers(0, 999))
    return draw(st.integers(2, 5)), draw(st.lists(step, min_size=length, max_size=length))


def histories(
    count: int, steps: Sequence[tuple[bool, int]]
) -> Iterator[tuple[Everything, Name | None, dict[str, list[Name]]]]:
    """Each step of a random history: everything, what was published (if so), what was delivered."""
    everything = Everything(count)
    for talks, number in steps:
        if talks or not everything.under_way:
            yield everything, everything.publish(number % count), {}
        else:
            to, name = everything.under_way.pop(number % len(everything.under_way))
            yield everything, None, everything.receive(to, name)
    while everything.under_way:
        to, name = everything.under_way.pop()
        yield everything, None, everything.receive(to, name)


def check_stamps(choice: tuple[int, list[tuple[bool, int]]]) -> None:
    for everything, published, _ in histories(*choice):
        if published is None:
            continue
        source, seq = published
        immediate = everything.immediate(published)
        frontier = everything.stamps["frontier"][published].deps
        assert len(set(frontier)) == len(frontier)
        assert set(frontier) == {name for name in immediate if name[0] != source}
        # What is left out is one's own previous message, which its number implies.
        assert immediate - set(frontier) <= {(source, seq - 1)}

        now, before = everything.full_clock(published), everything.full_clock((source, seq - 1))
        changed = {(other, n) for other, n in now.items() if other != source and before.get(other) != n}
        delta = everything.stamps["delta"][published].deps
        assert len(set(delta)) == len(delta)
        assert set(delta) == changed
        assert set(frontier) <= set(delta)  # thesis 3.3.3, Figure 3.1: barriers carry the least


def check_deliveries(choice: tuple[int, list[tuple[bool, int]]]) -> None:
    everything = Everything(choice[0])
    for everything, published, delivered in histories(*choice):
        if published is None:
            assert set(delivered["delta"]) == set(delivered["past"])
            assert set(delivered["frontier"]) == set(delivered["past"])
            assert everything.gates["delta"][0].held == len(everything.waiting[0])
    everybody = set(everything.past)
    assert all(delivered == everybody for delivered in everything.delivered), "something never arrived"


quick = settings(max_examples=120, deadline=None, derandomize=True)
search = settings(max_examples=5000, deadline=None)


@quick
@given(choices())
def test_a_frontier_is_the_immediate_predecessors_and_a_delta_what_changed(
    choice: tuple[int, list[tuple[bool, int]]],
) -> None:
    check_stamps(choice)


@quick
@given(choices())
def test_deltas_and_frontiers_deliver_what_full_clocks_deliver(choice: tuple[int, list[tuple[bool, int]]]) -> None:
    """After every reception: changed entries and each source's own order stand for the whole clock."""
    check_deliveries(choice)


@pytest.mark.slow
@search
@given(choices())
def test_clocks_long_search(choice: tuple[int, list[tuple[bool, int]]]) -> None:
    check_stamps(choice)
    check_deliveries(choice)
