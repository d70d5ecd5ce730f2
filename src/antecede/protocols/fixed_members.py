"""The base of processes whose topics keep the members that they begin with: most rivals of the papers know no joins."""

from collections.abc import Iterable
from typing import NoReturn

from antecede.core import Packet, Process, ProtocolError, UsageError


class FixedMembers(Process):
    """A member of some topics."""

    def __init__(self, node: int, taken: Iterable[str]) -> None:
        super().__init__(node)
        self._taken = frozenset(taken)

    def subscribe(self, topic: str) -> None:
        raise UsageError("topic", topic, "members of this protocol do not change", "name them at the beginning")

    def unsubscribe(self, topic: str) -> None:
        self.subscribe(topic)

    def takes(self, topic: str) -> bool:
        return topic in self._taken

    def _check_member(self, topic: str) -> None:
        if topic not in self._taken:
            raise UsageError("topic", topic, f"node {self.node} is not a member of it", "publish from a member")

    def _refuse(self, sender: int, packet: Packet) -> NoReturn:
        raise ProtocolError(f"node {self.node} got a {packet.kind} from {sender}, not one of its protocol")
