"""A member that does not keep up holds publishers up for `Timing.patience_us` at most, and slows them after that."""

from antecede.protocols.vcube_ps import Timing, TopicOrder, VCubePs
from antecede.protocols.vcube_ps.packets import Have
from antecede.protocols.vcube_ps.window import HOLD_UP, PACE
from tests.protocols.vcube_ps.test_missing import tick

WINDOW, PATIENCE_US = 8, 10_000


def acknowledge(process: VCubePs, node: int, got: int) -> None:
    process.receive(node, Have("t", 0, got, got, 0))


def publisher() -> VCubePs:
    """Node 0 of four. It has filled its window: nodes 1 and 2 have all of it, node 3 only the first message."""
    times = Timing(ack_us=100, ack_every=1000, retry_us=1000, patience_us=PATIENCE_US)
    process = VCubePs(0, 4, lambda: TopicOrder(0), {"t": 0b1111}, times, window=WINDOW, logged=True)
    process.start()
    assert process.publish("t", b"")
    acknowledge(process, 3, 1)
    for node in (1, 2):
        acknowledge(process, node, 1)
    for _ in range(WINDOW):
        assert process.publish("t", b"")
    for node in (1, 2):
        acknowledge(process, node, WINDOW + 1)
    return process


def test_a_member_that_does_not_keep_up_holds_a_full_window_for_a_time_only() -> None:
    process = publisher()
    assert process.publish("t", b"held up") is None
    published = process.last_published("t")
    assert published == WINDOW + 1
    assert tick(process, HOLD_UP) == PATIENCE_US
    assert process.last_published("t") == published + 1


def test_publishers_slow_down_while_a_member_is_behind() -> None:
    """A quarter of a window in a period, and one more for every two messages that the member gets."""
    process = publisher()
    for _ in range(20):
        process.publish("t", b"")
    tick(process, HOLD_UP)
    published = process.last_published("t")
    assert published == WINDOW + 1 + WINDOW // 4
    acknowledge(process, 3, 3)
    assert process.last_published("t") == published + 1
    for node in (1, 2):
        acknowledge(process, node, published + 1)
    process.out.wake_after(0, (PACE, "t"))
    tick(process, PACE)
    assert process.last_published("t") == published + 1 + WINDOW // 4
