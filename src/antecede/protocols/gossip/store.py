"""The messages that a broker stores: young ones to push, older ones to give to those that ask.

A message is pushed in every round while it is younger than `young` rounds. It can be pulled until it is `retain` rounds
old (the paper's stale-message removal). When there are more than `capacity` messages, or
`bytes_max` bytes of payload, the oldest are dropped.
"""

from collections import deque
from collections.abc import Iterator

from antecede.protocols.gossip.packets import Rumour


class Store:
    """Messages by stream (topic, source), with the round in which each came."""

    def __init__(self, *, young: int, retain: int, capacity: int, bytes_max: int) -> None:
        """`retain` 0: messages are kept as long as there is room."""
        self._young = young
        self._retain = retain
        self._capacity = capacity
        self._bytes_max = bytes_max
        self._bytes = 0
        self._streams: dict[tuple[str, int], dict[int, Rumour]] = {}
        # In order of arrival: (round, message).
        self._all: deque[tuple[int, Rumour]] = deque()
        self._pushed: deque[tuple[int, Rumour]] = deque()

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, name: tuple[str, int, int]) -> bool:
        topic, source, seq = name
        return seq in self._streams.get((topic, source), ())

    def add(self, rumour: Rumour, now: int, *, push: bool = True) -> None:
        message = rumour.message
        self._streams.setdefault((message.topic, message.source), {})[message.seq] = rumour
        self._all.append((now, rumour))
        if push:
            self._pushed.append((now, rumour))
        self._bytes += len(message.payload)
        while len(self._all) > self._capacity or (self._bytes > self._bytes_max and len(self._all) > 1):
            self._drop()

    def expire(self, now: int) -> None:
        """Drop messages that are too old to push or to pull."""
        while self._pushed and now - self._pushed[0][0] >= self._young:
            self._pushed.popleft()
        while self._retain and self._all and now - self._all[0][0] >= self._retain:
            self._drop()

    @property
    def young(self) -> list[Rumour]:
        """The messages to push in this round."""
        return [rumour for _, rumour in self._pushed]

    def stream(self, topic: str, source: int) -> Iterator[Rumour]:
        """The stored messages of one stream, by sequence number."""
        found = self._streams.get((topic, source), {})
        for seq in sorted(found):
            yield found[seq]

    def run(self, topic: str, source: int, first: int, last: int, bytes_max: int | None = None) -> list[Rumour]:
        """The stored messages of one stream from `first` to `last`, as far as none is missing.

        `bytes_max`: payload bytes, about; at least one message in any case.
        """
        found = self._streams.get((topic, source), {})
        run: list[Rumour] = []
        size = 0
        while first + len(run) <= last and (rumour := found.get(first + len(run))) is not None:
            if bytes_max is not None and run and size >= bytes_max:
                break
            run.append(rumour)
            size += len(rumour.message.payload)
        return run

    def streams(self) -> list[tuple[str, int]]:
        return list(self._streams)

    def _drop(self) -> None:
        _, rumour = self._all.popleft()
        message = rumour.message
        self._bytes -= len(message.payload)
        stream = self._streams[message.topic, message.source]
        stream.pop(message.seq, None)
        if not stream:
            del self._streams[message.topic, message.source]
