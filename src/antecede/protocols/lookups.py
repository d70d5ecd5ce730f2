"""Look-ups in a node's log on behalf of other nodes that ask for old messages."""

from collections.abc import Sequence
from typing import Final

from antecede.core.message import Message
from antecede.core.process import Outbox

#: Payload bytes of one answer and of one of its packets.
ANSWER_BYTES: Final = 1024 * 1024
PACKET_BYTES: Final = 32 * 1024

#: Look-ups a node has under way for others. A request beyond that is dropped, and its sender asks again.
_LOOKUPS_MAX: Final = 256


class LookUps:
    """Ranges that are being read from the log, each once, and the nodes that asked for them."""

    def __init__(self, out: Outbox) -> None:
        self._out = out
        self._asking: dict[tuple[str, int, int, int], list[int]] = {}

    def begin(self, asker: int, topic: str, source: int, first: int, last: int) -> None:
        """Read the source's messages `first` to `last` for `asker`."""
        key = (topic, source, first, last)
        asking = self._asking.get(key)
        if asking is not None:
            if asker not in asking:
                asking.append(asker)
        elif len(self._asking) < _LOOKUPS_MAX:
            self._asking[key] = [asker]
            self._out.look_up(topic, source, first, last, ANSWER_BYTES)

    def done(self, topic: str, source: int, first: int, last: int) -> list[int]:
        """The range was read: return the nodes that asked for it."""
        return self._asking.pop((topic, source, first, last), [])


def run_of(messages: Sequence[Message], first: int) -> list[Message]:
    """The messages of one source from `first` on, as far as none is missing. They come by sequence number."""
    run: list[Message] = []
    for message in messages:
        if message.seq == first + len(run):
            run.append(message)
    return run


def weight(message: Message) -> int:
    """Bytes of a message in a packet, about: its payload, and what its header takes."""
    return len(message.payload) + 64
