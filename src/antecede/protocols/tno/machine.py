"""A state machine that is replicated: it takes requests one after the other, and says what to send.

Its state is a function of its first state and the requests it took, so replicas that take the same requests are equal.
Nothing it says is sent before a majority of replicas has the request (`replica`). It does not know which replica it is.
"""

from abc import ABC, abstractmethod
from typing import Literal, TypeAlias, TypeVar

import msgspec

from antecede.core import Packet, ProtocolError
from antecede.protocols.tno.packets import Request

#: A packet to send: to a node, or to the manager of a topic.
Out: TypeAlias = tuple[int | str, Packet]

#: now: `apply` it. early: a request before it is missing; offer it again. old: it changes nothing; `again` answers it.
Judgement: TypeAlias = Literal["now", "early", "old"]


T = TypeVar("T")


class Machine(ABC):
    """The manager of a topic, or the keeper of the topics' order."""

    @abstractmethod
    def judge(self, request: Request) -> Judgement: ...

    @abstractmethod
    def apply(self, request: Request) -> list[Out]:
        """Take a request that was judged "now"."""

    @abstractmethod
    def again(self, request: Request) -> list[Out]:
        """Answer a request that was taken before. Changes nothing."""

    @abstractmethod
    def unfinished(self) -> list[Out]:
        """What was sent and is not answered yet, to be retransmitted."""

    @abstractmethod
    def save(self) -> bytes:
        """Its whole state."""

    @abstractmethod
    def load(self, state: bytes) -> None:
        """Go on from a state that was saved. Raises `ProtocolError`, and is as before, if it is none."""


def decoded(state: bytes, kind: type[T]) -> T:
    """A saved state as a record. Raises `ProtocolError`: it comes from another replica."""
    try:
        return msgspec.msgpack.decode(state, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"the state of a manager does not decode: {error}") from None
