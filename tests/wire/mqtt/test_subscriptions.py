"""The subscriptions of a session: which of them a message is given to."""

from antecede.wire.mqtt.subscriptions import Given, Subscription, Subscriptions


def test_a_message_from_before_a_subscription_is_given_to_the_others_only() -> None:
    """By its position at this node, or by stream and number, where it has none or came to another node."""
    subscriptions = Subscriptions()
    subscriptions.add(Subscription(pattern="t", qos=1, identifier=1))
    subscriptions.add(Subscription(pattern="#", qos=2, identifier=2, since=5, after=((7, 3), (8, 9))))
    old, both = Given(1, (1,), False), Given(2, (1, 2), False)

    def decide(position: int, name: tuple[int, int]) -> Given | None:
        found = subscriptions.decide("t", position, own=False, name=name)
        return found and found._replace(identifiers=tuple(sorted(found.identifiers)))

    assert decide(0, (7, 3)) == decide(6, (8, 9)) == decide(5, (7, 4)) == old
    assert decide(0, (7, 4)) == decide(6, (8, 10)) == decide(0, (9, 1)) == both
    assert subscriptions.decide("u", 0, own=False, name=(7, 3)) is None
