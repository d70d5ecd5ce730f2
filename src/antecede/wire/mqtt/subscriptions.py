"""The subscriptions of one session: which messages it is given, and how.

A message that several subscriptions match is given once, with the highest QoS among them ([MQTT-3.3.4-2]) and all their
identifiers ([MQTT-3.3.4-3], [MQTT-3.3.4-4]). Shared subscriptions are kept here, too, and matched by their group.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from antecede.wire.topics import FilterMap


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """One subscription, with its options (3.8.3.1)."""

    pattern: str
    qos: int
    #: The group that shares it; "": it is not shared.
    group: str = ""
    no_local: bool = False
    retain_as_published: bool = False
    #: 0: it has none.
    identifier: int = 0
    #: Messages at or before this position came before the subscription.
    since: int = 0
    #: The same by stream, which holds at other nodes and for messages from them: for a client that was behind.
    after: tuple[tuple[int, int], ...] = ()

    def follows(self, name: tuple[int, int] | None) -> bool:
        """Did it begin `after` a message, by its stream and number?"""
        return name is not None and any(at == name[0] and name[1] <= seq for at, seq in self.after)

    @property
    def full(self) -> str:
        """The filter as the client wrote it."""
        return f"$share/{self.group}/{self.pattern}" if self.group else self.pattern


class Given(NamedTuple):
    """How a message is given to a client."""

    qos: int
    identifiers: tuple[int, ...]
    retain_as_published: bool


class Subscriptions:
    """By their filters. A second one with the same filter replaces the first ([MQTT-3.8.4-3])."""

    def __init__(self) -> None:
        self._by_full: dict[str, Subscription] = {}
        self._matching: FilterMap[str] = FilterMap()

    def __len__(self) -> int:
        return len(self._by_full)

    def __iter__(self) -> Iterator[Subscription]:
        return iter(list(self._by_full.values()))

    def get(self, full: str) -> Subscription | None:
        return self._by_full.get(full)

    def add(self, one: Subscription) -> Subscription | None:
        """Add or replace; the one that was there."""
        former = self._by_full.get(one.full)
        self._by_full[one.full] = one
        if former is None and not one.group:
            self._matching.add(one.pattern, one.pattern)
        return former

    def remove(self, full: str) -> Subscription | None:
        former = self._by_full.pop(full, None)
        if former is not None and not former.group:
            self._matching.remove(former.pattern, former.pattern)
        return former

    def takes(self, topic: str) -> bool:
        """Does one that is not shared match?"""
        return bool(self._matching.matching(topic))

    def decide(self, topic: str, position: int, *, own: bool, name: tuple[int, int] | None = None) -> Given | None:
        """How to give a message to the client; None: not at all. `own`: the client published it itself.

        Position 0: the message comes from another node, for a client that has not had it. `name`: stream and number.
        """
        qos, rap = -1, False
        identifiers: tuple[int, ...] = ()
        for pattern in self._matching.matching(topic):
            one = self._by_full[pattern]
            if 0 < position <= one.since or (own and one.no_local):  # [MQTT-3.8.3-3]
                continue
            if one.after and one.follows(name):
                continue
            qos, rap = max(qos, one.qos), rap or one.retain_as_published
            if one.identifier:  # 3.3.4: also the same one again
                identifiers = (*identifiers, one.identifier)
        return None if qos < 0 else Given(qos, identifiers, rap)
