"""A publisher that sends its next message when the one before has reached every member: the base of two protocols."""

from abc import abstractmethod
from collections import deque

from antecede.core import Message, UsageError
from antecede.core.limits import HELD_MESSAGES_MAX
from antecede.protocols.flooding.process import FixedGroups
from antecede.protocols.flooding.routes import Routes


class OneAtATime(FixedGroups):
    """A node with at most one message of its own in flight. The subclass says when it has arrived."""

    def __init__(self, node: int, routes: Routes) -> None:
        super().__init__(node, routes)
        self._seq: dict[str, int] = {}
        #: Publications that wait for the one in flight.
        self._queue: deque[tuple[str, bytes]] = deque()
        self._in_flight = False

    def publish(self, topic: str, payload: bytes) -> Message | None:
        self._routes.check_member(topic, self.node)
        if not self._in_flight:
            return self._send_own(topic, payload)
        if len(self._queue) >= HELD_MESSAGES_MAX:
            raise UsageError("publish", topic, f"{len(self._queue)} messages wait for their turn", "publish slower")
        self._queue.append((topic, payload))
        return None

    @property
    def held(self) -> int:
        """Publications that wait for their turn."""
        return len(self._queue)

    def _send_own(self, topic: str, payload: bytes, *, waited: bool = False) -> Message:
        seq = self._seq[topic] = self._seq.get(topic, 0) + 1
        message = Message(topic, self.node, seq, (), payload)
        self._in_flight = True
        if waited:
            self.out.published(message)
        self.out.deliver(message)
        self._send(message)
        return message

    def _send_waiting(self) -> None:
        """Publish what waits, if nothing is in flight."""
        while self._queue and not self._in_flight:
            self._send_own(*self._queue.popleft(), waited=True)

    @abstractmethod
    def _send(self, message: Message) -> None:
        """Send this node's message. `_in_flight` becomes False when every member has it."""
