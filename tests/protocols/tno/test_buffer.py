"""The buffer: what waits for itself is found, as a plain search of all that is held finds it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.core import Message, Verdict
from antecede.protocols.tno.buffer import Begin, Buffer, Place
from antecede.protocols.tno.event import Entry, Event, topic_id

TOPICS = [topic_id(name) for name in "abc"]
PLACE = st.tuples(st.sampled_from(TOPICS), st.integers(2, 5))
#: Events with holes before them, so that all wait; and what each says came before it on other topics.
HELD = st.dictionaries(PLACE, st.lists(PLACE, max_size=3), max_size=8)


def event(place: Place, needs: list[Entry]) -> Event:
    return Event(place[0], place[1], 0, tuple(needs), (), Message("t", 0, 1))


def waits_for(held: dict[Place, list[Entry]], place: Place) -> set[Place]:
    """Everything held that the one at `place` waits for, by way of others or not."""
    found: set[Place] = set()
    to_do = [place]
    while to_do:
        here = to_do.pop()
        for topic, n in [(here[0], here[1] - 1), *held[here]]:
            for other in held:
                if other[0] == topic and other[1] <= n and other not in found:
                    found.add(other)
                    to_do.append(other)
    return found


@settings(deadline=None)
@given(HELD)
def test_circles_are_found_when_they_close(events: dict[Place, list[Entry]]) -> None:
    buffer, held = Buffer(None), dict[Place, list[Entry]]()
    for place, needs in events.items():
        others = [entry for entry in needs if entry[0] != place[0]]
        if buffer.offer(event(place, others), others) is not Verdict.WAITING:
            continue
        held[place] = others
        assert buffer.circles(place) == (place in waits_for(held, place))
        if buffer.circles(place):  # one of them is told, and the buffer is without circles again
            buffer.mark_settled(place)
            del held[place]
            for ready in buffer.take():
                assert not isinstance(ready, Begin)
                held.pop((ready.topic, ready.number), None)


@settings(deadline=None)
@given(HELD, PLACE)
def test_nothing_is_waited_for_on_a_topic_that_is_left(events: dict[Place, list[Entry]], left: Place) -> None:
    buffer = Buffer(None)
    for place, needs in events.items():
        others = [entry for entry in needs if entry[0] != place[0]]
        if buffer.offer(event(place, others), others) is Verdict.WAITING and buffer.circles(place):
            buffer.mark_settled(place)
    buffer.leave(left[0])
    for topic in TOPICS:
        buffer.floor(topic, 1 if topic == left[0] else 0)
    rest = {topic: [place for place in events if place[0] == topic] for topic in TOPICS if topic != left[0]}
    for topic in rest:  # what is missing of the other topics comes, or is given up
        for number in range(1, 6):
            if not buffer.reached((topic, number)):
                buffer.mark_settled((topic, number))
    buffer.take()
    assert buffer.held == 0
