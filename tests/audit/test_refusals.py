"""What the judge refuses to judge, naming the row; and its limits."""

from collections.abc import Iterator

import pytest

from antecede.audit import MESSAGES_MAX, audit
from antecede.core.errors import LimitError, UsageError
from antecede.trace import Event, Row

HELLO = Row(10, Event.PUBLISH, 0, topic="chat", source=0, seq=1)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (HELLO._replace(event=Event.DELIVER, topic=""), "a deliver row without a topic"),
        (HELLO._replace(event=Event.DELIVER, source=-1), "a deliver row without a source"),
        (HELLO._replace(event=Event.DELIVER, seq=-1), "a deliver row without a seq"),
        (HELLO._replace(seq=0), "a publish row without a seq"),
        (HELLO._replace(topic=""), "a publish row without a topic"),
        (HELLO._replace(seq=2, deps=(("chat", -1, 1),)), "a dependency on a publish row without a source"),
        (HELLO._replace(event=Event.SEND, peer=1, topic=""), "a send row without a topic"),
        (HELLO._replace(event=Event.SEND), "a send row without a peer"),
        (Row(10, Event.SUBSCRIBE, 0), "a subscribe row without a topic"),
        (Row(10, Event.UNSUBSCRIBE, 0), "an unsubscribe row without a topic"),
        (Row(10, Event.RECEIVE, -1), "a receive row at node -1"),
        (Row(9, Event.RECEIVE, 0), r"time at node 0 goes backwards, from 10 \(row 0\) to 9"),
    ],
)
def test_malformed_row_is_named(row: Row, problem: str) -> None:
    other_node = Row(20, Event.RECEIVE, 5)
    with pytest.raises(UsageError, match=rf"^trace row 2: {problem}.*; \w"):
        audit([HELLO, other_node, row])


@pytest.mark.parametrize("down", [Event.CRASH, Event.STOP])
@pytest.mark.parametrize("event", [Event.PUBLISH, Event.DELIVER, Event.SEND, Event.RECEIVE, Event.SUBSCRIBE])
def test_node_that_is_down_does_nothing(event: Event, down: Event) -> None:
    act = Row(20, event, 0, peer=1, topic="chat", source=0, seq=2)
    problem = f"trace row 3: an? {event.name.lower()} row at node 0, which went down at row 1;"
    with pytest.raises(UsageError, match=problem):
        audit([HELLO, Row(15, down, 0), Row(16, Event.CRASH, 0), act])


def test_packets_lost_at_a_crashed_node_are_no_contradiction() -> None:
    rows = [HELLO, Row(15, Event.CRASH, 0), Row(16, Event.CRASH, 0), Row(17, Event.DROP, 0), Row(18, Event.RECOVER, 0)]
    assert audit([*rows, HELLO._replace(time_us=20, seq=2)]).ok


def test_time_may_differ_between_nodes_and_stand_still_at_one() -> None:
    assert audit([HELLO, Row(5, Event.RECEIVE, 1), Row(5, Event.RECEIVE, 1), Row(10, Event.RECEIVE, 0)]).ok


def test_time_is_compared_with_the_row_before() -> None:
    with pytest.raises(UsageError, match=r"trace row 2: time at node 0 goes backwards, from 30 \(row 1\) to 20"):
        audit([HELLO, Row(30, Event.RECEIVE, 0), Row(20, Event.RECEIVE, 0)])


def test_only_deliveries_can_be_tagged() -> None:
    rows = [HELLO._replace(note="out_of_order"), Row(20, Event.RECEIVE, 0, note="out_of_order")]
    report = audit(rows)
    assert (report.tagged, report.rule("causal").checked) == (0, 1)


def test_control_packets_are_no_messages() -> None:
    ack = Row(10, Event.SEND, 0, peer=1, packet=1, note="ack")
    report = audit([ack, ack])
    assert report.messages == 0
    assert report.rule("tree-edges-once").checked == 0


def publications(count: int) -> Iterator[Row]:
    return (Row(0, Event.PUBLISH, 0, topic="chat", source=0, seq=seq) for seq in range(1, count + 1))


def test_too_many_messages_are_refused_with_the_remedy() -> None:
    """At the limit, not at the end of the trace: this one has none to speak of."""
    rows = publications(10**12)
    with pytest.raises(LimitError, match=rf"{MESSAGES_MAX + 1}, the limit is {MESSAGES_MAX}; use .*`antecede audit`"):
        audit(rows)
    assert next(rows).seq == MESSAGES_MAX + 2


def test_unknown_rule() -> None:
    with pytest.raises(UsageError, match="rules 'casual': there is no such rule; choose from causal, "):
        audit([], rules=("casual",))
