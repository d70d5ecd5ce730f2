"""Topics, filters, homes and streams of partitions."""

from collections import Counter

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from antecede.core.limits import PARTITIONS_MAX, SLOTS_MAX
from antecede.core.message import Message
from antecede.core.partitions import Partitions, Stream, homes, split_stream, stream_of
from antecede.wire.topics import TopicFilter

LEVEL = st.text("abc1 $é", min_size=0, max_size=3)
TOPICS = st.lists(LEVEL, min_size=1, max_size=4).map("/".join).filter(bool)
FILTERS = st.tuples(st.lists(st.one_of(LEVEL, st.just("+")), min_size=1, max_size=4), st.booleans()).map(
    lambda drawn: "/".join([*drawn[0], "#"] if drawn[1] else drawn[0])
)
MEMBERS = st.sets(st.integers(0, SLOTS_MAX - 1), min_size=1, max_size=20)


@given(FILTERS.filter(bool), TOPICS, st.integers(1, PARTITIONS_MAX), st.integers(1, 4))
def test_a_filter_needs_the_partition_of_every_topic_it_takes(
    pattern: str, topic: str, count: int, levels: int
) -> None:
    partitions = Partitions(count, levels, "main")
    needed = partitions.of_filter(pattern)
    assert len(needed) in (1, count)
    if TopicFilter(pattern).matches(topic):
        assert partitions.of(topic) in needed


@given(TOPICS, TOPICS)
def test_topics_with_the_same_first_levels_are_neighbours(first: str, rest: str) -> None:
    partitions = Partitions(64, 2, "main")
    key = "/".join([*first.split("/"), "x"][:2])
    assert partitions.of(f"{key}/{rest}") == partitions.of(key)
    assert partitions.of_filter(f"{key}/#") == {partitions.of(key)}


def test_the_hash_of_a_topic_never_changes() -> None:
    partitions = Partitions(64, 2, "main")
    assert [partitions.of(topic) for topic in ("rooms/42/chat", "rooms/43/chat", "a", "é")] == [18, 10, 35, 40]
    assert homes(7, range(16), 3) == (13, 1, 14)


def test_topics_spread_evenly() -> None:
    partitions = Partitions(64, 2, "main")
    counts = Counter(partitions.of(f"rooms/{number}") for number in range(64_000))
    assert len(counts) == 64
    assert 800 < min(counts.values()) <= max(counts.values()) < 1200


def test_homes_spread_evenly() -> None:
    counts = Counter(home for partition in range(64) for home in homes(partition, range(8), 3))
    assert min(counts.values()) > 12


@given(st.integers(0, PARTITIONS_MAX - 1), MEMBERS, st.integers(0, SLOTS_MAX - 1), st.integers(1, 5))
def test_a_node_that_comes_or_goes_changes_one_home_at_most(
    partition: int, members: set[int], other: int, replicas: int
) -> None:
    """It takes the last home's part, or another takes its own. The homes that stay keep their order."""
    without, with_it = members - {other}, members | {other}
    before, after = homes(partition, without, replicas), homes(partition, with_it, replicas)
    assert len(before) == min(replicas, len(without))
    assert set(after) - set(before) <= {other}
    assert len(set(before) - set(after)) <= 1
    assert [one for one in before if one in after] == [one for one in after if one in before]


@given(st.integers(0, PARTITIONS_MAX - 1), st.integers(0, SLOTS_MAX - 1))
def test_a_stream_names_its_partition_and_its_slot(partition: int, slot: int) -> None:
    stream = stream_of(partition, slot)
    assert split_stream(stream) == (partition, slot)
    assert msgspec.convert(stream, Stream) == stream, "the wire would refuse it"
    partitions = Partitions(PARTITIONS_MAX, 2, "main")
    assert partitions.stream(partitions.names[partition], slot) == stream
    assert partitions.number(partitions.names[partition]) == partition


def test_dependencies_name_streams() -> None:
    message = Message("p2", 5, 7, ((3, 1),), b"", (("p0", 4, 9), ("p255", 1023, 2)))
    partitions = Partitions(256, 2, "main")
    assert partitions.streams([message]) == [2053]
    assert partitions.dependencies(message) == ((2051, 1), (4, 9), (262143, 2))
    assert partitions.number("p256") == -1


def test_one_partition_is_the_domain_and_its_streams_are_sources() -> None:
    partitions = Partitions(1, 2, "main")
    message = Message("main", 5, 7, ((3, 1),))
    assert partitions.names == ("main",)
    assert partitions.of("any/topic") == 0
    assert partitions.of_filter("#") == {0}
    assert partitions.streams([message]) == [5]
    assert partitions.dependencies(message) is message.deps
