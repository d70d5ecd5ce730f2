"""The simulator's model of a node's journal: what it delivered, by sequence number, less what retention removed."""

from collections.abc import Iterable

from antecede.core import Message, Process
from antecede.core.process import LookUp


class DeliveryLog:
    """The log of one node."""

    def __init__(self, keeps: int | None) -> None:
        """`keeps`: of each source only the last so many messages; None: all."""
        self._keeps = keeps
        #: Messages read from it.
        self.answered = 0
        self._messages: dict[tuple[str, int], dict[int, Message]] = {}

    def add(self, messages: Iterable[Message]) -> None:
        for message in messages:
            stream = self._messages.setdefault((message.topic, message.source), {})
            stream[message.seq] = message
            if self._keeps is not None:
                stream.pop(message.seq - self._keeps, None)

    def answer(self, asked: LookUp, process: Process) -> None:
        """Tell `process` what the log has of what it asked for."""
        topic, source, first, last, bytes_max = asked
        stream = self._messages.get((topic, source), {})
        found: list[Message] = []
        size = 0
        for seq in range(first, last + 1):
            message = stream.get(seq)
            if message is not None and (not found or size < bytes_max):
                found.append(message)
                size += len(message.payload)
        self.answered += len(found)
        process.found(topic, source, first, last, found)
