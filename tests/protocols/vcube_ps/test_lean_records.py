"""What a node with a log keeps of messages that carry entries of other topics."""

from antecede.core import Message
from antecede.protocols.vcube_ps import Domain, Timing, VCubePs
from antecede.protocols.vcube_ps.packets import Pub, Settled
from antecede.protocols.vcube_ps.records import Carries, Logged, Stable


def _node() -> VCubePs:
    """Node 0 of two: both take `a`, only node 1 takes `b`."""
    domain = Domain(0, drops=True, logged=True)
    timing = Timing(ack_us=1_000, ack_every=64, retry_us=100_000)
    return VCubePs(0, 2, lambda: domain, {"a": 0b11, "b": 0b10}, timing, logged=True)


def _receive(node: VCubePs, seq: int, across: tuple[tuple[str, int, int], ...]) -> list[object]:
    """Give the node the next message of node 1 on `a`; the records that it keeps."""
    node.receive(1, Pub((Message("a", 1, seq, (), b"payload", across, seq),)))
    kept = list(node.out.kept)
    node.out.clear()
    return kept


def test_an_entry_is_kept_once_and_is_carried_on_after_a_crash() -> None:
    node = _node()
    first = _receive(node, 1, (("b", 1, 5),))
    second = _receive(node, 2, (("b", 1, 5),))
    assert first == [Logged(Message("a", 1, 1, (), b"", (), 1), 1), Carries((("b", 1, 5),))]
    assert second == [Logged(Message("a", 1, 2, (), b"", (), 2), 2)]
    again = _node()
    again.restore(first + second)
    for one in (node, again):
        message = one.publish("a", b"")
        assert message is not None
        assert message.across == (("b", 1, 5),)


def test_a_checkpoint_has_the_entries_that_are_carried() -> None:
    kept = _receive(_node(), 1, (("b", 1, 5),))
    again = _node()
    again.restore(_node().compact(kept))
    message = again.publish("a", b"")
    assert message is not None
    assert message.across == (("b", 1, 5),)


def test_news_of_stability_are_kept_with_the_next_message() -> None:
    node = _node()
    _receive(node, 1, ())
    node.receive(1, Settled("a", 1, 1))
    assert not node.out.kept
    assert Stable("a", 1, 1) in _receive(node, 2, ())
