"""The past of a client: what its publications name, at one node and after a move."""

from hypothesis import given
from hypothesis import strategies as st

from antecede.client.past import Past
from antecede.core.clocks import Frontier
from antecede.core.partitions import stream_of

SOURCES = st.integers(0, 3)


@given(
    st.lists(
        st.one_of(
            st.tuples(SOURCES, st.integers(1, 9), st.lists(st.tuples(SOURCES, st.integers(1, 9)), max_size=3)),
            st.just("stamp"),
        ),
        max_size=30,
    )
)
def test_in_one_partition_it_names_what_a_frontier_names(
    steps: list[tuple[int, int, list[tuple[int, int]]] | str],
) -> None:
    """After each publication is acknowledged, both remember the same."""
    past, frontier = Past(), Frontier()
    published = 0
    for step in steps:
        if isinstance(step, str):
            entries = past.stamp()
            assert sorted(entries) == sorted(frontier.stamp())
            published += 1
            past.published(7, entries)
            past.read(7, published)
            frontier.read(7, published)
        else:
            source, seq, deps = step
            if deps:
                past.read(source, seq, tuple(deps))
            elif past.newly_read.get(source, 0) < seq:  # as a feed does
                past.newly_read[source] = seq
            frontier.read(source, seq, tuple(deps))
    told = past.entries()
    past.tell_again()
    assert sorted(past.entries()) == sorted(told)


def test_a_message_covers_those_of_its_own_partition_only() -> None:
    past = Past()
    past.read(stream_of(3, 1), 5)
    past.read(stream_of(2, 0), 1)
    past.read(stream_of(2, 1), 9, ((stream_of(2, 0), 1), (stream_of(3, 1), 5)))
    assert set(past.stamp()) == {(stream_of(3, 1), 5), (stream_of(2, 1), 9)}
    assert past.entries() == ()
    past.published(stream_of(2, 4), [(stream_of(3, 1), 5), (stream_of(2, 1), 9)])
    past.read(stream_of(2, 4), 1)
    past.tell_again()
    assert set(past.entries()) == {(stream_of(3, 1), 5), (stream_of(2, 4), 1)}


def test_a_publication_that_failed_is_named_again() -> None:
    past = Past()
    past.read(1, 5)
    entries = past.stamp()
    past.read(1, 6)
    past.put_back(entries)
    assert past.entries() == ((1, 6),)
